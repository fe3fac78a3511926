//! Every limit at its value and one past it, and what is left when many are tried at once.

use std::time::Duration;

use serde_json::json;
use waterwheel::http::Status;
use waterwheel::{
    CloseReason, Flowing, HttpLimits, Limits, LogLevel, ServerHandle, Timeouts, TurnLimits,
};

use crate::support::{Request, Response, Scene, assert_response, seconds};

fn list() -> Request {
    Request::modern(1, "tools/list", json!({}))
}

fn with_http(http: HttpLimits) -> Scene {
    Scene::tuned(|server| server.limits(Limits { http, ..Limits::default() }))
}

/// A call whose body has exactly this many bytes.
fn call_of(body_bytes: usize) -> Request {
    let empty = Request::modern_call(1, "echo", json!({ "x": "" }));
    let overhead = empty.bytes().len() - empty.head().len();
    Request::modern_call(1, "echo", json!({ "x": "y".repeat(body_bytes - overhead) }))
}

/// What a fresh connection is told about these bytes, and whether it is over then.
#[track_caller]
fn told(scene: &mut Scene, bytes: &[u8]) -> Response {
    let client = scene.connect();
    scene.send(client, bytes);
    let response = scene.response(client);
    assert_eq!(response.closes(), scene.is_half_closed(client));
    response
}

#[test]
fn b151_the_body_limit_holds_to_the_byte_in_both_framings() {
    let mut scene = with_http(HttpLimits { body_bytes_max: 1000, ..HttpLimits::default() });
    for (bytes, status) in [(999, 200), (1000, 200), (1001, 413)] {
        for request in [call_of(bytes), call_of(bytes).chunked(100), call_of(bytes).chunked(7)] {
            let response = told(&mut scene, &request.bytes());
            assert_response!(response, status);
            if status == 413 {
                assert_response!(response, 413, error = -32600, id = none);
                assert!(response.closes());
            }
        }
    }
}

#[test]
fn b151_who_is_refused_half_way_can_read_why() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, list().set("Content-Length", "100000000").head());
    assert_response!(scene.response(client), 413);
    assert!(scene.is_half_closed(client) && !scene.is_closed(client));
    for _ in 0..100 {
        scene.send(client, vec![b'x'; 100_000]);
        assert_eq!(scene.buffered_input(client), 0, "it is read and thrown away");
    }
    assert_eq!(scene.received(client), b"");
    scene.advance(seconds(2));
    assert!(scene.is_closed(client), "for a moment only");
}

#[test]
fn what_comes_behind_a_last_answer_is_not_kept_until_the_answer_is_read() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.read_at_most(client, 0);
    scene.send(client, list().field("Connection", "close").bytes());
    for _ in 0..100 {
        scene.send(client, vec![b'x'; 100_000]);
    }
    let held = scene.buffered_input(client);
    assert!(held <= Limits::default().gated_bytes_max, "{held} bytes are kept for nothing");
    scene.read_at_most(client, usize::MAX);
    scene.settle();
    assert_response!(scene.response(client), 200);
}

#[test]
fn b152_floods_of_every_kind_get_their_status() {
    let mut scene = Scene::new();
    let depth = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{depth}}}}}"#);
    let mut many_fields = list();
    for index in 0..10_000 {
        many_fields = many_fields.field(&format!("X-{index}"), "1");
    }
    let endless = [list().set("Transfer-Encoding", "chunked").head().into_bytes()]
        .into_iter()
        .chain((0..20).map(|_| [b"100000\r\n", vec![b'x'; 0x10_0000].as_slice(), b"\r\n"].concat()))
        .collect::<Vec<_>>()
        .concat();
    let ten_gigabytes = list().set("Content-Length", "10000000000").bytes();
    let beyond_numbers = list().set("Content-Length", &"9".repeat(30)).bytes();
    let megabyte = "x".repeat(1_000_000);
    for (status, bytes) in [
        (413, ten_gigabytes),
        (413, beyond_numbers),
        (413, endless),
        (400, Request::post(deep).mirror("x").bytes()),
        (431, list().field("X", &megabyte).bytes()),
        (431, many_fields.bytes()),
        (414, list().target(&format!("/{megabyte}")).bytes()),
    ] {
        let response = told(&mut scene, &bytes);
        assert_response!(response, status);
        if status == 400 {
            assert_response!(response, 400, error = -32700, id = none);
        }
    }
    assert_response!(told(&mut scene, &list().bytes()), 200);
}

