//! Everything between the codec and the application: filters over parsed requests.
//!
//! A filter sees a request twice: when its head is there, where it can only let it pass or refuse
//! it, and when it is whole, where it decides. Whatever a filter wants done is a value it returns;
//! it reaches nothing but what [`Cx`] lends it. User filters come first, then security, routing
//! and the MCP endpoint; all are the same kind of thing, and a [`Chain`] is itself a filter.

mod access;
pub mod bearer;
mod composite;
#[cfg(feature = "metrics")]
mod count;
pub(crate) mod endpoint;
pub(crate) mod header;
mod hold;
pub(crate) mod legacy;
mod peer;
mod rate;
mod report;
mod response;
pub(crate) mod routing;
pub mod security;

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub use access::AccessLog;
pub use composite::Chain;
pub use peer::{CertificateName, ClientCertificate};
pub use rate::RateLimit;
pub use report::Report;
pub use response::Response;

#[cfg(feature = "metrics")]
pub(crate) use count::{StatusCount, Statuses};
pub(crate) use endpoint::Inbound;
pub(crate) use hold::Hold;
pub(crate) use peer::Peer;

use crate::http::{Method, Request, ResponseHead, Status};
use crate::key::{ConnKey, Principal};
use crate::mcp;
use crate::mcp::catalog::Catalog;
use crate::mcp::session::Sessions;

/// One stage between the codec and the application.
///
/// There are no default bodies: a filter that wraps another must forward all three moments, and
/// forgetting one does not compile. Closures become filters through [`on_head`] and
/// [`on_request`].
pub trait Filter {
    /// The head is there, the body may not be. Refuse here what must not cost a buffered body.
    ///
    /// # Errors
    ///
    /// The refusal to answer with; no later filter sees the request.
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal>;

    /// The request is whole.
    fn on_request<'r>(&mut self, request: &Request<'r>, cx: &mut Cx<'_>) -> Flow<'r>;

    /// A response starts. Called in reverse order, also for refusals of later filters; may add
    /// fields, may not refuse. For a deferred answer this is long after `on_request` returned.
    fn on_response(&mut self, head: &mut ResponseHead, cx: &mut Cx<'_>);
}

/// What becomes of a whole request.
#[derive(Debug)]
#[must_use]
pub enum Flow<'r> {
    /// Not for this filter: the next one decides. Behind the last one it is a 404.
    Next,
    /// Answer with this; no later filter sees the request.
    Reply(Response),
    /// Answer with this page about the server.
    Report(Report),
    /// Hand these messages to the application. Made by the MCP endpoint only.
    Dispatch(Inbound<'r>),
}

/// The answer to a request that is turned away at its head.
#[derive(Debug)]
#[must_use]
pub struct Refusal {
    /// What the peer is told.
    pub response: Response,
    /// What becomes of the body and the connection.
    pub then: AfterRefusal,
}

/// What happens to a connection after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRefusal {
    /// The body is read and thrown away, and the next request is served.
    Drain,
    /// The connection is closed once the refusal is sent.
    Close,
    /// Nothing is sent yet: the request waits for a decision that is made elsewhere, and only if
    /// none comes within [`Timeouts::auth`](crate::Timeouts::auth) is it refused. The filters
    /// before this one are not asked again. Made by the check of tokens only; from any other
    /// filter nobody would end the wait.
    Hold,
}

impl Refusal {
    /// Refuses and keeps the connection.
    pub fn drain(response: Response) -> Self {
        Self { response, then: AfterRefusal::Drain }
    }

    /// Refuses and closes the connection.
    pub fn close(response: Response) -> Self {
        Self { response, then: AfterRefusal::Close }
    }

    /// Refuses unless somebody decides otherwise in time.
    pub(crate) fn hold(otherwise: Response) -> Self {
        Self { response: otherwise, then: AfterRefusal::Hold }
    }
}

/// What a filter may look at and touch while it decides.
pub struct Cx<'a> {
    /// The instant of this turn; filters never read a clock.
    pub now: Instant,
    pub(crate) conn: ConnKey,
    pub(crate) peer: &'a Peer,
    pub(crate) facts: Facts<'a>,
    pub(crate) passage: &'a mut Passage,
    pub(crate) catalog: &'a Catalog,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) health: Health,
}

/// Which request a response belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) method: Method,
    /// Only few ask for it as text, which would have to be checked every time.
    path: &'a [u8],
}

impl<'a> Facts<'a> {
    pub(crate) fn new(method: Method, path: &'a str) -> Self {
        Self { method, path: path.as_bytes() }
    }

    pub(crate) fn of(request: &Request<'a>) -> Self {
        Self { method: request.method(), path: request.path_bytes() }
    }

    pub(crate) fn path(&self) -> &'a str {
        std::str::from_utf8(self.path).unwrap_or_default()
    }

    /// Whether the request is for this path, which has no trailing slash; its own may have one.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        let own = match self.path {
            [shorter @ .., b'/'] if !shorter.is_empty() => shorter,
            path => path,
        };
        own == path.as_bytes()
    }
}

