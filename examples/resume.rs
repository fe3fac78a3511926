//! A call that outlives its connection: `cargo run --example resume`.
//!
//! A server and a client of revision 2025-11-25 in one program. The client cuts the connection of a
//! running call after two reports of progress, comes back with `Last-Event-ID`, and gets the rest:
//! nothing is lost, nothing comes twice. It prints what it sees, and fails if that is not so.

#[expect(dead_code, reason = "this program has no command line")]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use waterwheel::{CallToolResult, Progress, Server, Streaming, Tool, ToolCall};

use support::Failure;

const STEPS: u64 = 8;

/// After so many reports of progress the connection is cut.
const SEEN_BEFORE_CUT: usize = 2;

fn main() -> support::Outcome {
    env_logger::init();
    let server = Server::builder("resume", env!("CARGO_PKG_VERSION"))
        .tool_blocking(
            Tool::new("count").description("Counts slowly").streaming(Streaming::Allowed),
            |call: &mut ToolCall<'static>| {
                for step in 1..=STEPS {
                    nap(100);
                    call.progress(&Progress::new(step as f64).total(STEPS as f64));
                }
                Ok(CallToolResult::text(format!("counted to {STEPS}")))
            },
        )
        .bind("127.0.0.1:0")?;
    let address = server.addresses()[0];
    let handle = server.handle();
    let client = thread::spawn(move || {
        let outcome = call_and_resume(address);
        handle.shut_down();
        outcome
    });
    server.run()?;
    client.join().map_err(|_| "the client panicked")?
}

fn nap(milliseconds: u64) {
    #[expect(clippy::disallowed_methods, reason = "this is a thread of its own, not the loop's")]
    thread::sleep(Duration::from_millis(milliseconds));
}

fn call_and_resume(address: SocketAddr) -> support::Outcome {
    let session = open_session(address)?;
    let mut seen = Vec::new();

    println!("calls the tool");
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "count", "_meta": { "progressToken": "count" } } });
    let mut stream = Stream::open(address, &post(&session, &call))?;
    while reports(&seen) < SEEN_BEFORE_CUT {
        seen.push(stream.next_event()?);
    }
    drop(stream);
    println!("cuts the connection, and is away while the tool goes on");
    nap(300);

    let last = seen.iter().rev().find_map(|event| event.id.clone());
    let last = last.ok_or("no event had an id, so there is nothing to resume by")?;
    println!("comes back with Last-Event-ID: {last}");
    let mut stream = Stream::open(address, &resume(&session, &last))?;
    loop {
        let event = stream.next_event()?;
        let is_answer = event.message().is_some_and(|message| message.get("result").is_some());
        seen.push(event);
        if is_answer {
            break;
        }
    }
    check(&seen)
}

/// The number of reports among these events.
fn reports(seen: &[Event]) -> usize {
    seen.iter().filter(|event| event.progress().is_some()).count()
}

/// Every step once and in order, then the answer, and no two events of one id.
fn check(seen: &[Event]) -> support::Outcome {
    let steps: Vec<u64> = seen.iter().filter_map(Event::progress).collect();
    let expected: Vec<u64> = (1..=STEPS).collect();
    if steps != expected {
        return Err(format!("expected the steps {expected:?} and saw {steps:?}").into());
    }
    let mut ids: Vec<&str> = seen.iter().filter_map(|event| event.id.as_deref()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != count {
        return Err("an event came twice".into());
    }
    let answer = seen.last().and_then(Event::message).ok_or("there is no answer")?;
    let counted = format!("counted to {STEPS}");
    if answer["id"] != 2 || answer["result"]["content"][0]["text"] != counted {
        return Err(format!("this is not the answer to the call: {answer}").into());
    }
    println!("{STEPS} reports and the answer: nothing was lost, nothing came twice");
    Ok(())
}

/// The id of a new session.
fn open_session(address: SocketAddr) -> Result<String, Failure> {
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "resume", "version": "1" } } });
    let stream = Stream::open(address, &post("", &hello))?;
    let session = stream.session.ok_or("the server began no session")?;
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    Stream::open(address, &post(&session, &ready))?;
    Ok(session)
}

fn post(session: &str, message: &Value) -> String {
    let body = message.to_string();
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{}Content-Length: {length}\r\n\r\n{body}",
        session_fields(session)
    )
}

fn resume(session: &str, last: &str) -> String {
    format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         Last-Event-ID: {last}\r\n{}\r\n",
        session_fields(session)
    )
}

/// A session has them with every request but the first.
fn session_fields(session: &str) -> String {
    match session {
        "" => String::new(),
        _ => format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n"),
    }
}

/// One event of a stream.
struct Event {
    id: Option<String>,
    data: String,
}

impl Event {
    /// The message in it; the first event of a stream has none.
    fn message(&self) -> Option<Value> {
        serde_json::from_str(&self.data).ok()
    }

    /// The step it reports.
    fn progress(&self) -> Option<u64> {
        self.message()?["params"]["progress"].as_f64().map(|step| step as u64)
    }
}

/// A response that is read as it comes; its connection is cut when it is dropped.
struct Stream {
    input: BufReader<TcpStream>,
    session: Option<String>,
    /// What has been read of the events, up to the next chunk.
    text: String,
}

impl Stream {
    /// Sends a request on a connection of its own, and reads the head of the response.
    fn open(address: SocketAddr, request: &str) -> Result<Self, Failure> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.write_all(request.as_bytes())?;
        let mut stream = Self { input: BufReader::new(socket), session: None, text: String::new() };
        let status = stream.line()?;
        if !status.starts_with("HTTP/1.1 2") {
            return Err(format!("the server refused: {status}").into());
        }
        loop {
            let field = stream.line()?;
            if field.is_empty() {
                return Ok(stream);
            }
            if let Some(session) = field.strip_prefix("Mcp-Session-Id: ") {
                stream.session = Some(session.to_owned());
            }
        }
    }

    /// Waits for the next event, and prints it.
    fn next_event(&mut self) -> Result<Event, Failure> {
        while !self.text.contains("\n\n") {
            self.read_chunk()?;
        }
        let end = self.text.find("\n\n").ok_or("the loop above ends with a whole event")?;
        let text: String = self.text.drain(..end + 2).collect();
        let value = |name| text.lines().find_map(|line| line.strip_prefix(name));
        let event = Event {
            id: value("id: ").map(str::to_owned),
            data: value("data: ").unwrap_or_default().to_owned(),
        };
        println!("  {:<6} {}", event.id.as_deref().unwrap_or("-"), event.data);
        Ok(event)
    }

    fn read_chunk(&mut self) -> Result<(), Failure> {
        let line = self.line()?;
        if line.is_empty() || line == "0" {
            return Err("the stream ended before the answer".into());
        }
        let size = usize::from_str_radix(&line, 16)?;
        // The line break behind a chunk belongs to its framing.
        let mut chunk = vec![0; size + 2];
        self.input.read_exact(&mut chunk)?;
        self.text.push_str(std::str::from_utf8(&chunk[..size])?);
        Ok(())
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.input.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
