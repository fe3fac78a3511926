//! What callers of the crate may see go wrong.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not be built.
///
/// `Display` is one line that names what was refused and what to do; `source` has the rest.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A tool, resource or prompt was registered twice under one name.
    Duplicate {
        /// What kind of thing it is, for example `tool`.
        kind: &'static str,
        /// The name used twice.
        name: String,
    },
    /// A schema, designation or name that cannot be served.
    Invalid {
        /// What kind of thing it is, for example `tool`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The bind address is not one this server may listen on.
    Address {
        /// The address as it was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that the server was told to use cannot be used.
    File {
        /// The file as it was named.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system refused a socket.
    Bind {
        /// The address that was tried.
        address: SocketAddr,
        /// Why the system refused.
        source: io::Error,
    },
    /// The event loop or its signal handlers could not be set up.
    Loop(io::Error),
    /// The system's random source failed, so neither cursors nor sessions could be trusted.
    Random(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { kind, name } => {
                write!(f, "{kind} {name:?} is registered twice; names must be unique")
            }
            Self::Invalid { kind, name, reason } => write!(f, "{kind} {name:?}: {reason}"),
            Self::Address { address, reason } => write!(f, "cannot listen on {address}: {reason}"),
            Self::File { file, reason } => write!(f, "cannot use {}: {reason}", file.display()),
            Self::Bind { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::Loop(source) => write!(f, "cannot set up the event loop: {source}"),
            Self::Random(reason) => write!(f, "the system's random source failed: {reason}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } | Self::Loop(source) => Some(source),
            _ => None,
        }
    }
}

/// Why a running server stopped against its will.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server could not be built.
    Build(BuildError),
    /// The reactor failed; nothing can be served without it.
    Reactor(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Reactor(source) => write!(f, "the event loop failed: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(error) => error.source(),
            Self::Reactor(source) => Some(source),
        }
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}
