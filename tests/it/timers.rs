//! What time does to connections and streams.

use std::time::Duration;

use serde_json::json;
use waterwheel::{LogLevel, Timeouts};

use crate::support::{Block, Client, Request, Scene, assert_response, seconds};

fn list() -> Request {
    Request::modern(1, "tools/list", json!({}))
}

/// A stream that is open and has said nothing but one line of log.
fn open_stream(scene: &mut Scene) -> (Client, crate::support::HeldCall) {
    let client = scene.connect();
    let meta = json!({ "io.modelcontextprotocol/logLevel": "info", "progressToken": 1 });
    let request = Request::modern(1, "tools/call", json!({ "name": "slow", "_meta": meta }));
    scene.send(client, request.bytes());
    let mut call = scene.take_call();
    let _ = call.responder.log(LogLevel::Info, None, &"begun");
    scene.settle();
    assert_response!(scene.stream(client), 200);
    assert_eq!(scene.blocks(client).len(), 1);
    (client, call)
}

#[test]
fn b152_a_head_that_trickles_in_is_given_up_after_its_time() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let bytes = list().bytes();
    scene.send(client, &bytes[..1]);
    for byte in 1..3 {
        scene.advance(seconds(10));
        scene.send(client, &bytes[byte..=byte]);
        assert!(scene.is_open(client));
    }
    scene.advance(seconds(10));
    let response = scene.response(client);
    assert_response!(response, 408, error = -32600, id = none);
    assert!(response.closes() && scene.is_half_closed(client));
    scene.advance(seconds(2));
    assert!(scene.is_closed(client));
}

#[test]
fn a_body_that_trickles_in_is_given_up_after_its_time() {
    let mut scene = Scene::new();
    for request in [list(), list().chunked(10)] {
        let client = scene.connect();
        let (head, bytes) = (request.head(), request.bytes());
        scene.send(client, &bytes[..head.len() + 5]);
        for _ in 0..59 {
            scene.advance(seconds(1));
            scene.send(client, b"");
        }
        assert!(scene.is_open(client));
        scene.advance(seconds(1));
        let response = scene.response(client);
        assert_response!(response, 408);
        assert!(response.closes());
    }
}

#[test]
fn the_rest_of_a_refused_body_that_never_comes_gets_no_second_answer() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, Request::post("12345").target("/nowhere").head());
    assert_response!(scene.response(client), 404);
    scene.advance(seconds(3600));
    assert!(scene.is_closed(client), "nobody waits for ever");
    let more = String::from_utf8_lossy(&scene.take_received(client)).into_owned();
    assert_eq!(more, "", "one request has one answer");
}

#[test]
fn an_idle_connection_is_closed_without_a_word_and_a_used_one_is_not() {
    let mut scene = Scene::new();
    let (silent, used) = (scene.connect(), scene.connect());
    for _ in 0..3 {
        scene.advance(seconds(60));
        assert_response!(scene.ask(used, &list()), 200);
    }
    assert!(scene.is_closed(silent) && scene.is_open(used));
    assert_eq!(scene.received(silent), b"");
    scene.advance(seconds(119));
    assert!(scene.is_open(used));
    scene.advance(seconds(1));
    assert!(scene.is_closed(used));
    assert_eq!(scene.engine.connections(), 0);
}

#[test]
fn a_call_in_work_is_not_hurried_and_its_connection_is_idle_only_afterwards() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, Request::modern_call(1, "slow", json!({})).bytes());
    scene.advance(seconds(3600));
    assert!(scene.is_open(client));
    scene.take_call().finish("at last");
    scene.settle();
    assert_eq!(scene.response(client).text(), "at last");
    scene.advance(seconds(119));
    assert_response!(scene.ask(client, &list()), 200);
}

#[test]
fn an_answer_that_is_not_read_is_given_up_and_every_byte_taken_buys_time() {
    let mut scene = Scene::new();
    let (stuck, slow) = (scene.connect(), scene.connect());
    scene.read_at_most(stuck, 0);
    scene.read_at_most(slow, 0);
    scene.send(stuck, list().bytes());
    scene.send(slow, list().bytes());
    for _ in 0..5 {
        scene.advance(seconds(50));
        scene.read_at_most(slow, 1);
        let key = scene.key(slow);
        let now = scene.now();
        let (_, output) = scene.engine.writing(key).expect("it is open");
        output.consume(1);
        assert_eq!(scene.engine.wrote(key, now), waterwheel::AfterFlush::Keep);
        scene.read_at_most(slow, 0);
    }
    assert!(scene.is_closed(stuck) && scene.is_open(slow));
    assert_eq!(scene.received(stuck), b"");
    scene.advance(seconds(60));
    assert!(scene.is_closed(slow));
}

