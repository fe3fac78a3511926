//! What those who run a server switch on: everything here is off unless asked for.

use super::ServerBuilder;
use crate::engine::app::Middleware;
use crate::filter::RateLimit;
use crate::limits::Breaker;

/// The choices of this file.
#[derive(Debug, Default)]
pub(super) struct Ops {
    pub(super) access_log: bool,
    pub(super) rate: Option<RateLimit>,
}

impl ServerBuilder {
    /// Writes a line for every response to the log, see [`AccessLog`](crate::filter::AccessLog).
    /// It is in front of all filters, so that it sees what the callers see.
    pub fn access_log(mut self) -> Self {
        self.ops.access_log = true;
        self
    }

    /// Bounds how often a caller may ask, at the head of each request; see [`RateLimit`] for who
    /// counts as a caller. Probes and preflights are exempt.
    ///
    /// With an authentication hook, refused credentials count for the address they came from, and
    /// once it has used its share up the hook is not asked about it any more, for valid credentials
    /// from there neither. Where many callers share an address, as behind a proxy, name the
    /// caller's own by [`RateLimit::address`].
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.ops.rate = Some(limit);
        self
    }

    /// Gives every tool a breaker of its own, so that one that keeps failing is left alone for a
    /// while; see [`Breaker`]. What a tool says by
    /// [`Tool::circuit_breaker`](crate::Tool::circuit_breaker) comes first.
    pub fn circuit_breaker(mut self, breaker: Breaker) -> Self {
        self.app.breaker = Some(breaker);
        self
    }

    /// Puts a middleware around all methods, inside of those that are there already; see
    /// [`Middleware`].
    pub fn middleware(mut self, middleware: impl Middleware + 'static) -> Self {
        self.app.around.get_or_insert_default().push(Box::new(middleware));
        self
    }
}
