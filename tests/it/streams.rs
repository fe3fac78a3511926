//! Streams of classic sessions: what nobody asked for, what was missed, what comes after a loss.

use serde_json::json;
use waterwheel::{LogLevel, ServerHandle};

use crate::support::{Block, Client, Request, Scene, Session, assert_response, seconds};

/// Opens the stream of a session and takes what it begins with.
#[track_caller]
pub(crate) fn listen(scene: &mut Scene, request: &Request) -> Client {
    let client = scene.connect();
    scene.send(client, request.bytes());
    assert_response!(scene.stream(client), 200);
    client
}

#[track_caller]
pub(crate) fn opened(scene: &mut Scene, session: &Session) -> (Client, String) {
    let client = listen(scene, &session.listen());
    let blocks = scene.blocks(client);
    assert!(matches!(blocks[..], [Block::Primer { retry: 1000, .. }]), "{blocks:?}");
    (client, blocks[0].id().to_owned())
}

pub(crate) fn announce(scene: &mut Scene, uri: &str) {
    ServerHandle::of(&scene.engine).resource_updated(uri);
    scene.settle();
    scene.advance(seconds(1));
}

pub(crate) fn follow(scene: &mut Scene, session: &Session, uris: &[&str]) {
    for uri in uris {
        let request = session.request(1, "resources/subscribe", json!({ "uri": uri }));
        assert_response!(scene.ask_apart(&request), 200);
    }
}

/// What an event says has changed.
#[track_caller]
pub(crate) fn uris(blocks: &[Block]) -> Vec<String> {
    let uri = |block: &Block| block.data()["params"]["uri"].as_str().unwrap().to_owned();
    blocks.iter().filter(|block| block.is_event()).map(uri).collect()
}

pub(crate) fn session(scene: &mut Scene, version: &'static str) -> Session {
    let client = scene.connect();
    let session = scene.initialize(client, version);
    scene.hang_up(client);
    session
}

#[test]
fn b076_d10_a_stream_begins_at_once_with_a_place_to_resume_from() {
    let mut scene = Scene::new();
    let new = session(&mut scene, "2025-11-25");
    let (_, place) = opened(&mut scene, &new);
    assert!(place.ends_with(":0"), "{place}");
    // Clients of earlier revisions would try to read the empty data as a message.
    for version in ["2025-06-18", "2025-03-26"] {
        let old = session(&mut scene, version);
        let client = listen(&mut scene, &old.listen());
        assert_eq!(scene.blocks(client), [Block::Comment("open".to_owned())]);
    }
}

#[test]
fn b069_inv85_each_message_is_on_exactly_one_stream_the_newest() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1"]);
    let (first, _) = opened(&mut scene, &session);
    let (second, _) = opened(&mut scene, &session);
    announce(&mut scene, "a:1");
    assert_eq!(uris(&scene.blocks(second)), ["a:1"]);
    scene.hang_up(second);
    announce(&mut scene, "a:1");
    assert_eq!(uris(&scene.blocks(first)), ["a:1"]);
    assert_eq!(scene.received(first), b"");
}

#[test]
fn inv86_what_is_said_without_a_stream_waits_and_is_told_once_and_in_order() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1", "a:2"]);
    for uri in ["a:1", "a:2", "a:1", "a:3"] {
        announce(&mut scene, uri);
    }
    let client = listen(&mut scene, &session.listen());
    let blocks = scene.blocks(client);
    assert_eq!(uris(&blocks), ["a:1", "a:2"], "the same news is no news");
    let next = listen(&mut scene, &session.listen());
    assert_eq!(uris(&scene.blocks(next)), [""; 0]);
}

