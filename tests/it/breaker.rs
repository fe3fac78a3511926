//! Tools that keep failing are left alone for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use waterwheel::{Breaker, CallError, CallToolResult, ServerHandle, Tool, ToolCall};

use crate::support::{Client, Request, Response, Scene, assert_response, message, seconds};

fn call(tool: &str) -> Request {
    Request::modern_call(1, tool, json!({}))
}

/// The fixture server with a breaker for every tool.
fn guarded(breaker: Breaker) -> Scene {
    Scene::tuned(|server| server.circuit_breaker(breaker))
}

/// What a call is told that has to wait.
#[track_caller]
fn assert_paused(response: &Response, tool: &str, wait: &str) {
    assert_response!(response, 200);
    assert_eq!(response.result()["isError"], true, "{response:?}");
    let text =
        format!("the tool {tool:?} keeps failing and is not called for now; try again in {wait} s");
    assert_eq!(response.text(), text);
}

/// Makes a deferred call and ends it by dropping its responder.
#[track_caller]
fn give_up(scene: &mut Scene, client: Client) {
    scene.send(client, call("slow").bytes());
    drop(scene.take_call());
    scene.settle();
    assert_response!(scene.response(client), 200, error = -32603);
}

#[test]
fn a_direct_tool_that_keeps_panicking_is_not_called_for_a_while() {
    let mut scene = guarded(Breaker::new(2, seconds(30)));
    let client = scene.connect();
    for _ in 0..2 {
        assert_response!(scene.ask(client, &call("panics")), 200, error = -32603);
    }
    assert_paused(&scene.ask(client, &call("panics")), "panics", "30");
    assert_response!(scene.ask(client, &call("echo")), 200);
    assert_eq!(scene.ask(client, &call("echo")).result().get("isError"), None, "others go on");

    scene.advance(seconds(29));
    assert_paused(&scene.ask(client, &call("panics")), "panics", "1");
    scene.advance(seconds(1));
    assert_response!(scene.ask(client, &call("panics")), 200, error = -32603);
    assert_paused(&scene.ask(client, &call("panics")), "panics", "30");
}

#[test]
fn a_classic_caller_is_told_the_same() {
    let mut scene = guarded(Breaker::new(1, seconds(30)));
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    assert_response!(scene.ask(client, &session.call(2, "panics", json!({}))), 200, error = -32603);
    assert_paused(&scene.ask(client, &session.call(3, "panics", json!({}))), "panics", "30");
}

#[test]
fn without_a_breaker_a_tool_may_fail_for_ever() {
    let mut scene = Scene::new();
    let client = scene.connect();
    for _ in 0..20 {
        assert_response!(scene.ask(client, &call("panics")), 200, error = -32603);
    }
}

#[test]
fn deferred_failures_count_when_their_answer_arrives() {
    let mut scene = guarded(Breaker::new(2, seconds(30)));
    let client = scene.connect();
    give_up(&mut scene, client);
    give_up(&mut scene, client);
    assert_paused(&scene.ask(client, &call("slow")), "slow", "30");
    assert_eq!(scene.held.len(), 0);
}

#[test]
fn one_deferred_call_tries_whether_the_tool_works_again() {
    let mut scene = guarded(Breaker::new(1, seconds(30)));
    let [client, other] = [scene.connect(), scene.connect()];
    give_up(&mut scene, client);
    scene.advance(seconds(30));
    scene.send(client, call("slow").bytes());
    assert_paused(&scene.ask(other, &call("slow")), "slow", "30");
    scene.take_call().finish("well again");
    scene.settle();
    assert_eq!(scene.response(client).text(), "well again");

    scene.send(other, call("slow").bytes());
    scene.take_call().finish("still");
    scene.settle();
    assert_eq!(scene.response(other).text(), "still");
}

#[test]
fn a_probe_whose_caller_leaves_makes_room_for_another() {
    let mut scene = guarded(Breaker::new(1, seconds(30)));
    let client = scene.connect();
    give_up(&mut scene, client);
    scene.advance(seconds(30));
    let leaving = scene.connect();
    scene.send(leaving, call("slow").bytes());
    assert_paused(&scene.ask(client, &call("slow")), "slow", "30");
    scene.hang_up(leaving);
    scene.send(client, call("slow").bytes());
    drop(scene.take_call());
    scene.take_call().finish("well again");
    scene.settle();
    assert_eq!(scene.response(client).text(), "well again");
}

#[test]
fn a_probe_outlives_the_connection_of_a_classic_caller() {
    let mut scene = guarded(Breaker::new(1, seconds(5)));
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    give_up(&mut scene, client);
    scene.advance(seconds(5));
    let leaving = scene.connect();
    scene.send(leaving, session.call(2, "slow", json!({})).bytes());
    scene.hang_up(leaving);
    assert_paused(&scene.ask(client, &call("slow")), "slow", "5");
    scene.take_call().finish("nobody reads this");
    scene.settle();
    scene.send(client, call("slow").bytes());
    scene.take_call().finish("but it closed the breaker");
    scene.settle();
    assert_eq!(scene.response(client).text(), "but it closed the breaker");
}

