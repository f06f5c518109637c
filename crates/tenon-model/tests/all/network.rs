//! Connections that fail, hang or break, and keys that must not travel in the clear.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tenon_core::{Cancel, Delta, ErrorClass, ModelClient};
use tenon_model::{Endpoint, Http, HttpOptions, OpenAiChat, Timeouts};
use tenon_testkit::{Gate, Server, reply};

use crate::support::{Answer, ask, client, endpoint, http, request};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn hurried(timeouts: Timeouts) -> Arc<Http> {
    Arc::new(Http::new(HttpOptions { timeouts, ..HttpOptions::default() }))
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn nobody_there() {
    let port = free_port();
    let url = format!("http://user:pass@127.0.0.1:{port}/v1?key=hidden");
    let answer = ask(&OpenAiChat::new(endpoint(&url), http()), request("hi")).await;
    let error = answer.error();
    assert_eq!(
        error.message,
        format!("could not connect to `http://127.0.0.1:{port}/v1/chat/completions`: connection refused")
    );
    assert_eq!((error.class, error.retryable, error.http_status), (ErrorClass::Network, true, None));
}

#[tokio::test]
async fn no_such_host() {
    let keyless = Endpoint { api_key: None, ..endpoint("http://no-such-host.invalid/v1") };
    let answer = ask(&OpenAiChat::new(keyless, http()), request("hi")).await;
    let error = answer.error();
    assert_eq!(error.class, ErrorClass::Network);
    assert!(
        error.message.starts_with("could not connect to `http://no-such-host.invalid/v1/"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn addresses_that_are_none() {
    for (url, message) in [
        ("nonsense", "`nonsense/chat/completions` is not a URL"),
        ("ftp://127.0.0.1/v1", "`ftp` is not a scheme"),
        ("", "`/chat/completions` is not a URL"),
    ] {
        let answer = ask(&OpenAiChat::new(endpoint(url), http()), request("hi")).await;
        assert_eq!(answer.error().class, ErrorClass::Config);
        assert!(answer.error().message.starts_with(message), "{}", answer.error().message);
        assert!(answer.error().hint.is_some());
    }
}

#[tokio::test]
async fn no_first_byte() {
    let server = Server::start([reply().hold(&Gate::new()), reply().hang_after_events(0)]);
    let timeouts = Timeouts { first_byte: SHORT, connect: LONG, idle: LONG };
    let client = OpenAiChat::new(endpoint(&server.base_url()), hurried(timeouts));
    for _ in 0..2 {
        let answer = ask(&client, request("hi")).await;
        let url = format!("{}/chat/completions", server.base_url());
        assert_eq!(answer.error().message, format!("the server at `{url}` did not answer within 0.05 s"));
        assert_eq!((answer.error().class, answer.error().retryable), (ErrorClass::Network, true));
    }
}

#[tokio::test]
async fn silence_in_the_middle() {
    let server = Server::start([reply().text("a").text("b").hang_after_events(2)]);
    let timeouts = Timeouts { first_byte: LONG, connect: LONG, idle: SHORT };
    let answer = ask(&OpenAiChat::new(endpoint(&server.base_url()), hurried(timeouts)), request("hi")).await;
    assert_eq!(answer.text, "a");
    assert_eq!(answer.error().message, "nothing came for 0.05 s in the middle of the answer");
    assert!(answer.error().retryable);
}

#[tokio::test]
async fn signs_of_life_alone() {
    // Far longer than the gap between two signs, even on a busy machine.
    let idle = Duration::from_millis(400);
    let signs = (0..1000).fold(reply().text("a"), |reply, _| reply.raw_stream(": PROCESSING\n\n"));
    let server = Server::start([signs.delay_between_events(idle / 40)]);
    let timeouts = Timeouts { first_byte: LONG, connect: LONG, idle };
    let answer = ask(&OpenAiChat::new(endpoint(&server.base_url()), hurried(timeouts)), request("hi")).await;
    assert_eq!(answer.text, "a");
    let error = answer.error();
    assert_eq!(error.message, "the server kept the connection open for 2 s without saying anything");
    assert_eq!((error.class, error.retryable), (ErrorClass::Network, true));
}

#[tokio::test]
async fn a_connection_that_closes_in_the_middle() {
    for reply in [
        reply().text("a").text("b").cut_after_events(2),
        reply().text("a").text("b").cut_after_bytes(300),
        reply().text("a").text("b").until_close().cut_after_events(2),
        reply().text("a").no_finish().no_done(),
    ] {
        let server = Server::start([reply]);
        let answer = ask(&client(&server), request("hi")).await;
        assert_eq!(answer.error().message, "the connection closed in the middle of the answer");
        assert_eq!((answer.error().class, answer.error().retryable), (ErrorClass::Network, true));
    }
}

#[tokio::test]
async fn a_key_does_not_travel_in_the_clear() {
    let plain = "http://192.0.2.1/v1";
    let secret_header =
        Endpoint { api_key: None, headers: vec![("X-Api-Key".into(), "abc".into())], ..endpoint(plain) };
    for endpoint in [endpoint(plain), secret_header] {
        let answer = ask(&OpenAiChat::new(endpoint, http()), request("hi")).await;
        let error = answer.error();
        assert_eq!((error.class, error.retryable), (ErrorClass::Config, false));
        assert_eq!(
            error.message,
            "the key would travel unencrypted to `http://192.0.2.1/v1/chat/completions`"
        );
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("https://")));
    }
    // Without a key it is tried; nobody is there.
    let keyless = Endpoint { api_key: None, ..endpoint(plain) };
    let timeouts = Timeouts { connect: SHORT, ..Timeouts::default() };
    let answer = ask(&OpenAiChat::new(keyless, hurried(timeouts)), request("hi")).await;
    assert_eq!(answer.error().class, ErrorClass::Network, "{:?}", answer.error());
}

/// What a client first says to a server that listens on `listener`.
fn first_words(listener: TcpListener) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut words = vec![0; 64];
        let read = stream.read(&mut words).unwrap();
        words.truncate(read);
        words
    })
}

