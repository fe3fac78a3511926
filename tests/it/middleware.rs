//! What stands around all methods sees every request begin and end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use waterwheel::filter::security::Verdict;
use waterwheel::rpc::ErrorObject;
use waterwheel::{Ending, MethodCall, Middleware, Principal, ServerHandle};

use crate::support::{Request, Scene, assert_response, message, seconds};

/// What the middlewares of a test have seen, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn push(&self, line: String) {
        self.0.lock().expect("no holder of this lock panics").push(line);
    }

    /// What was seen since the last look.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no holder of this lock panics"))
    }
}

/// Writes down what it sees, refuses some requests and panics over others.
struct Guard {
    name: &'static str,
    seen: Seen,
}

impl Middleware for Guard {
    fn before(&mut self, call: &MethodCall<'_>) -> Result<(), ErrorObject> {
        let name = call.name().unwrap_or("-");
        self.seen.push(format!("{} {} {name}", self.name, call.method()));
        match name.strip_prefix(self.name) {
            Some("-refuses") => Err(ErrorObject::new(-32001, "not for you")),
            Some("-panics") => panic!("expected by the test"),
            _ => Ok(()),
        }
    }

    fn after(&mut self, call: &MethodCall<'_>, ending: Ending, took: Duration) {
        self.seen.push(format!("{} {ending:?} {}", self.name, took.as_millis()));
        assert!(call.name() != Some("panics-after"), "expected by the test");
    }
}

/// The fixture server with two middlewares.
fn guarded() -> (Scene, Seen) {
    let seen = Seen::default();
    let guard = |name| Guard { name, seen: seen.clone() };
    let (outer, inner) = (guard("outer"), guard("inner"));
    let scene = Scene::tuned(|server| server.middleware(outer).middleware(inner));
    (scene, seen)
}

fn call(tool: &str) -> Request {
    Request::modern_call(1, tool, json!({}))
}

#[test]
fn the_first_middleware_is_the_outermost() {
    let (mut scene, seen) = guarded();
    assert_response!(scene.ask_apart(&call("echo")), 200);
    let expected = ["outer tools/call echo", "inner tools/call echo", "inner Result 0"];
    assert_eq!(seen.take(), [&expected[..], &["outer Result 0"]].concat());
}

#[test]
fn it_hears_how_a_request_ended() {
    let (mut scene, seen) = guarded();
    for (tool, ending) in [
        ("fails", "Failure"),
        ("refuses", "Error(-32050)"),
        ("panics", "Error(-32603)"),
        ("nobody_has_it", "Error(-32602)"),
        ("gives_up", "Error(-32603)"),
        ("prompt_answer", "Result"),
    ] {
        scene.ask_apart(&call(tool));
        assert_eq!(seen.take()[2..], [format!("inner {ending} 0"), format!("outer {ending} 0")]);
    }
}

#[test]
fn an_end_that_comes_later_has_its_time() {
    let (mut scene, seen) = guarded();
    let client = scene.connect();
    scene.send(client, call("slow").bytes());
    assert_eq!(seen.take().len(), 2);
    scene.advance(seconds(3));
    assert_eq!(seen.take(), [""; 0]);
    scene.take_call().finish("done");
    scene.settle();
    assert_eq!(scene.response(client).text(), "done");
    assert_eq!(seen.take(), ["inner Result 3000", "outer Result 3000"]);
}

#[test]
fn a_refusal_is_the_answer_and_only_those_outside_hear_of_it() {
    let (mut scene, seen) = guarded();
    let refused = scene.ask_apart(&call("inner-refuses"));
    assert_response!(refused, 200, error = -32001, id = 1);
    assert_eq!(refused.error()["message"], "not for you");
    let expected = ["outer tools/call inner-refuses", "inner tools/call inner-refuses"];
    assert_eq!(seen.take(), [&expected[..], &["outer Error(-32001) 0"]].concat());

    assert_response!(scene.ask_apart(&call("outer-refuses")), 200, error = -32001, id = 1);
    assert_eq!(seen.take(), ["outer tools/call outer-refuses"]);
    assert_eq!(scene.held.runs(), 0);
}

#[test]
fn a_panic_before_refuses_and_one_after_changes_nothing() {
    let (mut scene, seen) = guarded();
    assert_response!(scene.ask_apart(&call("inner-panics")), 200, error = -32603, id = 1);
    assert_eq!(seen.take().last().map(String::as_str), Some("outer Error(-32603) 0"));
    let panics_after = Request::modern(1, "prompts/get", json!({ "name": "panics-after" }));
    assert_response!(scene.ask_apart(&panics_after), 200, error = -32602, id = 1);
    assert_eq!(seen.take()[2..], ["inner Error(-32602) 0", "outer Error(-32602) 0"]);
}

#[test]
fn every_method_passes_and_notifications_do_not() {
    let (mut scene, seen) = guarded();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    assert_eq!(seen.take()[0], "outer initialize -");
    scene.ask(client, &session.notify("notifications/initialized", json!({})));
    assert_eq!(seen.take(), [""; 0]);
    for (method, params, name) in [
        ("ping", json!({}), "-"),
        ("tools/list", json!({}), "-"),
        ("resources/read", json!({ "uri": "file:///a.txt" }), "file:///a.txt"),
        ("prompts/get", json!({ "name": "greet", "arguments": { "who": "you" } }), "greet"),
        ("no/such/method", json!({}), "-"),
    ] {
        scene.ask(client, &session.request(2, method, params));
        assert_eq!(seen.take()[0], format!("outer {method} {name}"));
    }
}

