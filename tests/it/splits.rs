//! The same bytes in other pieces: whatever a transport does to them, the answers are the same.

use serde_json::json;
use waterwheel::{Limits, ServerBuilder};

use crate::support::{FaultyPipe, Request, Scene, message, notification};

/// A server with small limits, so that every one of them can be crossed by a few bytes.
fn tight(server: ServerBuilder) -> ServerBuilder {
    let mut limits = Limits::default();
    limits.http.body_bytes_max = 600;
    limits.http.head_bytes_max = 600;
    limits.http.target_bytes_max = 60;
    limits.http.fields_max = 12;
    limits.http.drain_bytes_max = 300;
    server.limits(limits)
}

fn scene() -> Scene {
    let mut scene = Scene::tuned(tight);
    scene.engine.set_calendar(784_111_777);
    scene
}

/// What came back, and how the connection ended.
#[derive(Debug, PartialEq)]
struct Outcome {
    output: String,
    closes: bool,
}

/// Sends these pieces on a connection of their own.
fn outcome(scene: &mut Scene, pieces: &[&[u8]]) -> Outcome {
    let client = scene.connect();
    for piece in pieces {
        scene.send(client, piece);
    }
    let output = normal(&scene.take_received(client));
    let closes = !scene.is_open(client);
    scene.cut(client);
    Outcome { output, closes }
}

/// The output with session ids blotted out.
fn normal(output: &[u8]) -> String {
    let text = String::from_utf8(output.to_vec()).expect("all answers are text");
    let lines = text.split_inclusive("\r\n").map(|line| {
        if line.starts_with("Mcp-Session-Id: ") { "Mcp-Session-Id: (random)\r\n" } else { line }
    });
    lines.collect()
}

fn fixtures() -> Vec<(&'static str, Vec<u8>)> {
    let list = Request::modern(1, "tools/call", json!({ "name": "echo" }));
    let streamed = json!({ "name": "steps", "_meta": { "progressToken": 1 } });
    let streamed = Request::modern(2, "tools/call", streamed);
    let chunked = Request::modern_call(3, "echo", json!({ "text": "Καλημέρα 😀" })).chunked(7);
    let with_trailer = String::from_utf8_lossy(&list.clone().chunked(400).bytes())
        .replace("\r\n0\r\n\r\n", "\r\n0;last\r\nX-Sum: 1\r\n\r\n")
        .into_bytes();
    let refused = Request::post("{}").target("/nowhere");
    let note = Request::post(notification("notifications/initialized", json!({})));
    let large = Request::post(vec![b' '; 601]);
    let endless = Request::post(vec![b'x'; 500]).target("/nowhere").chunked(50);
    vec![
        ("a classic handshake", Request::initialize("2025-11-25").bytes()),
        ("a modern call", list.bytes()),
        ("a call in chunks", chunked.bytes()),
        ("a call in chunks with a trailer", with_trailer),
        ("a call with a streamed answer", streamed.bytes()),
        ("a pair", [list.bytes(), b"\r\n\r\n".to_vec(), streamed.bytes()].concat()),
        ("a refused path and what follows", [refused.bytes(), list.bytes()].concat()),
        ("a notification without a session", [note.bytes(), list.bytes()].concat()),
        ("a foreign page", list.clone().field("Origin", "http://evil.example").bytes()),
        ("a local page", list.clone().field("Origin", "http://localhost").bytes()),
        ("a wrong media type", [list.clone().set("Content-Type", "x/y").bytes()].concat()),
        ("a body that is too large", large.bytes()),
        ("a chunked body that is too large", large.chunked(100).bytes()),
        ("a refused body that is too large", endless.bytes()),
        ("a target that is too long", list.clone().target(&format!("/{}", "x".repeat(60))).bytes()),
        ("a head that is too long", list.clone().field("X", &"x".repeat(600)).bytes()),
        (
            "a head with too many fields",
            (0..12).fold(list.clone(), |r, _| r.field("X", "1")).bytes(),
        ),
        ("no JSON", Request::post("not json").bytes()),
        ("no UTF-8", Request::post(&b"{\"jsonrpc\":\"\xff\"}"[..]).bytes()),
        ("two lengths", list.clone().field("Content-Length", "1, 2").bytes()),
        ("an unknown coding", list.clone().field("Transfer-Encoding", "gzip").bytes()),
        (
            "a broken chunk",
            (list.clone().set("Transfer-Encoding", "chunked").head() + "xyz\r\n").into(),
        ),
        ("a probe", Request::new("GET", "/health").bytes()),
        ("a HEAD", [Request::new("HEAD", "/mcp").bytes(), list.bytes()].concat()),
        (
            "a preflight",
            Request::new("OPTIONS", "/mcp").field("Origin", "http://localhost").bytes(),
        ),
        ("HTTP/1.0", list.clone().http10().bytes()),
        (
            "the last of its connection",
            [list.field("Connection", "close").bytes(), b"GET".to_vec()].concat(),
        ),
        ("noise", b"\x16\x03\x01\x02\x00\x01\x00".to_vec()),
        ("a bare line feed", b"GET /health HTTP/1.1\nHost: a\n\n".to_vec()),
        ("a future version", b"GET /health HTTP/2.0\r\nHost: a\r\n\r\n".to_vec()),
        ("a long method", [vec![b'A'; 40], b" / HTTP/1.1\r\n\r\n".to_vec()].concat()),
    ]
}

