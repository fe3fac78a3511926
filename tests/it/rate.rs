//! How often a caller may ask, and what it is told when that is too often.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use waterwheel::filter::RateLimit;
use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::http;
use waterwheel::{Principal, ServerBuilder};

use crate::support::{Request, Scene, assert_response, seconds};

fn echo() -> Request {
    Request::modern_call(1, "echo", json!({}))
}

/// The limit, with the address of a caller taken from a field of the request.
fn by_field(limit: RateLimit) -> RateLimit {
    limit.address(|request, _| request.field_str("x-address")?.parse::<IpAddr>().ok())
}

/// Those who know the password are whoever they say they are.
fn verdict(request: &http::Request<'_>) -> Verdict {
    match request.field_str("x-user") {
        Some(name) => Verdict::Allow(Principal::new(name)),
        None => Verdict::Deny(Denial::unauthorized("who are you?")),
    }
}

#[test]
fn what_is_over_the_burst_waits_for_the_rate() {
    let mut scene = Scene::tuned(|server| server.rate_limit(RateLimit::per_second(2).burst(3)));
    let client = scene.connect();
    for _ in 0..3 {
        assert_response!(scene.ask(client, &echo()), 200);
    }
    let refused = scene.ask(client, &echo());
    assert_response!(refused, 429, error = -32600, id = none);
    assert_eq!(refused.field("retry-after"), Some("1"), "half a second, rounded up");
    assert_eq!(refused.error()["message"], "too many requests; try again in 1 s");

    scene.advance(Duration::from_millis(499));
    assert_response!(scene.ask(client, &echo()), 429);
    scene.advance(Duration::from_millis(1));
    assert_response!(scene.ask(client, &echo()), 200);
    assert_response!(scene.ask(client, &echo()), 429);
    scene.advance(seconds(60));
    for _ in 0..3 {
        assert_response!(scene.ask(client, &echo()), 200);
    }
    assert_response!(scene.ask(client, &echo()), 429);
    assert_eq!(scene.held.runs(), 7, "nothing that was refused has run");
}

#[test]
fn the_wait_is_told_in_whole_seconds() {
    let mut scene = Scene::tuned(|server| server.rate_limit(RateLimit::per_minute(6).burst(1)));
    let client = scene.connect();
    assert_response!(scene.ask(client, &echo()), 200);
    for (later, told) in [(0, "10"), (999, "10"), (1, "9"), (8_000, "1"), (999, "1")] {
        scene.advance(Duration::from_millis(later));
        assert_eq!(scene.ask(client, &echo()).field("retry-after"), Some(told));
    }
    scene.advance(Duration::from_millis(1));
    assert_response!(scene.ask(client, &echo()), 200);
}

#[test]
fn a_refusal_does_not_wait_for_the_body() {
    let mut scene = Scene::tuned(|server| server.rate_limit(RateLimit::per_second(1)));
    let client = scene.connect();
    assert_response!(scene.ask(client, &echo()), 200);
    let request = echo();
    scene.send(client, request.head());
    assert_response!(scene.response(client), 429);
    scene.advance(seconds(1));
    let body = request.bytes().split_off(request.head().len());
    scene.send(client, [body, request.bytes()].concat());
    assert_response!(scene.response(client), 200);
}

#[test]
fn principals_have_an_account_each_whatever_their_address() {
    let limit = || by_field(RateLimit::per_second(1));
    let mut scene = Scene::tuned(|server| server.rate_limit(limit()).authenticate(verdict));
    let from = |user: &str, address: &str| echo().field("X-User", user).field("X-Address", address);
    assert_response!(scene.ask_apart(&from("alice", "192.0.2.1")), 200);
    assert_response!(scene.ask_apart(&from("alice", "192.0.2.2")), 429);
    assert_response!(scene.ask_apart(&from("bob", "192.0.2.1")), 200);
}

