//! Requests whose answer comes later: pipelining, streams, responders, lost connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use waterwheel::rpc::ErrorObject;
use waterwheel::{CallToolResult, Flowing, Limits, LogLevel, Progress};

use crate::support::{Block, Request, Scene, assert_response, seconds};

/// A modern call of the deferred tool, with a progress token.
fn slow(id: u64) -> Request {
    let meta = json!({ "progressToken": id, "io.modelcontextprotocol/logLevel": "debug" });
    Request::modern(id, "tools/call", json!({ "name": "slow", "_meta": meta }))
}

fn list(id: u64) -> Request {
    Request::modern(id, "tools/list", json!({}))
}

#[test]
fn b010_inv35_a_request_behind_one_in_work_waits_for_it() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let second = [&b"\r\n"[..], &list(2).bytes()].concat();
    scene.send(client, [slow(1).bytes(), second, slow(3).bytes()].concat());
    assert_eq!(scene.held.len(), 1, "the third is not even started");
    let mut call = scene.take_call();
    call.progress(1.0);
    scene.settle();
    assert_response!(scene.stream(client), 200);
    assert_eq!(scene.blocks(client).len(), 1);
    assert_eq!(scene.received(client), b"", "nothing is mixed into the stream");
    call.finish("first");
    scene.settle();
    assert_eq!(scene.blocks(client)[0].data()["id"], 1);
    scene.end_of_stream(client);
    assert_eq!(scene.response(client).message()["id"], 2);
    // The gate closes again behind the third.
    scene.send(client, list(4).bytes());
    assert_eq!(scene.received(client), b"");
    scene.take_call().finish("third");
    scene.settle();
    assert_eq!(scene.response(client).text(), "third");
    assert_eq!(scene.response(client).message()["id"], 4);
}

#[test]
fn inv36_bytes_behind_the_gate_are_nobody_s_body() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let (first, second) = (slow(1).bytes(), Request::modern_call(2, "echo", json!({})).bytes());
    for cut in 0..second.len() {
        scene.send(client, [&first[..], &second[..cut]].concat());
        let HeldText { text, call } = held(&scene);
        assert_eq!(text, None);
        scene.send(client, &second[cut..]);
        call.finish("first");
        scene.settle();
        assert_eq!(scene.response(client).text(), "first");
        assert_eq!(scene.response(client).text(), "{}");
    }
}

/// A call that waits, and its arguments.
struct HeldText {
    text: Option<String>,
    call: crate::support::HeldCall,
}

fn held(scene: &Scene) -> HeldText {
    let call = scene.take_call();
    HeldText { text: call.call.raw_arguments().map(|raw| raw.get().to_owned()), call }
}

#[test]
fn inv37_too_much_behind_the_gate_closes_without_a_word() {
    let limits = Limits { gated_bytes_max: 1000, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    for (extra, survives) in [(1000, true), (1001, false)] {
        let client = scene.connect();
        scene.send(client, slow(1).bytes());
        let mut call = scene.take_call();
        call.progress(1.0);
        scene.settle();
        let before = scene.take_received(client);
        assert!(!before.is_empty());
        scene.send(client, vec![b'x'; extra]);
        assert_eq!(scene.is_closed(client), !survives, "{extra}");
        assert_eq!(scene.received(client), b"", "no error in the middle of a stream");
        assert_eq!(call.responder.is_cancelled(), !survives);
        scene.cut(client);
    }
}

#[test]
fn inv38_inv39_inv57_b083_inv108_a_modern_caller_that_leaves_cancels_at_once() {
    for streaming in [false, true] {
        let mut scene = Scene::new();
        let client = scene.connect();
        scene.send(client, [slow(1).bytes(), list(2).bytes()].concat());
        let mut call = scene.take_call();
        let hooks = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&hooks);
        call.responder.on_cancel(move || _ = counter.fetch_add(1, Ordering::SeqCst));
        if streaming {
            call.progress(1.0);
            scene.settle();
            assert_response!(scene.stream(client), 200);
            assert_eq!(scene.blocks(client).len(), 1);
        }
        scene.advance(seconds(1));
        assert!(!call.responder.is_cancelled());
        scene.hang_up(client);
        assert!(call.responder.is_cancelled() && call.call.is_cancelled());
        assert_eq!((scene.engine.exchanges(), scene.engine.connections()), (0, 0));
        assert_eq!(hooks.load(Ordering::SeqCst), 1);
        // inv55: a hook that comes late runs at once, and nothing runs twice.
        let counter = Arc::clone(&hooks);
        call.responder.on_cancel(move || _ = counter.fetch_add(1, Ordering::SeqCst));
        assert_eq!(hooks.load(Ordering::SeqCst), 2);
        // inv54: what is said from now on goes nowhere.
        call.progress(2.0);
        call.finish("too late");
        scene.settle();
        assert_eq!(scene.received(client), b"");
        assert_eq!(hooks.load(Ordering::SeqCst), 2);
        assert_eq!(scene.held.runs(), 1, "what waited behind it is gone too");
    }
}

