//! Checks of tokens that are made on another thread while the request waits at its head.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use waterwheel::filter::bearer::{BearerAuth, TokenDecision, TokenVerdict};
use waterwheel::filter::on_head;
use waterwheel::{Limits, Principal, ServerBuilder, Timeouts};

use super::{bearing, list, protection};
use crate::support::{Client, Request, Scene, assert_response, seconds};

/// Tokens that wait for the test to judge them.
#[derive(Clone, Default)]
struct Pending(Arc<Mutex<Vec<(String, TokenDecision)>>>);

impl Pending {
    /// The oldest decision that is owed. The token must be this one.
    #[track_caller]
    fn take(&self, token: &str) -> TokenDecision {
        let mut pending = self.0.lock().expect("no holder of this lock panics");
        assert!(!pending.is_empty(), "no token waits");
        let (waiting, decision) = pending.remove(0);
        assert_eq!(waiting, token);
        decision
    }

    fn len(&self) -> usize {
        self.0.lock().expect("no holder of this lock panics").len()
    }

    /// A protection whose tokens come here.
    fn protection(&self) -> BearerAuth {
        let pending = self.clone();
        protection().check_deferred(move |token, decision| {
            let mut pending = pending.0.lock().expect("no holder of this lock panics");
            pending.push((token.as_str().to_owned(), decision));
        })
    }
}

fn scene(tune: impl FnOnce(BearerAuth) -> BearerAuth) -> (Scene, Pending) {
    tuned_scene(tune, |server| server)
}

fn tuned_scene(
    tune: impl FnOnce(BearerAuth) -> BearerAuth,
    tune_server: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> (Scene, Pending) {
    let pending = Pending::default();
    let protection = tune(pending.protection());
    (Scene::tuned(|server| tune_server(server.bearer_auth(protection))), pending)
}

fn valid(name: &str) -> TokenVerdict {
    TokenVerdict::valid(Principal::new(name))
}

fn caller() -> Request {
    Request::modern_call(1, "caller", json!({}))
}

/// The caller whom the next response is about.
#[track_caller]
fn answered(scene: &mut Scene, client: Client) -> String {
    let result = scene.response(client).result();
    result["structuredContent"]["principal"].as_str().expect("a principal").to_owned()
}

#[test]
fn a_request_waits_for_its_verdict_and_others_do_not() {
    let (mut scene, pending) = scene(|protection| protection);
    let (one, other) = (scene.connect(), scene.connect());
    scene.send(one, bearing(caller(), "t1").bytes());
    assert_eq!((scene.received(one), scene.held.runs()), (&b""[..], 0));
    assert_response!(scene.ask(other, &Request::new("GET", "/health")), 200);
    scene.send(other, bearing(caller(), "t2").bytes());
    let first = pending.take("t1");
    // From any thread, and in any order.
    let second = pending.take("t2");
    std::thread::spawn(move || second.decide(valid("bob"))).join().expect("it does not panic");
    scene.settle();
    assert_eq!(answered(&mut scene, other), "bob");
    assert_eq!(scene.received(one), b"");
    first.decide(valid("alice"));
    scene.settle();
    assert_eq!(answered(&mut scene, one), "alice");
}

#[test]
fn every_verdict_is_told_as_if_it_had_come_at_once() {
    let (mut scene, pending) = scene(|protection| protection.required_scopes(["a"]));
    let client = scene.connect();
    let scoped = |scope: &str| TokenVerdict::valid(Principal::new("x").with_scopes([scope]));
    for (verdict, status, error) in [
        (TokenVerdict::invalid("expired"), 401, Some("invalid_token")),
        (scoped("b"), 403, Some("insufficient_scope")),
        (TokenVerdict::unavailable("away"), 503, None),
        (scoped("a"), 200, None),
    ] {
        scene.send(client, bearing(list(), &format!("t{status}")).bytes());
        pending.take(&format!("t{status}")).decide(verdict);
        scene.settle();
        let response = scene.response(client);
        assert_response!(response, status);
        let told = response.field("www-authenticate").unwrap_or("");
        assert_eq!(told.contains("error="), error.is_some(), "{told}");
        assert!(told.contains(error.unwrap_or("")), "{told}");
        assert!(scene.is_open(client));
    }
}

#[test]
fn a_decision_that_is_dropped_is_a_503() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    scene.send(client, bearing(list(), "t").bytes());
    drop(pending.take("t"));
    scene.settle();
    let response = scene.response(client);
    assert_response!(response, 503, error = -32600, id = none);
    assert_eq!(response.field("retry-after"), Some("1"));
    assert!(scene.is_open(client));
}

#[test]
fn nobody_waits_longer_than_the_clock_of_checks_allows() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    scene.send(client, bearing(list(), "slow").bytes());
    scene.advance(seconds(10) - Duration::from_millis(1));
    assert_eq!(scene.received(client), b"");
    scene.advance(Duration::from_millis(1));
    let response = scene.response(client);
    assert_response!(response, 503);
    assert_eq!(response.field("retry-after"), Some("1"));
    assert!(scene.is_open(client));

    // The late verdict must not be taken for the one on the next token.
    let late = pending.take("slow");
    scene.send(client, bearing(caller(), "other").bytes());
    late.decide(valid("alice"));
    scene.settle();
    assert_eq!(scene.received(client), b"");
    pending.take("other").decide(valid("bob"));
    scene.settle();
    assert_eq!(answered(&mut scene, client), "bob");
}

