//! What is kept for clients that come back: how much, for how long, and what when it is too much.

use serde_json::{Value, json};
use waterwheel::{Limits, LogLevel, ReplayLimits};

use crate::streams::{announce, follow, listen, opened, session, uris};
use crate::support::{Block, Client, HeldCall, Request, Scene, Session, assert_response, seconds};

fn scene(replay: ReplayLimits) -> Scene {
    Scene::tuned(|server| server.limits(Limits { replay, ..Limits::default() }))
}

/// A call whose answer is a stream, and whether its events can be asked for again.
#[track_caller]
fn streamed(scene: &mut Scene, session: &Session, id: u64) -> (Client, HeldCall) {
    let client = scene.connect();
    scene.send(client, session.call(id, "slow_stream", json!({})).bytes());
    assert_response!(scene.stream(client), 200);
    (client, scene.take_call())
}

/// Says something of this many bytes more than nothing.
fn say(scene: &mut Scene, call: &mut HeldCall, bytes: usize) {
    let _ = call.responder.log(LogLevel::Error, None, &"x".repeat(bytes));
    scene.settle();
}

/// The last parts of the ids of what a client is sent again.
#[track_caller]
fn resumed(scene: &mut Scene, session: &Session, after: &str) -> Vec<String> {
    let client = listen(scene, &session.resume(after));
    let blocks = scene.blocks(client);
    scene.cut(client);
    scene.take_received(client);
    let events = blocks.iter().filter(|block| block.is_event());
    let number = |block: &Block| block.id().rsplit_once(':').unwrap().1.to_owned();
    events.map(number).collect()
}

#[track_caller]
fn place(scene: &mut Scene, client: Client) -> String {
    let blocks = scene.blocks(client);
    let [Block::Primer { id, .. }] = &blocks[..] else { panic!("{blocks:?}") };
    id.strip_suffix(":0").unwrap().to_owned()
}

#[test]
fn inv58_inv92_of_one_stream_so_many_events_are_kept_and_not_one_more() {
    let mut scene = scene(ReplayLimits { events_max: 3, ..ReplayLimits::default() });
    let session = session(&mut scene, "2025-11-25");
    let (client, mut call) = streamed(&mut scene, &session, 1);
    let name = place(&mut scene, client);
    for _ in 0..3 {
        say(&mut scene, &mut call, 1);
    }
    assert_eq!(scene.blocks(client).len(), 3);
    scene.cut(client);
    assert_eq!(scene.engine.retained_events(), 3);
    assert_eq!(resumed(&mut scene, &session, &format!("{name}:0")), ["1", "2", "3"]);
    say(&mut scene, &mut call, 1);
    assert_eq!(scene.engine.retained_events(), 3);
    assert_eq!(resumed(&mut scene, &session, &format!("{name}:0")), [""; 0], "the first is gone");
    assert_eq!(resumed(&mut scene, &session, &format!("{name}:1")), ["2", "3", "4"]);
    call.finish("done");
    scene.settle();
    assert_eq!(scene.engine.retained_events(), 3);
}

/// What one event costs that says something of this many bytes.
fn cost(bytes: usize) -> usize {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let (client, mut call) = streamed(&mut scene, &session, 1);
    say(&mut scene, &mut call, bytes);
    scene.blocks(client);
    let cost = scene.engine.retained_bytes();
    drop(call);
    scene.settle();
    scene.take_received(client);
    cost
}

#[test]
fn inv92_of_one_stream_so_many_bytes_are_kept_and_not_one_more() {
    let bytes = cost(100);
    for (stream_bytes_max, kept) in [(3 * bytes, 3), (3 * bytes - 1, 2)] {
        let mut scene = scene(ReplayLimits { stream_bytes_max, ..ReplayLimits::default() });
        let session = session(&mut scene, "2025-11-25");
        let (client, mut call) = streamed(&mut scene, &session, 1);
        for _ in 0..5 {
            say(&mut scene, &mut call, 100);
        }
        assert_eq!(scene.engine.retained_events(), kept);
        assert_eq!(scene.engine.retained_bytes(), kept * bytes);
        say(&mut scene, &mut call, 10 * bytes);
        assert_eq!(scene.engine.retained_events(), 1, "the newest is kept whatever it costs");
        scene.take_received(client);
        drop(call);
        scene.settle();
        scene.take_received(client);
    }
}

