//! The command line of this program.

use std::fmt::Display;
use std::str::FromStr;

const USAGE: &str = "\
usage: everything [OPTION]...

  --bind ADDR:PORT  where to listen; 127.0.0.1:8080 unless given, port 0 takes a free one
  --origin ORIGIN   lets web pages of this origin call, * those of any; may be given several
                    times, and only pages of this machine may call if it is not given at all
  --access-log      logs every response
  --info            serves /info, which tells people what the server is and holds
  --metrics         serves /metrics, which Prometheus reads; needs a build with feature metrics
  --audit           logs every MCP request and how it ended, by a middleware
  --rate N          refuses what a caller asks beyond N requests a second
  --breaker N       leaves a tool alone for ten seconds once it failed N times in a row
  --help            prints this

With EVERYTHING_TOKEN in the environment, callers must send it as their bearer token.

Tools that answer       echo, add, fail, all_content, weather (a header of its parameter)
  and talk              slow_count (progress), log_messages
  from another thread   slow_count (blocking), ask_oracle (deferred)
  about the caller      whoami
  and ask first         book_table (a form), sign_in (a URL), ask_model (sampling),
                        list_folders (roots)
  and let you go        errand (hangs up, and is collected by resuming),
                        bake_cake (a task, for callers that know tasks)
  and change the list   offer_tool, withdraw_tool; latecomer was added to the running server
Resources               demo://text/readme, demo://blob/pixel, demo://item/{id} and
                        demo://clock, which changes every second
Prompts                 greet (with completion), plain
Beside the endpoint     /about, /confirm (where sign_in sends the user), /health, /ready";

/// What the command line asked for.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) bind: String,
    pub(crate) origins: Vec<String>,
    pub(crate) logs_access: bool,
    pub(crate) audits: bool,
    pub(crate) informs: bool,
    pub(crate) measures: bool,
    pub(crate) rate: Option<u32>,
    pub(crate) breaker: Option<u32>,
}

impl Options {
    /// Reads the arguments of this process. `--help` prints the usage and exits 0; anything unknown
    /// is told to stderr and exits 2.
    pub(crate) fn from_args() -> Self {
        let mut options = Self { bind: "127.0.0.1:8080".to_owned(), ..Self::default() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let value = arguments.by_ref();
            match argument.as_str() {
                "--help" | "-h" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                "--bind" => options.bind = read(&argument, value.next()),
                "--origin" => options.origins.push(read(&argument, value.next())),
                "--access-log" => options.logs_access = true,
                "--audit" => options.audits = true,
                "--info" => options.informs = true,
                "--metrics" if cfg!(feature = "metrics") => options.measures = true,
                "--metrics" => fail("--metrics needs a build with the feature `metrics`"),
                "--rate" => options.rate = Some(read(&argument, value.next())),
                "--breaker" => options.breaker = Some(read(&argument, value.next())),
                _ => fail(format_args!("unknown argument {argument:?}")),
            }
        }
        options
    }
}

fn read<T: FromStr<Err: Display>>(argument: &str, value: Option<String>) -> T {
    let Some(value) = value else { fail(format_args!("{argument} needs a value")) };
    value.parse().unwrap_or_else(|error| fail(format_args!("{argument} {value}: {error}")))
}

fn fail(problem: impl Display) -> ! {
    eprintln!("{problem}\n\n{USAGE}");
    std::process::exit(2);
}
