//! The access log: a line for every response.
//!
//! What it writes comes from strangers, so that every text is quoted, shortened and has its control
//! characters escaped: a line is one line, whatever was sent. Queries, session ids and credentials
//! never get into it.

use std::fmt;
use std::time::Duration;

use super::{Cx, Filter, Flow, Refusal};
use crate::http::{Request, ResponseHead};
use crate::limits::LOGGED_TEXT_BYTES_MAX;
use crate::rpc::excerpt_to;

/// Writes a line for every response to the log, at level info and under the target
/// `waterwheel::access`.
///
/// ```text
/// peer=127.0.0.1:40312 principal="alice" method=POST path="/mcp" rpc="tools/call" status=200 ms=31
/// ```
///
/// The line is written when the response starts: `ms` is the time from the request's head until
/// then in milliseconds, and `status` is what was sent, refusals included. What is not known is
/// `-`. [`access_log`](crate::ServerBuilder::access_log) puts it in front of all other filters,
/// where it sees every response as it goes out.
///
/// It does not say how a stream ended or how long it was, and nothing about a request whose
/// connection was lost before the response began.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessLog(());

/// What the lines are logged under.
const TARGET: &str = "waterwheel::access";

impl AccessLog {
    /// A log of all responses.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Filter for AccessLog {
    fn on_head(&mut self, _request: &Request<'_>, _cx: &mut Cx<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    fn on_response(&mut self, head: &mut ResponseHead, cx: &mut Cx<'_>) {
        log::info!(
            target: TARGET,
            "peer={} principal={} method={} path={} rpc={} status={} ms={}",
            Known(cx.peer()),
            Known(cx.principal().map(|principal| Quoted(principal.name()))),
            cx.method().as_str(),
            Known(Some(cx.path()).filter(|path| !path.is_empty()).map(Quoted)),
            Known(cx.mcp_method().map(Quoted)),
            head.status.code(),
            Known(cx.elapsed().map(Milliseconds)),
        );
    }
}

/// A value, or a dash in its place.
struct Known<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Known<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// A text between quotes, with nothing in it that could end them, the line, or the patience of
/// whoever reads it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = excerpt_to(self.0, LOGGED_TEXT_BYTES_MAX);
        let rest = if shown.len() < self.0.len() { "..." } else { "" };
        write!(f, "{shown:?}{rest}")
    }
}

/// A duration without the zeros that say nothing.
struct Milliseconds(Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match micros % 1000 {
            0 => write!(f, "{}", micros / 1000),
            rest => write!(f, "{}.{rest:03}", micros / 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_line() {
        let forged = "a\r\nroot\" b\u{1b}[2J\u{2028}\u{202e}\0\u{7f}\u{85}";
        let shown = Quoted(forged).to_string();
        assert_eq!(shown, r#""a\r\nroot\" b\u{1b}[2J\u{2028}\u{202e}\0\u{7f}\u{85}""#);
        assert_eq!(Quoted("\u{e9}t\u{e9}").to_string(), "\"\u{e9}t\u{e9}\"");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let shown = Quoted(&"\u{e9}".repeat(LOGGED_TEXT_BYTES_MAX)).to_string();
        assert_eq!(shown, format!("\"{}\"...", "\u{e9}".repeat(LOGGED_TEXT_BYTES_MAX / 2)));
        assert!(!Quoted(&"a".repeat(LOGGED_TEXT_BYTES_MAX)).to_string().contains("..."));
    }

    #[test]
    fn milliseconds_have_no_zeros_behind_the_point() {
        let shown = |micros| Milliseconds(Duration::from_micros(micros)).to_string();
        assert_eq!([0, 1, 1_500, 2_000].map(shown), ["0", "0.001", "1.500", "2"]);
    }
}