#[test]
fn inv91_b083_a_classic_caller_that_leaves_does_not_cancel() {
    for streaming in [false, true] {
        let mut scene = Scene::new();
        let client = scene.connect();
        let session = scene.initialize(client, "2025-11-25");
        scene.send(client, session.call(1, "slow", json!({})).bytes());
        let mut call = scene.take_call();
        if streaming {
            let _ = call.responder.log(LogLevel::Error, None, &"x");
            scene.settle();
            assert_response!(scene.stream(client), 200);
            assert_eq!(scene.blocks(client).len(), 2, "a place to resume from, and a message");
        }
        scene.cut(client);
        assert!(!call.responder.is_cancelled());
        assert_eq!((scene.engine.exchanges(), scene.engine.connections()), (1, 0));
        scene.advance(seconds(3600));
        assert_eq!(scene.engine.exchanges(), 1, "work is never reaped");
        let _ = call.responder.log(LogLevel::Error, None, &"y");
        call.finish("nobody hears it");
        scene.settle();
        assert_eq!(scene.engine.exchanges(), 0);
        assert_response!(scene.ask_apart(&Request::modern(1, "tools/list", json!({}))), 200);
    }
}

#[test]
fn a_key_of_a_connection_that_is_gone_means_nothing() {
    let mut scene = Scene::new();
    let first = scene.connect();
    let stale = scene.key(first);
    scene.hang_up(first);
    let second = scene.connect();
    assert_ne!(stale, scene.key(second));
    let now = scene.now();
    assert!(scene.engine.conn(stale).is_none());
    assert!(scene.engine.reading(stale).is_none() && scene.engine.writing(stale).is_none());
    assert!(!scene.engine.wants_input(stale) && scene.engine.read_hint(stale) == 0);
    scene.engine.receive(stale, now);
    scene.engine.receive_end(stale);
    scene.engine.close(stale, waterwheel::CloseReason::PeerClosed);
    assert!(!scene.engine.take_dirty(stale));
    assert_response!(scene.ask(second, &list(1)), 200);
    let packed = waterwheel::ConnKey::from_token(scene.key(second).to_token());
    assert_eq!(packed, scene.key(second));
}

#[test]
fn b075_a_stream_ends_with_its_answer_and_nothing_piles_up() {
    let mut scene = Scene::new();
    for id in 0..500 {
        let client = scene.connect();
        let response = scene.ask(client, &Request::modern_call(id, "prompt_answer", json!({})));
        assert_eq!(response.text(), "at once");
        scene.send(client, slow(id).bytes());
        let mut call = scene.take_call();
        call.progress(1.0);
        call.finish("done");
        scene.settle();
        assert_eq!(scene.response(client).blocks.map(|blocks| blocks.len()), Some(2));
        assert_eq!((scene.engine.exchanges(), scene.engine.connections()), (0, 1));
        scene.hang_up(client);
    }
}