#[test]
fn inv92_of_all_streams_so_many_bytes_are_kept_and_what_ended_goes_first() {
    let bytes = cost(100);
    let mut scene = scene(ReplayLimits { bytes_max: 4 * bytes, ..ReplayLimits::default() });
    let session = session(&mut scene, "2025-11-25");
    let (client, mut first) = streamed(&mut scene, &session, 1);
    say(&mut scene, &mut first, 100);
    let name = place_of(&mut scene, client);
    first.finish(&"x".repeat(100));
    scene.settle();
    scene.take_received(client);
    let before = scene.engine.retained_events();
    assert_eq!(before, 2);
    let (other, mut second) = streamed(&mut scene, &session, 2);
    let other_name = place(&mut scene, other);
    for _ in 0..4 {
        say(&mut scene, &mut second, 100);
    }
    assert_eq!(scene.engine.retained_bytes(), 4 * bytes);
    assert_eq!(resumed(&mut scene, &session, &format!("{name}:0")), [""; 0], "it made room");
    say(&mut scene, &mut second, 100);
    assert_eq!(scene.engine.retained_events(), 1, "whoever speaks makes room for itself");
    scene.take_received(other);
    scene.cut(other);
    assert_eq!(resumed(&mut scene, &session, &format!("{other_name}:4")), ["5"]);
    drop(second);
    scene.settle();
}

/// What the ids of a stream begin with that has begun already.
#[track_caller]
fn place_of(scene: &mut Scene, client: Client) -> String {
    let blocks = scene.blocks(client);
    blocks[0].id().rsplit_once(':').unwrap().0.to_owned()
}

#[test]
fn inv92_so_many_streams_are_on_record_and_one_more_only_for_one_that_ended() {
    let mut scene = scene(ReplayLimits { streams_max: 2, ..ReplayLimits::default() });
    let session = session(&mut scene, "2025-11-25");
    let (first, ending) = streamed(&mut scene, &session, 1);
    let (second, going) = streamed(&mut scene, &session, 2);
    let name = place(&mut scene, first);
    place(&mut scene, second);
    let (third, mut unrecorded) = streamed(&mut scene, &session, 3);
    say(&mut scene, &mut unrecorded, 1);
    let blocks = scene.blocks(third);
    let [Block::Event { id: None, .. }] = &blocks[..] else { panic!("{blocks:?}") };
    assert_eq!(scene.engine.retained_streams(), 2);
    ending.finish("done");
    scene.settle();
    scene.take_received(first);
    let (fourth, last) = streamed(&mut scene, &session, 4);
    place(&mut scene, fourth);
    assert_eq!(scene.engine.retained_streams(), 2);
    assert_eq!(resumed(&mut scene, &session, &format!("{name}:0")), [""; 0], "it made room");
    // What has no record ends with its connection, as far as its caller can see.
    scene.cut(third);
    say(&mut scene, &mut unrecorded, 1);
    assert_eq!(scene.engine.retained_events(), 0);
    drop((going, unrecorded, last));
    scene.settle();
    for client in [second, fourth] {
        scene.take_received(client);
    }
}

#[test]
fn inv94_without_a_record_no_id_is_on_the_wire_and_places_mean_nothing() {
    let mut scene = scene(ReplayLimits { streams_max: 0, ..ReplayLimits::default() });
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1"]);
    let client = listen(&mut scene, &session.listen());
    assert_eq!(scene.blocks(client), [Block::Comment("open".to_owned())]);
    announce(&mut scene, "a:1");
    let blocks = scene.blocks(client);
    assert!(matches!(blocks[..], [Block::Event { id: None, .. }]), "{blocks:?}");
    scene.cut(client);
    for place in ["1:0", "1:1", "2:0", "2:1", "3:0"] {
        assert_eq!(resumed(&mut scene, &session, place), [""; 0]);
    }
    let (client, mut call) = streamed(&mut scene, &session, 1);
    say(&mut scene, &mut call, 1);
    // Nobody could come back to a connection that is let go.
    call.responder.release_connection(seconds(1));
    call.finish("done");
    scene.settle();
    let blocks = scene.blocks(client);
    assert!(blocks.iter().all(|block| matches!(block, Block::Event { id: None, .. })));
    assert_eq!(blocks.len(), 2);
    scene.end_of_stream(client);
    let direct = scene.ask_apart(&session.call(2, "steps", json!({})));
    let blocks = direct.blocks.unwrap();
    assert!(blocks.iter().all(|block| matches!(block, Block::Event { id: None, .. })));
    let kept = (scene.engine.retained_streams(), scene.engine.retained_events());
    assert_eq!(kept, (0, 0));
}

