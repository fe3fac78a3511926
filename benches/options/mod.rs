//! The command line of the loopback benchmark.

use std::io;
use std::time::Duration;

use crate::load::probe::Sessions;
use crate::load::work::{Era, Target, Work};
use crate::servers::Process;

/// What to say about a wrong argument.
pub(crate) const USAGE: &str = "\
usage: cargo bench --bench loopback -- [options]
  --quick                 a look, not a measurement
  --rounds N              rounds over all servers
  --seconds S             length of one measurement
  --connections N,N,...   how many at once
  --era classic|modern    only this era
  --workload echo|list|large   only this workload
  --awake                 the load never sleeps, so that no server pays for waking it
  --target URL --pid PID  measure that server and print JSON
  --sessions opened|pretended  whether that server knows sessions; a limit does not
  --capture URL           print what that server answers and measure nothing";

/// What is measured, and how long.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) duration: Duration,
    pub(crate) connections: Vec<usize>,
    pub(crate) eras: Vec<Era>,
    pub(crate) works: Vec<Work>,
    /// Whether the load looks for answers without end rather than sleep until there are some.
    pub(crate) awake: bool,
    pub(crate) against: Against,
}

/// Which servers are asked.
#[derive(Debug)]
pub(crate) enum Against {
    /// Ours and the limit, in turn.
    Limit,
    /// One that runs already.
    Target { target: Target, process: Process, sessions: Sessions },
    /// One that runs already, for its answers only.
    Capture { target: Target },
}

/// How much is done where nothing more is said.
enum Effort {
    /// A measurement.
    Full,
    /// A look.
    Quick,
    /// A try whether it runs at all.
    Try,
}

impl Effort {
    /// What these arguments ask for.
    ///
    /// Cargo passes `--bench` to a benchmark, and nothing where it only tries whether it runs.
    fn of(arguments: &[String]) -> Self {
        match arguments.iter().any(|argument| argument == "--quick") {
            true => Self::Quick,
            false if arguments.is_empty() => Self::Try,
            false => Self::Full,
        }
    }
}

impl Options {
    /// Reads the arguments.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> io::Result<Self> {
        let arguments: Vec<String> = arguments.collect();
        let mut options = Self::of(Effort::of(&arguments));
        let (mut url, mut pid, mut capture) = (None, None, None);
        let mut sessions = Sessions::Opened;
        let mut rest = arguments.into_iter();
        while let Some(name) = rest.next() {
            match name.as_str() {
                "--bench" | "--quick" => continue,
                "--awake" => {
                    options.awake = true;
                    continue;
                }
                _ => {}
            }
            let value = rest.next().ok_or_else(|| wrong(&name, "needs a value"))?;
            match name.as_str() {
                "--rounds" => options.rounds = number(&name, &value)?,
                "--seconds" => options.duration = seconds(&name, &value)?,
                "--connections" => options.connections = numbers(&name, &value)?,
                "--era" => options.eras = one_of(&name, &value, &Era::ALL, Era::name)?,
                "--workload" => options.works = one_of(&name, &value, &Work::ALL, Work::name)?,
                "--target" => url = Some(Target::parse(&value)?),
                "--pid" => pid = Some(Process(number(&name, &value)?)),
                "--sessions" => {
                    sessions = one_of(&name, &value, &Sessions::ALL, Sessions::name)?[0];
                }
                "--capture" => capture = Some(Target::parse(&value)?),
                _ => return Err(wrong(&name, "is not an option")),
            }
        }
        options.against = match (url, pid, capture) {
            (None, None, None) => Against::Limit,
            (Some(target), Some(process), None) => Against::Target { target, process, sessions },
            (None, None, Some(target)) => Against::Capture { target },
            _ => return Err(wrong("--target", "goes with --pid and without --capture")),
        };
        Ok(options)
    }

    /// The defaults.
    fn of(effort: Effort) -> Self {
        let (rounds, millis, connections) = match effort {
            Effort::Full => (5, 2_000, vec![1, 64, 256]),
            Effort::Quick => (2, 200, vec![1, 16]),
            Effort::Try => (1, 20, vec![4]),
        };
        Self {
            rounds,
            duration: Duration::from_millis(millis),
            connections,
            eras: Era::ALL.to_vec(),
            works: Work::ALL.to_vec(),
            awake: false,
            against: Against::Limit,
        }
    }

    /// The connection counts that make sense for a workload.
    pub(crate) fn connections_for(&self, work: Work) -> impl Iterator<Item = usize> {
        self.connections.iter().copied().filter(move |count| *count <= work.connections_max())
    }
}

/// The error of an argument.
fn wrong(name: &str, why: &str) -> io::Error {
    io::Error::other(format!("{name} {why}"))
}

/// Reads a number that is not zero.
fn number<N: std::str::FromStr + PartialEq + Default>(name: &str, value: &str) -> io::Result<N> {
    let number = value.parse().ok().filter(|number| *number != N::default());
    number.ok_or_else(|| wrong(name, "needs a number above zero"))
}

/// Reads numbers between commas.
fn numbers(name: &str, value: &str) -> io::Result<Vec<usize>> {
    value.split(',').map(|value| number(name, value)).collect()
}

/// Reads a length of time that ends.
fn seconds(name: &str, value: &str) -> io::Result<Duration> {
    let seconds = value.parse().ok().filter(|seconds| (0.01..=600.0).contains(seconds));
    let seconds = seconds.ok_or_else(|| wrong(name, "needs seconds from 0.01 to 600"))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads one of these names.
fn one_of<T: Copy>(
    name: &str,
    value: &str,
    all: &[T],
    of: fn(T) -> &'static str,
) -> io::Result<Vec<T>> {
    let found = all.iter().copied().find(|item| of(*item) == value);
    Ok(vec![found.ok_or_else(|| wrong(name, "does not know that"))?])
}
