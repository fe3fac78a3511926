//! What one request costs in things that can be counted: instructions, allocations, system calls.
//!
//! `cargo bench --bench counts` prints each figure beside its ceiling and fails when one is over.
//! The change is that since the last run, whose figures are kept in `target/counts.json`.
//! Instructions need valgrind and system calls strace; without them the run fails, because a gate
//! that silently checks less is none.

#[allow(dead_code, reason = "the engine benchmark uses the rest")]
mod support;

use std::alloc::System;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::{Bench, builder, initialize, request_of, session_of};

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
        max: 19_500.0,
        why: "head, envelope, call, frame",
    },
    Ceiling { name: "instructions: modern echo", max: 22_200.0, why: "and the mirrored fields" },
    Ceiling { name: "instructions: list of 50 tools", max: 22_400.0, why: "rendered once, copied" },
    Ceiling { name: "instructions: deferred echo", max: 33_200.0, why: "exchange and mailbox" },
    Ceiling {
        name: "instructions: stream of 3 events",
        max: 34_500.0,
        why: "serialize, record, chunk",
    },
    Ceiling { name: BESIDE_IDLE, max: 1.05, why: "promised: idle connections cost nothing" },
    Ceiling { name: "allocations: classic echo", max: 3.0, why: "with schema validation" },
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
        ["work", name, count, idle] => work(
            name,
            count.parse().expect("a number of requests"),
            idle.parse().expect("a number of connections"),
        ),
        ["serve"] => serve(),
        _ => return measure(),
    }
    ExitCode::SUCCESS
}

fn measure() -> ExitCode {
    let figures = figures();
    let last = last_figures().unwrap_or_default();
    let mut failed = false;
    println!("{:<40} {:>10} {:>10} {:>10}", "per request", "figure", "change", "ceiling");
    for (name, figure) in &figures {
        let ceiling = CEILINGS.iter().find(|ceiling| ceiling.name == name);
        let ceiling = ceiling.unwrap_or_else(|| panic!("{name} has no ceiling"));
        let over = *figure > ceiling.max + slack(name);
        failed |= over;
        let mark = if over { "OVER" } else { ceiling.why };
        let change = last.get(name).map(|last| format!("{:+.2}", figure - last));
        let change = change.as_deref().unwrap_or("new");
        println!("{name:<40} {figure:>10.2} {change:>10} {:>10.2}  {mark}", ceiling.max);
    }
    if let Err(error) = keep_figures(figures) {
        eprintln!("the next run will know nothing of this one: {error}");
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// All figures, in the order in which they are printed.
fn figures() -> Vec<(String, f64)> {
    let mut figures = Vec::new();
    for name in WORKS {
        figures.push((format!("instructions: {name}"), instructions(name, 0)));
    }
    let alone = figures[0].1;
    figures.push((BESIDE_IDLE.into(), instructions(WORKS[0], IDLE) / alone));
    for name in ["classic echo", "classic echo, no schema", "modern echo, no schema"] {
        figures.push((format!("allocations: {name}"), allocations(name)));
    }
    figures.extend(system_calls());
    figures
}

/// How far over its ceiling a figure may be: a tenth of a call is what connecting and starting
/// cost, spread over the requests. A ratio counts no calls.
fn slack(name: &str) -> f64 {
    if name == BESIDE_IDLE { 0.0 } else { 0.1 }
}

/// Where figures are kept from one run to the next.
fn kept() -> PathBuf {
    // The folder that Cargo gives benches is one in the target folder, wherever that is.
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("counts.json")
}

/// The figures of the last run, if there was one.
fn last_figures() -> Option<BTreeMap<String, f64>> {
    serde_json::from_slice(&fs::read(kept()).ok()?).ok()
}

fn keep_figures(figures: Vec<(String, f64)>) -> io::Result<()> {
    let figures: BTreeMap<String, f64> = figures.into_iter().collect();
    fs::write(kept(), serde_json::to_vec_pretty(&figures)?)
}

const WORKS: [&str; 5] =
    ["classic echo", "modern echo", "list of 50 tools", "deferred echo", "stream of 3 events"];
/// What the first of these costs beside idle connections, in terms of what it costs alone.
const BESIDE_IDLE: &str = "ratio: classic echo beside 10,000 idle";
const IDLE: usize = 10_000;

/// Serves `count` requests of one kind in memory, beside `idle` connections.
fn work(name: &str, count: usize, idle: usize) {
    let mut bench = Bench::new(name).beside(idle);
    for _ in 0..count {
        bench.once();
    }
}

/// Instructions of one request: the difference between many and few, so that the set-up is not
/// counted.
fn instructions(name: &str, idle: usize) -> f64 {
    const FEW: usize = 100;
    const MANY: usize = 1_100;
    (callgrind(name, MANY, idle) - callgrind(name, FEW, idle)) / (MANY - FEW) as f64
}

fn callgrind(name: &str, count: usize, idle: usize) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["work", name, &count.to_string(), &idle.to_string()])
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