#[test]
fn inv46_inv47_the_first_thing_said_settles_the_framing() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, slow(1).bytes());
    scene.take_call().finish("plain");
    scene.settle();
    let response = scene.response(client);
    assert!(response.blocks.is_none(), "an answer that comes first is plain JSON");
    scene.send(client, slow(2).bytes());
    let mut call = scene.take_call();
    call.progress(1.0);
    call.responder.fail(ErrorObject::new(-32050, "after all"));
    scene.settle();
    let response = scene.response(client);
    assert_response!(response, 200, error = -32050, id = 2);
    assert_eq!(response.blocks.map(|blocks| blocks.len()), Some(2));
}

#[test]
fn a_required_stream_opens_before_the_answer_for_classic_callers() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(1, "slow_stream", json!({})).bytes());
    assert_response!(scene.stream(client), 200);
    scene.take_call().finish("done");
    scene.settle();
    let blocks = scene.blocks(client);
    assert!(matches!(blocks[0], Block::Primer { .. }), "{blocks:?}");
    assert_eq!(blocks[1].data()["result"]["content"][0]["text"], "done");
    scene.end_of_stream(client);
}

#[test]
fn a_tool_that_never_streams_answers_in_one_piece_whatever_it_says() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let params = |name: &str| json!({ "name": name, "_meta": { "progressToken": 1 } });
    let direct = scene.ask(client, &Request::modern(1, "tools/call", params("plain_steps")));
    assert_eq!(direct.text(), "done");
    assert!(direct.blocks.is_none(), "{direct:?}");
    scene.send(client, Request::modern(1, "tools/call", params("plain_slow")).bytes());
    let mut call = scene.take_call();
    call.progress(1.0);
    call.finish("done");
    scene.settle();
    let deferred = scene.response(client);
    assert!(deferred.blocks.is_none(), "{deferred:?}");
}

#[test]
fn b080_b081_progress_carries_the_token_of_its_caller_and_none_goes_without() {
    let mut scene = Scene::new();
    for (meta, token) in [
        (json!({ "progressToken": 0 }), Some(json!(0))),
        (json!({ "progressToken": "" }), Some(json!(""))),
        (json!({ "progressToken": "p-1" }), Some(json!("p-1"))),
        (json!({}), None),
    ] {
        let params = json!({ "name": "steps", "_meta": meta });
        let response = scene.ask_apart(&Request::modern(1, "tools/call", params));
        assert_eq!(response.text(), "done");
        let Some(token) = token else {
            assert!(response.blocks.is_none());
            continue;
        };
        let blocks = response.blocks.expect("a stream");
        for note in &blocks[..blocks.len() - 1] {
            assert_eq!(note.data()["method"], "notifications/progress");
            assert_eq!(note.data()["params"]["progressToken"], token);
            assert_eq!(note.data()["params"]["total"], 5);
        }
    }
}

#[test]
fn b082_progress_only_rises_and_stops_with_the_answer() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let reported = |blocks: &[crate::support::Block]| -> Vec<f64> {
        blocks.iter().filter_map(|it| it.data()["params"]["progress"].as_f64()).collect()
    };
    let params = json!({ "name": "steps", "_meta": { "progressToken": 1 } });
    let response = scene.ask(client, &Request::modern(1, "tools/call", params));
    assert_eq!(reported(&response.blocks.expect("a stream")), [1.0, 3.0, 5.0]);

    scene.send(client, slow(2).bytes());
    let mut call = scene.take_call();
    for progress in [1.0, 1.0, 3.0, 2.0, f64::NAN, f64::INFINITY, 5.0] {
        call.progress(progress);
    }
    let crate::support::HeldCall { call: mut context, responder } = call;
    responder.finish(CallToolResult::text("done"));
    let _ = context.progress(&Progress::new(9.0));
    scene.settle();
    let blocks = scene.response(client).blocks.expect("a stream");
    assert_eq!(reported(&blocks), [1.0, 3.0, 5.0]);
    assert!(blocks.last().is_some_and(|last| last.data()["id"] == 2));
    scene.settle();
    assert_eq!(scene.received(client), b"");
}

