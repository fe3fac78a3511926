//! The face of the crate: a server in three lines.

mod builder;
mod handle;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

pub use builder::ServerBuilder;
pub use handle::ServerHandle;

use crate::dispatcher::{Dispatcher, Transport};
use crate::engine::Engine;
use crate::error::Error;

/// An MCP server on one thread: bound, and ready to be run.
///
/// Made by [`Server::builder`]. Handlers run on the thread that calls [`run`](Self::run); they
/// need not be `Send`.
///
/// ```no_run
/// use waterwheel::{CallToolResult, Server, Tool, ToolCall};
///
/// # fn main() -> Result<(), waterwheel::Error> {
/// Server::builder("greeter", "1.0.0")
///     .tool(Tool::new("hello").description("Says hello"), |_: &mut ToolCall| {
///         Ok(CallToolResult::text("hello"))
///     })
///     .bind("127.0.0.1:8080")?
///     .run()
/// # }
/// ```
pub struct Server {
    engine: Engine<Transport>,
    dispatcher: Dispatcher,
    addresses: Vec<SocketAddr>,
    path: String,
    /// Some when the server speaks TLS.
    #[cfg(feature = "tls")]
    tls: Option<std::sync::Arc<crate::dispatcher::TlsSource>>,
}

impl Server {
    /// Begins to describe a server that calls itself by this name and version.
    pub fn builder(name: &str, version: &str) -> ServerBuilder {
        ServerBuilder::new(name, version)
    }

    /// The addresses the server listens on, with their real ports.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The URL at which the server listens. Behind a proxy clients see another one, see
    /// [`ServerBuilder::public_url`].
    #[must_use]
    pub fn url(&self) -> String {
        let address = self.addresses.first().map(ToString::to_string).unwrap_or_default();
        format!("{}://{address}{}", self.scheme(), self.path)
    }

    fn scheme(&self) -> &'static str {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return "https";
        }
        "http"
    }

    /// A handle that other threads may use.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        let handle = ServerHandle::new(self.engine.mailbox().clone());
        #[cfg(feature = "tls")]
        let handle = handle.with_tls(self.tls.clone());
        handle
    }

    /// Ends the server on SIGINT and SIGTERM: the first lets running calls finish within the grace
    /// period, the second closes everything at once.
    ///
    /// # Errors
    ///
    /// When the handlers cannot be installed.
    pub fn handle_signals(mut self) -> Result<Self, Error> {
        self.dispatcher.handle_signals().map_err(Error::Reactor)?;
        Ok(self)
    }

    /// Serves until a handle or a signal ends it.
    ///
    /// # Errors
    ///
    /// When the reactor fails. Failures of single connections are logged and end only those.
    pub fn run(mut self) -> Result<(), Error> {
        while !self.is_finished() {
            self.turn(None)?;
        }
        Ok(())
    }

    /// Sleeps until something is due, but no longer than `limit`, and does it: for programs with a
    /// loop of their own.
    ///
    /// # Errors
    ///
    /// When the reactor fails.
    pub fn turn(&mut self, limit: Option<Duration>) -> Result<(), Error> {
        self.dispatcher.turn(&mut self.engine, limit).map_err(Error::Reactor)
    }

    /// Whether the server has been shut down and owes nothing to anybody.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.engine.is_drained()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}