#[test]
fn the_parts_of_a_batch_pass_one_by_one() {
    let (mut scene, seen) = guarded();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-03-26");
    seen.take();
    let part = |id: i64, tool: &str| message(id, "tools/call", json!({ "name": tool }));
    let batch = format!("[{},{}]", part(2, "outer-refuses"), part(3, "slow"));
    scene.send(client, session.post(batch).bytes());
    scene.advance(seconds(1));
    scene.take_call().finish("done");
    scene.settle();
    let answers = scene.response(client).json();
    let codes: Vec<_> = answers.as_array().expect("a batch").iter().collect();
    assert_eq!(codes.len(), 2);
    assert!(codes.iter().any(|answer| answer["error"]["code"] == -32001), "{answers}");
    let expected = [
        "outer tools/call outer-refuses",
        "outer tools/call slow",
        "inner tools/call slow",
        "inner Result 1000",
        "outer Result 1000",
    ];
    assert_eq!(seen.take(), expected);
}

#[test]
fn a_request_without_an_answer_ends_as_well() {
    let (mut scene, seen) = guarded();
    let client = scene.connect();
    scene.send(client, call("slow").bytes());
    seen.take();
    scene.advance(seconds(1));
    scene.hang_up(client);
    assert_eq!(seen.take(), ["inner Cancelled 1000", "outer Cancelled 1000"]);
    scene.take_call().finish("too late");
    scene.settle();
    assert_eq!(seen.take(), [""; 0]);

    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(2, "slow", json!({})).bytes());
    seen.take();
    scene.ask_apart(&session.cancel(2));
    assert_eq!(seen.take(), ["inner Cancelled 0", "outer Cancelled 0"]);
    scene.take_received(client);
}

#[test]
fn a_classic_call_goes_on_without_its_connection_and_ends_with_its_answer() {
    let (mut scene, seen) = guarded();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(2, "slow", json!({})).bytes());
    seen.take();
    scene.hang_up(client);
    assert_eq!(seen.take(), [""; 0]);
    scene.advance(seconds(2));
    scene.take_call().finish("nobody reads this");
    scene.settle();
    assert_eq!(seen.take(), ["inner Result 2000", "outer Result 2000"]);
}

fn listen(id: i64) -> Request {
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    Request::modern(id, "subscriptions/listen", wanted)
}

#[test]
fn a_subscription_ends_with_its_stream() {
    let (mut scene, seen) = guarded();
    let client = scene.connect();
    scene.send(client, listen(1).bytes());
    assert_eq!(seen.take()[0], "outer subscriptions/listen -");
    scene.advance(seconds(5));
    scene.hang_up(client);
    assert_eq!(seen.take(), ["inner Cancelled 5000", "outer Cancelled 5000"]);
    scene.take_received(client);

    let client = scene.connect();
    scene.send(client, listen(2).bytes());
    seen.take();
    ServerHandle::of(&scene.engine).shut_down();
    scene.settle();
    assert_eq!(seen.take(), ["inner Result 0", "outer Result 0"]);
    scene.take_received(client);
}

/// Lets nobody subscribe.
struct Deaf;

impl Middleware for Deaf {
    fn before(&mut self, call: &MethodCall<'_>) -> Result<(), ErrorObject> {
        match call.method() {
            "subscriptions/listen" => Err(ErrorObject::method_not_found(call.method())),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_subscription_can_be_refused() {
    let mut scene = Scene::tuned(|server| server.middleware(Deaf));
    assert_response!(scene.ask_apart(&listen(1)), 404, error = -32601, id = 1);
    assert_response!(scene.ask_apart(&call("echo")), 200);
}

/// Tells who calls, before and after.
struct Witness(Seen);

impl Witness {
    fn note(&self, call: &MethodCall<'_>) {
        let trace = call.trace().and_then(|trace| trace.trace_id().map(str::to_owned));
        self.0.push(format!(
            "{} {:?} {} {} {:?} {:?}",
            call.serial(),
            call.principal().map(Principal::name),
            call.version(),
            call.id(),
            call.client_info().map(|client| client.name),
            trace,
        ));
    }
}

impl Middleware for Witness {
    fn before(&mut self, call: &MethodCall<'_>) -> Result<(), ErrorObject> {
        self.note(call);
        Ok(())
    }

    fn after(&mut self, call: &MethodCall<'_>, _ending: Ending, _took: Duration) {
        self.note(call);
    }
}

#[test]
fn it_knows_the_caller_at_both_ends() {
    let seen = Seen::default();
    let witness = Witness(seen.clone());
    let mut scene = Scene::tuned(|server| {
        server.middleware(witness).authenticate(|_| Verdict::Allow(Principal::new("alice")))
    });
    let client = scene.connect();
    let meta = json!({
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
    });
    let params = json!({ "name": "slow", "arguments": {}, "_meta": meta });
    scene.send(client, Request::modern("x", "tools/call", params.clone()).bytes());
    scene.take_call().finish("done");
    scene.settle();
    scene.take_received(client);
    let line =
        r#"1 Some("alice") 2026-07-28 "x" Some("c") Some("0af7651916cd43dd8448eb211c80319c")"#;
    assert_eq!(seen.take(), [line, line]);

    scene.send(client, Request::modern(7, "tools/call", params).bytes());
    assert!(seen.take()[0].starts_with("2 Some(\"alice\") 2026-07-28 7 "));
    scene.take_call().finish("done");
    scene.settle();
    scene.take_received(client);
}
