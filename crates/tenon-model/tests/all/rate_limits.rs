//! One bucket for everybody who asks a server: who waits, for how long, in which order. The clock is not the real one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::join_all, stream};
use tenon_core::{BoxFut, Cancel, ErrorClass, ModelClient, ModelError, Secret};
use tenon_model::{
    Endpoint, HttpRequest, HttpResponse, OpenAiChat, RateLimits, RetryPolicy, Retrying, Transport,
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{ask, endpoint, request};

const WINDOW: Duration = Duration::from_secs(2);
const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Answers so many requests in each window of time, and refuses the others until it is over.
#[derive(Default)]
struct Strict {
    at_most: usize,
    /// Says when to come back.
    tells: bool,
    headers: Vec<(String, String)>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    window: Option<Instant>,
    in_window: usize,
    refused: usize,
    /// What was answered, by the text of the request, and when.
    answered: Vec<(String, Instant)>,
}

impl Strict {
    fn new(at_most: usize) -> Strict {
        Strict { at_most, tells: true, ..Strict::default() }
    }

    fn refused(&self) -> usize {
        self.seen.lock().unwrap().refused
    }

    fn answered(&self) -> Vec<String> {
        self.seen.lock().unwrap().answered.iter().map(|(text, _)| text.clone()).collect()
    }

    fn respond(&self, body: &str) -> HttpResponse {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap();
        let start = *seen.window.get_or_insert(now);
        let windows = (now - start).as_nanos() / WINDOW.as_nanos();
        if windows > 0 {
            seen.window = Some(start + WINDOW * u32::try_from(windows).unwrap());
            seen.in_window = 0;
        }
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        if seen.in_window < self.at_most {
            seen.in_window += 1;
            seen.answered.push((body["messages"][1]["content"].as_str().unwrap().to_owned(), now));
            return response(200, self.headers.clone(), ANSWER);
        }
        seen.refused += 1;
        let left = (seen.window.unwrap() + WINDOW - now).as_millis();
        let headers = match self.tells {
            true => vec![("retry-after-ms".to_owned(), left.to_string())],
            false => Vec::new(),
        };
        response(429, headers, "{}")
    }
}

fn response(status: u16, headers: Vec<(String, String)>, body: &'static str) -> HttpResponse {
    let body = stream::iter([Ok(Bytes::from_static(body.as_bytes()))]).boxed();
    HttpResponse { status, headers, body }
}

struct Wire(Arc<Strict>);

impl Transport for Wire {
    fn send(&self, exchange: HttpRequest, _cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        Box::pin(async move {
            // Far away: several requests leave before the first is answered.
            sleep(Duration::from_millis(20)).await;
            Ok(self.0.respond(&exchange.body))
        })
    }
}

/// A client as a step has one: its own, at the bucket of its server and key.
fn client(limits: &RateLimits, server: &Arc<Strict>, endpoint: Endpoint) -> Retrying {
    let bucket = limits.bucket(&endpoint);
    let transport = bucket.watch(Arc::new(Wire(Arc::clone(server))));
    Retrying::new(Arc::new(OpenAiChat::new(endpoint, transport)), RetryPolicy::default()).sharing(bucket)
}

fn usual() -> Endpoint {
    endpoint("http://127.0.0.1:9/v1")
}

async fn all_ask(limits: &RateLimits, server: &Arc<Strict>, count: usize) -> usize {
    let asked = (0..count).map(|number| {
        let client = client(limits, server, usual());
        async move { ask(&client, request(&format!("{number}"))).await }
    });
    join_all(asked).await.into_iter().filter(|answer| answer.error.is_none() && answer.text == "ok").count()
}

#[tokio::test(start_paused = true)]
async fn steps_at_once_find_out_together() {
    let (limits, server) = (RateLimits::default(), Arc::new(Strict::new(3)));
    assert_eq!(all_ask(&limits, &server, 10).await, 10);
    // Those that were under way when the limit was found out, and four with which it is found out how much is allowed.
    assert_eq!(server.refused(), 7 + 4);
    // Whoever comes later has heard of it.
    let server = Arc::new(Strict::new(3));
    assert_eq!(all_ask(&limits, &server, 60).await, 60);
    // After half a minute without a refusal more is tried, which costs a few.
    assert!(server.refused() <= 10, "{} refused", server.refused());
    // By themselves they would be refused 570 times, and some of them given up.
    let server = Arc::new(Strict::new(3));
    assert_eq!(all_ask(&RateLimits::default(), &server, 60).await, 60);
    assert!((57..=75).contains(&server.refused()), "{} refused", server.refused());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_names_no_time_is_backed_off_from_together() {
    let server = Arc::new(Strict { tells: false, ..Strict::new(5) });
    assert_eq!(all_ask(&RateLimits::default(), &server, 20).await, 20);
    assert!(server.refused() <= 40, "{} refused", server.refused());
}

#[tokio::test(start_paused = true)]
async fn whoever_came_first_is_first() {
    let (limits, server) = (RateLimits::default(), Arc::new(Strict::new(1)));
    ask(&client(&limits, &server, usual()), request("first")).await;
    // Refused, and so the limit is known.
    let late = tokio::spawn({
        let client = client(&limits, &server, usual());
        async move { ask(&client, request("refused")).await }
    });
    sleep(Duration::from_millis(100)).await;
    let in_line: Vec<_> = (0..5)
        .map(|number| {
            let client = client(&limits, &server, usual());
            tokio::spawn(async move { ask(&client, request(&format!("{number}"))).await })
        })
        .collect();
    for one in in_line {
        assert_eq!(one.await.unwrap().error, None);
    }
    late.await.unwrap();
    assert_eq!(server.answered(), ["first", "refused", "0", "1", "2", "3", "4"]);
    assert_eq!(server.refused(), 1 + 2, "two more to find out that one at a time is all it allows");
}

#[tokio::test(start_paused = true)]
async fn waiting_can_be_cancelled_and_holds_up_nobody() {
    let (limits, server) = (RateLimits::default(), Arc::new(Strict::new(1)));
    let client = client(&limits, &server, usual());
    ask(&client, request("first")).await;
    assert!(ask(&client, request("second")).now_or_never().is_none());
    let refused = timeout(Duration::from_millis(100), ask(&client, request("refused"))).await;
    assert!(refused.is_err(), "it waits for the window");
    let cancel = Cancel::new();
    let mut waiting = client.stream(request("cancelled"), cancel.clone());
    assert!(waiting.next().now_or_never().is_none());
    let mut patient = client.stream(request("patient"), Cancel::new());
    assert!(patient.next().now_or_never().is_none());
    cancel.cancel();
    assert!(waiting.next().now_or_never().unwrap().is_none());
    assert!(patient.next().await.unwrap().is_ok());
    assert!(!server.answered().contains(&"cancelled".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn other_keys_and_other_servers_do_not_wait() {
    let (limits, server) = (RateLimits::default(), Arc::new(Strict::new(1)));
    all_ask(&limits, &server, 1).await;
    let stuck =
        timeout(Duration::from_millis(50), ask(&client(&limits, &server, usual()), request("x"))).await;
    assert!(stuck.is_err());
    let mut other_key = usual();
    other_key.api_key = Some(Secret::new("sk-another-123456"));
    let mut other_header = usual();
    other_header.headers = vec![("x-api-key".to_owned(), "another".to_owned())];
    for endpoint in [endpoint("http://127.0.0.1:10/v1"), other_key, other_header] {
        let open = Arc::new(Strict::new(1));
        let started = Instant::now();
        assert_eq!(ask(&client(&limits, &open, endpoint), request("x")).await.error, None);
        assert!(started.elapsed() < Duration::from_millis(50));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_nobody_would_wait_for_stops_nobody() {
    struct Tomorrow;
    impl Transport for Tomorrow {
        fn send(&self, _: HttpRequest, _: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
            let headers = vec![("retry-after".to_owned(), "86400".to_owned())];
            Box::pin(async move { Ok(response(429, headers, "{}")) })
        }
    }
    let bucket = RateLimits::default().bucket(&usual());
    let client = Retrying::new(
        Arc::new(OpenAiChat::new(usual(), bucket.watch(Arc::new(Tomorrow)))),
        RetryPolicy::default(),
    )
    .sharing(bucket);
    for _ in 0..2 {
        let started = Instant::now();
        assert_eq!(ask(&client, request("x")).await.error().class, ErrorClass::RateLimited);
        assert!(started.elapsed() < Duration::from_millis(50));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_left_is_not_asked_until_there_is_more() {
    let headers = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "7s")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let server = Arc::new(Strict { headers, ..Strict::new(1) });
    let (limits, started) = (RateLimits::default(), Instant::now());
    assert_eq!(all_ask(&limits, &server, 1).await, 1);
    assert!(started.elapsed() < Duration::from_millis(50), "whoever has an answer does not wait");
    assert_eq!(all_ask(&limits, &server, 1).await, 1);
    assert!((7000..7100).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert_eq!(server.refused(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_forgotten() {
    let (limits, server) = (RateLimits::default(), Arc::new(Strict::new(3)));
    all_ask(&limits, &server, 10).await;
    sleep(Duration::from_secs(600)).await;
    let open = Arc::new(Strict::new(100));
    let started = Instant::now();
    assert_eq!(all_ask(&limits, &open, 100).await, 100);
    assert!(started.elapsed() < Duration::from_millis(50), "{:?}", started.elapsed());
}
