//! A whole answer as a filter or route gives it.

use std::borrow::Cow;

use crate::http::Status;
use crate::rpc::{ErrorObject, Id, encode};

/// A response that is complete when it is made: refusals, probes, answers of user routes.
///
/// The engine frames it. Field names and values are checked on the way out; one with a line break
/// or NUL is dropped with an error log, never sent.
#[derive(Debug, Clone)]
pub struct Response {
    pub(crate) status: Status,
    pub(crate) content_type: Option<Cow<'static, str>>,
    pub(crate) fields: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    pub(crate) body: Cow<'static, [u8]>,
    /// The connection must not serve another request.
    pub(crate) close: bool,
}

const JSON: &str = "application/json";

impl Response {
    /// A response without a body.
    #[must_use]
    pub fn empty(status: Status) -> Self {
        Self {
            status,
            content_type: None,
            fields: Vec::new(),
            body: Cow::Borrowed(&[]),
            close: false,
        }
    }

    /// A response with a body of this media type.
    #[must_use]
    pub fn new(
        status: Status,
        content_type: impl Into<Cow<'static, str>>,
        body: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        let content_type = Some(content_type.into());
        Self { content_type, body: body.into(), ..Self::empty(status) }
    }

    /// A response with a JSON body that is already serialized.
    #[must_use]
    pub fn json(status: Status, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self::new(status, JSON, body)
    }

    /// `{"error":"<slug>"}`, for what has nothing to do with MCP: unknown paths, wrong methods.
    #[must_use]
    pub fn plain_error(status: Status) -> Self {
        Self::json(status, format!("{{\"error\":\"{}\"}}", status.slug()).into_bytes())
    }

    /// A JSON-RPC error; the `id` member is left out when the request's id is not known.
    pub(crate) fn rpc_error(status: Status, id: Option<&Id>, error: &ErrorObject) -> Self {
        let mut body = Vec::new();
        encode::write_error(&mut body, id, error);
        Self::json(status, body)
    }

    /// 406 for a caller whose HTTP version has no framing for a stream.
    pub(crate) fn stream_needs_http_1_1() -> Self {
        let body: &[u8] = br#"{"error":"event_stream_requires_http_1_1"}"#;
        Self::json(Status::NOT_ACCEPTABLE, body).closing()
    }

    /// Adds a field.
    #[must_use]
    pub fn field(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Makes this the last response of its connection.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.close = true;
        self
    }

    /// The status this response has.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }
}