#[test]
fn inv87_inv88_inv89_a_stream_that_was_lost_goes_on_where_its_reader_was() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let stranger = self::session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1", "a:2", "a:3"]);
    let (client, place) = opened(&mut scene, &session);
    announce(&mut scene, "a:1");
    announce(&mut scene, "a:2");
    let blocks = scene.blocks(client);
    let seen = blocks[0].id().to_owned();
    scene.cut(client);
    announce(&mut scene, "a:3");

    let foreign = listen(&mut scene, &stranger.resume(&seen));
    assert!(matches!(scene.blocks(foreign)[..], [Block::Primer { .. }]), "nothing is replayed");
    scene.hang_up(foreign);
    let again = listen(&mut scene, &session.resume(&seen));
    let replayed = scene.blocks(again);
    assert_eq!(uris(&replayed), ["a:2", "a:3"], "what was missed, and then what waited");
    assert_eq!(replayed[0], blocks[1], "under its own id");
    scene.cut(again);
    let from_start = listen(&mut scene, &session.resume(&place));
    assert_eq!(uris(&scene.blocks(from_start)), ["a:1", "a:2", "a:3"]);
    for unknown in ["", "x", "ffff:1", "1:999", &format!("{place}0")] {
        let fresh = listen(&mut scene, &session.resume(unknown));
        let blocks = scene.blocks(fresh);
        assert!(matches!(blocks[..], [Block::Primer { .. }]), "{unknown:?}: {blocks:?}");
        scene.hang_up(fresh);
    }
    scene.cut(from_start);
    scene.advance(seconds(61));
    let late = listen(&mut scene, &session.resume(&seen));
    assert!(matches!(scene.blocks(late)[..], [Block::Primer { .. }]), "it is given up by now");
}

#[test]
fn b086_inv90_an_answer_whose_connection_was_lost_is_collected_with_all_before_it() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let client = listen_to_call(&mut scene, &session);
    let mut call = scene.take_call();
    let _ = call.responder.log(LogLevel::Error, None, &"one");
    scene.settle();
    let blocks = scene.blocks(client);
    let place = blocks[0].id().to_owned();
    scene.cut(client);
    let _ = call.responder.log(LogLevel::Error, None, &"two");
    call.finish("three");
    scene.settle();
    assert_eq!(scene.engine.exchanges(), 0);
    for (after, expected) in [(place.as_str(), 3), (blocks[1].id(), 2)] {
        let client = scene.connect();
        scene.send(client, session.resume(after).bytes());
        let response = scene.response(client);
        assert_response!(response, 200);
        assert_eq!(response.blocks.as_ref().map(Vec::len), Some(expected), "{response:?}");
        assert_eq!(response.text(), "three");
        scene.hang_up(client);
    }
    scene.advance(seconds(61));
    assert_eq!(scene.engine.retained_events(), 0);
}

/// A call whose answer is a stream from the start.
#[track_caller]
fn listen_to_call(scene: &mut Scene, session: &Session) -> Client {
    let client = scene.connect();
    scene.send(client, session.call(7, "slow_stream", json!({})).bytes());
    assert_response!(scene.stream(client), 200);
    client
}

#[test]
fn a_running_call_is_followed_live_by_the_client_that_comes_back() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let client = listen_to_call(&mut scene, &session);
    let place = scene.blocks(client)[0].id().to_owned();
    let mut call = scene.take_call();
    scene.cut(client);
    let _ = call.responder.log(LogLevel::Error, None, &"missed");
    scene.settle();
    let again = listen(&mut scene, &session.resume(&place));
    assert_eq!(scene.blocks(again)[0].data()["params"]["data"], "missed");
    let _ = call.responder.log(LogLevel::Error, None, &"live");
    scene.settle();
    assert_eq!(scene.blocks(again)[0].data()["params"]["data"], "live");
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(again)[0].data()["id"], 7);
    scene.end_of_stream(again);
    assert_response!(scene.ask(again, &session.request(8, "ping", json!({}))), 200);
}

#[test]
fn b088_a_resumed_stream_leaves_the_connection_that_only_looks_open() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let stalled = listen_to_call(&mut scene, &session);
    let place = scene.blocks(stalled)[0].id().to_owned();
    let mut call = scene.take_call();
    let again = listen(&mut scene, &session.resume(&place));
    assert!(!scene.is_open(stalled), "the old connection is closed");
    let _ = call.responder.log(LogLevel::Error, None, &"once");
    call.finish("done");
    scene.settle();
    let blocks = scene.blocks(again);
    assert_eq!(blocks.len(), 2, "{blocks:?}");
    scene.end_of_stream(again);
    assert_eq!(scene.received(stalled), b"");
}

#[test]
fn inv96_inv98_one_stream_too_many_and_a_reader_of_no_streams_are_refused() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(opened(&mut scene, &session).0);
    }
    assert_response!(scene.ask_apart(&session.listen()), 429, error = -32600);
    scene.hang_up(streams[1]);
    opened(&mut scene, &session);
    let html = session.listen().set("Accept", "text/html");
    assert_response!(scene.ask_apart(&html), 406, error = -32600);
}