#[test]
fn the_clock_of_checks_can_be_set_and_gives_way_to_that_of_the_body() {
    let (mut scene, pending) = tuned_scene(
        |protection| protection,
        |server| server.timeouts(Timeouts { auth: seconds(3), ..Timeouts::default() }),
    );
    let client = scene.connect();
    let request = bearing(list(), "t");
    scene.send(client, request.head());
    scene.advance(seconds(2));
    pending.take("t").decide(valid("alice"));
    scene.settle();
    scene.advance(seconds(59));
    assert_eq!(scene.received(client), b"");
    let rest = request.bytes()[request.head().len()..].to_vec();
    scene.send(client, rest);
    assert_response!(scene.response(client), 200);
    scene.send(client, bearing(list(), "u").bytes());
    scene.advance(seconds(3));
    assert_response!(scene.response(client), 503);
    drop(pending.take("u"));
}

#[test]
fn whoever_leaves_meanwhile_leaves_nothing() {
    let (mut scene, pending) = scene(|protection| protection);
    for cut in [false, true] {
        let client = scene.connect();
        scene.send(client, bearing(caller(), "t").bytes());
        if cut {
            scene.cut(client);
        } else {
            scene.hang_up(client);
        }
        assert_eq!(scene.engine.connections(), 0);
        let successor = scene.connect();
        pending.take("t").decide(valid("alice"));
        scene.settle();
        assert_eq!((scene.received(successor), scene.held.runs()), (&b""[..], 0));
        scene.hang_up(successor);
    }
}

#[test]
fn requests_behind_a_held_one_are_answered_in_order() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    let mut both = bearing(caller(), "t1").bytes();
    both.extend(bearing(caller(), "t2").bytes());
    scene.send(client, &both);
    assert_eq!(pending.len(), 1, "the second is not looked at yet");
    pending.take("t1").decide(valid("alice"));
    scene.settle();
    assert_eq!(answered(&mut scene, client), "alice");
    pending.take("t2").decide(valid("bob"));
    scene.settle();
    assert_eq!(answered(&mut scene, client), "bob");
}

#[test]
fn a_refused_body_is_thrown_away_and_the_connection_goes_on() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    for body in [Request::post(vec![b'x'; 50_000]), Request::post(vec![b'x'; 50_000]).chunked(999)]
    {
        scene.send(client, bearing(body, "t").bytes());
        pending.take("t").decide(TokenVerdict::invalid("no"));
        scene.settle();
        assert_response!(scene.response(client), 401);
        assert!(scene.is_open(client));
        assert_eq!(scene.buffered_input(client), 0);
    }
    assert_response!(scene.ask(client, &Request::new("GET", "/health")), 200);
}

#[test]
fn no_more_is_kept_behind_a_held_head_than_the_gate_allows_and_none_of_it_is_lost() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    let text = "x".repeat(900_000);
    let call = bearing(Request::modern_call(1, "echo", json!({ "text": text })), "t");
    let bytes = call.bytes();
    let gated = Limits::default().gated_bytes_max;
    for piece in bytes.chunks(10_000) {
        scene.send(client, piece);
    }
    assert!(scene.buffered_input(client) <= gated + 10_000);
    assert!(scene.undelivered(client) > 800_000);
    assert!(scene.is_open(client));
    pending.take("t").decide(valid("alice"));
    scene.settle();
    let answer = scene.response(client);
    assert!(answer.text().contains(&text));
}

#[test]
fn nobody_is_told_to_send_a_body_before_the_verdict() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    let request = bearing(list(), "t").field("Expect", "100-continue");
    scene.send(client, request.head());
    assert_eq!(scene.received(client), b"");
    pending.take("t").decide(valid("alice"));
    scene.settle();
    assert_eq!(scene.take_received(client), b"HTTP/1.1 100 Continue\r\n\r\n");
    let rest = request.bytes()[request.head().len()..].to_vec();
    scene.send(client, rest);
    assert_response!(scene.response(client), 200);
}

#[test]
fn a_verdict_at_once_needs_no_second_turn_of_anybody() {
    let protection = protection().check_deferred(|token, decision| {
        decision.decide(valid(token.as_str()));
    });
    let mut scene = Scene::tuned(|server| server.bearer_auth(protection));
    let client = scene.connect();
    scene.send(client, bearing(caller(), "alice").bytes());
    assert_eq!(answered(&mut scene, client), "alice");
}

#[test]
fn a_check_that_panics_costs_its_request_only() {
    let protection = protection().check_deferred(|token, decision| match token.as_str() {
        "panics" => panic!("expected by the test"),
        name => decision.decide(valid(name)),
    });
    let mut scene = Scene::tuned(|server| server.bearer_auth(protection));
    assert_response!(scene.ask_apart(&bearing(list(), "panics")), 500);
    let client = scene.connect();
    scene.send(client, bearing(caller(), "alice").bytes());
    assert_eq!(answered(&mut scene, client), "alice");
}

