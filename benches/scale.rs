//! What open connections cost: memory, time to accept them, and time for a request beside them.
//!
//! Every figure belongs to a fresh server process, since memory once used is seldom given back.

#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and waits for the kernel"
)]

mod limit;
#[allow(dead_code, reason = "the loopback benchmark uses the rest")]
mod load;
#[allow(dead_code, reason = "the loopback benchmark uses the rest")]
mod servers;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use load::probe::Probe;
use load::work::{Era, Target, Work};
use load::{Load, Until};
use serde_json::json;
use servers::{Kind, Process, Server};

fn main() -> ExitCode {
    servers::serve_if_asked();
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(arguments) = arguments.strip_prefix(&[RAISED]) else {
        eprintln!("no shell to raise the descriptor limit: {}", restart_raised(&arguments));
        return ExitCode::FAILURE;
    };
    let Some(options) = Options::parse(arguments) else {
        eprintln!("usage: cargo bench --bench scale -- [--quick] [--counts N,N,...]");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The argument of a process whose descriptor limit is raised already.
const RAISED: &str = "--descriptors-raised";

/// Becomes this program once more, with as many descriptors as can be had; returns if it cannot.
fn restart_raised(arguments: &[&str]) -> io::Error {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let script = r#"ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)"; exec "$0" "$@""#;
    Command::new("sh").args(["-c", script]).arg(program).arg(RAISED).args(arguments).exec()
}

/// How much is measured.
#[derive(Debug)]
struct Options {
    /// How many connections to open, one number after the other.
    counts: Vec<usize>,
    /// How many requests to take the CPU time of.
    requests: u64,
}

impl Options {
    /// Reads the arguments, if they make sense.
    ///
    /// Cargo passes `--bench` to a benchmark, and nothing where it only tries whether it runs.
    fn parse(arguments: &[&str]) -> Option<Self> {
        let mut options = match arguments.is_empty() || arguments.contains(&"--quick") {
            true => Self { counts: vec![100], requests: 1_000 },
            false => Self { counts: vec![1_000, 10_000], requests: 50_000 },
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            match *name {
                "--bench" | "--quick" => {}
                "--counts" => options.counts = numbers(rest.next()?)?,
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Reads numbers between commas, none of them zero.
fn numbers(text: &str) -> Option<Vec<usize>> {
    text.split(',').map(|number| number.parse().ok().filter(|number| *number > 0)).collect()
}

/// Measures both servers at each count.
fn run(options: &Options) -> io::Result<()> {
    println!("{}\n\n{HEADING}", servers::pin_load());
    let answer = {
        let ours = Server::start(Kind::Waterwheel, WORK.tools(), "")?;
        Probe::open(&ours.target)?.capture(ERA, WORK)?
    };
    for &count in &options.counts {
        if count + DESCRIPTORS_SPARE > descriptors_max()? {
            println!("{count:6}  more than the descriptor limit allows");
            continue;
        }
        for kind in [Kind::Limit, Kind::Waterwheel] {
            let server = Server::start(kind, WORK.tools(), &answer)?;
            println!("{}", idle(&server, count, options.requests)?.line(kind, count));
        }
        let server = Server::start(Kind::Waterwheel, WORK.tools(), "")?;
        println!("{}", streams(&server, count, options.requests)?.line(count));
    }
    Ok(())
}

/// The request that is answered beside the idle ones, and once on each of them.
const WORK: Work = Work::Echo;

/// The era without sessions: connections are all there is to keep.
const ERA: Era = Era::Modern;

/// What a process needs beside its connections.
const DESCRIPTORS_SPARE: usize = 64;

/// The soft limit of this process, which its children share.
fn descriptors_max() -> io::Result<usize> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_ascii_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).ok_or_else(|| io::Error::other("no open files limit"))
}

const HEADING: &str = concat!(
    " count  server      held     accept ms  KiB each  opened again  KiB left after close",
    "  CPU us/req alone  beside them  told ms  CPU us/stream",
);

/// What idle connections cost a server.
#[derive(Debug)]
struct Idle {
    /// Until the last of them was accepted.
    accept: Duration,
    /// Resident memory for each.
    kib_each: f64,
    /// The same after all were closed and as many opened again: more than before is a leak.
    kib_each_again: f64,
    /// What stayed resident after all were closed.
    kib_left: i64,
    /// CPU of a request with no other connection.
    alone_us: f64,
    /// CPU of a request beside the idle ones.
    beside_us: f64,
}

/// Opens idle keep-alive connections, closes them, and opens them again.
fn idle(server: &Server, count: usize, requests: u64) -> io::Result<Idle> {
    let process = server.process();
    let alone_us = request_us(server, requests)?;
    let descriptors = process.descriptors()?;
    let before = process.resident_kib()?;
    let (held, accept) = hold(&server.target, count)?;
    let kib_each = kib_each(process, before, count)?;
    let beside_us = request_us(server, requests)?;
    drop(held);
    settle(process, descriptors)?;
    let kib_left = process.resident_kib()?.cast_signed() - before.cast_signed();
    let (held, _) = hold(&server.target, count)?;
    let kib_each_again = self::kib_each(process, before, count)?;
    drop(held);
    Ok(Idle { accept, kib_each, kib_each_again, kib_left, alone_us, beside_us })
}

impl Idle {
    /// The line of the table.
    fn line(&self, kind: Kind, count: usize) -> String {
        format!(
            "{count:6}  {:10}  idle    {:10.1}  {:8.1}  {:12.1}  {:20}  {:16.1}  {:11.1}",
            kind.name(),
            self.accept.as_secs_f64() * 1e3,
            self.kib_each,
            self.kib_each_again,
            self.kib_left,
            self.alone_us,
            self.beside_us,
        )
    }
}

/// Opens connections that were each used once, and tells when the last was accepted.
fn hold(target: &Target, count: usize) -> io::Result<(Load, Duration)> {
    let requests = (0..count).map(|id| target.request(ERA, WORK, 100_000 + id as u64, None));
    let requests: Vec<_> = requests.collect();
    let started = Instant::now();
    let mut load = Load::open(target.addr, requests)?;
    // Connections are accepted in order, so an answer to a later one tells.
    Probe::open(target)?.capture(ERA, WORK)?;
    let accept = started.elapsed();
    let outcome = load.run(Until::Answered(count as u64))?;
    match outcome.first_error {
        Some(error) => Err(io::Error::other(error)),
        None => Ok((load, accept)),
    }
}

/// Resident memory over `before`, for each of so many.
fn kib_each(process: Process, before: u64, count: usize) -> io::Result<f64> {
    Ok(process.resident_kib()?.saturating_sub(before) as f64 / count as f64)
}

/// Microseconds of CPU for each of many requests on one connection.
fn request_us(server: &Server, requests: u64) -> io::Result<f64> {
    let request = server.target.request(ERA, WORK, 100_000, None);
    let mut load = Load::open(server.target.addr, vec![request])?;
    load.run(Until::Answered(requests / 10))?;
    let before = server.process().cpu()?;
    let outcome = load.run(Until::Answered(requests))?;
    let spent = server.process().cpu()?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / outcome.requests.max(1) as f64)
}

/// How long a server may take to notice that its clients have gone.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Waits until a process has no more descriptors than it had.
fn settle(process: Process, descriptors: usize) -> io::Result<()> {
    let started = Instant::now();
    while process.descriptors()? > descriptors {
        if started.elapsed() > SETTLE_MAX {
            return Err(io::Error::other("closed connections are not let go"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// What open event streams cost a server.
#[derive(Debug)]
enum Streams {
    /// All were opened.
    Opened { open: Duration, kib_each: f64, kib_left: i64, told: Told },
    /// The server has none to give, and said so.
    Refused(String),
}

/// One notification to all streams.
#[derive(Debug)]
struct Told {
    /// From the change until the last of them was read.
    wall: Duration,
    /// CPU of the server for each stream.
    cpu_us: f64,
}

/// Makes the server announce a change, and hears of it on every stream.
fn tell(server: &Server, held: &mut [TcpStream]) -> io::Result<Told> {
    let mut probe = Probe::open(&server.target)?;
    let params = json!({"uri": servers::CHANGE});
    let request = server.target.call(ERA, "resources/read", params, 1, None);
    let before = server.process().cpu()?;
    let started = Instant::now();
    probe.ask(&request)?;
    for stream in held.iter_mut() {
        hear(stream)?;
    }
    let wall = started.elapsed();
    let spent = server.process().cpu()?.saturating_sub(before);
    Ok(Told { wall, cpu_us: spent.as_secs_f64() * 1e6 / held.len().max(1) as f64 })
}

/// Reads a stream until it tells of the change.
fn hear(stream: &mut TcpStream) -> io::Result<()> {
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&heard).contains("notifications/tools/list_changed") {
        match stream.read(&mut piece)? {
            0 => return Err(io::Error::other("a stream ended before it told of the change")),
            read => heard.extend_from_slice(&piece[..read]),
        }
    }
    Ok(())
}

/// Opens event streams, has a change announced on all of them, and closes them.
fn streams(server: &Server, count: usize, requests: u64) -> io::Result<Streams> {
    let process = server.process();
    request_us(server, requests)?;
    let descriptors = process.descriptors()?;
    let before = process.resident_kib()?;
    let started = Instant::now();
    let mut held = Vec::with_capacity(count);
    for id in 0..count {
        match open_stream(&server.target, id as u64)? {
            Ok(stream) => held.push(stream),
            Err(answer) => return Ok(Streams::Refused(answer)),
        }
    }
    let open = started.elapsed();
    let kib_each = kib_each(process, before, count)?;
    let told = tell(server, &mut held)?;
    drop(held);
    settle(process, descriptors)?;
    let kib_left = process.resident_kib()?.cast_signed() - before.cast_signed();
    Ok(Streams::Opened { open, kib_each, kib_left, told })
}

/// Opens a stream of listing changes; the inner error is the line of a refusal.
fn open_stream(target: &Target, id: u64) -> io::Result<Result<TcpStream, String>> {
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = TcpStream::connect(target.addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(&target.call(ERA, "subscriptions/listen", params, id, None))?;
    let mut head = [0; 4096];
    let read = stream.read(&mut head)?;
    let head = String::from_utf8_lossy(&head[..read]).to_ascii_lowercase();
    let is_stream = head.starts_with("http/1.1 200") && head.contains("text/event-stream");
    let first_line = head.lines().next().unwrap_or_default();
    Ok(if is_stream { Ok(stream) } else { Err(first_line.to_owned()) })
}

impl Streams {
    /// The line of the table.
    fn line(&self, count: usize) -> String {
        let start = format!("{count:6}  waterwheel  streams ");
        match self {
            Self::Opened { open, kib_each, kib_left, told } => {
                let (open_ms, told_ms) = (open.as_secs_f64() * 1e3, told.wall.as_secs_f64() * 1e3);
                let memory = format!("{kib_each:8.1}  {:12}  {kib_left:20}", "-");
                let told = format!("{told_ms:7.1}  {:13.1}", told.cpu_us);
                format!("{start}{open_ms:10.1}  {memory}  {:16}  {:11}  {told}", "-", "-")
            }
            Self::Refused(answer) => format!("{start}refused: {answer}"),
        }
    }
}