#[test]
fn b068_streams_that_come_and_go_leave_nothing_behind() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1"]);
    for _ in 0..5000 {
        let (client, _) = opened(&mut scene, &session);
        scene.cut(client);
    }
    assert_eq!((scene.engine.retained_streams(), scene.engine.exchanges()), (0, 0));
    announce(&mut scene, "a:1");
    let client = listen(&mut scene, &session.listen());
    assert_eq!(uris(&scene.blocks(client)), ["a:1"]);
}

#[test]
fn a_handler_may_let_its_connection_go_and_the_answer_is_collected() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let client = scene.connect();
    scene.send(client, session.call(7, "slow", json!({})).bytes());
    let call = scene.take_call();
    call.responder.release_connection(seconds(3));
    scene.settle();
    let response = scene.response(client);
    let blocks = response.blocks.unwrap();
    let [Block::Primer { id, retry: 3000 }] = &blocks[..] else { panic!("{blocks:?}") };
    assert_response!(scene.ask(client, &session.request(8, "ping", json!({}))), 200);
    let waiting = listen(&mut scene, &session.resume(id));
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(waiting)[0].data()["id"], 7);
    scene.end_of_stream(waiting);
}

#[test]
fn a_session_that_ends_takes_its_streams_with_it() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let (client, _) = opened(&mut scene, &session);
    scene.advance(seconds(3600));
    assert_eq!(scene.engine.sessions(), 1, "a session with an open stream is not idle");
    assert!(scene.blocks(client).iter().all(Block::is_comment));
    assert_response!(scene.ask_apart(&session.delete()), 204);
    scene.end_of_stream(client);
    assert_eq!(scene.engine.exchanges(), 0);
}

#[test]
fn b088_a_stream_that_was_taken_over_is_the_newest() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1"]);
    let (stalled, place) = opened(&mut scene, &session);
    let (other, _) = opened(&mut scene, &session);
    let again = listen(&mut scene, &session.resume(&place));
    assert!(scene.is_closed(stalled));
    announce(&mut scene, "a:1");
    assert_eq!(uris(&scene.blocks(again)), ["a:1"], "of it alone it is known that it is read");
    assert_eq!(scene.received(other), b"");
}

#[test]
fn inv88_two_places_to_resume_from_are_none() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1"]);
    let (client, place) = opened(&mut scene, &session);
    announce(&mut scene, "a:1");
    assert_eq!(uris(&scene.blocks(client)), ["a:1"]);
    scene.cut(client);
    let doubled = session.resume(&place).field("Last-Event-ID", &place);
    let fresh = listen(&mut scene, &doubled);
    let blocks = scene.blocks(fresh);
    assert!(matches!(&blocks[..], [Block::Primer { id, .. }] if *id != place), "{blocks:?}");
}

/// Lets a client take what it is sent in portions that the network can carry at once.
fn read_in_portions(scene: &mut Scene, client: Client) {
    scene.read_at_most(client, 64 * 1024);
    scene.settle();
}

#[test]
fn d19_a_message_above_the_budget_of_a_reader_reaches_one_that_reads() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let client = listen_to_call(&mut scene, &session);
    let place = scene.blocks(client)[0].id().to_owned();
    read_in_portions(&mut scene, client);
    let mut call = scene.take_call();
    let large = "x".repeat(3 << 20);
    let _ = call.responder.log(LogLevel::Error, None, &large);
    scene.settle();
    assert_eq!(scene.blocks(client)[0].data()["params"]["data"], large);
    scene.cut(client);
    let again = scene.connect();
    read_in_portions(&mut scene, again);
    scene.send(again, session.resume(&place).bytes());
    assert_response!(scene.stream(again), 200);
    assert_eq!(scene.blocks(again)[0].data()["params"]["data"], large, "nor is a replay cut");
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(again)[0].data()["id"], 7);
    scene.end_of_stream(again);
}

#[test]
fn d19_a_reader_that_reads_nothing_is_cut_behind_its_largest_message() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let client = listen_to_call(&mut scene, &session);
    scene.blocks(client);
    scene.read_at_most(client, 0);
    let mut call = scene.take_call();
    let _ = call.responder.log(LogLevel::Error, None, &"x".repeat(3 << 20));
    scene.settle();
    assert!(scene.is_open(client));
    for _ in 0..3 {
        let _ = call.responder.log(LogLevel::Error, None, &"x".repeat(1 << 19));
        scene.settle();
    }
    assert!(scene.is_closed(client));
    assert!(!call.responder.is_cancelled(), "its client may come back");
}
