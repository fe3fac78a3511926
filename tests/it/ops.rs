//! What those who run a server see of it: the access log.

use std::cell::Cell;
use std::sync::Once;

use serde_json::json;
use waterwheel::filter::{self, Cx, Refusal, Response, security::Verdict};
use waterwheel::http::{self, Status};
use waterwheel::{Principal, Server};

use crate::support::{Held, Request, Scene, assert_response, message, seconds};

thread_local! {
    /// A test has its own thread, and the engine runs on it.
    static LINES: Cell<Vec<String>> = const { Cell::new(Vec::new()) };
}

/// Keeps what is written to the access log.
struct Keeper;

impl log::Log for Keeper {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == "waterwheel::access"
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            assert_eq!(record.level(), log::Level::Info);
            let mut lines = LINES.take();
            lines.push(record.args().to_string());
            LINES.set(lines);
        }
    }

    fn flush(&self) {}
}

/// Begins to keep the lines of this test.
fn keep_lines() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        log::set_logger(&Keeper).expect("no other test installs a logger");
        log::set_max_level(log::LevelFilter::Info);
    });
    LINES.take();
}

/// The lines since the last look.
fn lines() -> Vec<String> {
    LINES.take()
}

/// The fixture server with its access log on, whose callers are who they say they are.
fn logged() -> Scene {
    keep_lines();
    Scene::tuned(|server| {
        server.access_log().authenticate(|request| {
            Verdict::Allow(Principal::new(request.field_str("x-user").unwrap_or("nobody")))
        })
    })
}

#[test]
fn a_response_is_one_line_without_query_and_secrets() {
    let mut scene = logged();
    let request = Request::modern_call(1, "echo", json!({}))
        .target("/mcp?token=hush")
        .field("X-User", "alice")
        .field("Authorization", "Bearer hush");
    assert_response!(scene.ask_apart(&request), 200);
    let line = concat!(
        r#"peer=127.0.0.1:40000 principal="alice" method=POST path="/mcp" rpc="tools/call" "#,
        "status=200 ms=0",
    );
    assert_eq!(lines(), [line]);
}

#[test]
fn a_session_id_is_not_in_the_log() {
    let mut scene = logged();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let initialized = session.notify("notifications/initialized", json!({}));
    assert_response!(scene.ask(client, &initialized), 202);
    assert_response!(scene.ask(client, &session.delete()), 204);
    let lines = lines();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].contains(r#"rpc="initialize" status=200"#), "{lines:?}");
    assert!(lines[1].contains(r#"rpc="notifications/initialized" status=202"#), "{lines:?}");
    assert!(lines[2].contains("method=DELETE path=\"/mcp\" rpc=- status=204"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains(&session.id)), "{lines:?}");
}

#[test]
fn a_deferred_answer_is_logged_when_it_starts_with_the_time_it_took() {
    let mut scene = logged();
    let client = scene.connect();
    scene.send(client, Request::modern_call(1, "slow", json!({})).bytes());
    scene.advance(seconds(2));
    assert_eq!(lines(), [""; 0]);
    scene.take_call().finish("done");
    scene.settle();
    assert_response!(scene.response(client), 200);
    assert!(lines()[0].ends_with(r#"rpc="tools/call" status=200 ms=2000"#));
}

#[test]
fn a_stream_is_logged_once_when_it_opens() {
    let mut scene = logged();
    let client = scene.connect();
    let call = json!({ "name": "slow_stream", "_meta": { "progressToken": 7 } });
    scene.send(client, Request::modern(1, "tools/call", call).bytes());
    let mut held = scene.take_call();
    scene.advance(seconds(1));
    held.progress(1.0);
    scene.settle();
    assert!(lines()[0].ends_with(r#"rpc="tools/call" status=200 ms=1000"#));
    held.finish("done");
    scene.settle();
    assert_eq!(lines(), [""; 0]);
    scene.take_received(client);
}

#[test]
fn refusals_and_garbage_have_lines_too() {
    let mut scene = logged();
    let foreign = Request::modern_call(1, "echo", json!({})).set("Host", "evil.example");
    assert_response!(scene.ask_apart(&foreign), 403);
    assert_response!(scene.ask_apart(&Request::new("GET", "/nowhere")), 404);
    let client = scene.connect();
    scene.send(client, "no request at all\r\n\r\n");
    assert_response!(scene.response(client), 400);
    let lines = lines();
    let expected = [
        r#"principal=- method=POST path="/mcp" rpc=- status=403 ms=0"#,
        r#"principal="nobody" method=GET path="/nowhere" rpc=- status=404 ms=0"#,
        "principal=- method=OTHER path=- rpc=- status=400 ms=-",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, end) in lines.iter().zip(expected) {
        assert!(line.ends_with(end), "{line}");
    }
}

#[test]
fn a_batch_and_what_follows_it_are_not_mixed_up() {
    let mut scene = logged();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-03-26");
    lines();
    let ping = message(2, "ping", json!({}));
    assert_response!(scene.ask(client, &session.post(ping.clone())), 200);
    assert_response!(scene.ask(client, &session.post(format!("[{ping}]"))), 200);
    assert!(lines()[1].contains("rpc=- status=200"));
}

#[test]
fn the_name_of_a_caller_cannot_forge_a_line() {
    keep_lines();
    let builder =
        Server::builder("test", "1").access_log().authenticate(|_: &http::Request<'_>| {
            Verdict::Allow(Principal::new("eve\" status=200\r\npeer=10.0.0.1\u{1b}[1A"))
        });
    let mut scene = Scene::of(builder, Held::default());
    assert_response!(scene.ask_apart(&Request::new("GET", "/nowhere")), 404);
    let lines = lines();
    let name = r#"principal="eve\" status=200\r\npeer=10.0.0.1\u{1b}[1A" method=GET"#;
    assert!(lines.len() == 1 && lines[0].contains(name), "{lines:?}");
}

#[test]
fn the_log_sees_what_filters_make_of_a_response() {
    keep_lines();
    let refuse =
        |_: &http::Request<'_>, _: &mut Cx<'_>| Err(Refusal::drain(Response::empty(Status::GONE)));
    let mut scene = Scene::tuned(|server| server.filter(filter::on_head(refuse)).access_log());
    assert_response!(scene.ask_apart(&Request::new("GET", "/nowhere")), 410);
    assert!(lines()[0].contains("status=410"));
}
