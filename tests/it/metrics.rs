//! What `/metrics` shows to a scraper.

use std::time::Duration;

use serde_json::json;
use waterwheel::filter::RateLimit;
use waterwheel::filter::security::Verdict;
use waterwheel::rpc::ErrorObject;
use waterwheel::{MethodCall, Middleware, Principal};

use crate::support::{Request, Response, Scene, assert_response, seconds};

fn get(path: &str) -> Request {
    Request::new("GET", path)
}

/// The values of a scrape, by everything that stands in front of them.
struct Scrape(Vec<(String, f64)>);

impl Scrape {
    #[track_caller]
    fn of(response: &Response) -> Self {
        assert_response!(response, 200);
        let kind = response.field("content-type");
        assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
        let text = std::str::from_utf8(&response.body).expect("the page is text");
        let samples = text.lines().filter(|line| !line.starts_with("# "));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        };
        Self(samples.map(sample).collect())
    }

    /// One value, if it is there.
    fn find(&self, name: &str) -> Option<f64> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let first = found.next().map(|(_, value)| *value);
        assert!(found.next().is_none(), "{name} is there twice");
        first
    }

    #[track_caller]
    fn assert(&self, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            assert_eq!(self.find(name), Some(*value), "{name} in {:#?}", self.0);
        }
    }
}

fn scrape(scene: &mut Scene) -> Scrape {
    Scrape::of(&scene.ask_apart(&get("/metrics")))
}