impl Cx<'_> {
    /// The address of the connection; none when the engine runs without sockets.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer.address
    }

    /// The certificate the client has shown; none over plain HTTP, or when it has shown none.
    #[must_use]
    pub fn client_certificate(&self) -> Option<&ClientCertificate> {
        self.peer.certificate.as_deref()
    }

    /// The method of the request that is being decided or answered.
    #[must_use]
    pub fn method(&self) -> Method {
        self.facts.method
    }

    /// The path of the request that is being decided or answered, without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.facts.path()
    }

    /// Names the connection, for filters that keep state per connection.
    #[must_use]
    pub fn connection(&self) -> ConnKey {
        self.conn
    }

    /// Who the caller is, once an authentication hook has said so.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.passage.principal.as_ref()
    }

    /// Says who the caller is.
    pub fn set_principal(&mut self, principal: Principal) {
        self.passage.principal = Some(principal);
    }

    /// The MCP method of the request's message, once the endpoint has read it and if it is one the
    /// protocol has. None for a batch.
    #[must_use]
    pub fn mcp_method(&self) -> Option<&'static str> {
        self.passage.called.map(mcp::Method::as_str)
    }

    /// How long ago the request's head was complete; none for what never had one.
    ///
    /// A turn of the loop happens at one instant, so that what is answered in the turn in which it
    /// came took no time.
    #[must_use]
    pub fn elapsed(&self) -> Option<Duration> {
        Some(self.now.saturating_duration_since(self.passage.began?))
    }

    /// Adds a field to whatever response this request gets, refusals and streams included. In
    /// [`Filter::on_response`] it is too late for that: add to the head itself there.
    pub fn response_field(&mut self, name: &str, value: &str) {
        self.passage.head.field(name, value);
    }
}

impl fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("conn", &self.conn)
            .field("facts", &self.facts)
            .field("passage", &self.passage)
            .finish_non_exhaustive()
    }
}

/// What the filters have settled about the request in hand, from its head to its response.
#[derive(Debug)]
pub(crate) struct Passage {
    pub(crate) principal: Option<Principal>,
    /// When the head was complete.
    pub(crate) began: Option<Instant>,
    /// What the message asks for, once it has been read.
    pub(crate) called: Option<mcp::Method>,
    /// The route that was found at the head.
    pub(crate) route: Option<usize>,
    /// The filter of the chain that refused or held the head.
    pub(crate) stopped_at: usize,
    /// Some while the request waits at its head.
    pub(crate) hold: Option<Box<Hold>>,
    /// Fields for the response; its status is settled last.
    pub(crate) head: ResponseHead,
}

impl Passage {
    pub(crate) fn new() -> Self {
        Self {
            principal: None,
            began: None,
            called: None,
            route: None,
            stopped_at: 0,
            hold: None,
            head: ResponseHead::new(Status::OK),
        }
    }

    /// Forgets the request, keeping the buffers. One that is held is not forgotten: nothing follows
    /// it before the hold has ended.
    pub(crate) fn clear(&mut self) {
        self.principal = None;
        self.began = None;
        self.called = None;
        self.route = None;
        self.head.reset(Status::OK);
    }
}

/// What a probe is told about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Not yet serving.
    Starting,
    /// Serving.
    Serving,
    /// Finishing what it has, taking nothing new.
    Draining,
}

/// A path without its trailing slash: both spellings are one route, and never a redirect.
pub(crate) fn normal(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(shorter) => shorter,
    }
}

/// A filter that looks at heads only.
pub fn on_head<F>(decide: F) -> impl Filter
where
    F: FnMut(&Request<'_>, &mut Cx<'_>) -> Result<(), Refusal>,
{
    HeadFilter(decide)
}

/// A filter that decides about whole requests only.
pub fn on_request<F>(decide: F) -> impl Filter
where
    F: FnMut(&Request<'_>, &mut Cx<'_>) -> Option<Response>,
{
    RequestFilter(decide)
}

struct HeadFilter<F>(F);

impl<F> Filter for HeadFilter<F>
where
    F: FnMut(&Request<'_>, &mut Cx<'_>) -> Result<(), Refusal>,
{
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        (self.0)(request, cx)
    }

    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    fn on_response(&mut self, _head: &mut ResponseHead, _cx: &mut Cx<'_>) {}
}

struct RequestFilter<F>(F);

impl<F> Filter for RequestFilter<F>
where
    F: FnMut(&Request<'_>, &mut Cx<'_>) -> Option<Response>,
{
    fn on_head(&mut self, _request: &Request<'_>, _cx: &mut Cx<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn on_request<'r>(&mut self, request: &Request<'r>, cx: &mut Cx<'_>) -> Flow<'r> {
        (self.0)(request, cx).map_or(Flow::Next, Flow::Reply)
    }

    fn on_response(&mut self, _head: &mut ResponseHead, _cx: &mut Cx<'_>) {}
}
