//! The end of a server: what it still finishes, what it refuses, and that it ends.

use serde_json::json;
use waterwheel::LogLevel;

use crate::support::{Request, Scene, assert_response, seconds};

fn slow(id: u64) -> Request {
    let meta = json!({ "io.modelcontextprotocol/logLevel": "info" });
    Request::modern(id, "tools/call", json!({ "name": "slow", "_meta": meta }))
}

fn shut_down(scene: &mut Scene) {
    let now = scene.now();
    scene.engine.shut_down(now);
    scene.settle();
}

#[test]
fn d22_idle_connections_are_closed_at_once_and_no_new_ones_are_taken() {
    let mut scene = Scene::new();
    let (idle, used, half_way) = (scene.connect(), scene.connect(), scene.connect());
    assert_response!(scene.ask(used, &Request::modern(1, "tools/list", json!({}))), 200);
    scene.send(half_way, "POST /mcp HT");
    assert!(!scene.engine.is_shutting_down() && !scene.engine.is_drained());
    shut_down(&mut scene);
    assert!(scene.is_closed(idle) && scene.is_closed(used) && scene.is_closed(half_way));
    assert_eq!(scene.try_connect(), None);
    assert!(scene.engine.is_shutting_down() && scene.engine.is_drained());
}

#[test]
fn d22_a_running_call_finishes_and_its_connection_closes() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, slow(1).bytes());
    shut_down(&mut scene);
    assert!(scene.is_open(client) && !scene.engine.is_drained());
    scene.advance(seconds(5));
    scene.take_call().finish("done");
    scene.settle();
    let response = scene.response(client);
    assert_eq!(response.text(), "done");
    assert!(response.closes() && scene.is_half_closed(client));
    scene.hang_up(client);
    assert!(scene.engine.is_drained());
}

#[test]
fn d22_a_stream_that_ends_in_shutdown_ends_its_connection() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, slow(1).bytes());
    let mut call = scene.take_call();
    let _ = call.responder.log(LogLevel::Info, None, &"begun");
    scene.settle();
    assert_response!(scene.stream(client), 200);
    shut_down(&mut scene);
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(client).len(), 2);
    scene.end_of_stream(client);
    assert!(!scene.is_open(client), "it does not keep the server up until the grace is over");
    scene.hang_up(client);
    assert!(scene.engine.is_drained());
}

#[test]
fn d22_a_stream_that_begins_in_shutdown_says_that_it_is_the_last() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, slow(1).bytes());
    shut_down(&mut scene);
    let mut call = scene.take_call();
    let _ = call.responder.log(LogLevel::Info, None, &"begun");
    call.finish("done");
    scene.settle();
    assert!(scene.response(client).closes());
    assert!(scene.is_half_closed(client));
}

#[test]
fn d22_an_answer_that_is_still_being_read_is_delivered_and_then_its_connection_closes() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.read_at_most(client, 0);
    scene.send(client, Request::modern(1, "tools/list", json!({})).bytes());
    shut_down(&mut scene);
    assert!(!scene.is_closed(client));
    scene.read_at_most(client, usize::MAX);
    scene.settle();
    assert_response!(scene.response(client), 200);
    assert!(!scene.is_open(client), "it is idle now");
}

#[test]
fn d22_what_is_left_after_the_grace_period_is_cut() {
    let mut scene = Scene::new();
    let (modern, classic) = (scene.connect(), scene.connect());
    let session = scene.initialize(classic, "2025-11-25");
    scene.send(modern, slow(1).bytes());
    scene.send(classic, session.call(1, "slow", json!({})).bytes());
    let (first, second) = (scene.take_call(), scene.take_call());
    shut_down(&mut scene);
    scene.advance(seconds(9));
    assert!(!scene.engine.is_drained());
    assert!(!first.responder.is_cancelled());
    scene.advance(seconds(1));
    assert!(scene.engine.is_drained());
    assert!(scene.is_closed(modern) && scene.is_closed(classic));
    assert!(first.responder.is_cancelled());
    drop((first, second));
}

#[test]
fn d22_a_second_shutdown_changes_nothing_and_an_abort_cuts_at_once() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, slow(1).bytes());
    shut_down(&mut scene);
    scene.advance(seconds(9));
    shut_down(&mut scene);
    assert!(!scene.engine.is_drained());
    scene.engine.abort();
    assert!(scene.take_call().responder.is_cancelled());
    scene.settle();
    assert!(scene.engine.is_drained() && scene.is_closed(client));
}