#[test]
fn a_scrape_shows_connections_and_what_is_held() {
    let mut scene = Scene::tuned(|server| server.metrics());
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(2, "slow", json!({})).bytes());
    let gone = scene.connect();
    scene.hang_up(gone);
    scene.advance(seconds(3));
    scrape(&mut scene).assert(&[
        (
            concat!(
                r#"waterwheel_build_info{name="fixture",version="1.2.3",library=""#,
                env!("CARGO_PKG_VERSION"),
                "\"}"
            ),
            1.0,
        ),
        ("waterwheel_uptime_seconds", 3.0),
        ("waterwheel_turn_seconds_max", 0.0),
        ("waterwheel_connections_open", 2.0),
        ("waterwheel_connections_accepted_total", 3.0),
        ("waterwheel_connections_turned_away_total", 0.0),
        (r#"waterwheel_connections_closed_total{reason="peer_closed"}"#, 1.0),
        (r#"waterwheel_connections_closed_total{reason="idle"}"#, 0.0),
        (r#"waterwheel_exchanges{state="attached"}"#, 1.0),
        (r#"waterwheel_exchanges{state="working"}"#, 0.0),
        (r#"waterwheel_exchanges{state="part"}"#, 0.0),
        ("waterwheel_streams_open", 0.0),
        ("waterwheel_asks", 0.0),
        ("waterwheel_subscriptions", 0.0),
        ("waterwheel_sessions", 1.0),
        ("waterwheel_retained_streams", 0.0),
        ("waterwheel_retained_events", 0.0),
        ("waterwheel_retained_bytes", 0.0),
        ("waterwheel_mail_waiting", 0.0),
        ("waterwheel_breakers_open", 0.0),
    ]);
}

#[test]
fn events_that_are_kept_are_counted() {
    let mut scene = Scene::tuned(|server| server.metrics());
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let params = json!({ "name": "slow_stream", "_meta": { "progressToken": 7 } });
    scene.send(client, session.request(2, "tools/call", params).bytes());
    let mut held = scene.take_call();
    held.progress(1.0);
    scene.settle();
    scene.hang_up(client);
    held.progress(2.0);
    scene.settle();
    let scraped = scrape(&mut scene);
    scraped.assert(&[
        (r#"waterwheel_exchanges{state="working"}"#, 1.0),
        ("waterwheel_retained_streams", 1.0),
        ("waterwheel_retained_events", 2.0),
    ]);
    assert!(scraped.find("waterwheel_retained_bytes") > Some(0.0));
    held.finish("done");
    scene.settle();
    scene.take_received(client);
}

#[test]
fn responses_are_counted_by_status() {
    let mut scene = Scene::tuned(|server| {
        let limit = RateLimit::per_second(1).address(|request, _| {
            request.field_str("x-address").and_then(|text| text.parse().ok())
        });
        server.metrics().reports_without_credentials().rate_limit(limit)
    });
    let echo = Request::modern_call(1, "echo", json!({}));
    scene.ask_apart(&echo);
    scene.ask_apart(&echo);
    scene.ask_apart(&echo.clone().set("Host", "evil.example"));
    scene.ask_apart(&get("/nowhere").field("X-Address", "192.0.2.1"));
    let client = scene.connect();
    scene.send(client, "no request at all\r\n\r\n");
    scene.response(client);
    let scraped = scrape(&mut scene);
    for (status, reason) in [
        (200, "ok"),
        (400, "bad_request"),
        (403, "forbidden"),
        (404, "not_found"),
        (429, "too_many_requests"),
    ] {
        let name = format!(r#"waterwheel_responses_total{{status="{status}",reason="{reason}"}}"#);
        assert_eq!(scraped.find(&name), Some(1.0), "{name}");
    }
}

#[test]
fn requests_are_counted_by_method_ending_and_time() {
    let mut scene = Scene::tuned(|server| server.metrics());
    let client = scene.connect();
    for tool in ["echo", "fails", "refuses", "panics"] {
        scene.ask(client, &Request::modern_call(1, tool, json!({})));
    }
    scene.ask(client, &Request::modern(1, "tools/list", json!({})));
    scene.send(client, Request::modern_call(1, "slow", json!({})).bytes());
    scene.advance(seconds(2));
    scene.take_call().finish("done");
    scene.settle();
    scene.take_received(client);
    scene.send(client, Request::modern_call(1, "slow", json!({})).bytes());
    scene.advance(seconds(400));
    scene.hang_up(client);
    scene.take_received(client);
    let ended = |method: &str, ending: &str| {
        format!(r#"waterwheel_requests_total{{method="{method}",ending="{ending}"}}"#)
    };
    let within = |bound: &str| {
        format!(r#"waterwheel_request_seconds_bucket{{method="tools/call",le="{bound}"}}"#)
    };
    scrape(&mut scene).assert(&[
        (&ended("tools/call", "result"), 2.0),
        (&ended("tools/call", "failure"), 1.0),
        (&ended("tools/call", "error"), 2.0),
        (&ended("tools/call", "cancelled"), 1.0),
        (&ended("tools/list", "result"), 1.0),
        (&within("0.001"), 4.0),
        (&within("1"), 4.0),
        (&within("2.5"), 5.0),
        (&within("300"), 5.0),
        (&within("+Inf"), 6.0),
        (r#"waterwheel_request_seconds_sum{method="tools/call"}"#, 402.0),
        (r#"waterwheel_request_seconds_count{method="tools/call"}"#, 6.0),
        (r#"waterwheel_request_seconds_count{method="tools/list"}"#, 1.0),
    ]);
}

#[test]
fn what_a_middleware_refuses_and_nobody_has_is_counted() {
    struct Refuse;
    impl Middleware for Refuse {
        fn before(&mut self, call: &MethodCall<'_>) -> Result<(), ErrorObject> {
            match call.method() {
                "ping" => Err(ErrorObject::new(-32001, "no")),
                _ => Ok(()),
            }
        }
    }
    let mut scene = Scene::tuned(|server| server.metrics().middleware(Refuse));
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.ask(client, &session.request(2, "ping", json!({})));
    scene.ask(client, &session.request(3, "\"}\nforged 1", json!({})));
    scrape(&mut scene).assert(&[
        (r#"waterwheel_requests_total{method="ping",ending="error"}"#, 1.0),
        (r#"waterwheel_requests_total{method="other",ending="error"}"#, 1.0),
        (r#"waterwheel_requests_total{method="initialize",ending="result"}"#, 1.0),
    ]);
}

#[test]
fn every_family_has_a_type_and_names_nobody() {
    let mut scene = Scene::tuned(|server| {
        server.metrics().authenticate(|_| Verdict::Allow(Principal::new("alice")))
    });
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.ask(client, &session.call(2, "echo", json!({})));
    let page = scene.ask_apart(&get("/metrics"));
    let text = String::from_utf8(page.body).expect("the page is text");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        let bare = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let is_typed = |name: &str| text.contains(&format!("# TYPE {name} "));
        assert!(is_typed(name) || bare.is_some_and(is_typed), "{line}");
    }
    for secret in ["alice", "127.0.0.1", &session.id] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn a_long_turn_is_shown_if_somebody_measures() {
    let mut scene = Scene::tuned(|server| server.metrics());
    assert!(scene.engine.measures_turns());
    let now = scene.now();
    scene.engine.record_turn(Duration::from_millis(250), now);
    scrape(&mut scene).assert(&[("waterwheel_turn_seconds_max", 0.25)]);
    scene.advance(seconds(120));
    scrape(&mut scene).assert(&[("waterwheel_turn_seconds_max", 0.0)]);
    assert!(!Scene::new().engine.measures_turns());
}