#[test]
fn the_limits_on_a_head_hold_to_the_byte() {
    let mut scene = with_http(HttpLimits {
        head_bytes_max: 1000,
        target_bytes_max: 100,
        fields_max: 10,
        ..HttpLimits::default()
    });
    let get = Request::new("GET", "/health");
    for (length, status) in [(1000, 200), (1001, 431)] {
        let overhead = get.clone().field("X", "").head().len();
        let request = get.clone().field("X", &"x".repeat(length - overhead));
        assert_eq!(request.bytes().len(), length);
        assert_response!(told(&mut scene, &request.bytes()), status);
    }
    for (length, status) in [(100, 200), (101, 414)] {
        let target = format!("/health?{}", "q".repeat(length - 8));
        assert_response!(told(&mut scene, &get.clone().target(&target).bytes()), status);
    }
    for (count, status) in [(10, 200), (11, 431)] {
        let mut request = get.clone();
        for index in 1..count {
            request = request.field(&format!("X-{index}"), "1");
        }
        assert_response!(told(&mut scene, &request.bytes()), status);
    }
}

#[test]
fn d17_the_depth_of_a_body_is_limited() {
    let limits = Limits { json_depth_max: 10, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    // The message, its params and the arguments are three levels.
    for (levels, status) in [(7, 200), (8, 400)] {
        let mut arguments = json!(1);
        for _ in 0..levels {
            arguments = json!([arguments]);
        }
        let request = Request::modern_call(1, "echo", json!({ "x": arguments }));
        let response = told(&mut scene, &request.bytes());
        assert_response!(response, status);
        if status == 400 {
            assert_response!(response, 400, error = -32700, id = none);
        }
    }
}

#[test]
fn one_connection_too_many_is_not_taken() {
    let limits = Limits { conns_max: 2, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let first = scene.connect();
    let second = scene.connect();
    assert_eq!(scene.try_connect(), None);
    assert_response!(scene.ask(second, &list()), 200);
    scene.hang_up(first);
    assert!(scene.try_connect().is_some());
    assert_eq!(scene.try_connect(), None);
}

#[test]
fn one_call_too_many_is_answered_503_and_the_others_are_not_harmed() {
    let limits = Limits { exchanges_max: 2, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let clients = [scene.connect(), scene.connect(), scene.connect()];
    let call = |id: u64| Request::modern_call(id, "slow", json!({}));
    for (index, client) in clients.into_iter().enumerate() {
        scene.send(client, call(index as u64).bytes());
    }
    let refusal = scene.response(clients[2]);
    assert_response!(refusal, 503, error = -32603, id = 2);
    assert!(!refusal.closes());
    assert_response!(scene.ask(clients[2], &list()), 200);
    scene.take_call().finish("a");
    scene.settle();
    assert_eq!(scene.response(clients[0]).text(), "a");
    scene.send(clients[2], call(3).bytes());
    for client in [clients[1], clients[2]] {
        scene.take_call().finish("b");
        scene.settle();
        assert_eq!(scene.response(client).text(), "b");
    }
}

#[test]
fn d19_b089_a_stream_that_is_not_read_is_cut_at_its_limit() {
    let limits = Limits { output_bytes_max: 10_000, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let (slow, healthy) = (scene.connect(), scene.connect());
    let meta = json!({ "io.modelcontextprotocol/logLevel": "info" });
    let request = Request::modern(1, "tools/call", json!({ "name": "slow", "_meta": meta }));
    scene.read_at_most(slow, 0);
    scene.send(slow, request.bytes());
    let mut call = scene.take_call();
    let mut said = 0;
    while !call.responder.is_cancelled() {
        let _ = call.responder.log(LogLevel::Info, None, &"x".repeat(1000));
        scene.settle();
        said += 1;
        assert_response!(scene.ask(healthy, &list()), 200);
        assert!(said < 20, "it must be cut");
    }
    assert!((9..=12).contains(&said), "{said}");
    assert!(scene.is_closed(slow));
    assert_eq!(scene.received(slow), b"");
}

#[test]
fn answers_nobody_reads_stop_the_requests_and_reading_lets_them_go_on() {
    let limits = Limits { output_bytes_high: 10_000, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let client = scene.connect();
    scene.read_at_most(client, 0);
    let requests: Vec<u8> = (0..100)
        .flat_map(|id| Request::modern_call(id, "echo", json!({ "x": "y".repeat(1000) })).bytes())
        .collect();
    scene.send(client, requests);
    assert!((5..=11).contains(&scene.held.runs()), "{}", scene.held.runs());
    let key = scene.key(client);
    assert!(!scene.engine.wants_input(key));
    scene.read_at_most(client, 700);
    scene.settle();
    for id in 0..100 {
        assert_eq!(scene.response(client).message()["id"], id);
    }
}

#[test]
fn many_pipelined_requests_are_all_answered_over_several_turns() {
    let turn = TurnLimits { requests_max: 3, ..TurnLimits::default() };
    let mut scene = Scene::tuned(|server| server.limits(Limits { turn, ..Limits::default() }));
    let client = scene.connect();
    let request = |id: u64| Request::modern_call(id, "echo", json!({})).bytes();
    let all: Vec<u8> = (0..50).flat_map(request).collect();
    let key = scene.key(client);
    let now = scene.now();
    scene.engine.reading(key).expect("it is open").1.push(&all);
    scene.engine.receive(key, now);
    assert_eq!(scene.held.runs(), 3, "a turn's worth");
    assert!(scene.engine.has_work());
    scene.engine.run(now);
    assert_eq!(scene.held.runs(), 6);
    scene.settle();
    for id in 0..50 {
        assert_eq!(scene.response(client).message()["id"], id);
    }
}

#[test]
fn mail_is_taken_in_portions_and_none_of_it_is_lost() {
    let turn = TurnLimits { mail_max: 1, ..TurnLimits::default() };
    let mut scene = Scene::tuned(|server| server.limits(Limits { turn, ..Limits::default() }));
    let client = scene.connect();
    let params = json!({ "name": "slow", "_meta": { "progressToken": 1 } });
    scene.send(client, Request::modern(1, "tools/call", params).bytes());
    let mut call = scene.take_call();
    for progress in 1..=5 {
        call.progress(f64::from(progress));
    }
    call.finish("done");
    let now = scene.now();
    scene.engine.run(now);
    assert!(scene.engine.has_work(), "one message a turn");
    scene.settle();
    assert_eq!(scene.response(client).blocks.map(|blocks| blocks.len()), Some(6));
}

#[test]
fn progress_beyond_the_mailbox_is_dropped_and_the_answer_is_not() {
    let limits = Limits { mail_max: 3, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let client = scene.connect();
    let params = json!({ "name": "slow", "_meta": { "progressToken": 1 } });
    scene.send(client, Request::modern(1, "tools/call", params).bytes());
    let mut call = scene.take_call();
    for progress in 1..=5 {
        let progress = waterwheel::Progress::new(f64::from(progress));
        let flowing = call.responder.progress(&progress);
        assert_eq!(flowing == Flowing::Slow, progress.progress > 3.0);
    }
    call.finish("done");
    scene.settle();
    let response = scene.response(client);
    assert_eq!(response.text(), "done");
    assert_eq!(response.blocks.map(|blocks| blocks.len()), Some(4));
}

#[test]
fn memory_of_all_connections_together_is_limited() {
    let limits = Limits { buffered_bytes_max: 1_500_000, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let large = call_of(1_000_000);
    let (first, second) = (scene.connect(), scene.connect());
    scene.send(first, &large.bytes()[..900_000]);
    scene.send(second, &large.bytes()[..900_000]);
    let refusal = scene.response(second);
    assert_response!(refusal, 503, error = -32600, id = none);
    assert_eq!(refusal.field("retry-after"), Some("1"));
    assert!(refusal.closes());
    scene.send(first, &large.bytes()[900_000..]);
    assert_response!(scene.response(first), 200);
}

#[test]
fn a_refused_body_without_end_is_cut_without_a_second_answer() {
    let http = HttpLimits { drain_bytes_max: 10_000, ..HttpLimits::default() };
    let mut scene = with_http(http);
    let announced = Request::post(vec![b'x'; 10_001]).target("/nowhere");
    let response = told(&mut scene, &announced.bytes());
    assert_response!(response, 404);
    assert!(response.closes(), "it is known to be too much");

    let client = scene.connect();
    let endless = Request::post(vec![b'x'; 50_000]).target("/nowhere").chunked(1000);
    scene.send(client, endless.bytes());
    assert_response!(scene.response(client), 404);
    assert!(!scene.is_open(client));
    let more = String::from_utf8_lossy(&scene.take_received(client)).into_owned();
    assert_eq!(more, "", "one request has one answer");
}

#[test]
fn a_refused_body_that_breaks_its_framing_gets_no_second_answer() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let refused = Request::post("x").target("/nowhere").field("Transfer-Encoding", "chunked");
    scene.send(client, refused.head() + "5\r\nabc");
    assert_response!(scene.response(client), 404);
    scene.send(client, "defgh\r\n");
    assert!(!scene.is_open(client));
    let more = String::from_utf8_lossy(&scene.take_received(client)).into_owned();
    assert_eq!(more, "", "one request has one answer");
}

#[test]
fn a_closed_connection_gives_nothing_and_takes_nothing() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.read_at_most(client, 0);
    scene.send(client, list().bytes());
    let key = scene.key(client);
    scene.engine.close(key, CloseReason::TransportFailed);
    assert!(scene.engine.writing(key).is_none() && scene.engine.reading(key).is_none());
    scene.engine.close(key, CloseReason::PeerClosed);
    scene.settle();
    assert!(scene.is_closed(client));
    assert_eq!(scene.engine.connections(), 0);
    assert_eq!(Status::from_code(99), None);
}

/// Notes that the server tells its listeners in this test, of a kilobyte each.
const NOTES: usize = 100_000;

#[test]
fn b089_d19_a_hundred_thousand_notes_for_one_who_does_not_read_cost_nobody_anything() {
    let timeouts = Timeouts { announce: Duration::ZERO, ..Timeouts::default() };
    let mut scene = Scene::tuned(|server| server.timeouts(timeouts));
    let healthy = scene.connect();
    let session = scene.initialize(healthy, "2025-11-25");
    let uri = format!("a:{}", "x".repeat(1024));
    let follow = session.request(1, "resources/subscribe", json!({ "uri": uri }));
    assert_response!(scene.ask(healthy, &follow), 200);
    let wanted = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    let listen = Request::modern("L", "subscriptions/listen", wanted);
    let slow = [session.listen(), listen].map(|request| {
        let client = scene.connect();
        scene.read_only(client, 4096);
        scene.send(client, request.bytes());
        client
    });
    let handle = ServerHandle::of(&scene.engine);
    for portion in 0..NOTES / 500 {
        for _ in 0..500 {
            handle.resource_updated(&uri);
        }
        scene.settle();
        assert_response!(scene.ask(healthy, &list()), 200);
        assert!(scene.engine.retained_events() <= 256 && scene.engine.retained_bytes() < 1 << 20);
        let cut = slow.iter().all(|client| scene.is_closed(*client));
        assert_eq!(cut, portion > 0, "a megabyte may wait for each");
    }
    for client in slow {
        assert_eq!(scene.take_received(client).len(), 4096);
    }
    let again = scene.connect();
    scene.send(again, session.listen().bytes());
    assert_response!(scene.stream(again), 200);
    let blocks = scene.blocks(again);
    assert_eq!(blocks.iter().filter(|block| block.is_event()).count(), 1, "it says the same");
}
