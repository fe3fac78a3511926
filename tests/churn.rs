//! Clients that come, do something and go, in every way there is, on real sockets: in the end the
//! process holds what it held before. Alone in its process, so that it can count descriptors.
//!
//! `WATERWHEEL_LONG=1` churns for a minute instead of a few thousand visits.

#![cfg(target_os = "linux")]

#[path = "it/support"]
mod support {
    #[expect(dead_code, reason = "the engine's own tests use more of it")]
    pub(crate) mod pipe;
    #[expect(dead_code, reason = "the engine's own tests use more of it")]
    pub(crate) mod request;
    #[expect(dead_code, reason = "the engine's own tests use more of it")]
    pub(crate) mod response;
    #[expect(dead_code, reason = "the other tests on sockets use more of it")]
    pub(crate) mod running;
}

use std::collections::VecDeque;
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use support::pipe::FaultyPipe;
use support::request::{Request, Session};
use support::running::{Client, PATIENCE, Running, call};
use waterwheel::{CallToolResult, LogLevel, Responder, Streaming, Timeouts, Tool};

/// Connections that stay open for a while after what was done on them.
const OPEN_MAX: usize = 200;
/// What the allocator may keep of a process whose tables have had their size before: an arena or
/// two that were torn. Every leak of a connection, stream or session is more within a minute.
const MEMORY_SLACK: usize = 4 << 20;

struct Churn {
    server: Running,
    /// Calls that wait for the test.
    held: Receiver<Responder<CallToolResult>>,
    random: FaultyPipe,
    open: VecDeque<Client>,
    sessions: Vec<Session>,
    visits: u64,
}

type Visit = fn(&mut Churn);
const VISITS: [Visit; 12] = [
    Churn::call_once,
    Churn::call_often,
    Churn::call_and_leave,
    Churn::leave_in_the_middle,
    Churn::speak_nonsense,
    Churn::send_much,
    Churn::open_session,
    Churn::end_session,
    Churn::listen,
    Churn::subscribe,
    Churn::resume,
    Churn::use_the_old_transport,
];

impl Churn {
    fn new() -> Self {
        // Longer than a visit takes on a crowded machine, and soon over nevertheless.
        let soon = Duration::from_secs(2);
        let timeouts = Timeouts {
            session_idle: soon,
            session_unconfirmed: soon,
            retention: soon,
            ..Timeouts::default()
        };
        let (hold, held) = channel();
        let server = Running::start(move |server| {
            let tool = Tool::new("held").streaming(Streaming::Required);
            server.info().timeouts(timeouts).tool_deferred(tool, move |_, responder| {
                hold.send(responder).expect("the test listens");
            })
        });
        let (open, sessions) = (VecDeque::new(), Vec::new());
        Self { server, held, random: FaultyPipe::new(11), open, sessions, visits: 0 }
    }

    fn churn(&mut self, visits: u64) {
        for _ in 0..visits {
            self.visits += 1;
            VISITS[self.random.below(VISITS.len())](self);
            while self.open.len() > OPEN_MAX {
                self.open.pop_front();
            }
        }
    }

    /// Asks for a stream on a connection of its own.
    fn open_stream(&self, request: &Request) -> Client {
        let mut client = self.server.connect();
        client.send(&request.bytes());
        assert_eq!(client.stream().status, 200);
        client
    }

    fn next_held(&self) -> Responder<CallToolResult> {
        self.held.recv_timeout(PATIENCE).expect("the tool is called")
    }

    fn call_once(&mut self) {
        let mut client = self.server.connect();
        assert_eq!(client.ask(&call(self.visits, "echo")).status, 200);
        self.open.push_back(client);
    }

    fn call_often(&mut self) {
        let mut client = self.server.connect();
        for id in 0..20 {
            assert_eq!(client.ask(&call(id, "echo")).status, 200);
        }
    }

    /// Its handler hears that nobody waits any more.
    fn call_and_leave(&mut self) {
        let mut client = self.server.connect();
        let meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
        let params = json!({ "name": "held", "_meta": meta });
        client.send(&Request::modern(1, "tools/call", params).bytes());
        let mut responder = self.next_held();
        let (cancel, cancelled) = channel();
        responder.on_cancel(move || cancel.send(()).expect("the test listens"));
        if self.random.flips() {
            let _ = responder.log(LogLevel::Info, None, &"begun");
            assert_eq!(client.stream().status, 200);
        }
        drop(client);
        cancelled.recv_timeout(PATIENCE).expect("the call is cancelled");
        responder.finish(CallToolResult::text("to nobody"));
    }

    fn leave_in_the_middle(&mut self) {
        let mut client = self.server.connect();
        let bytes = call(1, "echo").bytes();
        let cut = self.random.below(bytes.len());
        client.send(&bytes[..cut]);
        if self.random.flips() {
            let _ = client.stream.shutdown(Shutdown::Write);
            self.open.push_back(client);
        }
    }

