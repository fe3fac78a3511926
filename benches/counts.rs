//! What one request costs in things that can be counted: instructions, allocations, system calls.
//!
//! `cargo bench --bench counts` prints each figure beside its ceiling and fails when one is over.
//! Instructions need valgrind and system calls strace; without them the run fails, because a gate
//! that silently checks less is none.

use std::alloc::System;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use waterwheel::{
    CallToolResult, ConnKey, Engine, Progress, Responder, Server, ServerBuilder, Tool, ToolCall,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One figure and the most it may be.
struct Ceiling {
    name: &'static str,
    max: f64,
    why: &'static str,
}

/// Ceilings are a tenth above what was last measured, unless a bound was promised.
const CEILINGS: &[Ceiling] = &[
    Ceiling {
        name: "instructions: classic echo",
        max: 9_000.0,
        why: "head, envelope, call, frame",
    },
    Ceiling { name: "instructions: modern echo", max: 12_000.0, why: "and the mirrored fields" },
    Ceiling { name: "instructions: list of 50 tools", max: 9_000.0, why: "rendered once, copied" },
    Ceiling { name: "instructions: deferred echo", max: 16_000.0, why: "exchange and mailbox" },
    Ceiling { name: "instructions: stream of 3 events", max: 24_000.0, why: "serialize and chunk" },
    Ceiling { name: "allocations: classic echo", max: 8.0, why: "with schema validation" },
    Ceiling { name: "allocations: classic echo, no schema", max: 2.0, why: "promised" },
    Ceiling { name: "allocations: modern echo, no schema", max: 2.0, why: "promised" },
    Ceiling { name: "system calls: epoll_wait", max: 1.0, why: "promised" },
    Ceiling { name: "system calls: receive", max: 1.0, why: "promised" },
    Ceiling { name: "system calls: send", max: 1.0, why: "promised" },
    Ceiling { name: "system calls: epoll_ctl", max: 0.0, why: "promised" },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", name, count] => work(name, count.parse().expect("a number of requests")),
        ["serve"] => serve(),
        _ => return measure(),
    }
    ExitCode::SUCCESS
}

fn measure() -> ExitCode {
    let mut figures = Vec::new();
    for name in WORKS {
        figures.push((format!("instructions: {name}"), instructions(name)));
    }
    for name in ["classic echo", "classic echo, no schema", "modern echo, no schema"] {
        figures.push((format!("allocations: {name}"), allocations(name)));
    }
    figures.extend(system_calls());
    let mut failed = false;
    println!("{:<40} {:>10} {:>10}", "per request", "figure", "ceiling");
    for (name, figure) in figures {
        let ceiling = CEILINGS.iter().find(|ceiling| ceiling.name == name);
        let ceiling = ceiling.unwrap_or_else(|| panic!("{name} has no ceiling"));
        // A tenth of a call is what connecting and starting cost, spread over the requests.
        let over = figure > ceiling.max + 0.1;
        failed |= over;
        let mark = if over { "OVER" } else { ceiling.why };
        println!("{name:<40} {figure:>10.2} {:>10.2}  {mark}", ceiling.max);
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

const WORKS: [&str; 5] =
    ["classic echo", "modern echo", "list of 50 tools", "deferred echo", "stream of 3 events"];

/// Serves `count` requests of one kind in memory.
fn work(name: &str, count: usize) {
    let mut bench = Bench::new(name);
    for _ in 0..count {
        bench.once();
    }
}

struct Bench {
    engine: Engine<()>,
    key: ConnKey,
    request: Vec<u8>,
    now: Instant,
    /// Whether answers are looked at; while measuring they are not.
    peek: bool,
}

impl Bench {
    fn new(name: &str) -> Self {
        let with_schema = !name.ends_with("no schema");
        let mut engine: Engine<()> = builder(with_schema).build_engine().expect("a good server");
        #[expect(clippy::disallowed_methods, reason = "one instant to count from")]
        let now = Instant::now();
        engine.start(now);
        engine.set_calendar(1_800_000_000);
        let key = engine.connect((), None, now).expect("room");
        let mut bench = Self { engine, key, request: initialize(), now, peek: true };
        let answer = bench.once();
        let session = session_of(&answer);
        bench.request = request_of(name, &session);
        let answer = bench.once();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        assert!(!answer.windows(8).any(|it| it == b"\"error\":"), "an error is no measure");
        bench.peek = false;
        bench
    }

    /// One request through the engine; the answer is copied only while somebody looks at it.
    fn once(&mut self) -> Vec<u8> {
        let (engine, key, now) = (&mut self.engine, self.key, self.now);
        let (_, input) = engine.reading(key).expect("an open connection");
        input.push(&self.request);
        engine.receive(key, now);
        engine.run(now);
        let (_, output) = engine.writing(key).expect("an open connection");
        let copy = if self.peek { output.data().to_vec() } else { Vec::new() };
        let len = output.len();
        assert!(len > 0, "every request is answered at once here");
        output.consume(len);
        let _ = engine.wrote(key, now);
        while engine.poll_dirty().is_some() {}
        copy
    }
}

fn builder(with_schema: bool) -> ServerBuilder {
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

fn text_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "text": { "type": "string" } },
        "required": ["text"],
    })
}