async fn through_proxy(base_url: &str, proxy_port: u16, no_proxy: Option<&str>) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("roots.pem");
    std::fs::write(&ca_file, ROOT).unwrap();
    let http = Http::new(HttpOptions {
        proxy: Some(format!("http://user:pass@127.0.0.1:{proxy_port}")),
        no_proxy: no_proxy.map(str::to_owned),
        ca_file: Some(ca_file),
        timeouts: Timeouts { connect: Duration::from_secs(5), ..Timeouts::default() },
        ..HttpOptions::default()
    });
    ask(&OpenAiChat::new(endpoint(base_url), Arc::new(http)), request("hi")).await
}

#[tokio::test]
async fn https_beyond_this_machine_goes_through_the_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let words = first_words(listener);
    let answer = through_proxy("https://api.example.com/v1", port, None).await;
    assert!(words.join().unwrap().starts_with(b"CONNECT api.example.com:443"));
    assert_eq!(answer.error().class, ErrorClass::Network);
    assert!(!answer.error().message.contains("pass"), "{}", answer.error().message);
}

#[tokio::test]
async fn https_on_this_machine_goes_direct() {
    for (host, no_proxy) in [("localhost", None), ("127.0.0.1", Some("example.com"))] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let words = first_words(listener);
        let answer = through_proxy(&format!("https://{host}:{port}/v1"), free_port(), no_proxy).await;
        let tls_handshake = 22;
        assert_eq!(words.join().unwrap()[0], tls_handshake, "{:?}", answer.error());
    }
}

#[tokio::test]
async fn a_server_without_tls_is_named_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let answer = through_proxy(&url, free_port(), None).await;
    let error = answer.error();
    assert!(error.message.contains("/v1/chat/completions`: TLS: "), "{}", error.message);
    assert_eq!((error.class, error.retryable), (ErrorClass::Network, false));
}

#[tokio::test]
async fn certificates_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for (file, message) in
        [(empty, "holds no certificate"), (folder.path().join("none.pem"), "could not be read")]
    {
        let http = Http::new(HttpOptions { ca_file: Some(file), ..HttpOptions::default() });
        let answer =
            ask(&OpenAiChat::new(endpoint("https://api.example.com/v1"), Arc::new(http)), request("hi"))
                .await;
        assert_eq!(answer.error().class, ErrorClass::Config);
        assert!(answer.error().message.contains(message), "{}", answer.error().message);
    }
}

#[tokio::test]
async fn cancelling_ends_the_stream_at_once() {
    let server = Server::start([reply().hold(&Gate::new())]);
    let before = Cancel::new();
    let mut stream = client(&server).stream(request("hi"), before.clone());
    let (next, ()) = tokio::join!(stream.next(), async { before.cancel() });
    assert!(next.is_none(), "{next:?}");

    let server = Server::start([reply().text("a").text("b").hang_after_events(2)]);
    let during = Cancel::new();
    let mut stream = client(&server).stream(request("hi"), during.clone());
    assert_eq!(stream.next().await, Some(Ok(Delta::Text("a".into()))));
    during.cancel();
    assert_eq!(stream.next().await, None);
    drop(stream);
    tokio::task::spawn_blocking(move || server.wait_for_clients_left(1, LONG)).await.unwrap();
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Server::start([reply().text("stolen")]);
    let target = format!("{}/chat/completions", elsewhere.base_url());
    let server = Server::start([reply().status(307).header("location", target)]);
    let answer = ask(&client(&server), request("hi")).await;
    assert_eq!(answer.error().http_status, Some(307));
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = Server::start([reply().text("a"), reply().text("b")]);
    let client = client(&server);
    assert_eq!(ask(&client, request("hi")).await.text, "a");
    assert_eq!(ask(&client, request("hi")).await.text, "b");
    assert_eq!(server.clients_left(), 0);
}

/// Signed by nobody, for nobody: only there to be read.
const ROOT: &str = "-----BEGIN CERTIFICATE-----
MIIBgjCCASegAwIBAgIUebG4AC4nIlgr/hOEXwZjTwcsjgUwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKdGVub24gdGVzdDAgFw0yNjExMTUxMTUwMjVaGA8yMTI2MTAy
MjExNTAyNVowFTETMBEGA1UEAwwKdGVub24gdGVzdDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABPw0v0Q1mUwmf3ogq5swt4SWoUk/S0Ad6AfzmUXt07cVORi/TsVj
rQY8jtwz1P5/8XP3PseqZL/zPgmw0uZKtIyjUzBRMB0GA1UdDgQWBBS47kldo4V5
9RY5w1pUzxnW631JvjAfBgNVHSMEGDAWgBS47kldo4V59RY5w1pUzxnW631JvjAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQDVvH9YzRHr/0ZeGulL
213Kf/NYSUin6Nvd9vNPgNV9sAIhAP9r+aUQcVhvtaNJfijR7kXvdKMH0CnRoaYi
0lXZIH/V
-----END CERTIFICATE-----";