#[test]
fn d21_b046_while_draining_probes_say_so_and_requests_are_refused() {
    for (target, method, status) in [
        ("/health", "GET", 200),
        ("/ready", "GET", 503),
        ("/readyz", "GET", 503),
        ("/mcp", "PUT", 503),
    ] {
        let mut scene = Scene::new();
        let client = scene.connect();
        scene.send(client, [slow(1).bytes(), Request::new(method, target).bytes()].concat());
        shut_down(&mut scene);
        scene.take_call().finish("done");
        scene.settle();
        let answered = scene.response(client);
        assert_eq!(answered.text(), "done");
        if answered.closes() {
            // The answer to the call is the last of its connection: the rest is never read.
            assert_eq!(scene.received(client), b"");
            continue;
        }
        assert_response!(scene.response(client), status);
    }
}

#[test]
fn d22_a_call_does_not_let_its_connection_go_when_nobody_can_come_back() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(7, "slow", json!({})).bytes());
    let call = scene.take_call();
    shut_down(&mut scene);
    call.responder.release_connection(seconds(3));
    scene.settle();
    assert!(scene.is_open(client) && scene.received(client).is_empty());
    call.finish("done");
    scene.settle();
    assert_eq!(scene.response(client).text(), "done");
}

#[test]
fn d22_b092_streams_end_properly_and_running_calls_have_their_time() {
    let mut scene = Scene::new();
    let setting_up = scene.connect();
    let session = scene.initialize(setting_up, "2025-11-25");
    scene.hang_up(setting_up);
    let [listening, subscribed, plain, streaming, stuck] = [0; 5].map(|_| scene.connect());
    scene.send(listening, session.listen().bytes());
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    scene.send(subscribed, Request::modern("L", "subscriptions/listen", wanted).bytes());
    scene.send(plain, session.call(1, "plain_slow", json!({})).bytes());
    scene.send(streaming, session.call(2, "slow_stream", json!({})).bytes());
    scene.send(stuck, session.call(3, "slow", json!({})).bytes());
    let [first, second, third] = [0; 3].map(|_| scene.take_call());
    for client in [listening, subscribed, streaming] {
        assert_response!(scene.stream(client), 200);
        assert_eq!(scene.blocks(client).len(), 1);
    }
    shut_down(&mut scene);

    scene.end_of_stream(listening);
    assert!(!scene.is_open(listening));
    let blocks = scene.blocks(subscribed);
    assert_eq!(blocks[0].data()["id"], "L");
    assert_eq!(blocks[0].data()["result"]["resultType"], "complete");
    scene.end_of_stream(subscribed);
    assert!(!scene.is_open(subscribed));
    assert_eq!((scene.engine.subscriptions(), scene.engine.exchanges()), (0, 3));

    scene.advance(seconds(9));
    first.finish("in time");
    second.finish("in time");
    scene.settle();
    let answered = scene.response(plain);
    assert!(answered.closes() && answered.text() == "in time");
    assert_eq!(scene.blocks(streaming)[0].data()["id"], 2);
    scene.end_of_stream(streaming);
    assert!(!scene.is_open(streaming) && scene.is_open(stuck));
    scene.advance(seconds(1));
    assert!(scene.is_closed(stuck) && scene.engine.is_drained());
    assert_eq!(scene.received(stuck), b"");
    drop(third);
}

#[test]
fn d22_nobody_resumes_a_stream_of_a_server_that_goes_away() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let lost = scene.connect();
    scene.send(lost, session.call(1, "slow_stream", json!({})).bytes());
    assert_response!(scene.stream(lost), 200);
    let place = scene.blocks(lost)[0].id().to_owned();
    let detached = scene.take_call();
    scene.cut(lost);
    let waiting = session.call(2, "slow", json!({})).bytes();
    scene.send(client, [waiting, session.resume(&place).bytes()].concat());
    shut_down(&mut scene);
    scene.take_call().finish("done");
    scene.settle();
    let answered = scene.response(client);
    assert!(answered.closes() && answered.text() == "done");
    assert_eq!(scene.received(client), b"", "what came behind it is never read");
    assert_eq!(scene.try_connect(), None);
    assert!(!detached.responder.is_cancelled());
    scene.hang_up(client);
    assert!(scene.engine.is_drained(), "nobody can collect the answer that is still to come");
    detached.finish("for nobody");
    scene.settle();
}
