//! CPU per request, throughput and latency over loopback, beside the least a server must do.
//!
//! Absolute figures wander with the machine and the hour. What counts is the ratio to the limit
//! server, measured in turn with it in every round.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod limit;
#[allow(dead_code, reason = "the scale benchmark uses the rest")]
mod load;
mod options;
#[allow(dead_code, reason = "the scale benchmark uses the rest")]
mod servers;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use load::probe::{Probe, Sessions};
use load::work::{Era, Target, Work};
use load::{Load, Until};
use options::{Against, Options};
use servers::{Kind, Process, Server};

fn main() -> ExitCode {
    servers::serve_if_asked();
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked.
fn run(options: &Options) -> io::Result<()> {
    let pinning = servers::pin_load();
    match &options.against {
        Against::Limit => {
            let awake = if options.awake { ", which never sleeps" } else { "" };
            println!("{} rounds of {:?}, {pinning}{awake}", options.rounds, options.duration);
            options.works.iter().try_for_each(|work| compare(*work, options))
        }
        Against::Target { target, process, sessions } => {
            let (process, sessions) = (*process, *sessions);
            let subject = Subject { target, process, sessions };
            drive(&subject, options)
        }
        Against::Capture { target } => capture(target, options),
    }
}

/// A server and the era in which it is asked, measured round by round.
struct Lane {
    era: Era,
    server: Server,
}

/// Measures one workload on all servers in turn and prints its table.
fn compare(work: Work, options: &Options) -> io::Result<()> {
    let lanes = lanes(work, &options.eras)?;
    let connections: Vec<usize> = options.connections_for(work).collect();
    let mut samples = vec![vec![Vec::new(); lanes.len()]; connections.len()];
    for _ in 0..options.rounds {
        for (row, &count) in samples.iter_mut().zip(&connections) {
            for (cell, Lane { era, server }) in row.iter_mut().zip(&lanes) {
                let subject = Subject::of(server);
                cell.push(measure(&subject, *era, work, count, options)?);
            }
        }
    }
    println!("\n{work}\n{HEADING}");
    for (row, count) in samples.iter().zip(&connections) {
        for (pair, cells) in lanes.chunks(PAIR).zip(row.chunks(PAIR)) {
            for (lane, cell) in pair.iter().zip(cells) {
                println!("{}", line(lane, *count, cell, &cells[0]));
            }
        }
    }
    Ok(())
}

/// A limit, and what is compared with it.
const PAIR: usize = 2;

/// The servers of one workload: for each era the limit, then ours.
fn lanes(work: Work, eras: &[Era]) -> io::Result<Vec<Lane>> {
    let mut lanes = Vec::new();
    for &era in eras {
        let ours = Server::start(Kind::Waterwheel, work.tools(), "")?;
        let answer = Probe::open(&ours.target)?.capture(era, work)?;
        let kind = if work == Work::Large { Kind::LimitEcho } else { Kind::Limit };
        let limit = Server::start(kind, work.tools(), &answer)?;
        lanes.extend([limit, ours].map(|server| Lane { era, server }));
    }
    Ok(lanes)
}

/// What one run on one server showed.
#[derive(Clone, Debug)]
struct Sample {
    /// Microseconds of the server's CPU for an answered request.
    cpu_us: f64,
    /// Microseconds of the load's own.
    load_us: f64,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    errors: u64,
    first_error: Option<String>,
}

/// A server that is measured.
#[derive(Debug)]
struct Subject<'a> {
    target: &'a Target,
    process: Process,
    sessions: Sessions,
}

impl<'a> Subject<'a> {
    /// A server that this benchmark started.
    fn of(server: &'a Server) -> Self {
        let sessions = match server.kind {
            Kind::Waterwheel => Sessions::Opened,
            Kind::Limit | Kind::LimitEcho => Sessions::Pretended,
        };
        Self { target: &server.target, process: server.process(), sessions }
    }
}

