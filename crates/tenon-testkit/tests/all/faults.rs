//! What goes wrong on purpose.

use std::time::Duration;

use tenon_testkit::{Server, json, reply};

use crate::client::{Connection, End, ask};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_cut_after_events_has_no_end_of_the_body() {
    for events in 0..4 {
        let server = Server::start([reply().text_chunks(["a", "b", "c", "d"]).cut_after_events(events)]);
        let response = ask(&server, "{}");
        assert_eq!(response.end, End::Cut);
        assert_eq!(response.events().len(), events);
    }
}

#[test]
fn a_cut_after_bytes_keeps_exactly_these_bytes() {
    let said = || reply().text_chunks(["a", "b"]);
    let whole = ask(&Server::start([said()]), "{}").text();
    for bytes in [0, 1, 50, 200, whole.len()] {
        for reply in
            [said(), said().chunk_by(9), said().comment("c").delay_between_events(Duration::from_millis(1))]
        {
            let response = ask(&Server::start([reply.cut_after_bytes(bytes)]), "{}");
            assert_eq!(response.end, End::Cut, "after {bytes} bytes");
            assert_eq!(response.text().len(), bytes);
        }
    }
    let plain = Server::start([reply().json(json!({"a": 1})).cut_after_bytes(3)]);
    let response = ask(&plain, "{}");
    assert_eq!((response.end, response.chunks.concat().as_slice()), (End::Cut, b"{\"a".as_slice()));
}

#[test]
fn a_hang_lasts_until_the_client_leaves() {
    let server = Server::start([reply().text("a").hang_after_events(2)]);
    let mut connection = Connection::open(&server);
    connection.post("{}");
    while connection.line() != "\r\n" {}
    assert!(connection.chunk().is_some());
    assert!(connection.chunk().is_some());
    assert_eq!(server.clients_left(), 0);
    drop(connection);
    server.wait_for_clients_left(1, SOON);
}

#[test]
fn a_long_wait_ends_when_the_client_leaves() {
    let server = Server::start([reply().delay_before_headers(Duration::from_secs(3600))]);
    let mut connection = Connection::open(&server);
    connection.post("{}");
    server.wait_for_requests(1, SOON);
    drop(connection);
    server.wait_for_clients_left(1, SOON);
}

#[test]
fn an_endless_stream_never_finishes() {
    let server = Server::start([reply().text("start").usage(1, 1).endless()]);
    let mut connection = Connection::open(&server);
    connection.post("{}");
    while connection.line() != "\r\n" {}
    let seen: Vec<String> =
        (0..50).map(|_| String::from_utf8(connection.chunk().unwrap()).unwrap()).collect();
    assert!(seen[1].contains("start") && seen[49].contains("and so on"), "{seen:?}");
    assert!(!seen.concat().contains("usage") && !seen.concat().contains("[DONE]"));
    drop(connection);
    server.wait_for_clients_left(1, SOON);
}

#[test]
fn dropping_the_server_ends_what_hangs() {
    let server = Server::start([reply().hang_after_events(0)]);
    let mut connection = Connection::open(&server);
    connection.post("{}");
    server.wait_for_requests(1, SOON);
    drop(server);
    // The head may or may not have been sent; the end comes either way.
    while !connection.line().is_empty() {}
}
