//! The MCP endpoint: Streamable HTTP of every revision. Turns a whole HTTP request into messages
//! for the application, or into the refusal its revision asks for.
//!
//! Both eras are served on one path. Which rules hold for a request is settled by the request
//! alone: what its body says, then what its `MCP-Protocol-Version` field says. Nothing is inferred
//! from an earlier request on the connection.

mod accept;
mod classic;
mod modern;
mod permit;

use std::borrow::Cow;

use super::bearer::Challenge;
use super::header::VersionField;
use super::legacy::{LegacyEndpoint, LegacyWork};
use super::{Cx, Filter, Flow, Refusal, Response};
use crate::exchange::{Accepts, Caller, Source};
use crate::http::{Http10Streams, HttpVersion, Method, Request, ResponseHead, Status};
use crate::key::{EventId, SessionId};
use crate::mcp::params::{Meta, Params};
use crate::mcp::version::Version;
use crate::mcp::{self, method_not_found};
use crate::rpc::{self, Body, ErrorObject, Id, Message};

pub(crate) use accept::accepts;
pub(super) use classic::{NO_BATCHES, NO_MESSAGE, batch_item, batch_items};
pub(super) use permit::{deny, permit};

/// The filter that serves the endpoint's paths.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Without trailing slashes.
    pub(crate) paths: Vec<String>,
    /// Revisions served, newest first.
    pub(crate) served: Vec<Version>,
    /// Whether classic callers get sessions.
    pub(crate) sessions: bool,
    pub(crate) json_depth_max: usize,
    /// Whether callers without chunked framing get streams.
    pub(crate) http10: Http10Streams,
    /// What callers hear who may not do what they ask for.
    pub(crate) challenge: Challenge,
    /// Serves the paths of the transport before this one. It stands behind this filter rather than
    /// in the chain, so that requests to the endpoint do not pass it.
    pub(crate) legacy: Option<LegacyEndpoint>,
}

/// What one POST asks of the application.
#[derive(Debug)]
pub struct Inbound<'r> {
    pub(crate) caller: Caller<'r>,
    pub(crate) work: Work<'r>,
}