#[test]
fn every_split_point_of_every_fixture_gives_the_same_answers() {
    let mut scene = scene();
    for (name, bytes) in fixtures() {
        let expected = outcome(&mut scene, &[&bytes]);
        assert!(!expected.output.is_empty(), "{name} is answered");
        for at in 1..bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(outcome(&mut scene, &[first, second]), expected, "{name}, cut at {at}");
        }
    }
}

#[test]
fn every_fixture_byte_by_byte_gives_the_same_answers() {
    let mut scene = scene();
    for (name, bytes) in fixtures() {
        let expected = outcome(&mut scene, &[&bytes]);
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(outcome(&mut scene, &pieces), expected, "{name}");
    }
}

/// A conversation that goes on whatever is asked, with its answers.
fn conversation(seed: u64) -> Vec<u8> {
    let mut pipe = FaultyPipe::new(seed);
    let mut bytes = Vec::new();
    for id in 0..20_u64 {
        let text = "x".repeat(pipe.below(200));
        let request = match pipe.below(9) {
            0 => Request::modern_call(id, "echo", json!({ "text": text })),
            1 => Request::modern_call(id, "echo", json!({ "text": text }))
                .chunked(1 + pipe.below(60)),
            2 => Request::modern_call(id, "prompt_answer", json!({})),
            3 => Request::modern_call(id, "must_stream", json!({ "text": text })),
            4 => Request::post(message(id, "ping", json!({}))),
            5 => Request::post(text).target("/nowhere"),
            6 => Request::new("GET", "/ready"),
            7 => Request::modern_call(id, "panics_late", json!({})),
            _ => Request::modern(id, "resources/read", json!({ "uri": "file:///a.txt" })),
        };
        bytes.extend(request.bytes());
    }
    bytes
}

#[test]
fn a_swarm_of_faulty_pipes_changes_no_answer() {
    let mut scene = scene();
    for seed in 0..60 {
        let bytes = conversation(seed);
        let expected = outcome(&mut scene, &[&bytes]);
        assert_eq!(expected.output.matches("HTTP/1.1 ").count(), 20, "seed {seed}");
        let mut pipe = FaultyPipe::new(seed ^ 0xf00d);
        let client = scene.connect();
        for piece in pipe.cut(&bytes) {
            scene.put(client, &piece);
            if pipe.flips() {
                let most = [1, 40, 3000, usize::MAX][pipe.below(4)];
                scene.read_at_most(client, most);
                scene.settle();
            }
        }
        scene.read_at_most(client, usize::MAX);
        scene.settle();
        let output = normal(&scene.take_received(client));
        assert_eq!(output, expected.output, "seed {seed}");
        scene.hang_up(client);
    }
}