#[test]
fn inv86_inv92_so_many_messages_wait_for_a_stream_and_the_oldest_go() {
    let limits = Limits { pending_messages_max: 3, ..Limits::default() };
    let mut scene = Scene::tuned(|server| server.limits(limits));
    let session = session(&mut scene, "2025-11-25");
    let all = ["a:1", "a:2", "a:3", "a:4"];
    follow(&mut scene, &session, &all);
    for (said, heard) in [(3, &all[..3]), (4, &all[1..])] {
        for uri in &all[..said] {
            announce(&mut scene, uri);
        }
        let client = listen(&mut scene, &session.listen());
        assert_eq!(uris(&scene.blocks(client)), heard);
        scene.cut(client);
        scene.advance(seconds(61));
    }
}

#[test]
fn inv86_inv92_so_many_bytes_wait_for_a_stream_and_the_oldest_go() {
    let message = |uri: &str| {
        let params = json!({ "uri": uri });
        crate::support::notification("notifications/resources/updated", params).len()
    };
    let all = ["a:1", "a:2", "a:3"];
    let sum = 3 * message("a:1");
    for (pending_bytes_max, heard) in [(sum, &all[..]), (sum - 1, &all[1..])] {
        let limits = Limits { pending_bytes_max, ..Limits::default() };
        let mut scene = Scene::tuned(|server| server.limits(limits));
        let session = session(&mut scene, "2025-11-25");
        follow(&mut scene, &session, &all);
        for uri in all {
            announce(&mut scene, uri);
        }
        let client = listen(&mut scene, &session.listen());
        assert_eq!(uris(&scene.blocks(client)), heard);
    }
}

#[test]
fn inv59_inv60_work_is_never_given_up_and_its_answer_a_while_after_it_came() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    for (wait, expected) in [(59, &["1", "2"][..]), (61, &[])] {
        let (client, mut call) = streamed(&mut scene, &session, 1);
        let name = place(&mut scene, client);
        say(&mut scene, &mut call, 1);
        scene.take_received(client);
        scene.cut(client);
        assert_eq!(scene.engine.connections(), 0);
        scene.advance(seconds(3600));
        assert!(!call.responder.is_cancelled());
        call.finish("at last");
        scene.settle();
        scene.advance(seconds(wait));
        assert_eq!(resumed(&mut scene, &session, &format!("{name}:0")), expected);
    }
}

#[test]
fn inv87_a_stream_may_be_lost_and_resumed_over_and_over_again() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let (mut client, mut call) = streamed(&mut scene, &session, 7);
    let name = place(&mut scene, client);
    let mut texts: Vec<Value> = Vec::new();
    for round in 0..20 {
        // Some are seen, some are written into a connection that is gone, some are kept.
        scene.read_only(client, if round % 3 == 0 { 0 } else { usize::MAX });
        say(&mut scene, &mut call, round);
        texts.extend(scene.blocks(client).iter().map(|block| block.data().clone()));
        scene.cut(client);
        scene.take_received(client);
        say(&mut scene, &mut call, round);
        client = listen(&mut scene, &session.resume(&format!("{name}:{}", texts.len())));
        for block in scene.blocks(client) {
            texts.push(block.data().clone());
            assert_eq!(block.id(), format!("{name}:{}", texts.len()));
        }
    }
    let said: Vec<usize> =
        texts.iter().map(|text| text["params"]["data"].as_str().unwrap().len()).collect();
    let expected: Vec<usize> = (0..20).flat_map(|round| [round, round]).collect();
    assert_eq!(said, expected);
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(client)[0].id(), format!("{name}:41"));
    scene.end_of_stream(client);
}

#[test]
fn inv87_two_who_resume_one_stream_do_not_share_it() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let (client, mut call) = streamed(&mut scene, &session, 7);
    let name = place(&mut scene, client);
    say(&mut scene, &mut call, 1);
    scene.take_received(client);
    scene.cut(client);
    let (one, two) = (scene.connect(), scene.connect());
    let request = session.resume(&format!("{name}:0")).bytes();
    scene.put(one, &request);
    scene.put(two, &request);
    scene.settle();
    assert!(scene.is_closed(one) && scene.is_open(two), "the later one has it");
    scene.take_received(one);
    assert_response!(scene.stream(two), 200);
    call.finish("done");
    scene.settle();
    assert_eq!(scene.blocks(two).len(), 2);
    scene.end_of_stream(two);
    // Once it is answered everybody can have all of it.
    for _ in 0..2 {
        assert_eq!(resumed(&mut scene, &session, &format!("{name}:0")), ["1", "2"]);
    }
    assert_eq!(resumed(&mut scene, &session, &format!("{name}:2")), [""; 0], "nothing is left");
}

