//! Batches: served where the negotiated revision has them, refused whole everywhere else.

use serde_json::{Value, json};

use crate::support::{Request, Scene, Session, assert_response, message, notification};

fn batch(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

fn ping(id: impl Into<Value>) -> String {
    message(id, "ping", json!({}))
}

fn call(id: impl Into<Value>, tool: &str) -> String {
    message(id, "tools/call", json!({ "name": tool, "arguments": {} }))
}

fn initialized() -> String {
    notification("notifications/initialized", json!({}))
}

/// The answers of a batch in the order of their ids.
fn answers(response: &crate::support::Response) -> Vec<Value> {
    let mut answers = response.json().as_array().expect("an array").clone();
    answers.sort_by_key(|answer| answer["id"].to_string());
    answers
}

fn start() -> (Scene, crate::support::Client, Session) {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-03-26");
    (scene, client, session)
}

#[test]
fn b030_d9_a_batch_is_answered_in_one_piece_where_its_revision_has_them() {
    let (mut scene, client, session) = start();
    let body = batch(&[ping(1), initialized(), call("two", "echo"), message(3, "nope", json!({}))]);
    let response = scene.ask(client, &session.post(body));
    assert_response!(response, 200);
    let answers = answers(&response);
    assert_eq!(answers.len(), 3, "notifications are not answered");
    assert_eq!(answers[0]["id"], "two");
    assert_eq!(answers[1], json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(answers[2]["error"]["code"], -32601);
    let response = scene.ask(client, &session.post(batch(&[ping(1)])));
    assert!(response.json().is_array(), "a batch of one is a batch");
    let notes =
        batch(&[initialized(), initialized(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into()]);
    let response = scene.ask(client, &session.post(notes));
    assert_response!(response, 202);
    assert!(response.body.is_empty());
}

#[test]
fn b030_what_is_no_message_is_refused_alone() {
    let (mut scene, client, session) = start();
    let response = scene.ask(client, &session.post(format!("[1,{},{{}}]", ping(2))));
    assert_response!(response, 200);
    let answers = response.json().as_array().expect("an array").clone();
    assert_eq!(answers.len(), 3);
    let errors = answers.iter().filter(|answer| answer["error"]["code"] == -32600).count();
    assert_eq!(errors, 2, "{answers:?}");
    assert!(answers.iter().any(|answer| answer["id"] == 2));
}

#[test]
fn b030_inv66_d9_elsewhere_a_batch_is_refused_and_none_of_it_runs() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let body = batch(&[call(1, "echo"), call(2, "echo")]);
    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let session = scene.initialize(client, version);
        let response = scene.ask(client, &session.post(body.clone()));
        assert_response!(response, 400, error = -32600, id = none);
    }
    let modern = Request::post(body.clone()).mirror("tools/call");
    assert_response!(scene.ask(client, &modern), 400, error = -32600, id = none);
    assert_response!(scene.ask(client, &Request::post(body)), 400, error = -32600, id = none);
    assert_eq!(scene.held.runs(), 0);
}

#[test]
fn b030_an_empty_batch_and_a_handshake_in_one_are_refused() {
    let (mut scene, client, session) = start();
    assert_response!(scene.ask(client, &session.post("[]")), 400, error = -32600, id = none);
    let handshake = message(9, "initialize", json!({ "protocolVersion": "2025-03-26" }));
    let body = batch(&[call(1, "echo"), handshake]);
    assert_response!(scene.ask(client, &session.post(body)), 400, error = -32600, id = none);
    assert_eq!((scene.held.runs(), scene.engine.sessions()), (0, 1));
}

#[test]
fn a_batch_holds_a_hundred_messages_and_not_one_more() {
    let (mut scene, client, session) = start();
    for (count, status) in [(100, 200), (101, 400)] {
        let items: Vec<String> = (0..count).map(ping).collect();
        assert_response!(scene.ask(client, &session.post(batch(&items))), status);
    }
}

#[test]
fn a_batch_waits_for_its_slowest_call() {
    let (mut scene, client, session) = start();
    let body = batch(&[call(1, "slow"), ping(2), call(3, "slow")]);
    let next = session.post(ping(4)).bytes();
    scene.send(client, [session.post(body).bytes(), next].concat());
    let (first, second) = (scene.take_call(), scene.take_call());
    second.finish("second");
    scene.settle();
    assert_eq!(scene.received(client), b"");
    first.finish("first");
    scene.settle();
    let answers = answers(&scene.response(client));
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(answers[0]["result"]["content"][0]["text"], "first");
    assert_eq!(scene.response(client).message()["id"], 4);
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn a_call_of_a_batch_that_gives_up_or_reports_progress_breaks_nothing() {
    let (mut scene, client, session) = start();
    let params = json!({ "name": "slow", "_meta": { "progressToken": 1 } });
    let body = batch(&[message(1, "tools/call", params), call(2, "gives_up"), call(3, "panics")]);
    scene.send(client, session.post(body).bytes());
    let mut held = scene.take_call();
    held.progress(1.0);
    held.finish("done");
    scene.settle();
    let response = scene.response(client);
    let answers = answers(&response);
    assert_eq!(answers[0]["result"]["content"][0]["text"], "done");
    assert_eq!(answers[1]["error"]["code"], -32603);
    assert_eq!(answers[2]["error"]["code"], -32603);
}

#[test]
fn a_cancelled_call_of_a_batch_does_not_hold_up_the_others() {
    let (mut scene, client, session) = start();
    scene.send(client, session.post(batch(&[call(1, "slow"), call(2, "slow")])).bytes());
    let (cancelled, other) = (scene.take_call(), scene.take_call());
    assert_response!(scene.ask_apart(&session.cancel(1)), 202);
    assert!(cancelled.responder.is_cancelled());
    other.finish("done");
    scene.settle();
    let answers = answers(&scene.response(client));
    assert_eq!(answers.len(), 1, "no response to what was cancelled");
    assert_eq!(answers[0]["id"], 2);
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn a_batch_that_cancels_one_of_its_own_calls_is_answered() {
    let (mut scene, client, session) = start();
    let cancel = notification("notifications/cancelled", json!({ "requestId": 1 }));
    let response = scene.ask(client, &session.post(batch(&[call(1, "slow"), cancel, ping(2)])));
    let answers = answers(&response);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["id"], 2);
    assert!(scene.take_call().responder.is_cancelled());
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn a_cancellation_in_a_batch_ends_the_response_it_concerns() {
    let (mut scene, client, session) = start();
    scene.send(client, session.post(call(7, "slow")).bytes());
    let held = scene.take_call();
    let cancel = notification("notifications/cancelled", json!({ "requestId": 7 }));
    assert_response!(scene.ask_apart(&session.post(batch(&[cancel, ping(1)]))), 200);
    assert!(held.responder.is_cancelled());
    assert_response!(scene.response(client), 200);
    assert_response!(scene.ask(client, &session.post(ping(2))), 200);
}

#[test]
fn a_batch_has_no_id_by_which_it_could_be_cancelled() {
    let (mut scene, client, session) = start();
    let other = scene.connect();
    scene.send(other, session.post(call(0, "slow")).bytes());
    let single = scene.take_call();
    scene.send(client, session.post(batch(&[call(5, "slow"), ping(6)])).bytes());
    let part = scene.take_call();
    assert_response!(scene.ask_apart(&session.cancel(0)), 202);
    assert!(single.responder.is_cancelled(), "the call whose id it is");
    assert!(!part.responder.is_cancelled(), "and nothing else");
    part.finish("done");
    scene.settle();
    assert_eq!(answers(&scene.response(client)).len(), 2);
    assert_response!(scene.response(other), 200);
}

#[test]
fn a_batch_whose_caller_leaves_works_on_and_ends_by_itself() {
    let (mut scene, client, session) = start();
    scene.send(client, session.post(batch(&[call(1, "slow"), call(2, "slow")])).bytes());
    let (first, second) = (scene.take_call(), scene.take_call());
    scene.cut(client);
    assert!(!first.responder.is_cancelled());
    first.finish("one");
    second.finish("two");
    scene.settle();
    assert_eq!(scene.engine.exchanges(), 0);
}