#[test]
fn refused_credentials_count_for_their_address_and_spare_the_hook() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let tune = move |server: ServerBuilder| {
        server.rate_limit(by_field(RateLimit::per_second(2))).authenticate(move |request| {
            counter.fetch_add(1, Ordering::SeqCst);
            verdict(request)
        })
    };
    let mut scene = Scene::tuned(tune);
    let guess = echo().field("X-Address", "192.0.2.1");
    assert_response!(scene.ask_apart(&guess), 401);
    assert_response!(scene.ask_apart(&guess), 401);
    assert_response!(scene.ask_apart(&guess), 429);
    assert_response!(scene.ask_apart(&guess.clone().field("X-User", "alice")), 429);
    assert_eq!(asked.load(Ordering::SeqCst), 2);

    let elsewhere = echo().field("X-Address", "192.0.2.2");
    assert_response!(scene.ask_apart(&elsewhere.field("X-User", "alice")), 200);
    scene.advance(Duration::from_millis(500));
    assert_response!(scene.ask_apart(&guess.clone().field("X-User", "alice")), 200);
    assert_response!(scene.ask_apart(&guess), 401);
}

#[test]
fn a_host_has_one_account_and_those_without_address_share_one() {
    let limit = || by_field(RateLimit::per_second(1));
    let mut scene = Scene::tuned(|server| server.rate_limit(limit()));
    let from = |address: &str| echo().field("X-Address", address);
    for (address, status) in [
        ("2001:db8:0:1::1", 200),
        ("2001:db8:0:1:f::2", 429),
        ("2001:db8:0:2::1", 200),
        ("192.0.2.1", 200),
        ("::ffff:192.0.2.1", 429),
        ("192.0.2.2", 200),
        ("nonsense", 200),
        ("more nonsense", 429),
    ] {
        assert_response!(scene.ask_apart(&from(address)), status);
    }
}

#[test]
fn probes_and_preflights_are_exempt() {
    let mut scene = Scene::tuned(|server| server.rate_limit(RateLimit::per_second(1)));
    let preflight = Request::new("OPTIONS", "/mcp")
        .field("Origin", "http://localhost:3000")
        .field("Access-Control-Request-Method", "POST");
    for _ in 0..5 {
        assert_response!(scene.ask_apart(&Request::new("GET", "/health")), 200);
        assert_response!(scene.ask_apart(&Request::new("HEAD", "/readyz/")), 200);
        assert_response!(scene.ask_apart(&preflight), 204);
    }
    assert_response!(scene.ask_apart(&echo()), 200);
    assert_response!(scene.ask_apart(&echo()), 429);
    assert_response!(scene.ask_apart(&Request::new("GET", "/health")), 200);
}

#[test]
fn a_page_may_read_that_it_asked_too_often() {
    let mut scene = Scene::tuned(|server| server.rate_limit(RateLimit::per_second(1)));
    let request = echo().field("Origin", "http://localhost:3000");
    assert_response!(scene.ask_apart(&request), 200);
    let refused = scene.ask_apart(&request);
    assert_response!(refused, 429);
    assert_eq!(refused.field("access-control-allow-origin"), Some("http://localhost:3000"));
    let exposed = refused.field("access-control-expose-headers").unwrap_or("");
    assert!(exposed.contains("Retry-After"), "{exposed}");
}

#[test]
fn a_limit_is_a_filter_as_well() {
    let mut scene = Scene::tuned(|server| server.filter(RateLimit::per_second(1)));
    assert_response!(scene.ask_apart(&Request::new("GET", "/health")), 200);
    assert_response!(scene.ask_apart(&Request::new("GET", "/health")), 429);
}

#[test]
fn a_rate_of_nothing_is_a_rate_of_one() {
    let mut scene = Scene::tuned(|server| server.rate_limit(RateLimit::per_second(0).burst(0)));
    assert_response!(scene.ask_apart(&echo()), 200);
    assert_response!(scene.ask_apart(&echo()), 429);
    scene.advance(seconds(1));
    assert_response!(scene.ask_apart(&echo()), 200);
}