#[test]
fn b082_progress_rises_whichever_way_it_is_reported() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, slow(1).bytes());
    let crate::support::HeldCall { mut call, mut responder } = scene.take_call();
    let _ = call.progress(&Progress::new(5.0));
    let _ = responder.progress(&Progress::new(3.0));
    let _ = responder.progress(&Progress::new(6.0));
    let _ = call.progress(&Progress::new(5.5));
    responder.finish(CallToolResult::text("done"));
    scene.settle();
    let blocks = scene.response(client).blocks.expect("a stream");
    let reported = blocks.iter().filter_map(|it| it.data()["params"]["progress"].as_f64());
    assert_eq!(reported.collect::<Vec<_>>(), [5.0, 6.0]);
}

#[test]
fn inv110_the_status_of_an_error_survives_a_deferred_answer() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let required = json!({ "elicitation": {} });
    let missing = || waterwheel::mcp::missing_capability(&required);
    scene.send(client, slow(1).bytes());
    scene.take_call().responder.fail(missing());
    scene.settle();
    let response = scene.response(client);
    assert_response!(response, 400, error = -32021, id = 1);
    assert_eq!(response.error()["data"]["requiredCapabilities"], required);
    // Once a stream is open its status is spent.
    scene.send(client, slow(2).bytes());
    let mut call = scene.take_call();
    call.progress(1.0);
    call.responder.fail(missing());
    scene.settle();
    assert_response!(scene.response(client), 200, error = -32021, id = 2);
    // Classic callers are told everything with 200.
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.call(3, "slow", json!({})).bytes());
    scene.take_call().responder.fail(missing());
    scene.settle();
    assert_response!(scene.response(client), 200, error = -32021, id = 3);
}

#[test]
fn b095_log_messages_go_out_from_the_level_the_caller_asked_for() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let logged = |response: crate::support::Response| -> Vec<String> {
        let mut blocks = response.blocks.unwrap_or_default();
        blocks.retain(Block::is_event);
        let levels = blocks.iter().filter_map(|it| it.data()["params"]["level"].as_str());
        levels.map(str::to_owned).collect()
    };
    let key = "io.modelcontextprotocol/logLevel";
    for (meta, expected) in [
        (json!({}), vec![]),
        (json!({ key: "warning" }), vec!["error"]),
        (json!({ key: "debug" }), vec!["debug", "error"]),
        (json!({ key: "emergency" }), vec![]),
    ] {
        let params = json!({ "name": "steps", "_meta": meta });
        let response = scene.ask(client, &Request::modern(1, "tools/call", params));
        assert_eq!(logged(response), expected);
    }
    for bad in [json!("loud"), json!("Error"), json!(3)] {
        let params = json!({ "name": "steps", "_meta": { key: bad } });
        let response = scene.ask(client, &Request::modern(1, "tools/call", params));
        assert_response!(response, 400, error = -32602, id = 1);
    }
    // A classic session sets its level once, for all its calls.
    let session = scene.initialize(client, "2025-11-25");
    let other = scene.initialize(client, "2025-11-25");
    let call = |session: &crate::support::Session| session.call(1, "steps", json!({}));
    assert_eq!(logged(scene.ask(client, &call(&session))), ["error"]);
    let set = |level: &str| session.request(1, "logging/setLevel", json!({ "level": level }));
    assert_response!(scene.ask(client, &set("debug")), 200);
    assert_eq!(logged(scene.ask(client, &call(&session))), ["debug", "error"]);
    assert_eq!(logged(scene.ask(client, &call(&other))), ["error"]);
    assert_response!(scene.ask(client, &set("loud")), 200, error = -32602);
    let missing = session.request(1, "logging/setLevel", json!({}));
    assert_response!(scene.ask(client, &missing), 200, error = -32602);
}