#[test]
fn inv95_comments_take_no_ids_and_are_not_replayed() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1"]);
    let (client, place) = opened(&mut scene, &session);
    scene.advance(seconds(300));
    let blocks = scene.blocks(client);
    assert!(blocks.len() == 10 && blocks.iter().all(Block::is_comment), "{blocks:?}");
    assert_eq!(scene.engine.retained_events(), 0);
    announce(&mut scene, "a:1");
    let first = place.replace(":0", ":1");
    assert_eq!(scene.blocks(client)[0].id(), first);
    scene.cut(client);
    assert_eq!(resumed(&mut scene, &session, &place), ["1"]);
}

#[test]
fn b070_a_connection_that_breaks_in_the_middle_of_an_event_ends_neither_session_nor_event() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1", "a:2"]);
    let (client, place) = opened(&mut scene, &session);
    scene.read_only(client, 30);
    announce(&mut scene, "a:1");
    assert_eq!(scene.take_received(client).len(), 30);
    scene.cut(client);
    let list = session.request(1, "tools/list", json!({}));
    assert_response!(scene.ask_apart(&list), 200);
    announce(&mut scene, "a:2");
    let again = listen(&mut scene, &session.resume(&place));
    assert_eq!(uris(&scene.blocks(again)), ["a:1", "a:2"]);
}

#[test]
fn inv154_what_is_said_on_the_stream_of_a_call_keeps_its_session_alive() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let ping = session.request(9, "ping", json!({}));
    let (client, mut call) = streamed(&mut scene, &session, 1);
    for _ in 0..20 {
        scene.advance(seconds(60));
        say(&mut scene, &mut call, 1);
    }
    call.finish("done");
    scene.settle();
    scene.take_received(client);
    scene.advance(seconds(299));
    assert_eq!(scene.engine.sessions(), 1, "its time begins with the answer");
    assert_response!(scene.ask_apart(&ping), 200);
    scene.advance(seconds(320));
    assert_response!(scene.ask_apart(&ping), 404);
}

#[test]
fn d4_a_client_of_http_1_0_streams_where_that_is_allowed_and_nowhere_else() {
    let mut refusing = Scene::new();
    let known = session(&mut refusing, "2025-11-25");
    let refused = refusing.ask_apart(&known.listen().http10());
    assert_response!(refused, 406);
    assert!(refused.closes());

    let mut scene = Scene::tuned(|server| server.allow_sse_to_http_1_0());
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1"]);
    let client = scene.connect();
    scene.send(client, session.listen().http10().bytes());
    announce(&mut scene, "a:1");
    let key = scene.key(client);
    let now = scene.now();
    assert!(scene.engine.conn(key).is_some());
    scene.engine.shut_down(now);
    scene.settle();
    assert!(scene.is_half_closed(client), "its end is the end of the connection");
    let response = scene.response(client);
    assert!(response.closes() && response.field("transfer-encoding").is_none());
    let blocks = response.blocks.unwrap();
    assert_eq!(uris(&blocks), ["a:1"]);
    assert!(matches!(&blocks[0], Block::Primer { .. }) && blocks[1].id().ends_with(":1"));
}

#[test]
fn inv39_a_request_behind_a_stream_of_a_session_is_held_until_that_ends() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    let (client, _) = opened(&mut scene, &session);
    let behind =
        [session.request(1, "ping", json!({})), Request::modern(2, "tools/list", json!({}))];
    for request in &behind {
        scene.send(client, request.bytes());
    }
    assert_eq!(scene.received(client), b"");
    assert_response!(scene.ask_apart(&session.delete()), 204);
    scene.end_of_stream(client);
    assert_response!(scene.response(client), 404, error = -32600, id = 1);
    assert_eq!(scene.response(client).message()["id"], 2);
}

#[test]
fn inv37_too_much_behind_a_stream_of_a_session_ends_the_connection_alone() {
    let mut scene = Scene::new();
    let session = session(&mut scene, "2025-11-25");
    follow(&mut scene, &session, &["a:1"]);
    let (client, place) = opened(&mut scene, &session);
    announce(&mut scene, "a:1");
    scene.send(client, vec![b'x'; 64 * 1024]);
    assert!(scene.is_open(client));
    scene.send(client, "x");
    assert!(scene.is_closed(client));
    assert_eq!(scene.blocks(client).len(), 1, "no error is written into the stream");
    assert_eq!(resumed(&mut scene, &session, &place), ["1"]);
}