#[test]
fn b077_inv95_a_silent_stream_says_a_comment_now_and_then() {
    let mut scene = Scene::new();
    let (client, mut call) = open_stream(&mut scene);
    for _ in 0..10 {
        scene.advance(seconds(30));
        let blocks = scene.blocks(client);
        assert!(blocks.len() == 1 && blocks[0].is_comment(), "{blocks:?}");
    }
    call.progress(1.0);
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(client).len(), 2);
    scene.end_of_stream(client);
    scene.advance(seconds(100));
    assert_eq!(scene.received(client), b"", "not a word behind the end");
    assert!(scene.is_open(client));
}

#[test]
fn b077_comments_can_be_switched_off() {
    let timeouts = Timeouts { keep_alive: Duration::ZERO, ..Timeouts::default() };
    let mut scene = Scene::tuned(|server| server.timeouts(timeouts));
    let (client, call) = open_stream(&mut scene);
    scene.advance(seconds(3600));
    assert_eq!(scene.received(client), b"");
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(client).len(), 1);
    scene.end_of_stream(client);
}

#[test]
fn a_slow_answer_becomes_a_stream_so_that_nothing_cuts_it() {
    let mut scene = Scene::new();
    let client = scene.connect();
    scene.send(client, Request::modern_call(1, "slow", json!({})).bytes());
    scene.advance(seconds(29));
    assert_eq!(scene.received(client), b"");
    scene.advance(seconds(31));
    assert_response!(scene.stream(client), 200);
    let blocks = scene.blocks(client);
    assert!(blocks.len() == 2 && blocks.iter().all(Block::is_comment), "{blocks:?}");
    scene.take_call().finish("done");
    scene.settle();
    assert_eq!(scene.blocks(client)[0].data()["id"], 1);
    scene.end_of_stream(client);
}

#[test]
fn a_caller_that_reads_no_streams_gets_no_comments() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let call = Request::modern_call(1, "slow", json!({})).set("Accept", "application/json");
    scene.send(client, call.bytes());
    scene.advance(seconds(300));
    assert_eq!(scene.received(client), b"");
    scene.take_call().finish("done");
    scene.settle();
    assert!(scene.response(client).blocks.is_none());
}

#[test]
fn a_stream_whose_reader_has_stalled_is_cut_although_comments_go_out() {
    let mut scene = Scene::new();
    let (client, call) = open_stream(&mut scene);
    scene.read_at_most(client, 0);
    scene.advance(seconds(600));
    assert!(scene.is_closed(client), "it has taken no byte for ten minutes");
    assert!(call.responder.is_cancelled());
}

#[test]
fn a_stream_whose_reader_has_stalled_is_cut_although_the_handler_speaks() {
    let mut scene = Scene::new();
    let (client, mut call) = open_stream(&mut scene);
    scene.read_at_most(client, 0);
    for progress in 1..=70 {
        call.progress(f64::from(progress));
        scene.advance(seconds(1));
    }
    assert!(scene.is_closed(client), "it has taken no byte for seventy seconds");
    assert!(call.responder.is_cancelled());
}

#[test]
fn each_part_of_a_request_has_a_clock_of_its_own() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let bytes = list().bytes();
    let head = list().head().len();
    scene.advance(seconds(100));
    scene.send(client, &bytes[..10]);
    scene.advance(seconds(29));
    scene.send(client, &bytes[10..head + 1]);
    scene.advance(seconds(59));
    scene.send(client, &bytes[head + 1..]);
    assert_response!(scene.response(client), 200);
    scene.advance(seconds(119));
    assert_response!(scene.ask(client, &list()), 200);
}

#[test]
fn a_lingering_connection_ends_when_its_peer_does() {
    let mut scene = Scene::new();
    let client = scene.connect();
    assert!(scene.ask(client, &list().field("Connection", "close")).closes());
    assert!(!scene.is_closed(client));
    scene.hang_up(client);
    assert!(scene.is_closed(client));
}