#[test]
fn a_handler_hears_that_its_reader_is_slow_and_that_it_caught_up() {
    let limits = Limits { output_bytes_high: 2000, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let client = scene.connect();
    scene.read_at_most(client, 0);
    scene.send(client, slow(1).bytes());
    let mut call = scene.take_call();
    let mut say = |scene: &mut Scene| {
        let flowing = call.responder.log(LogLevel::Info, None, &"x".repeat(1000));
        scene.settle();
        flowing
    };
    assert_eq!(say(&mut scene), Flowing::Freely);
    assert_eq!(say(&mut scene), Flowing::Freely);
    assert_eq!(say(&mut scene), Flowing::Slow);
    scene.read_at_most(client, usize::MAX);
    scene.settle();
    say(&mut scene);
    assert_eq!(say(&mut scene), Flowing::Freely);
    call.finish("done");
    scene.settle();
    assert_eq!(scene.response(client).blocks.map(|blocks| blocks.len()), Some(6));
}

#[test]
fn answers_that_come_from_other_threads_find_their_connections() {
    let mut scene = Scene::new();
    let clients: Vec<_> = (0..20).map(|_| scene.connect()).collect();
    for (index, client) in clients.iter().enumerate() {
        scene.send(*client, slow(index as u64).bytes());
    }
    let threads: Vec<_> = (0..clients.len())
        .map(|index| {
            let mut call = scene.take_call();
            std::thread::spawn(move || {
                call.progress(1.0);
                call.finish(&index.to_string());
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the thread does not panic");
    }
    scene.settle();
    for (index, client) in clients.iter().enumerate() {
        let response = scene.response(*client);
        assert_eq!(response.message()["id"], index);
        assert_eq!(response.text(), index.to_string());
    }
}

#[test]
fn b075_streamed_calls_leave_neither_connections_nor_streams_behind() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.hang_up(client);
    for id in 0..500 {
        let (classic, modern) = (scene.connect(), scene.connect());
        scene.send(classic, session.call(id, "slow_stream", json!({})).bytes());
        scene.send(modern, slow(id).bytes());
        for _ in 0..2 {
            let mut call = scene.take_call();
            let _ = call.responder.log(LogLevel::Error, None, &"begun");
            call.finish("done");
        }
        scene.settle();
        for client in [classic, modern] {
            assert_eq!(scene.response(client).message()["id"], id, "it ends with the answer");
            scene.hang_up(client);
        }
        assert_eq!((scene.engine.connections(), scene.engine.exchanges()), (0, 0));
    }
    assert_eq!(scene.engine.retained_streams(), 500, "for as long as anybody may ask for them");
    scene.advance(seconds(60));
    assert_eq!(scene.engine.retained_bytes(), 0);
}

#[test]
fn b099_callers_with_the_same_id_each_get_their_own_answer() {
    let classic = |scene: &mut Scene| -> Vec<Request> {
        let client = scene.connect();
        let sessions = [0; 3].map(|_| scene.initialize(client, "2025-11-25"));
        sessions.iter().map(|session| session.call(1, "slow", json!({}))).collect()
    };
    let bare =
        || Request::post(crate::support::message(1, "tools/call", json!({ "name": "slow" })));
    let mut stateless = Scene::tuned(|server| server.stateless());
    let mut scene = Scene::new();
    let in_sessions = classic(&mut scene);
    for (scene, requests) in [
        (&mut scene, in_sessions),
        (&mut Scene::new(), vec![slow(1), slow(1), slow(1)]),
        (&mut stateless, vec![bare(), bare(), bare()]),
    ] {
        let clients: Vec<_> = requests.iter().map(|_| scene.connect()).collect();
        for (client, request) in clients.iter().zip(&requests) {
            scene.put(*client, &request.bytes());
        }
        scene.settle();
        let calls: Vec<_> = requests.iter().map(|_| scene.take_call()).collect();
        scene.cut(clients[1]);
        for (number, call) in calls.into_iter().enumerate().rev() {
            call.finish(&number.to_string());
        }
        scene.settle();
        assert_eq!(scene.response(clients[0]).text(), "0");
        assert_eq!(scene.response(clients[2]).text(), "2");
        assert_eq!(scene.received(clients[1]), b"");
    }
}

#[test]
fn inv40_the_gate_closes_again_behind_every_stream() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, [slow(1).bytes(), slow(2).bytes(), slow(3).bytes()].concat());
    for id in 1..=3 {
        assert_eq!(scene.held.len(), 1, "one at a time");
        let mut call = scene.take_call();
        call.progress(1.0);
        scene.settle();
        assert_response!(scene.stream(client), 200);
        assert_eq!(scene.blocks(client).len(), 1);
        scene.send(client, list(10 + id).bytes());
        assert_eq!(scene.received(client), b"");
        call.finish("done");
        scene.settle();
        assert_eq!(scene.blocks(client)[0].data()["id"], id);
        scene.end_of_stream(client);
    }
    for id in 11..=13 {
        assert_eq!(scene.response(client).message()["id"], id);
    }
}

#[test]
fn inv49_fields_that_were_settled_with_the_request_are_on_every_kind_of_answer() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let origin = |request: Request| request.field("Origin", "http://localhost:6274");
    let allowed = |head: &crate::support::Response| {
        assert_eq!(
            head.field("access-control-allow-origin"),
            Some("http://localhost:6274"),
            "{head:?}"
        );
    };
    scene.send(client, origin(session.call(1, "slow", json!({}))).bytes());
    scene.take_call().finish("later");
    scene.settle();
    allowed(&scene.response(client));

    scene.send(client, origin(session.call(2, "slow_stream", json!({}))).bytes());
    allowed(&scene.stream(client));
    let place = scene.blocks(client)[0].id().to_owned();
    scene.cut(client);
    let again = scene.connect();
    scene.send(again, origin(session.resume(&place)).bytes());
    allowed(&scene.stream(again));
    let call = scene.take_call();
    scene.cut(again);
    call.finish("done");
    scene.settle();
    allowed(&scene.ask_apart(&origin(session.resume(&place))));

    let listening = scene.connect();
    scene.send(listening, origin(session.listen()).bytes());
    allowed(&scene.stream(listening));
    scene.take_received(listening);
}

