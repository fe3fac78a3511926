//! An engine without sockets and the requests it is asked, for the benches that measure in memory.

use std::time::Instant;

use serde::Deserialize;
use serde_json::json;
use waterwheel::{
    AfterFlush, CallToolResult, CloseReason, ConnKey, Engine, Progress, Responder, Server,
    ServerBuilder, Tool, ToolCall,
};

/// An engine that is asked the same thing over and over.
pub(crate) struct Bench {
    pub(crate) engine: Engine<()>,
    /// The time, which stands still unless somebody moves it.
    pub(crate) now: Instant,
    /// The connection that asks.
    pub(crate) key: ConnKey,
    pub(crate) request: Vec<u8>,
    /// Whether answers are looked at; while measuring they are not.
    peek: bool,
}

impl Bench {
    /// The usual server, asked for what `name` says.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(builder(!name.ends_with("no schema")), name)
    }

    /// A server of one's own, asked for what `name` says. It has been asked once.
    pub(crate) fn with(builder: ServerBuilder, name: &str) -> Self {
        let mut engine: Engine<()> = builder.build_engine().expect("a good server");
        #[expect(clippy::disallowed_methods, reason = "one instant to count from")]
        let now = Instant::now();
        engine.start(now);
        engine.set_calendar(1_800_000_000);
        let key = engine.connect((), None, now).expect("room");
        let mut bench = Self { engine, now, key, request: initialize(), peek: true };
        let answer = bench.once();
        let session = session_of(&answer);
        bench.request = request_of(name, &session);
        let answer = bench.once();
        check(name, &String::from_utf8_lossy(&answer));
        bench.peek = false;
        bench
    }

    /// Opens one more connection, which says nothing by itself.
    pub(crate) fn connect(&mut self) -> ConnKey {
        self.engine.connect((), None, self.now).expect("room")
    }

    /// Opens connections that stay idle.
    pub(crate) fn beside(mut self, idle: usize) -> Self {
        for _ in 0..idle {
            self.connect();
        }
        self
    }

    /// One request through the engine; the answer is copied only while somebody looks at it.
    pub(crate) fn once(&mut self) -> Vec<u8> {
        self.ask(self.key)
    }

    /// The same on any connection.
    pub(crate) fn ask(&mut self, key: ConnKey) -> Vec<u8> {
        self.send(key);
        self.engine.run(self.now);
        let answer = self.write(key);
        while self.engine.poll_dirty().is_some() {}
        answer
    }

    /// Lets the peer send the request.
    pub(crate) fn send(&mut self, key: ConnKey) {
        let (_, input) = self.engine.reading(key).expect("an open connection");
        input.push(&self.request);
        self.engine.receive(key, self.now);
    }

    /// Lets the peer read everything; what it reads last of a connection makes it come anew.
    pub(crate) fn write(&mut self, key: ConnKey) -> Vec<u8> {
        let (_, output) = self.engine.writing(key).expect("an open connection");
        let copy = if self.peek { output.data().to_vec() } else { Vec::new() };
        let len = output.len();
        assert!(len > 0, "every request is answered at once here");
        output.consume(len);
        if self.engine.wrote(key, self.now) == AfterFlush::CloseSending {
            self.engine.close(key, CloseReason::AnsweredAndClosed);
            while self.engine.poll_dead().is_some() {}
            self.key = self.connect();
        }
        copy
    }
}

/// The usual server: three tools that are called and many that are only listed.
pub(crate) fn builder(with_schema: bool) -> ServerBuilder {
    let echo = Tool::new("echo").description("Returns its text");
    let echo = if with_schema { echo.input_schema(text_schema()) } else { echo };
    let mut builder = Server::builder("bench", "1.0.0")
        .tool(echo, |call: &mut ToolCall| {
            let text: Text = call.arguments()?;
            Ok(CallToolResult::text(text.text))
        })
        .tool_deferred(
            Tool::new("later").input_schema(text_schema()),
            |call: ToolCall, responder: Responder<CallToolResult>| {
                let text = call.arguments::<Text>().map(|text| text.text).unwrap_or_default();
                responder.finish(CallToolResult::text(text));
            },
        )
        .tool(Tool::new("stream").input_schema(text_schema()), |call: &mut ToolCall| {
            for done in 1..=3 {
                call.progress(&Progress::new(f64::from(done)).total(3.0));
            }
            Ok(CallToolResult::text("done"))
        });
    for number in 0..47 {
        let tool = Tool::new(format!("tool_{number}"))
            .description("One of many, with a description of a usual length")
            .input_schema(text_schema());
        builder = builder.tool(tool, |_: &mut ToolCall| Ok(CallToolResult::text("ok")));
    }
    builder
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

/// The schema of a tool that takes a text.
pub(crate) fn text_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "text": { "type": "string" } },
        "required": ["text"],
    })
}

/// A POST to the endpoint, with `fields` beside the usual ones.
fn post(fields: &str, body: &str) -> Vec<u8> {
    post_to("/mcp", fields, body)
}

fn post_to(path: &str, fields: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench/1.0\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         {fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The handshake of the classic era.
pub(crate) fn initialize() -> Vec<u8> {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" },
        },
    });
    post("", &body.to_string())
}

/// The request of this name; an echo unless the name says otherwise.
pub(crate) fn request_of(name: &str, session: &str) -> Vec<u8> {
    let classic =
        |session| format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let fields = classic(session);
    match name {
        "list of 50 tools" => post(&fields, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#),
        "deferred echo" => post(&fields, &classic_call("later")),
        "stream of 3 events" => post(&fields, &classic_call("stream")),
        "foreign origin" => {
            post(&format!("{fields}Origin: https://elsewhere.example\r\n"), &classic_call("echo"))
        }
        "unknown session" => post(&classic(&"0".repeat(session.len())), &classic_call("echo")),
        "unknown path" => post_to("/elsewhere", &fields, &classic_call("echo")),
        "streamed events" => post(&fields, &classic_call("events")),
        "watch" => modern_call("watch", r#""progressToken":7,"#),
        _ if name.starts_with("modern") => modern_call("echo", ""),
        _ => post(&fields, &classic_call("echo")),
    }
}

/// Makes sure that what is measured is what the name says.
fn check(name: &str, answer: &str) {
    let status = match name {
        "foreign origin" => 403,
        "unknown session" | "unknown path" => 404,
        _ => 200,
    };
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(status != 200 || !answer.contains("\"error\":"), "an error is no measure");
    assert!(!name.starts_with("streamed") || answer.contains("text/event-stream"), "{answer}");
}

fn classic_call(tool: &str) -> String {
    let text = text();
    format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{
            "_meta":{{"progressToken":7}},"name":"{tool}","arguments":{{"text":"{text}"}}}}}}"#
    )
}

/// A call of the modern era; `meta` are members of its metadata, each with a comma behind it.
fn modern_call(tool: &str, meta: &str) -> Vec<u8> {
    let text = text();
    post(
        &format!(
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        ),
        &format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"_meta":{{{meta}
                "io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{{}}}},
                "name":"{tool}","arguments":{{"text":"{text}"}}}}}}"#
        ),
    )
}

/// What is echoed.
fn text() -> String {
    "x".repeat(100)
}

/// The session that an answered handshake has minted.
pub(crate) fn session_of(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let line = text.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: "));
    line.expect("initialize mints a session").to_owned()
}
