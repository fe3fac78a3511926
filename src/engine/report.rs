//! Pages about the server: what it is, what it holds. Numbers and names of programs; never an id,
//! since some of these pages are read without credentials.

#[cfg(feature = "metrics")]
mod prometheus;

use std::time::Instant;

use serde::Serialize;

use super::Engine;
use crate::filter::{Health, Report, Response};
use crate::http::Status;

/// What `/info` says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    name: &'a str,
    version: &'a str,
    library: Library,
    protocol_versions: Vec<&'a str>,
    health: &'static str,
    uptime_seconds: u64,
    counts: Counts,
}

#[derive(Serialize)]
struct Library {
    name: &'static str,
    version: &'static str,
}

const LIBRARY: Library =
    Library { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    connections: usize,
    sessions: usize,
    exchanges: usize,
    streams: usize,
    subscriptions: usize,
    retained_streams: usize,
    retained_events: usize,
    retained_bytes: usize,
}

impl<T> Engine<T> {
    /// Fills a page in.
    pub(super) fn report(&self, report: Report, now: Instant) -> Response {
        let page = match report {
            Report::Info => self.info(now),
            #[cfg(feature = "metrics")]
            Report::Metrics => {
                let meter = self.app.around.as_ref().and_then(|around| around.meter());
                prometheus::page(&self.app.identity.info, self.gauges(now), meter)
            }
        };
        page.field("Cache-Control", "no-store")
    }

    fn info(&self, now: Instant) -> Response {
        let identity = &self.app.identity;
        let gauges = self.gauges(now);
        let counts = Counts {
            connections: gauges.connections_open,
            sessions: gauges.sessions,
            exchanges: gauges.exchanges_attached
                + gauges.exchanges_working
                + gauges.exchanges_part
                + gauges.exchanges_task,
            streams: gauges.streams_open,
            subscriptions: gauges.subscriptions,
            retained_streams: gauges.retained_streams,
            retained_events: gauges.retained_events,
            retained_bytes: gauges.retained_bytes,
        };
        let info = Info {
            name: &identity.info.name,
            version: &identity.info.version,
            library: LIBRARY,
            protocol_versions: identity.served.iter().map(|version| version.as_str()).collect(),
            health: self.health.word(),
            uptime_seconds: gauges.uptime.as_secs(),
            counts,
        };
        let body = serde_json::to_vec(&info).expect("numbers and texts have a JSON form");
        Response::json(Status::OK, body)
    }
}

impl Health {
    fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Draining => "draining",
        }
    }
}
