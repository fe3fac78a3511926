//! HTTP/1.1 on the wire: framing of requests and answers, and what becomes of the connection.

use serde_json::json;
use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::filter::{Response as Reply, on_request};
use waterwheel::http::{Method, Status};
use waterwheel::{Principal, ServerBuilder};

use crate::support::{Request, Scene, assert_response, message, seconds};

/// Adds a route that answers with the status its query names.
fn with_any_status(server: ServerBuilder) -> ServerBuilder {
    server.route(Method::Post, "/answer", |request, _| {
        let code = request.query().and_then(|query| query.parse().ok()).unwrap_or(500);
        Reply::plain_error(Status::from_code(code).unwrap_or(Status::INTERNAL))
    })
}

/// Turns away requests with a field `Badge` and says how.
fn with_badges(server: ServerBuilder) -> ServerBuilder {
    server.authenticate(|request| match request.field_str("badge") {
        Some("forbidden") => Verdict::Deny(Denial::forbidden("not for you")),
        Some(_) => {
            Verdict::Deny(Denial::unauthorized("who are you?").field("WWW-Authenticate", "Bearer"))
        }
        None => Verdict::Allow(Principal::new("anybody")),
    })
}

#[test]
fn b006_every_answer_delimits_itself_and_the_connection_serves_on() {
    let mut scene = Scene::tuned(|server| with_badges(with_any_status(server)));
    let ping = Request::post(message(1, "ping", json!({})));
    let list = Request::modern(2, "tools/list", json!({}));
    let answer = |status: u16| ping.clone().target(&format!("/answer?{status}"));
    let cases = [
        (400, Request::post("not json")),
        (400, ping.clone()),
        (401, ping.clone().field("Badge", "none")),
        (403, ping.clone().field("Badge", "forbidden")),
        (403, ping.clone().field("Origin", "http://evil.example")),
        (404, ping.clone().target("/nowhere")),
        (404, ping.clone().field("Mcp-Session-Id", "0")),
        (405, Request::new("PUT", "/mcp")),
        (406, Request::new("GET", "/mcp")),
        (406, list.clone().set("Accept", "text/html")),
        (413, list.clone().set("Content-Length", "100000000")),
        (415, list.clone().set("Content-Type", "text/plain")),
        (421, answer(421)),
        (429, answer(429)),
        (431, list.clone().field("X", &"x".repeat(70_000))),
        (500, answer(500)),
        (503, answer(503)),
    ];
    let mut client = scene.connect();
    for (status, request) in cases {
        let response = scene.ask(client, &request);
        assert_response!(response, status);
        assert!(!response.body.is_empty(), "{status} says why");
        assert_eq!(response.closes(), !scene.is_open(client), "{status}");
        if response.closes() {
            client = scene.connect();
        }
        assert_response!(scene.ask(client, &list), 200);
    }
}

#[test]
fn inv1_d1_a_202_has_length_zero_and_a_204_has_none() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let accepted = scene.ask(client, &session.notify("notifications/initialized", json!({})));
    assert_response!(accepted, 202);
    assert_eq!(accepted.field("content-length"), Some("0"));
    let deleted = scene.ask(client, &session.delete());
    assert_response!(deleted, 204);
    assert_eq!(deleted.field("content-length"), None);
    let preflight = scene.ask(client, &Request::new("OPTIONS", "/mcp"));
    assert_response!(preflight, 204);
    assert_eq!(preflight.field("content-length"), None);
}

#[test]
fn inv13_two_posts_on_one_connection_both_get_answers() {
    let mut scene = Scene::new();
    let client = scene.connect();
    for id in 1..=2 {
        let response = scene.ask(client, &Request::modern_call(id, "echo", json!({ "n": id })));
        assert_eq!(response.message()["id"], id);
    }
    assert!(scene.is_open(client));
}

#[test]
fn inv11_json_that_looks_like_an_event_is_still_json_with_a_length() {
    let mut scene = Scene::new();
    let arguments = json!({ "text": "event: message\ndata: {}\n\n" });
    let response = scene.ask_apart(&Request::modern_call(1, "echo", arguments.clone()));
    assert_eq!(response.field("content-type"), Some("application/json"));
    assert_eq!(response.text(), arguments.to_string());
}