/// The messages of one POST.
#[derive(Debug)]
pub(crate) enum Work<'r> {
    Request(Ask<'r>),
    /// Requests of a batch and refusals of its unreadable parts, and whether only notifications
    /// and responses came.
    Batch(Vec<Item<'r>>),
    Notification(Note<'r>),
    Response(rpc::Response<'r>),
    /// No message: a stream for those of the server.
    Stream(GetStream),
    /// Something of the transport with two connections.
    Legacy(Box<LegacyWork<'r>>),
}

/// A classic client's request for a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GetStream {
    pub(crate) session: SessionId,
    pub(crate) version: Version,
    /// The last event the client saw, if it resumes.
    pub(crate) after: Option<EventId>,
}

/// One member of a batch.
#[derive(Debug)]
pub(crate) enum Item<'r> {
    Request(Ask<'r>),
    Refused(Option<Id>, ErrorObject),
    Notification(Note<'r>),
    Response(rpc::Response<'r>),
}

/// One request, with the members of its params that the protocol reads.
#[derive(Debug)]
pub(crate) struct Ask<'r> {
    pub(crate) id: Id,
    pub(crate) method: Cow<'r, str>,
    /// None for a method that this era does not have.
    pub(crate) known: Option<mcp::Method>,
    pub(crate) source: Source<'r>,
    /// Boxed, because they are large and move through every stage.
    pub(crate) params: Box<Params<'r>>,
    /// The tool that is called, if there is one by that name.
    pub(crate) tool: Option<u64>,
}

/// One notification.
#[derive(Debug)]
pub(crate) struct Note<'r> {
    pub(crate) known: Option<mcp::Method>,
    pub(crate) params: Box<Params<'r>>,
}

impl Filter for Endpoint {
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if !self.serves(cx) {
            return self.legacy.as_mut().map_or(Ok(()), |legacy| legacy.on_head(request, cx));
        }
        if request.method() != Method::Post {
            return Ok(());
        }
        check_content(request).map_err(Refusal::drain)
    }

    fn on_request<'r>(&mut self, request: &Request<'r>, cx: &mut Cx<'_>) -> Flow<'r> {
        if !self.serves(cx) {
            return match &mut self.legacy {
                Some(legacy) => legacy.on_request(request, cx),
                None => Flow::Next,
            };
        }
        match request.method() {
            Method::Post => match self.on_post(request, cx) {
                Ok(inbound) => Flow::Dispatch(inbound),
                Err(response) => Flow::Reply(response),
            },
            Method::Get => match self.on_get(request, cx) {
                Ok(inbound) => Flow::Dispatch(inbound),
                Err(response) => Flow::Reply(response),
            },
            Method::Delete => Flow::Reply(self.on_delete(request, cx)),
            _ => Flow::Next,
        }
    }

    fn on_response(&mut self, _head: &mut ResponseHead, _cx: &mut Cx<'_>) {}
}

impl Endpoint {
    fn serves(&self, cx: &Cx<'_>) -> bool {
        self.paths.iter().any(|known| cx.facts.is_at(known))
    }

    fn on_post<'r>(&self, request: &Request<'r>, cx: &mut Cx<'_>) -> Result<Inbound<'r>, Response> {
        let post =
            Post { request, field: VersionField::read(request), accepts: self.readable(request) };
        let depth_max = self.json_depth_max;
        if let Some(call) = rpc::read_call::<Params<'r>>(request.body(), depth_max) {
            let params = call.params.unwrap_or_default();
            return self.on_ask(
                &post,
                Asked(call.id, call.method, Source::Message(call.text)),
                params,
                cx,
            );
        }
        let body = rpc::decode(request.body(), depth_max)
            .map_err(|bad| bad_request(bad.id.as_ref(), &bad.error))?;
        match body {
            Body::Single(Message::Request(message)) => self.on_raw_ask(&post, message, cx),
            Body::Single(Message::Notification(message)) => self.on_note(&post, message, cx),
            Body::Single(Message::Response(message)) => self.on_reply(&post, message, cx),
            Body::Batch(items) => self.classic_batch(&post, items, cx),
        }
    }

    /// A request whose parameters are not read yet; mostly because something is wrong with them.
    fn on_raw_ask<'r>(
        &self,
        post: &Post<'_, 'r>,
        message: rpc::Request<'r>,
        cx: &mut Cx<'_>,
    ) -> Result<Inbound<'r>, Response> {
        match Params::read(message.params) {
            Ok(params) => {
                let source = Source::Params(message.params);
                let asked = Asked(message.id, message.method, source);
                self.on_ask(post, asked, Box::new(params), cx)
            }
            Err(reason) => {
                let modern = post.field.is_modern();
                let status = if modern { Status::BAD_REQUEST } else { Status::OK };
                let error = ErrorObject::invalid_params(reason);
                Err(Response::rpc_error(status, Some(&message.id), &error))
            }
        }
    }

    fn on_ask<'r>(
        &self,
        post: &Post<'_, 'r>,
        Asked(id, method, source): Asked<'r>,
        mut params: Box<Params<'r>>,
        cx: &mut Cx<'_>,
    ) -> Result<Inbound<'r>, Response> {
        let meta = params.meta.take().unwrap_or_default();
        if let Some(error) = check_token(&meta) {
            return Err(bad_request(Some(&id), &error));
        }
        let known = mcp::Method::parse(&method);
        cx.passage.called = known;
        let handshake = known == Some(mcp::Method::Initialize);
        let tool = called_tool(known, &params, cx);
        let ask = Ask { id, method, known, source, tool, params };
        // A handshake negotiates in its body; its field may name a revision we never heard of.
        let modern = meta.protocol_version.is_some() || (post.field.is_modern() && !handshake);
        if modern {
            self.modern_ask(post, ask, meta, cx)
        } else {
            self.classic_ask(post, ask, meta, cx)
        }
    }

    fn on_note<'r>(
        &self,
        post: &Post<'_, 'r>,
        message: rpc::Notification<'r>,
        cx: &mut Cx<'_>,
    ) -> Result<Inbound<'r>, Response> {
        // Malformed parameters of a notification are ignored like unknown ones: nobody may answer.
        let mut params = Params::read(message.params).unwrap_or_default();
        let meta = params.meta.take().unwrap_or_default();
        let note = Note { known: mcp::Method::parse(&message.method), params: Box::new(params) };
        cx.passage.called = note.known;
        let caller = if meta.protocol_version.is_some() || post.field.is_modern() {
            self.modern_bystander(post, &meta, cx)?
        } else {
            self.classic_caller(post, None, cx)?
        };
        Ok(Inbound { caller, work: Work::Notification(note) })
    }

    fn on_reply<'r>(
        &self,
        post: &Post<'_, 'r>,
        message: rpc::Response<'r>,
        cx: &mut Cx<'_>,
    ) -> Result<Inbound<'r>, Response> {
        if post.field.is_modern() {
            let error = ErrorObject::invalid_request(
                "this revision has no requests from server to client, so nothing to answer",
            );
            return Err(bad_request(None, &error));
        }
        let caller = self.classic_caller(post, None, cx)?;
        Ok(Inbound { caller, work: Work::Response(message) })
    }

    fn readable(&self, request: &Request<'_>) -> Accepts {
        readable(request, self.http10)
    }

    /// Revisions a refused caller may use instead.
    fn unsupported(&self, id: Option<&Id>, requested: &str) -> Response {
        bad_request(id, &mcp::unsupported_version(&self.served, requested))
    }
}

