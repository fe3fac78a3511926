//! Cancellation: by notification in the classic era, by hanging up in the modern one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use waterwheel::{Flowing, LogLevel};

use crate::support::{Block, Request, Scene, assert_response};

#[test]
fn b085_a_cancelled_call_ends_without_an_answer_and_its_connection_serves_on() {
    for streaming in [false, true] {
        let mut scene = Scene::new();
        let client = scene.connect();
        let session = scene.initialize(client, "2025-11-25");
        let later = session.request(8, "ping", json!({}));
        scene.send(client, [session.call(7, "slow", json!({})).bytes(), later.bytes()].concat());
        let mut call = scene.take_call();
        if streaming {
            let _ = call.responder.log(LogLevel::Error, None, &"x");
            scene.settle();
        }
        assert_response!(scene.ask_apart(&session.cancel(7)), 202);
        assert!(call.responder.is_cancelled());
        assert_eq!(scene.engine.exchanges(), 0);
        let ended = scene.response(client);
        let mut blocks = ended.blocks.unwrap_or_default();
        blocks.retain(Block::is_event);
        assert_eq!(blocks.len(), usize::from(streaming), "no response to it");
        assert!(!blocks.iter().any(|block| block.data().get("id").is_some()));
        assert_eq!(scene.response(client).message()["id"], 8, "what waited is served");
        call.finish("too late");
        scene.settle();
        assert_eq!(scene.received(client), b"");
    }
}

#[test]
fn a_cancelled_call_of_a_caller_without_streams_ends_too() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let call = session.call(7, "slow", json!({})).set("Accept", "application/json");
    scene.send(client, call.bytes());
    let held = scene.take_call();
    assert_response!(scene.ask_apart(&session.cancel(7)), 202);
    assert!(held.responder.is_cancelled());
    let ended = scene.response(client);
    assert!(ended.body.is_empty() && !ended.closes(), "{ended:?}");
    assert_response!(scene.ask(client, &session.request(8, "ping", json!({}))), 200);
}

#[test]
fn b083_a_caller_without_streams_that_leaves_cancels_too() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let call = Request::modern_call(7, "slow", json!({})).set("Accept", "application/json");
    scene.send(client, call.bytes());
    let held = scene.take_call();
    scene.hang_up(client);
    assert!(held.responder.is_cancelled() && held.call.is_cancelled());
}

#[test]
fn b085_inv44_only_the_very_call_is_cancelled() {
    let mut scene = Scene::new();
    let (one, two) = (scene.connect(), scene.connect());
    let session = scene.initialize(one, "2025-11-25");
    let stranger = scene.initialize(one, "2025-11-25");
    scene.send(one, session.call(7, "slow", json!({})).bytes());
    scene.send(two, stranger.call(7, "slow", json!({})).bytes());
    let (call, foreign) = (scene.take_call(), scene.take_call());
    for note in [
        session.cancel("7"),
        session.cancel(99),
        session.cancel(1),
        session.cancel(json!(null)),
        session.cancel(7.5),
        session.notify("notifications/cancelled", json!({})),
        session.notify("notifications/cancelled", json!({ "requestId": [7] })),
    ] {
        assert_response!(scene.ask_apart(&note), 202);
    }
    assert!(!call.responder.is_cancelled() && !foreign.responder.is_cancelled());
    assert_response!(scene.ask_apart(&session.cancel(7)), 202);
    assert!(call.responder.is_cancelled() && !foreign.responder.is_cancelled());
    assert_response!(scene.response(one), 200);
    foreign.finish("still here");
    scene.settle();
    assert_eq!(scene.response(two).text(), "still here");
}

#[test]
fn a_finished_call_is_not_cancelled_any_more_and_its_id_may_be_used_again() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    for round in 0..3 {
        scene.send(client, session.call(7, "slow", json!({})).bytes());
        scene.take_call().finish(&round.to_string());
        scene.settle();
        assert_eq!(scene.response(client).text(), round.to_string());
        assert_response!(scene.ask_apart(&session.cancel(7)), 202);
    }
}

#[test]
fn a_modern_notification_cancels_nothing() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, Request::modern_call(7, "slow", json!({})).bytes());
    let call = scene.take_call();
    let body = crate::support::notification("notifications/cancelled", json!({ "requestId": 7 }));
    let note = Request::post(body).field("MCP-Protocol-Version", "2026-07-28");
    assert_response!(scene.ask_apart(&note), 202);
    assert!(!call.responder.is_cancelled(), "another caller may use the same id");
    call.finish("done");
    scene.settle();
    assert_eq!(scene.response(client).text(), "done");
}

#[test]
fn inv55_hooks_run_once_each_and_a_panic_in_one_spares_the_others() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(7, "slow", json!({})).bytes());
    let call = scene.take_call();
    let ran = Arc::new(AtomicUsize::new(0));
    for panics in [false, true, false] {
        let ran = Arc::clone(&ran);
        call.responder.on_cancel(move || {
            ran.fetch_add(1, Ordering::SeqCst);
            assert!(!panics, "expected by the test");
        });
    }
    for _ in 0..2 {
        assert_response!(scene.ask_apart(&session.cancel(7)), 202);
    }
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    assert_response!(scene.response(client), 200);
}

#[test]
fn a_detached_call_can_still_be_cancelled() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(7, "slow", json!({})).bytes());
    let call = scene.take_call();
    scene.cut(client);
    assert_eq!(scene.engine.exchanges(), 1);
    assert_response!(scene.ask_apart(&session.cancel(7)), 202);
    assert!(call.responder.is_cancelled());
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn nothing_is_written_for_a_caller_who_has_left_a_call_that_goes_on() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(7, "slow", json!({})).bytes());
    let mut call = scene.take_call();
    scene.cut(client);
    scene.settle();
    assert_eq!(call.responder.log(LogLevel::Error, None, &"unheard"), Flowing::Slow);
    assert!(!call.responder.is_cancelled() && !scene.engine.has_work());
}
