//! Pages about the server: off unless asked for, protected, and without anybody's name or id.

use serde_json::json;
use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::http::{self, Method, Status};
use waterwheel::{Breaker, Principal, filter};

use crate::support::{Request, Scene, assert_response, message, seconds};

fn get(path: &str) -> Request {
    Request::new("GET", path)
}

/// Those who name themselves are let in.
fn verdict(request: &http::Request<'_>) -> Verdict {
    match request.field_str("x-user") {
        Some(name) => Verdict::Allow(Principal::new(name)),
        None => Verdict::Deny(Denial::unauthorized("who are you?")),
    }
}

#[test]
fn pages_are_not_there_unless_asked_for() {
    let mut scene = Scene::new();
    assert_response!(scene.ask_apart(&get("/info")), 404);
    assert_response!(scene.ask_apart(&get("/metrics")), 404);
}

#[test]
fn info_says_what_the_server_is_and_holds() {
    let mut scene = Scene::tuned(|server| server.info());
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(2, "slow", json!({})).bytes());
    let listener = scene.connect();
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    scene.send(listener, Request::modern(1, "subscriptions/listen", wanted).bytes());
    scene.take_received(listener);
    scene.advance(seconds(7));

    let info = scene.ask_apart(&get("/info"));
    assert_response!(info, 200);
    assert_eq!(info.field("cache-control"), Some("no-store"));
    let expected = json!({
        "name": "fixture",
        "version": "1.2.3",
        "library": { "name": "waterwheel", "version": env!("CARGO_PKG_VERSION") },
        "protocolVersions":
            ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        "health": "serving",
        "uptimeSeconds": 7,
        "counts": {
            "connections": 3,
            "sessions": 1,
            "exchanges": 1,
            "streams": 1,
            "subscriptions": 1,
            "retainedStreams": 0,
            "retainedEvents": 0,
            "retainedBytes": 0,
        },
    });
    assert_eq!(info.json(), expected);
    let text = String::from_utf8(info.body).expect("JSON is text");
    assert!(!text.contains(&session.id), "b073: a session id proves that one may use it");
}

#[test]
fn a_page_is_for_reading() {
    let mut scene = Scene::tuned(|server| server.info());
    let head = scene.ask_apart(&Request::new("HEAD", "/info/"));
    assert_response!(head, 200);
    assert!(head.body.is_empty() && head.field("content-length") != Some("0"));
    let post = scene.ask_apart(&Request::new("POST", "/info"));
    assert_response!(post, 405);
    assert_eq!(post.field("allow"), Some("GET, HEAD, OPTIONS"));
}

#[test]
fn pages_are_protected_like_the_endpoint() {
    let mut scene = Scene::tuned(|server| server.info().authenticate(verdict));
    assert_response!(scene.ask_apart(&get("/info")), 401);
    assert_response!(scene.ask_apart(&get("/info").field("X-User", "alice")), 200);
    let foreign = get("/info").field("X-User", "alice").field("Origin", "http://evil.example");
    assert_response!(scene.ask_apart(&foreign), 403);

    let mut scene = Scene::tuned(|server| {
        server.info().info().reports_without_credentials().authenticate(verdict)
    });
    assert_response!(scene.ask_apart(&get("/info")), 200);
    assert_response!(scene.ask_apart(&get("/info").set("Host", "evil.example")), 403);
    assert_response!(scene.ask_apart(&get("/mcp")), 401);
}

#[test]
fn a_route_in_place_of_a_page_is_protected_whatever_is_said_of_pages() {
    let mut scene = Scene::tuned(|server| {
        let own = |_: &http::Request<'_>, _: &mut filter::Cx<'_>| {
            filter::Response::new(Status::OK, "text/plain", b"mine".as_slice())
        };
        server
            .info()
            .reports_without_credentials()
            .route(Method::Get, "/info", own)
            .authenticate(verdict)
    });
    assert_response!(scene.ask_apart(&get("/info")), 401);
    let mine = scene.ask_apart(&get("/info").field("X-User", "alice"));
    assert_eq!(mine.body, b"mine");
}

#[test]
fn a_filter_may_show_a_page_where_it_likes() {
    /// Shows the page under another name.
    struct Alias;

    impl filter::Filter for Alias {
        fn on_head(
            &mut self,
            _: &http::Request<'_>,
            _: &mut filter::Cx<'_>,
        ) -> Result<(), filter::Refusal> {
            Ok(())
        }

        fn on_request<'r>(
            &mut self,
            _: &http::Request<'r>,
            _: &mut filter::Cx<'_>,
        ) -> filter::Flow<'r> {
            filter::Flow::Report(filter::Report::Info)
        }

        fn on_response(&mut self, _: &mut http::ResponseHead, _: &mut filter::Cx<'_>) {}
    }
    let mut scene = Scene::tuned(|server| server.filter(Alias));
    assert_eq!(scene.ask_apart(&get("/health")).json()["name"], "fixture");
}

#[test]
fn an_engine_counts_its_connections() {
    let mut scene = Scene::tuned(|server| {
        let limits = waterwheel::Limits { conns_max: 2, ..waterwheel::Limits::default() };
        server.limits(limits)
    });
    let [first, second] = [scene.connect(), scene.connect()];
    assert!(scene.try_connect().is_none());
    scene.hang_up(first);
    scene.cut(second);
    scene.connect();
    scene.advance(seconds(120));
    let gauges = scene.engine.gauges(scene.now());
    assert_eq!(gauges.connections_open, 0);
    assert_eq!((gauges.connections_accepted, gauges.connections_turned_away), (3, 1));
    let closed = gauges.connections_closed.into_iter().filter(|(_, count)| *count > 0);
    let closed: Vec<_> = closed.map(|(why, count)| (why.name(), count)).collect();
    assert_eq!(closed, [("peer_closed", 1), ("transport_failed", 1), ("idle", 1)]);
}

#[test]
fn an_engine_knows_the_states_of_its_requests() {
    let mut scene = Scene::tuned(|server| server.circuit_breaker(Breaker::new(1, seconds(60))));
    let client = scene.connect();
    let session = scene.initialize(client, "2025-03-26");
    let leaving = scene.connect();
    scene.send(leaving, session.call(2, "slow", json!({})).bytes());
    scene.hang_up(leaving);
    let part = |id: i64| {
        let params = json!({ "name": "slow", "arguments": {} });
        message(id, "tools/call", params)
    };
    scene.send(client, session.post(format!("[{},{}]", part(3), part(4))).bytes());
    let streaming = scene.connect();
    let call = json!({ "name": "slow_stream", "_meta": { "progressToken": 7 } });
    scene.send(streaming, Request::modern(5, "tools/call", call).bytes());
    let mut held: Vec<_> = (0..4).map(|_| scene.take_call()).collect();
    held[3].progress(1.0);
    scene.settle();
    assert_response!(scene.ask_apart(&Request::modern_call(6, "panics", json!({}))), 200);

    let gauges = scene.engine.gauges(scene.now());
    let states = (gauges.exchanges_attached, gauges.exchanges_working, gauges.exchanges_part);
    assert_eq!(states, (2, 1, 2));
    assert_eq!((gauges.streams_open, gauges.sessions, gauges.breakers_open), (1, 1, 1));
    drop(held);
    assert_eq!(scene.engine.gauges(scene.now()).mail_waiting, 4);
    scene.settle();
    scene.take_received(client);
    scene.take_received(streaming);
}