/// The id and method of a request, and where its parameters are.
struct Asked<'r>(Id, Cow<'r, str>, Source<'r>);

/// One POST and what its fields say.
struct Post<'q, 'r> {
    request: &'q Request<'r>,
    field: VersionField<'r>,
    accepts: Accepts,
}

/// What the caller accepts and this server can frame for it.
pub(super) fn readable(request: &Request<'_>, http10: Http10Streams) -> Accepts {
    let accepts = accepts(request);
    let framed = request.version() == HttpVersion::Http11 || http10 == Http10Streams::Allow;
    Accepts { stream: accepts.stream && framed, ..accepts }
}

/// What is wrong with the progress token, if there is one.
pub(super) fn check_token(meta: &Meta<'_>) -> Option<ErrorObject> {
    let unreadable = meta.progress_token.as_ref().is_some_and(|token| token.0.is_none());
    unreadable.then(|| {
        ErrorObject::invalid_request("the progress token must be an integer or a short string")
    })
}

/// Both kinds of mistake in the body's own labels (RFC 9110 sections 8.3 and 8.4).
pub(super) fn check_content(request: &Request<'_>) -> Result<(), Response> {
    let refuse = |message: &'static str| {
        let error = ErrorObject::invalid_request(message);
        Err(Response::rpc_error(Status::UNSUPPORTED_MEDIA_TYPE, None, &error))
    };
    if !request.field("content-type").is_some_and(accept::is_json) {
        return refuse("the body must be application/json in UTF-8");
    }
    match request.field("content-encoding") {
        None => Ok(()),
        Some(coding) if coding.eq_ignore_ascii_case(b"identity") => Ok(()),
        Some(_) => refuse("the body must not be compressed"),
    }
}

pub(super) fn bad_request(id: Option<&Id>, error: &ErrorObject) -> Response {
    Response::rpc_error(Status::BAD_REQUEST, id, error)
}

/// 406: the caller reads no kind of answer that this request can have.
pub(super) fn not_acceptable(id: Option<&Id>, message: &'static str) -> Response {
    Response::rpc_error(Status::NOT_ACCEPTABLE, id, &ErrorObject::invalid_request(message))
}

/// A tool that must stream, called by somebody who cannot read a stream.
fn check_framing(ask: &Ask<'_>, post: &Post<'_, '_>, cx: &Cx<'_>) -> Result<(), Response> {
    let accepts = post.accepts;
    if !accepts.json && !accepts.stream {
        let message = "Accept must list application/json or text/event-stream";
        return Err(not_acceptable(Some(&ask.id), message));
    }
    if accepts.stream {
        return Ok(());
    }
    if ask.known == Some(mcp::Method::SubscriptionsListen) {
        if post.request.version() == HttpVersion::Http10 {
            return Err(Response::stream_needs_http_1_1());
        }
        let message = "a subscription is an event stream; accept text/event-stream";
        return Err(not_acceptable(Some(&ask.id), message));
    }
    match ask.tool.and_then(|seq| cx.catalog.tools.get(seq)) {
        Some(entry) if entry.tool.streaming == mcp::model::Streaming::Required => {
            if post.request.version() == HttpVersion::Http10 {
                return Err(Response::stream_needs_http_1_1());
            }
            let message = "this tool answers with an event stream; accept text/event-stream";
            Err(not_acceptable(Some(&ask.id), message))
        }
        _ => Ok(()),
    }
}

/// Finds the tool of a call once, for everybody who asks about it later.
fn called_tool(method: Option<mcp::Method>, params: &Params<'_>, cx: &Cx<'_>) -> Option<u64> {
    let name = params.name.as_ref().filter(|_| method == Some(mcp::Method::ToolsCall))?;
    cx.catalog.tools.find(name.as_str()).map(|(seq, _)| seq)
}

/// 404 with the request's id: how a modern server says that it does not have a method.
fn unknown_method(ask: &Ask<'_>) -> Response {
    Response::rpc_error(Status::NOT_FOUND, Some(&ask.id), &method_not_found(&ask.method))
}
