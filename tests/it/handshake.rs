//! Connections whose transport agrees on keys first, as the engine sees them.

use serde_json::json;

use crate::support::{Request, Scene, assert_response, seconds};

fn list() -> Request {
    Request::modern(1, "tools/list", json!({}))
}

#[test]
fn b145_a_handshake_has_the_time_of_a_head_and_no_byte_buys_more() {
    let mut scene = Scene::new();
    let (silent, trickling) = (scene.connect(), scene.connect());
    for client in [silent, trickling] {
        let (key, now) = (scene.key(client), scene.now());
        scene.engine.begin_handshake(key, now);
    }
    for _ in 0..29 {
        scene.advance(seconds(1));
        scene.send(trickling, b"x");
    }
    assert!(scene.is_open(silent) && scene.is_open(trickling));
    scene.advance(seconds(1));
    assert!(scene.is_closed(silent) && scene.is_closed(trickling));
    assert_eq!((scene.received(silent), scene.received(trickling)), (&b""[..], &b""[..]));
}

#[test]
fn requests_are_served_once_the_handshake_has_ended() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let key = scene.key(client);
    let now = scene.now();
    scene.engine.begin_handshake(key, now);
    scene.send(client, list().bytes());
    assert_eq!(scene.received(client), b"");
    assert_eq!(scene.buffered_input(client), 0, "it is thrown away");
    scene.advance(seconds(29));
    let now = scene.now();
    scene.engine.end_handshake(key, now);
    scene.advance(seconds(60));
    assert_response!(scene.ask(client, &list()), 200);
}

#[test]
fn a_failed_handshake_leaves_the_peer_the_time_to_read_why() {
    let mut scene = Scene::new();
    let (failed, refused) = (scene.connect(), scene.connect());
    for client in [failed, refused] {
        let (key, now) = (scene.key(client), scene.now());
        scene.engine.begin_handshake(key, now);
        if client == failed {
            scene.engine.fail_handshake(key);
        } else {
            scene.engine.refuse_handshake(key, "this port speaks TLS", now);
        }
        scene.settle();
        assert!(scene.is_half_closed(client) && !scene.is_closed(client));
        scene.send(client, list().bytes());
    }
    assert_eq!(scene.received(failed), b"");
    let response = scene.response(refused);
    assert_response!(response, 400, error = -32600, id = none);
    assert_eq!(response.error()["message"], "this port speaks TLS");
    assert!(response.closes());
    scene.advance(seconds(2));
    assert!(scene.is_closed(failed) && scene.is_closed(refused));
}

#[test]
fn a_shutdown_does_not_wait_for_a_handshake() {
    let mut scene = Scene::new();
    let client = scene.connect();
    let (key, now) = (scene.key(client), scene.now());
    scene.engine.begin_handshake(key, now);
    scene.engine.shut_down(now);
    scene.settle();
    assert!(scene.is_closed(client) && scene.engine.is_drained());
}
