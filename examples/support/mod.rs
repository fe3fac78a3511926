//! What every example server does the same way: its arguments and how it ends.

use std::fmt;

/// How an example's `main` ends: an error is printed as one line and the exit code is 1.
pub(crate) type Outcome = Result<(), Failure>;

/// An error that prints as its message alone.
pub(crate) struct Failure(String);

impl<E: fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The command line of an example server.
pub(crate) struct Options {
    /// Where to listen.
    pub(crate) bind: String,
}

impl Options {
    /// Reads the arguments of this process. `--help` prints the usage and exits 0; anything unknown
    /// prints it to stderr and exits 2.
    pub(crate) fn from_args(program: &str, default: &str) -> Self {
        let usage = format!(
            "usage: {program} [--bind ADDR:PORT]\n  \
             --bind ADDR:PORT  where to listen; {default} unless given, port 0 takes a free one"
        );
        let mut options = Self { bind: default.to_owned() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--help" | "-h" => {
                    println!("{usage}");
                    std::process::exit(0);
                }
                "--bind" => match arguments.next() {
                    Some(address) => options.bind = address,
                    None => fail(&usage, "--bind needs an address"),
                },
                _ => fail(&usage, &format!("unknown argument {argument:?}")),
            }
        }
        options
    }
}

/// Says what is wrong with the command line, and exits.
pub(crate) fn fail(usage: &str, problem: &str) -> ! {
    eprintln!("{problem}\n{usage}");
    std::process::exit(2);
}