#[test]
fn b001_a_chunked_body_is_as_good_as_one_with_a_length() {
    let mut scene = Scene::new();
    let plain = Request::modern_call(1, "echo", json!({ "text": "Καλημέρα" }));
    let expected = scene.ask_apart(&plain);
    assert_response!(expected, 200);
    for chunk_bytes in [1, 5, 1000] {
        assert_eq!(scene.ask_apart(&plain.clone().chunked(chunk_bytes)), expected);
    }
    let plain = Request::modern_call(1, "echo", json!({ "text": "good morning" }));
    let expected = scene.ask_apart(&plain);
    let text = String::from_utf8(plain.chunked(5).bytes()).expect("text");
    let with_extension = text.replace("\r\n5\r\n", "\r\n5;x=1\r\n");
    let with_trailer = text.replace("0\r\n\r\n", "0\r\nX-Sum: 1\r\n\r\n");
    for bytes in [with_extension, with_trailer] {
        assert_ne!(bytes, text);
        let client = scene.connect();
        scene.send(client, bytes);
        assert_eq!(scene.response(client), expected);
        assert!(scene.is_open(client));
    }
}

#[test]
fn b003_a_client_that_waits_is_told_to_continue() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let arguments = json!({ "text": "x".repeat(1_000_000) });
    let request = Request::modern_call(1, "echo", arguments).field("Expect", "100-continue");
    let (head, all) = (request.head(), request.bytes());
    scene.send(client, &head);
    assert_eq!(scene.take_received(client), b"HTTP/1.1 100 Continue\r\n\r\n");
    scene.send(client, &all[head.len()..]);
    assert_eq!(scene.response(client).text().len(), 1_000_011);

    // The body is here already: nobody waits.
    assert_response!(scene.ask(client, &request), 200);
    // One that is refused must not be told to go on, and nobody knows whether its body comes.
    scene.send(client, request.clone().target("/nowhere").head());
    let refusal = scene.response(client);
    assert_response!(refusal, 404);
    assert!(refusal.closes() && scene.is_half_closed(client));
    // Nor may one that is too large.
    let client = scene.connect();
    scene.send(client, request.set("Content-Length", "100000000").head());
    let refusal = scene.response(client);
    assert_response!(refusal, 413);
    assert!(refusal.closes() && scene.is_half_closed(client));
}

#[test]
fn b004_a_body_beyond_ascii_may_come_byte_by_byte() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let text = "Καλημέρα 中文 😀";
    let request = Request::modern_call(1, "echo", json!({ "x/y": text }));
    let (head, all) = (request.head(), request.bytes());
    scene.send(client, &head);
    scene.advance(std::time::Duration::from_millis(50));
    for byte in &all[head.len()..] {
        scene.send(client, [*byte]);
    }
    assert_eq!(scene.response(client).text(), json!({ "x/y": text }).to_string());
}

#[test]
fn b008_inv2_inv3_inv4_events_go_out_one_by_one_as_they_arise() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let params = json!({ "name": "slow", "arguments": {}, "_meta": { "progressToken": "p" } });
    scene.send(client, Request::modern(1, "tools/call", params).bytes());
    assert_eq!(scene.received(client), b"", "nothing is known of the answer yet");
    let mut call = scene.take_call();
    for progress in [1.0, 2.0] {
        call.progress(progress);
        scene.settle();
        if progress == 1.0 {
            assert_response!(scene.stream(client), 200);
        }
        let blocks = scene.blocks(client);
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].data()["params"]["progress"], progress);
        scene.advance(std::time::Duration::from_millis(200));
    }
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(client)[0].data()["id"], 1);
    scene.end_of_stream(client);
    assert!(scene.is_open(client), "a stream that ends leaves its connection");
    assert_response!(scene.ask(client, &Request::modern(2, "tools/list", json!({}))), 200);
}

#[test]
fn b012_every_stream_tells_proxies_to_keep_their_hands_off() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    // The parser checks the fields of every stream it reads; here it is seen that these are some.
    let with_token = json!({ "name": "steps", "_meta": { "progressToken": 1 } });
    for request in [
        session.call(1, "must_stream", json!({})),
        session.request(2, "tools/call", with_token.clone()),
        Request::modern(3, "tools/call", with_token),
        Request::modern(4, "tools/list", json!({})).set("Accept", "text/event-stream"),
    ] {
        assert!(scene.ask(client, &request).blocks.is_some());
    }
}