#[test]
fn calls_of_a_batch_count_one_by_one() {
    let mut scene = guarded(Breaker::new(2, seconds(30)));
    let client = scene.connect();
    let session = scene.initialize(client, "2025-03-26");
    let part = |id: i64| message(id, "tools/call", json!({ "name": "gives_up", "arguments": {} }));
    let batch = format!("[{},{}]", part(2), part(3));
    assert_response!(scene.ask(client, &session.post(batch)), 200);
    assert_paused(&scene.ask(client, &session.call(4, "gives_up", json!({}))), "gives_up", "30");
}

#[test]
fn what_a_tool_answers_is_no_failure_unless_it_should_be() {
    let mut scene = guarded(Breaker::new(1, seconds(30)));
    let client = scene.connect();
    for tool in ["fails", "refuses", "fails", "refuses"] {
        scene.send(client, call(tool).bytes());
        assert!(!scene.response(client).message().to_string().contains("try again"));
    }
    let mut strict = guarded(Breaker::new(1, seconds(30)).tool_errors());
    let client = strict.connect();
    assert_eq!(strict.ask(client, &call("fails")).text(), "it broke");
    assert_paused(&strict.ask(client, &call("fails")), "fails", "30");
}

#[test]
fn deferred_results_with_is_error_count_as_well() {
    let mut scene = guarded(Breaker::new(1, seconds(30)).tool_errors());
    let client = scene.connect();
    scene.send(client, call("slow").bytes());
    scene.take_call().responder.finish(CallToolResult::error("no luck"));
    scene.settle();
    assert_eq!(scene.response(client).text(), "no luck");
    assert_paused(&scene.ask(client, &call("slow")), "slow", "30");
}

// Without schemas nobody but the tool can tell that arguments are wrong.
#[cfg(feature = "schema")]
#[test]
fn wrong_arguments_say_nothing_about_the_tool() {
    let mut scene = guarded(Breaker::new(1, seconds(30)).tool_errors());
    let client = scene.connect();
    let right = Request::modern_call(1, "add", json!({ "a": 1, "b": 2 }));
    for _ in 0..2 {
        let wrong = scene.ask(client, &Request::modern_call(1, "add", json!({ "a": "x" })));
        assert_eq!(wrong.result()["isError"], true);
        assert_eq!(scene.ask(client, &right).text(), "3");
    }
}

#[test]
fn a_withheld_result_is_a_failure() {
    let mut scene = guarded(Breaker::new(1, seconds(30)));
    let client = scene.connect();
    let wrong = Request::modern_call(1, "typed", json!({ "how": "wrong" }));
    let withheld = scene.ask(client, &wrong);
    if cfg!(feature = "schema") {
        assert_response!(withheld, 200, error = -32603);
        assert_paused(&scene.ask(client, &wrong), "typed", "30");
    }
}

#[test]
fn a_tool_s_own_breaker_comes_first_and_late_tools_have_one_too() {
    let flaky = || Tool::new("flaky").circuit_breaker(Breaker::new(1, seconds(5)));
    let panics = |_: &mut ToolCall<'_>| -> Result<CallToolResult, CallError> {
        panic!("expected by the test")
    };
    let mut scene = Scene::tuned(|server| {
        server.circuit_breaker(Breaker::new(2, seconds(30))).tool(flaky(), panics)
    });
    let client = scene.connect();
    assert_response!(scene.ask(client, &call("flaky")), 200, error = -32603);
    assert_paused(&scene.ask(client, &call("flaky")), "flaky", "5");

    let handle = ServerHandle::of(&scene.engine);
    handle.add_tool(Tool::new("late"), panics).expect("the tool is fine");
    scene.settle();
    for _ in 0..2 {
        assert_response!(scene.ask(client, &call("late")), 200, error = -32603);
    }
    assert_paused(&scene.ask(client, &call("late")), "late", "30");
    handle.remove_tool("late");
    handle.add_tool(Tool::new("late"), panics).expect("the tool is fine");
    scene.settle();
    assert_response!(scene.ask(client, &call("late")), 200, error = -32603);
}

#[test]
fn blocking_tools_have_breakers_like_others() {
    let broken = Arc::new(AtomicBool::new(true));
    let runs = Arc::new(AtomicUsize::new(0));
    let (is_broken, count) = (Arc::clone(&broken), Arc::clone(&runs));
    let work = move |_: &mut ToolCall<'static>| -> Result<CallToolResult, CallError> {
        count.fetch_add(1, Ordering::SeqCst);
        assert!(!is_broken.load(Ordering::SeqCst), "expected by the test");
        Ok(CallToolResult::text("done"))
    };
    let mut scene = Scene::tuned(|server| {
        server.circuit_breaker(Breaker::new(1, seconds(30))).tool_blocking(Tool::new("work"), work)
    });
    let client = scene.connect();
    let work = |scene: &mut Scene| {
        scene.send(client, call("work").bytes());
        while scene.received(client).is_empty() {
            std::thread::yield_now();
            scene.settle();
        }
        scene.response(client)
    };
    assert_response!(work(&mut scene), 200, error = -32603);
    assert_paused(&work(&mut scene), "work", "30");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    broken.store(false, Ordering::SeqCst);
    scene.advance(seconds(30));
    assert_eq!(work(&mut scene).text(), "done");
    assert_eq!(work(&mut scene).text(), "done");
}