#[test]
fn inv54_whatever_is_said_to_a_caller_who_has_left_breaks_nothing() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    let requests = [session.call(1, "slow", json!({})), session.call(2, "slow_stream", json!({}))];
    for request in requests.into_iter().chain([slow(3)]) {
        let client = scene.connect();
        scene.send(client, request.bytes());
        let mut call = scene.take_call();
        let key = scene.key(client);
        // The connection is gone, and the loop has not been told of it by a turn.
        scene.engine.close(key, waterwheel::CloseReason::TransportFailed);
        let _ = call.responder.log(LogLevel::Error, None, &"to nobody");
        call.progress(1.0);
        call.responder.release_connection(seconds(1));
        call.finish("done");
        scene.settle();
        scene.take_received(client);
        assert_eq!(scene.engine.exchanges(), 0);
    }
}

#[test]
fn inv64_a_stream_of_a_session_has_no_id_by_which_it_could_be_cancelled() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let session = scene.initialize(client, "2025-11-25");
    scene.send(client, session.listen().bytes());
    assert_response!(scene.stream(client), 200);
    let place = scene.blocks(client)[0].id().to_owned();
    for id in [json!(0), json!(1), json!(null), json!(""), json!(place)] {
        assert_response!(scene.ask_apart(&session.cancel(id)), 202);
    }
    assert_eq!(scene.engine.exchanges(), 1);
    assert_eq!(scene.received(client), b"");
}
