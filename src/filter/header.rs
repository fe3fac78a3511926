//! The fields that MCP adds to HTTP, and what one of them says of a request's revision.

use crate::http::{Doubled, Request};
use crate::mcp::version::{self, Version};

/// The revision a request is sent under.
pub(crate) const PROTOCOL_VERSION: &str = "MCP-Protocol-Version";
/// The classic session a request belongs to.
pub(crate) const SESSION_ID: &str = "Mcp-Session-Id";
/// Mirrors the method of the body.
pub(crate) const METHOD: &str = "Mcp-Method";
/// Mirrors the name or URI in the body.
pub(crate) const NAME: &str = "Mcp-Name";
/// The last event a client saw on the stream it resumes.
pub(crate) const LAST_EVENT_ID: &str = "Last-Event-ID";
/// Begins the name of every header that mirrors an argument.
pub(crate) const PARAM_PREFIX: &str = "Mcp-Param-";

/// What the version field of a request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionField<'r> {
    Absent,
    /// Empty, doubled or not text: never a version.
    Broken,
    Names(&'r str),
}

impl<'r> VersionField<'r> {
    pub(super) fn read(request: &Request<'r>) -> Self {
        match request.sole_field(PROTOCOL_VERSION) {
            Ok(None) => Self::Absent,
            Ok(Some(value)) => Self::of(value),
            Err(Doubled) => Self::Broken,
        }
    }

    fn of(value: &'r [u8]) -> Self {
        // To compare with what is known is quicker than to look whether it is text.
        let mut known = Version::ALL.iter().map(|version| version.as_str());
        let known = known.find(|name| name.as_bytes() == value);
        match known.or_else(|| std::str::from_utf8(value).ok()) {
            Some("") | None => Self::Broken,
            Some(text) => Self::Names(text),
        }
    }

    pub(super) fn is_modern(self) -> bool {
        matches!(self, Self::Names(text) if version::is_modern_str(text))
    }
}

/// Whether a request's version field names a revision without sessions and GET streams.
pub(super) fn names_modern_revision(request: &Request<'_>) -> bool {
    VersionField::read(request).is_modern()
}