/// Warms a server up and measures it once.
fn measure(
    subject: &Subject<'_>,
    era: Era,
    work: Work,
    connections: usize,
    options: &Options,
) -> io::Result<Sample> {
    let duration = options.duration;
    let mut probe = Probe::open(subject.target)?;
    let sessions = probe.open_sessions(era, subject.sessions, connections)?;
    // Ids of one width, so that all requests and answers are of one size.
    let requests = (100_000..).zip(&sessions);
    let requests =
        requests.map(|(id, session)| subject.target.request(era, work, id, session.as_deref()));
    let mut load = Load::open(subject.target.addr, requests.collect())?;
    if options.awake {
        load.stay_awake();
    }
    load.run(Until::Elapsed(duration / 10))?;
    let before = (subject.process.cpu()?, Process::own().cpu()?);
    let outcome = load.run(Until::Elapsed(duration))?;
    let after = (subject.process.cpu()?, Process::own().cpu()?);
    drop(load);
    probe.close_sessions(subject.sessions, &sessions)?;
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / outcome.requests.max(1) as f64;
    let quantile_us = |q| outcome.latencies.value_at_quantile(q) as f64 / 1e3;
    Ok(Sample {
        cpu_us: each(after.0.saturating_sub(before.0)),
        load_us: each(after.1.saturating_sub(before.1)),
        per_second: outcome.requests as f64 / outcome.elapsed.as_secs_f64(),
        p50_us: quantile_us(0.5),
        p99_us: quantile_us(0.99),
        errors: outcome.errors,
        first_error: outcome.first_error,
    })
}

const HEADING: &str = concat!(
    "era      conns  server      CPU us/req  load us/req  requests/s",
    "    p50 us    p99 us  CPU ratio to limit",
);

/// One line of a table: medians, and the ratio of each round to the limit in that round.
fn line(lane: &Lane, connections: usize, samples: &[Sample], limits: &[Sample]) -> String {
    let of = |field: fn(&Sample) -> f64| median(samples.iter().map(field).collect());
    let mut line = format!(
        "{:7} {connections:6}  {:10} {:11.1}  {:11.1}  {:10.0}  {:8.0}  {:8.0}",
        lane.era.name(),
        lane.server.kind.name(),
        of(|s| s.cpu_us),
        of(|s| s.load_us),
        of(|s| s.per_second),
        of(|s| s.p50_us),
        of(|s| s.p99_us),
    );
    if lane.server.kind == Kind::Waterwheel {
        line += &format!("  {}", spread(samples, limits));
    }
    line + &complaint(samples)
}

/// The median of the rounds' ratios to the limit, and the least and the greatest.
fn spread(samples: &[Sample], limits: &[Sample]) -> String {
    let mut ratios: Vec<f64> =
        samples.iter().zip(limits).map(|(s, l)| s.cpu_us / l.cpu_us).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, greatest) = (ratios[0], ratios[ratios.len() - 1]);
    format!("{:.2} [{least:.2}..{greatest:.2}]", median(ratios))
}

/// The middle value, or the mean of the two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
    }
}

/// What a reader must know before believing a line.
fn complaint(samples: &[Sample]) -> String {
    let errors: u64 = samples.iter().map(|sample| sample.errors).sum();
    let first = samples.iter().find_map(|sample| sample.first_error.as_deref());
    match errors {
        0 => String::new(),
        _ => format!("  {errors} errors: {}", first.unwrap_or("wrong answers")),
    }
}

/// Measures a server that somebody else started; one JSON object a line.
fn drive(subject: &Subject<'_>, options: &Options) -> io::Result<()> {
    for &work in &options.works {
        for &era in &options.eras {
            for connections in options.connections_for(work) {
                for _ in 0..options.rounds {
                    let sample = measure(subject, era, work, connections, options)?;
                    println!("{}", sample.to_json(era, work, connections));
                }
            }
        }
    }
    Ok(())
}

impl Sample {
    /// The sample for a program to read.
    fn to_json(&self, era: Era, work: Work, connections: usize) -> serde_json::Value {
        serde_json::json!({
            "era": era.name(),
            "workload": work.name(),
            "connections": connections,
            "cpu_us": self.cpu_us,
            "load_us": self.load_us,
            "per_second": self.per_second,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "errors": self.errors,
            "first_error": self.first_error,
        })
    }
}

/// Prints the results that a server answers, for a limit to repeat.
fn capture(target: &Target, options: &Options) -> io::Result<()> {
    for &work in &options.works {
        for &era in &options.eras {
            println!("{}", Probe::open(target)?.capture(era, work)?);
        }
    }
    Ok(())
}
