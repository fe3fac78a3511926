//! Servers as child processes of a benchmark: started, pinned, measured and ended.
//!
//! A child is the benchmark's own program with other arguments. It prints its URL as its first line
//! and ends with its standard input, so that none outlives a benchmark that is killed.

mod waterwheel;

#[allow(unused_imports, reason = "only the benchmark of scale has changes announced")]
pub(crate) use waterwheel::CHANGE;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, process, thread};

use socket2::{Domain, Socket, Type};

use crate::limit::{self, Answer};
use crate::load::work::Target;

/// Which server a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The limit, with a fixed answer of the right size.
    Limit,
    /// The limit, repeating the call's text.
    LimitEcho,
    /// The crate that this benchmark belongs to.
    Waterwheel,
}

impl Kind {
    /// The word for it in arguments.
    fn argument(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::LimitEcho => "limit-echo",
            Self::Waterwheel => "waterwheel",
        }
    }

    /// The word for it in output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Limit | Self::LimitEcho => "limit",
            Self::Waterwheel => "waterwheel",
        }
    }
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) kind: Kind,
    pub(crate) target: Target,
}

impl Server {
    /// Starts a server with this many tools, and hands a limit what it shall answer.
    pub(crate) fn start(kind: Kind, tools: usize, answer: &str) -> io::Result<Self> {
        let mut child = pinned(SERVER_CORE, &env::current_exe()?)
            .args(["serve", kind.argument(), &tools.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let told = tell(&mut child, answer).and_then(|()| first_line(&mut child));
        match told.and_then(|url| Target::parse(&url)) {
            Ok(target) => Ok(Self { child, kind, target }),
            Err(error) => {
                end(&mut child);
                Err(io::Error::other(format!("{} did not start: {error}", kind.name())))
            }
        }
    }

    /// Where its CPU time and memory are to be read.
    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Writes the answer's line to a child, and keeps the pipe open.
fn tell(child: &mut Child, answer: &str) -> io::Result<()> {
    let input = child.stdin.as_mut().expect("the child was started with a pipe");
    writeln!(input, "{answer}")
}

/// Reads the line in which a child says where it listens.
fn first_line(child: &mut Child) -> io::Result<String> {
    let output = child.stdout.take().expect("the child was started with a pipe");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line)
}

/// Ends a child; one that has ended by itself is as good.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The child's side: serves if the arguments say so, and then does not return.
pub(crate) fn serve_if_asked() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ["serve", kind, tools] = arguments[..] else {
        return;
    };
    if let Err(error) = serve(kind, tools) {
        eprintln!("{kind}: {error}");
    }
    process::exit(1);
}

/// Serves until the process ends.
fn serve(kind: &str, tools: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    thread::spawn(end_with_input);
    match kind {
        "waterwheel" => waterwheel::serve("127.0.0.1:0", tools.parse()?),
        "limit" => Ok(serve_limit(&Answer::Fixed(answer.trim().into()))?),
        "limit-echo" => Ok(serve_limit(&Answer::Echo)?),
        _ => Err("no such server".into()),
    }
}

/// Serves the limit.
fn serve_limit(answer: &Answer) -> io::Result<()> {
    let listener = listen()?;
    println!("http://{}/mcp", listener.local_addr()?);
    limit::serve(listener, answer)
}

/// A listener on a free port.
///
/// A short queue overflows when thousands connect at once, and each one too many waits a second
/// until its handshake is tried again. The kernel cuts this to its own maximum.
fn listen() -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

/// Ends this process when its parent has gone.
fn end_with_input() {
    let _ = io::stdin().read_to_end(&mut Vec::new());
    process::exit(0);
}

/// The core that every server runs on.
const SERVER_CORE: &str = "0";

/// The core that the load runs on.
const LOAD_CORE: &str = "1";

/// Pins this process to the load's core and tells how that went.
pub(crate) fn pin_load() -> &'static str {
    let id = process::id().to_string();
    match run_quietly(Command::new("taskset").args(["-cp", LOAD_CORE, &id])) {
        true => "servers pinned to core 0, load to core 1",
        false => "nothing pinned: no taskset, or no second core",
    }
}

/// A command that runs this program on one core, where that can be had.
fn pinned(core: &str, program: &std::path::Path) -> Command {
    if !run_quietly(Command::new("taskset").args(["-c", core, "true"])) {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command
}

/// True if this command can be run and succeeds.
fn run_quietly(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A process whose use of the machine is read from `/proc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

/// What `/proc/PID/stat` counts in.
const TICK: Duration = Duration::from_millis(10);

impl Process {
    /// This process.
    pub(crate) fn own() -> Self {
        Self(process::id())
    }

    /// User and system time since the process began, of its threads that live.
    pub(crate) fn cpu(self) -> io::Result<Duration> {
        self.cpu_exact().or_else(|_| self.cpu_ticks())
    }

    /// The scheduler's own account, in nanoseconds; not every kernel keeps it.
    fn cpu_exact(self) -> io::Result<Duration> {
        let mut sum = Duration::ZERO;
        for task in fs::read_dir(format!("/proc/{}/task", self.0))? {
            let stat = fs::read_to_string(task?.path().join("schedstat"))?;
            let nanoseconds = stat.split_ascii_whitespace().next().and_then(|n| n.parse().ok());
            sum += Duration::from_nanos(nanoseconds.ok_or(io::ErrorKind::InvalidData)?);
        }
        Ok(sum)
    }

    /// What every kernel tells.
    fn cpu_ticks(self) -> io::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0))?;
        // The command's name stands in parentheses and may hold spaces.
        let (_, fields) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
        let times = fields.split_ascii_whitespace().skip(11).take(2);
        Ok(TICK * times.flat_map(str::parse::<u32>).sum())
    }

    /// Resident memory in KiB.
    pub(crate) fn resident_kib(self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_ascii_whitespace().next());
        let number = number.and_then(|number| number.parse().ok());
        number.ok_or_else(|| io::Error::other("no VmRSS"))
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(self) -> io::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.0))?.count())
    }
}
