//! `web_fetch` against a server on loopback: what becomes text, and what is refused.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tenon_core::{ToolErrorKind, ToolOutcome};
use tenon_testkit::{Page, Web};
use tenon_tools::{Lookup, NetOptions, OutputStore, WebFetchOptions};

use crate::more_tools::{ctx, tool_with};
use crate::support::{object, runtime};

/// A lookup that gives these addresses, one list for each time it is asked.
fn lookup(answers: Vec<Vec<SocketAddr>>) -> (Lookup, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, answers) = (Arc::clone(&asked), Mutex::new(answers));
    let lookup: Lookup = Arc::new(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        let mut answers = answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(async move { Ok(answer) })
    });
    (lookup, asked)
}

fn options(private: &[&str]) -> WebFetchOptions {
    let mut options =
        WebFetchOptions::new(NetOptions { user_agent: "test".to_owned(), ..NetOptions::default() });
    options.private_hosts = private.iter().map(|host| (*host).to_owned()).collect();
    options
}

fn fetch_with(options: WebFetchOptions, args: Value) -> ToolOutcome {
    let tool = tool_with("web_fetch", |more| {
        more.web = options;
        more.outputs = OutputStore::none();
    });
    runtime().block_on(tool.call(ctx(), object(args)))
}

fn fetch(web: &Web, path: &str) -> ToolOutcome {
    let url = format!("{}{path}", web.origin());
    fetch_with(options(&["127.0.0.1"]), json!({"url": url, "prompt": "What is it?"}))
}

#[test]
fn pages_are_shown_as_text() {
    let web = Web::start(|request| match request.path.as_str() {
        "/html" => {
            Page::new("text/html; charset=utf-8", "<title>T</title><h1>Hé</h1><p>a <a href=/x>b</a></p>")
        }
        "/json" => Page::new("application/json", "{\"a\": 1}"),
        "/latin" => Page::new("text/plain; charset=iso-8859-1", b"caf\xe9".to_vec()),
        "/meta" => {
            Page::new("text/html", b"<meta charset=\"windows-1251\"><p>\xcf\xf0\xe8\xe2\xe5\xf2</p>".to_vec())
        }
        "/utf16" => Page::new("text/plain", b"\xff\xfeh\x00i\x00".to_vec()),
        "/guessed" => Page::new("text/plain", "grün".to_owned()),
        "/none" => Page::new("", "just text"),
        _ => Page::new("text/plain", "not here").status(404),
    });
    for (path, expected) in [
        ("/html", "# T\n\n# Hé\n\na [b](/x)"),
        ("/json", "{\"a\": 1}"),
        ("/latin", "café"),
        ("/meta", "Привет"),
        ("/utf16", "hi"),
        ("/guessed", "grün"),
        ("/none", "just text"),
    ] {
        let outcome = fetch(&web, path);
        assert_eq!(outcome.error, None, "{path}: {}", outcome.content);
        assert!(outcome.content.ends_with(&format!("\n\n---\n\n{expected}")), "{path}: {}", outcome.content);
        assert!(outcome.content.contains("You want to know: What is it?"), "{}", outcome.content);
    }
    let args =
        |format: &str| json!({"url": format!("{}/html", web.origin()), "prompt": "p", "format": format});
    let source = fetch_with(options(&["127.0.0.1"]), args("html"));
    assert!(source.content.contains("<h1>Hé</h1>"), "{}", source.content);
    let plain = fetch_with(options(&["127.0.0.1"]), args("text"));
    assert!(plain.content.ends_with("T\n\nHé\n\na b"), "{}", plain.content);
    let request = web.requests().remove(0);
    assert_eq!((request.method.as_str(), request.header("accept-encoding")), ("GET", Some("identity")));
    assert_eq!((request.header("authorization"), request.header("cookie")), (None, None));
}

#[test]
fn what_is_no_page_is_refused_in_words() {
    let web = Web::start(|request| match request.path.as_str() {
        "/image" => Page::new("image/png", b"\x89PNG".to_vec()),
        "/binary" => Page::new("", b"\x00\x01\x02".to_vec()),
        "/packed" => Page::new("text/html", vec![0x1f, 0x8b]).header("content-encoding", "gzip"),
        "/bomb" => Page::new("text/html", vec![0; 100_000]).header("content-encoding", "br"),
        "/empty" => Page::new("text/html", "<script>x</script>"),
        "/gone" => Page::new("text/html", "<p>moved away</p>").status(410),
        "/loop" => Page::redirect("/loop"),
        "/nowhere" => Page::redirect("http://["),
        "/file" => Page::redirect("file:///etc/passwd"),
        "/elsewhere" => Page::redirect("http://other.example/x"),
        _ => Page::new("text/plain", "").status(404),
    });
    for (path, expected) in [
        ("/image", "is `image/png`, not text"),
        ("/binary", "does not say what it is"),
        ("/packed", "came packed (`gzip`)"),
        ("/bomb", "came packed (`br`)"),
        ("/empty", "has no text"),
        ("/gone", "answered with status 410 (Gone).\n\nmoved away"),
        ("/loop", "More than 5 redirects"),
        ("/nowhere", "redirects to something that is no address"),
        ("/file", "redirects to an address that is not called"),
        ("/elsewhere", "redirects to another place: http://other.example/x"),
    ] {
        let outcome = fetch(&web, path);
        assert_eq!(outcome.error, Some(ToolErrorKind::Failed), "{path}: {}", outcome.content);
        assert!(outcome.content.contains(expected), "{path}: {}", outcome.content);
    }
    for (url, expected) in [
        ("ftp://a.example/", "must begin with `https://` or `http://`"),
        ("file:///etc/passwd", "must begin with"),
        ("not an address", "is not an address"),
        ("https://user:pw@a.example/", "must not hold a name or a password"),
        ("https://", "is not an address"),
    ] {
        let outcome = fetch_with(options(&[]), json!({"url": url, "prompt": "p"}));
        assert_eq!(outcome.error, Some(ToolErrorKind::InvalidArguments), "{url}: {}", outcome.content);
        assert!(outcome.content.contains(expected), "{url}: {}", outcome.content);
        assert!(!outcome.content.contains("pw@"), "{}", outcome.content);
    }
}