    fn speak_nonsense(&mut self) {
        let nonsense: [&[u8]; 4] = [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET /mcp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"POST /mcp HTTP/9.1\r\n\r\n",
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        ];
        let mut client = self.server.connect();
        client.send(nonsense[self.random.below(nonsense.len())]);
        assert!(client.response().status >= 400);
        self.open.push_back(client);
    }

    fn send_much(&mut self) {
        let mut client = self.server.connect();
        let text = "x".repeat(1 << self.random.below(20));
        let request = Request::modern_call(1, "echo", json!({ "text": text }));
        let response = client.ask(&request.chunked(10_000));
        assert_eq!(response.text(), json!({ "text": text }).to_string());
    }

    fn open_session(&mut self) {
        let session = self.session();
        self.sessions.push(session);
    }

    fn session(&self) -> Session {
        let mut client = self.server.connect();
        let response = client.ask(&Request::initialize("2025-11-25"));
        let id = response.field("mcp-session-id").expect("a session begins");
        Session::new(id, "2025-11-25")
    }

    fn end_session(&mut self) {
        let mut client = self.server.connect();
        if let Some(session) = self.sessions.pop() {
            let status = client.ask(&session.delete()).status;
            assert!([204, 404].contains(&status), "{status}");
        }
    }

    fn listen(&mut self) {
        let session = self.session();
        let client = self.open_stream(&session.listen());
        self.sessions.push(session);
        if self.random.flips() {
            self.open.push_back(client);
        }
    }

    fn subscribe(&mut self) {
        let params = json!({ "notifications": { "toolsListChanged": true } });
        let mut client = self.open_stream(&Request::modern(1, "subscriptions/listen", params));
        assert!(client.blocks()[0].is_event());
        self.server.handle.tools_changed();
        self.open.push_back(client);
    }

    /// Loses a stream and comes back for the rest, or never does.
    fn resume(&mut self) {
        let session = self.session();
        let mut client = self.open_stream(&session.call(7, "held", json!({})));
        let mut responder = self.next_held();
        let place = client.blocks()[0].id().to_owned();
        drop(client);
        let _ = responder.log(LogLevel::Error, None, &"while nobody reads");
        let mut again = self.open_stream(&session.resume(&place));
        assert_eq!(again.blocks()[0].data()["method"], "notifications/message");
        if self.random.flips() {
            drop(again);
            return responder.finish(CallToolResult::text("for whoever asks"));
        }
        responder.finish(CallToolResult::text("done"));
        assert_eq!(again.blocks()[0].data()["id"], 7);
    }

    fn use_the_old_transport(&mut self) {
        let request = Request::new("GET", "/sse").field("Accept", "text/event-stream");
        let mut client = self.open_stream(&request);
        assert_eq!(client.blocks().len(), 1);
        if self.random.flips() {
            self.open.push_back(client);
        }
    }

    /// Everybody goes, and the server comes to know of it.
    fn settle(&mut self) -> Held {
        self.open.clear();
        self.sessions.clear();
        let idle = json!({
            "connections": 1, "sessions": 0, "exchanges": 0, "streams": 0, "subscriptions": 0,
            "retainedStreams": 0, "retainedEvents": 0, "retainedBytes": 0,
        });
        let mut client = self.server.connect();
        for _ in 0..2000 {
            if info(&mut client)["counts"] == idle {
                // Another answer, and the turn of the first is over: what it closed is closed.
                info(&mut client);
                return Held::by_this_process();
            }
            // Nothing is due by a signal here: sessions and records end when they are old.
            let called = self.held.recv_timeout(Duration::from_millis(10));
            assert!(called.is_err(), "nobody calls any more");
        }
        panic!("something is left: {}", info(&mut client));
    }

    fn uptime_seconds(&self) -> Option<u64> {
        info(&mut self.server.connect())["uptimeSeconds"].as_u64()
    }
}

/// What the server says of itself.
fn info(client: &mut Client) -> Value {
    client.ask(&Request::new("GET", "/info")).json()
}

/// What the system says that a process has.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    memory_bytes: usize,
}

impl Held {
    fn by_this_process() -> Self {
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("a process knows its own");
        let memory = std::fs::read_to_string("/proc/self/status").expect("a process knows its own");
        let line = memory.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("in KiB");
        let kib: usize = kib.trim().parse().expect("a number");
        Self { descriptors: descriptors.count(), memory_bytes: kib * 1024 }
    }
}

#[test]
fn after_any_number_of_visits_the_process_holds_what_it_held_before() {
    let mut churn = Churn::new();
    churn.churn(2000);
    let before = churn.settle();
    churn.churn(2000);
    if std::env::var_os("WATERWHEEL_LONG").is_some() {
        let minute_later = churn.uptime_seconds().map(|seconds| seconds + 60);
        while churn.uptime_seconds() < minute_later {
            churn.churn(100);
        }
    }
    let after = churn.settle();
    eprintln!("after {} visits: {before:?}, then {after:?}", churn.visits);
    assert_eq!(after.descriptors, before.descriptors);
    let grown = after.memory_bytes.saturating_sub(before.memory_bytes);
    assert!(grown <= MEMORY_SLACK, "{grown} bytes more than before: {before:?}, {after:?}");
    churn.server.stop();
}
