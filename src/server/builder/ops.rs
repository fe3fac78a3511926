//! What those who run a server switch on: everything here is off unless asked for.

#[cfg(feature = "metrics")]
use std::sync::Arc;

use super::ServerBuilder;
use crate::engine::app::Middleware;
#[cfg(feature = "metrics")]
use crate::engine::app::meter::Meter;
#[cfg(feature = "metrics")]
use crate::filter::{Chain, StatusCount, Statuses};
use crate::filter::{RateLimit, Report};
use crate::limits::Breaker;

/// The choices of this file.
#[derive(Debug, Default)]
pub(super) struct Ops {
    pub(super) access_log: bool,
    pub(super) rate: Option<RateLimit>,
    pub(super) reports: Vec<Report>,
    /// The reports are for everybody.
    pub(super) open_reports: bool,
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

    /// Serves `/info`: name and version of the server, the protocol revisions, and how much it
    /// holds, as JSON. No ids, no names of callers. Protected like the endpoint, unless
    /// [`reports_without_credentials`](Self::reports_without_credentials) says otherwise.
    pub fn info(self) -> Self {
        self.report(Report::Info)
    }

    /// Serves `/info` and `/metrics` to callers without credentials, as scrapers often are. `Host`
    /// and `Origin` are checked as always; the rate is not counted.
    pub fn reports_without_credentials(mut self) -> Self {
        self.ops.open_reports = true;
        self
    }

    fn report(mut self, report: Report) -> Self {
        if !self.ops.reports.contains(&report) {
            self.ops.reports.push(report);
        }
        self
    }
}

impl Ops {
    /// Whether the length of turns is shown anywhere.
    pub(super) fn measures_turns(&self) -> bool {
        #[cfg(feature = "metrics")]
        return self.reports.contains(&Report::Metrics);
        #[cfg(not(feature = "metrics"))]
        false
    }
}

#[cfg(feature = "metrics")]
impl ServerBuilder {
    /// Counts requests and responses, and serves everything that is counted at `/metrics`, in the
    /// text format of Prometheus (feature `metrics`). Protected like the endpoint, unless
    /// [`reports_without_credentials`](Self::reports_without_credentials) says otherwise.
    ///
    /// All names begin with `waterwheel_`. Labels are methods, statuses, reasons: nothing that a
    /// caller could make up, and nobody's name. Times are those of [`Middleware::after`].
    pub fn metrics(self) -> Self {
        self.report(Report::Metrics)
    }

    /// Begins to count, in front of all filters and around all methods.
    pub(super) fn install_meter(&mut self, chain: &mut Chain) {
        if self.ops.measures_turns() {
            let statuses = Arc::<Statuses>::default();
            chain.push(StatusCount(Arc::clone(&statuses)));
            self.app.around.get_or_insert_default().count_by(Meter::new(statuses));
        }
    }
}