#[test]
fn b009_d4_inv8_http_1_0_gets_plain_answers_and_no_streams() {
    let mut scene = Scene::tuned(|server| server.allow_origin("https://app.example"));
    let initialize = Request::initialize("2025-11-25").http10();
    for request in [initialize.clone(), initialize.clone().without("Host")] {
        let client = scene.connect();
        let response = scene.ask(client, &request);
        assert_response!(response, 200);
        assert!(response.blocks.is_none() && response.closes());
        assert!(scene.is_half_closed(client));
    }
    let client = scene.connect();
    let response = scene.ask(client, &initialize.field("Connection", "keep-alive"));
    assert_eq!(response.field("connection"), Some("keep-alive"));
    assert!(scene.is_open(client));

    let origin = "https://app.example";
    let stream = Request::modern_call(1, "must_stream", json!({})).http10();
    let refusal = scene.ask_apart(&stream.clone().field("Origin", origin));
    assert_response!(refusal, 406);
    assert_eq!(refusal.json(), json!({ "error": "event_stream_requires_http_1_1" }));
    assert!(refusal.closes());
    assert_eq!(refusal.field("access-control-allow-origin"), Some(origin));
    assert_response!(scene.ask_apart(&stream.set("Accept", "text/event-stream")), 406);
    // Progress is dropped where it cannot be sent.
    let params = json!({ "name": "steps", "_meta": { "progressToken": 1 } });
    let response = scene.ask_apart(&Request::modern(1, "tools/call", params).http10());
    assert_eq!(response.text(), "done");
    assert!(response.blocks.is_none());
}

#[test]
fn b009_inv9_http_1_0_streams_end_with_their_connection_where_allowed() {
    let mut scene = Scene::tuned(|server| server.allow_sse_to_http_1_0());
    let params = json!({ "name": "slow", "_meta": { "progressToken": 1 } });
    let client = scene.connect();
    let request = Request::modern(1, "tools/call", params).http10();
    scene.send(client, request.field("Connection", "keep-alive").bytes());
    let mut call = scene.take_call();
    call.progress(1.0);
    scene.settle();
    assert!(scene.is_open(client), "the stream goes on");
    call.finish("done");
    scene.settle();
    let response = scene.response(client);
    assert!(response.closes());
    assert_eq!(response.field("transfer-encoding"), None);
    assert_eq!(response.blocks.as_ref().map(Vec::len), Some(2));
    assert_eq!(response.text(), "done");
    assert!(scene.is_half_closed(client));
}

#[test]
fn inv42_inv43_a_last_stream_says_so_and_its_connection_ends_behind_its_last_byte() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let params = json!({ "name": "slow", "_meta": { "progressToken": 1 } });
    let last = Request::modern(1, "tools/call", params).field("Connection", "close");
    let behind = Request::modern(2, "tools/list", json!({}));
    // The reader takes a byte at a time, so the end comes while output is still waiting.
    scene.read_at_most(client, 1);
    scene.send(client, [last.bytes(), behind.bytes()].concat());
    let mut call = scene.take_call();
    call.progress(1.0);
    call.finish("done");
    scene.settle();
    let response = scene.response(client);
    assert!(response.closes());
    assert_eq!(response.field("transfer-encoding"), Some("chunked"));
    assert_eq!(response.blocks.as_ref().map(Vec::len), Some(2));
    assert_eq!(response.text(), "done");
    assert_eq!(scene.received(client), b"", "nothing is served behind it");
    assert!(scene.is_half_closed(client));
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn inv12_an_answer_is_framed_as_its_own_request_asked() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let last = Request::modern(2, "tools/list", json!({})).field("Connection", "close");
    let both = [Request::modern_call(1, "slow", json!({})).bytes(), last.bytes()].concat();
    scene.send(client, both);
    scene.take_call().finish("first");
    scene.settle();
    assert!(!scene.response(client).closes(), "the first request did not ask to close");
    assert!(scene.response(client).closes());
    assert!(scene.is_half_closed(client));
}

#[test]
fn b041_an_answer_to_head_has_no_body() {
    let mut scene = Scene::new();
    let client = scene.connect();
    for (target, status) in
        [("/health", 200), ("/healthz", 200), ("/ready", 200), ("/nowhere", 404)]
    {
        let head = scene.ask(client, &Request::new("HEAD", target));
        assert_response!(head, status);
        assert_eq!(scene.received(client), b"", "not a byte of a body: {target}");
        let got = scene.ask(client, &Request::new("GET", target));
        assert_response!(got, status);
        assert_eq!(head.field("content-length"), got.field("content-length"), "{target}");
    }
    let stream = Request::new("HEAD", "/mcp").field("Accept", "text/event-stream");
    let refusal = scene.ask(client, &stream);
    assert_response!(refusal, 405);
    assert!(refusal.field("allow").is_some());
}