#[test]
fn filters_before_the_check_see_a_head_once() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let (mut scene, pending) = tuned_scene(
        |protection| protection,
        |server| {
            server.filter(on_head(move |_, cx| {
                counter.fetch_add(1, Ordering::SeqCst);
                cx.response_field("X-Seen", "once");
                Ok(())
            }))
        },
    );
    let client = scene.connect();
    let request = bearing(list(), "t").field("Origin", "http://localhost");
    scene.send(client, request.bytes());
    pending.take("t").decide(valid("alice"));
    scene.settle();
    let response = scene.response(client);
    assert_response!(response, 200);
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    assert_eq!(response.field("x-seen"), Some("once"));
    assert_eq!(response.field("access-control-allow-origin"), Some("http://localhost"));
}

#[test]
fn filters_behind_the_check_still_judge_the_head() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    for (request, status) in [
        (Request::new("GET", "/nowhere"), 404),
        (Request::new("PUT", "/mcp"), 405),
        (list().set("Content-Type", "text/html"), 415),
    ] {
        scene.send(client, bearing(request, "t").bytes());
        assert_eq!(scene.received(client), b"");
        pending.take("t").decide(valid("alice").expires_in(Duration::ZERO));
        scene.settle();
        assert_response!(scene.response(client), status);
    }
}

#[test]
fn a_shutdown_turns_those_away_who_wait() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    scene.send(client, bearing(list(), "t").bytes());
    let now = scene.now();
    scene.engine.shut_down(now);
    scene.settle();
    let response = scene.response(client);
    assert_response!(response, 503);
    assert!(response.closes());
    pending.take("t").decide(valid("alice"));
    scene.hang_up(client);
    scene.settle();
    assert!(scene.engine.is_drained());
}

/// Asks, and says whether the token had to be checked.
#[track_caller]
fn is_checked(scene: &mut Scene, pending: &Pending, token: &str, time: Duration) -> bool {
    let client = scene.connect();
    scene.send(client, bearing(caller(), token).bytes());
    let checked = pending.len() > 0;
    if checked {
        pending.take(token).decide(valid(token).expires_in(time));
        scene.settle();
    }
    assert_eq!(answered(scene, client), token);
    scene.hang_up(client);
    checked
}

#[test]
fn a_verdict_is_remembered_for_a_minute_and_not_beyond_its_token() {
    let (mut scene, pending) = scene(|protection| protection);
    assert!(is_checked(&mut scene, &pending, "long", seconds(3600)));
    assert!(is_checked(&mut scene, &pending, "short", seconds(20)));
    assert!(!is_checked(&mut scene, &pending, "short", seconds(20)));
    scene.advance(seconds(19));
    assert!(!is_checked(&mut scene, &pending, "short", seconds(20)));
    scene.advance(seconds(1));
    assert!(is_checked(&mut scene, &pending, "short", seconds(20)));
    assert!(!is_checked(&mut scene, &pending, "long", seconds(3600)));
    scene.advance(seconds(40));
    assert!(is_checked(&mut scene, &pending, "long", seconds(3600)));
}

#[test]
fn a_bad_token_is_never_remembered() {
    let (mut scene, pending) = scene(|protection| protection);
    let client = scene.connect();
    for _ in 0..2 {
        scene.send(client, bearing(list(), "t").bytes());
        pending.take("t").decide(TokenVerdict::invalid("no"));
        scene.settle();
        assert_response!(scene.response(client), 401);
    }
}

#[test]
fn how_much_is_remembered_is_bounded_and_can_be_nothing() {
    let (mut scene, pending) = tuned_scene(
        |protection| protection,
        |server| server.limits(Limits { tokens_max: 4, ..Limits::default() }),
    );
    let hour = seconds(3600);
    for token in ["a", "b", "c", "d", "e"] {
        assert!(is_checked(&mut scene, &pending, token, hour));
    }
    assert!(!is_checked(&mut scene, &pending, "e", hour));
    assert!(is_checked(&mut scene, &pending, "a", hour), "it has made room");

    let (mut scene, pending) = self::scene(|protection| protection.remember(Duration::ZERO));
    assert!(is_checked(&mut scene, &pending, "a", hour));
    assert!(is_checked(&mut scene, &pending, "a", hour));
}

#[test]
fn a_check_on_the_loop_is_remembered_when_asked_to() {
    for (remember, checks) in [(None, 3), (Some(seconds(60)), 1)] {
        let seen = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&seen);
        let protection = protection().check(move |token| {
            counter.fetch_add(1, Ordering::SeqCst);
            valid(token.as_str())
        });
        let protection = match remember {
            Some(time) => protection.remember(time),
            None => protection,
        };
        let mut scene = Scene::tuned(|server| server.bearer_auth(protection));
        for _ in 0..3 {
            assert_response!(scene.ask_apart(&bearing(list(), "t")), 200);
        }
        assert_eq!(seen.load(Ordering::SeqCst), checks);
    }
}