#[test]
fn large_and_slow_pages_are_cut_or_given_up() {
    let web = Web::start(|request| match request.path.as_str() {
        "/huge" => Page::new("text/plain", "x".repeat(64 * 1024)).endless(),
        _ => Page::new("text/plain", "x".repeat(6 * 1024 * 1024)),
    });
    for path in ["/huge", "/large"] {
        let outcome = fetch(&web, path);
        assert_eq!(outcome.error, None, "{}", outcome.content);
        assert!(outcome.content.contains("only its first 5242880 bytes were read"), "{path}");
        // What the model reads stays small.
        assert!(outcome.content.len() < 30_000, "{}", outcome.content.len());
    }
}

#[test]
fn a_page_that_never_ends_gives_way_to_the_end_of_the_run() {
    let web = Web::start(|_| Page::new("text/plain", "x").then_silence());
    let tool = tool_with("web_fetch", |more| more.web = options(&["127.0.0.1"]));
    let context = ctx();
    let cancel = context.cancel.clone();
    let args = object(json!({"url": web.origin(), "prompt": "p"}));
    let outcome = runtime().block_on(async {
        let call = tokio::spawn(async move { tool.call(context, args).await });
        while web.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        call.await.unwrap()
    });
    assert_eq!(outcome.error, Some(ToolErrorKind::Cancelled), "{}", outcome.content);
}

#[test]
fn private_addresses_are_not_called() {
    let web = Web::start(|_| Page::new("text/plain", "secret"));
    let port = web.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "0.0.0.0",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.0.1",
        "[fd00::1]",
        "[fe80::1]",
    ] {
        let outcome =
            fetch_with(options(&[]), json!({"url": format!("http://{host}:{port}/"), "prompt": "p"}));
        assert_eq!(outcome.error, Some(ToolErrorKind::Denied), "{host}: {}", outcome.content);
        assert!(outcome.content.contains("inside a private network"), "{host}: {}", outcome.content);
    }
    assert!(web.requests().is_empty());
    // A rule allows what it names, and nothing that only looks like it.
    for (allowed, host, ok) in [
        (&["127.0.0.1"][..], "127.0.0.1", true),
        (&["localhost"], "localhost", true),
        (&["example.test"], "sub.example.test", true),
        (&["example.test"], "badexample.test", false),
        (&["sub.example.test"], "example.test", false),
        (&["0.0.1"], "127.0.0.1", false),
        (&["127.0.0.2"], "127.0.0.1", false),
    ] {
        let mut options = options(allowed);
        options.lookup = lookup(vec![vec![SocketAddr::from(([127, 0, 0, 1], port))]]).0;
        let outcome = fetch_with(options, json!({"url": format!("http://{host}:{port}/"), "prompt": "p"}));
        assert_eq!(outcome.error.is_none(), ok, "{allowed:?} {host}: {}", outcome.content);
    }
}

#[test]
fn a_name_means_the_address_that_was_checked() {
    let web = Web::start(|request| match request.path.as_str() {
        "/again" => Page::redirect("/"),
        _ => Page::new("text/plain", "inside"),
    });
    let here = SocketAddr::from(([127, 0, 0, 1], web.port()));
    let public: SocketAddr = "93.184.216.34:80".parse().unwrap();
    let url = |path: &str| json!({"url": format!("http://rebind.test:{}{path}", web.port()), "prompt": "p"});

    // Public when it is checked, private a moment later: nothing is looked up a second time.
    let (first, asked) = lookup(vec![vec![here], vec![public]]);
    let outcome = fetch_with(WebFetchOptions { lookup: first, ..options(&["rebind.test"]) }, url("/"));
    assert_eq!(outcome.error, None, "{}", outcome.content);
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    // One private address among public ones.
    let (mixed, _) = lookup(vec![vec![public, here]]);
    let outcome = fetch_with(WebFetchOptions { lookup: mixed, ..options(&[]) }, url("/"));
    assert_eq!(outcome.error, Some(ToolErrorKind::Denied), "{}", outcome.content);

    // A redirect is looked up and checked like a first call.
    let (moved, asked) = lookup(vec![vec![here], vec![SocketAddr::from(([10, 0, 0, 1], 80))]]);
    let mut options = options(&[]);
    options.private_hosts = vec!["rebind.test".to_owned()];
    let outcome = fetch_with(WebFetchOptions { lookup: moved, ..options.clone() }, url("/again"));
    assert!(outcome.error.is_some(), "{}", outcome.content);
    assert_eq!(asked.load(Ordering::SeqCst), 2);

    let (nobody, _) = lookup(vec![vec![]]);
    let outcome = fetch_with(WebFetchOptions { lookup: nobody, ..options }, url("/"));
    assert!(outcome.content.contains("The name `rebind.test` was not found"), "{}", outcome.content);
}