#[test]
fn d18_messages_that_two_readers_could_frame_differently_are_refused() {
    let mut scene = Scene::new();
    let body = message(1, "ping", json!({}));
    let post = Request::post(body.clone());
    let length = body.len().to_string();
    let cases = [
        (400, post.clone().field("Content-Length", &length).field("Transfer-Encoding", "chunked")),
        (400, post.clone().field("Content-Length", &length).field("Content-Length", "1")),
        (400, post.clone().field("Content-Length", "+5")),
        (400, post.clone().field("Content-Length", "0x5")),
        (400, post.clone().field("Content-Length", "5 5")),
        (400, post.clone().field("Content-Length", "")),
        (501, post.clone().field("Transfer-Encoding", "gzip, chunked")),
        (501, post.clone().field("Transfer-Encoding", "chunked, chunked")),
        (501, post.clone().field("Transfer-Encoding", "identity")),
        (400, post.clone().http10().field("Transfer-Encoding", "chunked")),
        (400, post.clone().field("Host", "127.0.0.1")),
        (400, post.clone().without("Host")),
        (400, post.clone().field("Folded", "a\r\n b")),
        (400, post.clone().field("Bad Name", "x")),
        (417, post.clone().field("Expect", "miracles")),
    ];
    for (status, request) in cases {
        let client = scene.connect();
        scene.send(client, [request.bytes(), post.bytes()].concat());
        let response = scene.response(client);
        assert_response!(response, status, error = -32600, id = none);
        assert!(response.closes(), "{request:?}");
        assert!(scene.is_half_closed(client), "what follows is never read: {request:?}");
    }
}

#[test]
fn lines_that_are_no_request_are_refused_at_once() {
    let mut scene = Scene::new();
    for (status, start) in [
        (400, &b"\x16\x03\x01\x02\x00"[..]),
        (400, b"GET  / HTTP/1.1\r\n\r\n"),
        (400, b"GET /\r\n"),
        (400, b"GET / HTTP/1.1\nHost: a\n\n"),
        (505, b"GET / HTTP/2.0\r\n"),
        (400, b"GET / HTTP/1.x\r\n"),
        (501, b"AVERYLONGMETHODTHATNOBODYHASEVERREGISTERED"),
    ] {
        let client = scene.connect();
        scene.send(client, start);
        let response = scene.response(client);
        assert_response!(response, status);
        assert!(response.closes());
    }
}

#[test]
fn d11_fields_that_would_split_the_response_are_dropped() {
    let mut scene = Scene::tuned(|server| {
        let evil = "x\r\nEvil: 1";
        server
            .filter(on_request(move |_, cx| {
                cx.response_field("X-Echo", evil);
                cx.response_field("X\r\nEvil", "1");
                cx.response_field("X-Nul", "a\0b");
                cx.response_field("X-Good", "1");
                None
            }))
            .route(Method::Get, "/echo", move |_, _| {
                Reply::new(Status::OK, evil, &b"body"[..])
                    .field("X-Echo", evil)
                    .field("Content-Length", "999")
                    .field("Transfer-Encoding", "chunked")
                    .field("Connection", "upgrade")
            })
    });
    let client = scene.connect();
    let stream = Request::modern(1, "tools/list", json!({})).set("Accept", "text/event-stream");
    for request in [Request::modern(1, "tools/list", json!({})), stream] {
        let response = scene.ask(client, &request);
        assert_eq!(response.field("x-good"), Some("1"));
        assert!(!response.has_field_like("evil") && !response.has_field_like("x-echo"));
        assert!(!response.has_field_like("x-nul"));
    }
    scene.send(client, Request::new("GET", "/echo").bytes());
    let wire = String::from_utf8(scene.take_received(client)).expect("text");
    assert!(wire.ends_with("\r\n\r\nbody") && wire.contains("\r\nContent-Length: 4\r\n"), "{wire}");
    for word in ["Evil", "999", "chunked", "upgrade"] {
        assert!(!wire.contains(word), "{word} in {wire}");
    }
}

#[test]
fn the_date_is_that_of_the_calendar_and_absent_without_one() {
    let mut scene = Scene::new();
    let request = Request::modern(1, "tools/list", json!({}));
    assert_eq!(scene.ask_apart(&request).field("date"), None);
    scene.engine.set_calendar(784_111_777);
    assert_eq!(scene.ask_apart(&request).field("date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
}

#[test]
fn a_connection_ends_when_its_request_says_so_and_then_lingers() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let request = Request::modern(1, "tools/list", json!({})).field("Connection", "Close");
    let response = scene.ask(client, &request);
    assert!(response.closes() && scene.is_half_closed(client) && !scene.is_closed(client));
    // What still comes is thrown away, so that no reset overtakes the answer.
    scene.send(client, request.bytes());
    assert_eq!(scene.received(client), b"");
    assert_eq!(scene.buffered_input(client), 0);
    scene.advance(seconds(2));
    assert!(scene.is_closed(client));
}
