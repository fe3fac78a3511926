//! Everything that is counted, in the text format of Prometheus.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeMetric, MetricEncoder, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::LIBRARY;
use crate::engine::Gauges;
use crate::engine::app::meter::{BOUNDS, ENDINGS, Lane, Meter};
use crate::filter::Response;
use crate::http::Status;
use crate::mcp::model::Implementation;

/// What one scrape shows.
#[derive(Debug)]
struct Exposition {
    server: (String, String),
    gauges: Gauges,
    responses: Vec<(Status, u64)>,
    methods: Vec<(&'static str, Lane)>,
}

/// The page.
pub(super) fn page(info: &Implementation, gauges: Gauges, meter: Option<&Meter>) -> Response {
    let methods = meter.map(|meter| meter.lanes().map(|(name, lane)| (name, lane.clone())));
    let exposition = Exposition {
        server: (info.name.clone(), info.version.clone()),
        gauges,
        responses: meter.map(|meter| meter.statuses.counts().collect()).unwrap_or_default(),
        methods: methods.map(Iterator::collect).unwrap_or_default(),
    };
    let mut registry = Registry::with_prefix(LIBRARY.name);
    registry.register_collector(Box::new(exposition));
    let mut text = String::new();
    if prometheus_text::encode(&mut text, &registry).is_err() {
        log::error!("the metrics could not be written");
        return Response::plain_error(Status::INTERNAL);
    }
    Response::new(Status::OK, prometheus_text::CONTENT_TYPE, text.into_bytes())
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.encode_build(&mut page)?;
        self.encode_connections(&mut page)?;
        self.encode_holdings(&mut page)?;
        self.encode_responses(&mut page)?;
        self.encode_requests(&mut page)
    }
}

impl Exposition {
    fn encode_build(&self, page: &mut Page<'_>) -> fmt::Result {
        let (name, version) = (self.server.0.as_str(), self.server.1.as_str());
        let labels = [("name", name), ("version", version), ("library", LIBRARY.version)];
        page.begin("build", "The server and its library", MetricType::Info)?
            .encode_info(&labels)?;
        page.gauge("uptime_seconds", "Time since the start", self.gauges.uptime.as_secs_f64())?;
        let longest = self.gauges.longest_turn.as_secs_f64();
        page.gauge("turn_seconds_max", "Longest turn of the last one or two minutes", longest)
    }

    fn encode_connections(&self, page: &mut Page<'_>) -> fmt::Result {
        let gauges = &self.gauges;
        page.gauge("connections_open", "Open connections", gauges.connections_open)?;
        let accepted = gauges.connections_accepted;
        page.counter("connections_accepted", "Connections that were taken in", accepted)?;
        let away = gauges.connections_turned_away;
        page.counter("connections_turned_away", "Connections without room for them", away)?;
        let closed =
            gauges.connections_closed.map(|(why, count)| ([("reason", why.name())], count));
        page.counters("connections_closed", "Connections that were closed", closed)
    }

    fn encode_holdings(&self, page: &mut Page<'_>) -> fmt::Result {
        let gauges = &self.gauges;
        let help = "Requests whose answer a handler owes";
        let mut family = page.begin("exchanges", help, MetricType::Gauge)?;
        for (state, count) in [
            ("attached", gauges.exchanges_attached),
            ("working", gauges.exchanges_working),
            ("part", gauges.exchanges_part),
            ("task", gauges.exchanges_task),
        ] {
            ConstGauge::new(count).encode(family.encode_family(&[("state", state)])?)?;
        }
        for (name, help, value) in [
            ("streams_open", "Open event streams", gauges.streams_open),
            ("asks", "Requests to clients that wait for an answer", gauges.asks),
            ("subscriptions", "Open subscriptions", gauges.subscriptions),
            ("sessions", "Open sessions", gauges.sessions),
            ("retained_streams", "Streams with events to resume", gauges.retained_streams),
            ("retained_events", "Events kept for resuming", gauges.retained_events),
            ("retained_bytes", "Bytes of events kept for resuming", gauges.retained_bytes),
            ("mail_waiting", "Messages that wait for the loop", gauges.mail_waiting),
            ("breakers_open", "Tools that are not called for now", gauges.breakers_open),
        ] {
            page.gauge(name, help, value)?;
        }
        Ok(())
    }

    fn encode_responses(&self, page: &mut Page<'_>) -> fmt::Result {
        let responses = self.responses.iter().map(|(status, count)| {
            let reason = status.slug().to_string();
            ([("status", status.code().to_string()), ("reason", reason)], *count)
        });
        page.counters("responses", "HTTP responses, refusals among them", responses)
    }

    fn encode_requests(&self, page: &mut Page<'_>) -> fmt::Result {
        let requests = self.methods.iter().flat_map(|(method, lane)| {
            let endings = ENDINGS.iter().zip(lane.endings);
            let there = endings.filter(|(_, count)| *count > 0);
            there.map(move |(ending, count)| ([("method", *method), ("ending", *ending)], count))
        });
        page.counters("requests", "Requests of the protocol that have ended", requests)?;
        let help = "Time from a request to its answer";
        let mut family = page.begin("request_seconds", help, MetricType::Histogram)?;
        for (method, lane) in &self.methods {
            let labels = [("method", *method)];
            let bounds = BOUNDS.iter().map(|ms| *ms as f64 / 1000.0);
            let buckets: Vec<(f64, u64)> = bounds.zip(lane.within).collect();
            let sum = lane.took.as_secs_f64();
            let mut metric = family.encode_family(&labels)?;
            metric.encode_histogram::<[(&str, &str); 0]>(sum, lane.count(), &buckets, None)?;
        }
        Ok(())
    }
}

/// The page that is being written.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn begin(
        &mut self,
        name: &'static str,
        help: &str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'_>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, kind)
    }

    fn gauge(
        &mut self,
        name: &'static str,
        help: &str,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        ConstGauge::new(value).encode(self.begin(name, help, MetricType::Gauge)?)
    }

    fn counter(&mut self, name: &'static str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.begin(name, help, MetricType::Counter)?)
    }

    /// Counters of one name, told apart by their labels.
    fn counters<L: prometheus_client::encoding::EncodeLabelSet>(
        &mut self,
        name: &'static str,
        help: &str,
        rows: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.begin(name, help, MetricType::Counter)?;
        for (labels, value) in rows {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