fn post(fields: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench/1.0\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         {fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn initialize() -> Vec<u8> {
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

fn request_of(name: &str, session: &str) -> Vec<u8> {
    let text = "x".repeat(100);
    let call = |tool: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{
            "_meta":{{"progressToken":7}},"name":"{tool}","arguments":{{"text":"{text}"}}}}}}"#
        )
    };
    let classic = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    match name {
        "list of 50 tools" => post(&classic, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#),
        "deferred echo" => post(&classic, &call("later")),
        "stream of 3 events" => post(&classic, &call("stream")),
        _ if name.starts_with("modern") => post(
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n",
            &format!(
                r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"_meta":{{
                "io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{{}}}},
                "name":"echo","arguments":{{"text":"{text}"}}}}}}"#
            ),
        ),
        _ => post(&classic, &call("echo")),
    }
}

fn session_of(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let line = text.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: "));
    line.expect("initialize mints a session").to_owned()
}

/// Instructions of one request: the difference between many and few, so that the set-up is not
/// counted.
fn instructions(name: &str) -> f64 {
    const FEW: usize = 100;
    const MANY: usize = 1_100;
    (callgrind(name, MANY) - callgrind(name, FEW)) / (MANY - FEW) as f64
}

fn callgrind(name: &str, count: usize) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["work", name, &count.to_string()])
        .output()
        .expect("valgrind is installed");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1));
    collected.expect("callgrind says what it collected").trim().parse().expect("a number")
}

/// Allocations of one request in steady state, without what the handler itself allocates.
fn allocations(name: &str) -> f64 {
    const COUNT: usize = 1_000;
    let mut bench = Bench::new(name);
    for _ in 0..COUNT {
        bench.once();
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..COUNT {
        bench.once();
    }
    let stats = region.change();
    let all = (stats.allocations + stats.reallocations) as f64 / COUNT as f64;
    // The handler reads its argument into one string.
    all - 1.0
}

/// A server for the system call count.
fn serve() {
    let server = builder(true).bind("127.0.0.1:0").expect("a free port");
    println!("{}", server.addresses()[0]);
    server.run().expect("a server that runs");
}

/// System calls of one keep-alive request over loopback.
fn system_calls() -> Vec<(String, f64)> {
    const COUNT: usize = 2_000;
    let program = std::env::current_exe().expect("this program");
    let mut server = Command::new("strace")
        .args(["-f", "-c", "-S", "calls", "-o", "/dev/stderr"])
        .arg(program)
        .arg("serve")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace is installed");
    let mut address = String::new();
    let stdout = server.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut address).expect("the server says where it is");
    drive(address.trim(), COUNT);
    let pid = child_of(server.id());
    let killed = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
    assert!(killed.success(), "the server is still there");
    let output = server.wait_with_output().expect("strace ends with its program");
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    let per_request = |names: &[&str]| calls(&report, names) / COUNT as f64;
    vec![
        ("system calls: epoll_wait".into(), per_request(&["epoll_wait", "epoll_pwait"])),
        ("system calls: receive".into(), per_request(&["recvfrom", "read", "recvmsg"])),
        ("system calls: send".into(), per_request(&["sendto", "write", "sendmsg", "writev"])),
        ("system calls: epoll_ctl".into(), per_request(&["epoll_ctl"])),
    ]
}

/// The traced program is strace's only child.
fn child_of(parent: u32) -> String {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(path).expect("the kernel lists children");
    children.split_whitespace().next().expect("strace has one").to_owned()
}

fn drive(address: &str, count: usize) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    let answer = exchange(&mut stream, &initialize());
    let request = request_of("classic echo", &session_of(&answer));
    for _ in 0..count {
        exchange(&mut stream, &request);
    }
}

/// Sends a request and reads the whole answer.
fn exchange(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).expect("a connection");
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).expect("an answer");
        assert!(count > 0, "the server closed the connection");
        answer.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.expect("a length").parse().expect("a number");
        if body.len() >= length {
            return answer;
        }
    }
}

fn calls(report: &str, names: &[&str]) -> f64 {
    let count = |line: &str| -> Option<f64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.last()?;
        names.contains(name).then(|| words.get(3)?.parse().ok()).flatten()
    };
    report.lines().filter_map(count).sum()
}
