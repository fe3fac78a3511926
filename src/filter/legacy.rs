//! The transport of revision 2024-11-05, HTTP with SSE: one path on which a client opens the stream
//! that carries all it is told, and one to which it posts all it says. What it posts is decoded and
//! judged as at the endpoint; only where its session is named and where it is answered differ.

use super::bearer::Challenge;
use super::endpoint::{
    Ask, Inbound, Item, NO_BATCHES, NO_MESSAGE, Work, accepts, bad_request, batch_item,
    batch_items, check_content, check_token, deny, not_acceptable, permit, readable,
};
use super::{Cx, Filter, Flow, Refusal, Response};
use crate::exchange::{Accepts, Caller, Fragment};
use crate::http::{Http10Streams, Method, Request, ResponseHead, Status};
use crate::key::{ExchangeId, SessionId};
use crate::mcp;
use crate::mcp::model::TaskSupport;
use crate::mcp::session::Transport;
use crate::mcp::version::Version;
use crate::rpc::{self, Body, ErrorObject};

/// The filter that serves the two paths.
#[derive(Debug)]
pub(crate) struct LegacyEndpoint {
    /// Where clients open their stream; without a trailing slash.
    pub(crate) stream_path: String,
    /// Where clients post; without a trailing slash.
    pub(crate) messages_path: String,
    /// Where clients post, as they see it.
    pub(crate) address: String,
    pub(crate) json_depth_max: usize,
    /// Whether callers without chunked framing get streams.
    pub(crate) http10: Http10Streams,
    /// What callers hear who may not do what they ask for.
    pub(crate) challenge: Challenge,
}

/// What a client of this transport asks of the application.
#[derive(Debug)]
pub(crate) enum LegacyWork<'r> {
    /// A stream, which begins with the address to post to.
    Open { address: String },
    /// One message; what comes of it is told on this stream.
    Message { stream: ExchangeId, item: Item<'r> },
    /// Several.
    Batch { stream: ExchangeId, items: Vec<Item<'r>> },
}

/// The session a message was posted to.
struct Recipient<'r> {
    caller: Caller<'r>,
    stream: ExchangeId,
    negotiated: bool,
}

impl Filter for LegacyEndpoint {
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if !self.is_message(cx) {
            return Ok(());
        }
        recipient(request, cx).and_then(|_| check_content(request)).map_err(Refusal::drain)
    }

    fn on_request<'r>(&mut self, request: &Request<'r>, cx: &mut Cx<'_>) -> Flow<'r> {
        let inbound = if self.is_message(cx) {
            self.on_post(request, cx)
        } else if cx.facts.method == Method::Get && cx.facts.is_at(&self.stream_path) {
            self.on_get(request, cx)
        } else {
            return Flow::Next;
        };
        inbound.map_or_else(Flow::Reply, Flow::Dispatch)
    }

    fn on_response(&mut self, _head: &mut ResponseHead, _cx: &mut Cx<'_>) {}
}

impl LegacyEndpoint {
    fn is_message(&self, cx: &Cx<'_>) -> bool {
        cx.facts.method == Method::Post && cx.facts.is_at(&self.messages_path)
    }

    fn on_get<'r>(&self, request: &Request<'r>, cx: &Cx<'_>) -> Result<Inbound<'r>, Response> {
        if !accepts(request).stream {
            let message = "this is a stream of events; accept text/event-stream";
            return Err(not_acceptable(None, message));
        }
        if !readable(request, self.http10).stream {
            return Err(Response::stream_needs_http_1_1());
        }
        let work = LegacyWork::Open { address: self.address.clone() };
        Ok(Inbound { caller: stranger(cx), work: Work::Legacy(Box::new(work)) })
    }

    fn on_post<'r>(&self, request: &Request<'r>, cx: &mut Cx<'_>) -> Result<Inbound<'r>, Response> {
        let Recipient { mut caller, stream, negotiated } = recipient(request, cx)?;
        let message = match rpc::decode(request.body(), self.json_depth_max) {
            Ok(Body::Single(message)) => Ok(message),
            Ok(Body::Batch(messages)) => {
                let refuse =
                    |message| Err(bad_request(None, &ErrorObject::invalid_request(message)));
                if messages.is_empty() {
                    return refuse(NO_MESSAGE);
                }
                if !caller.version.rules().batches {
                    return refuse(NO_BATCHES);
                }
                let items = batch_items(messages, caller.version, &self.challenge, cx)?;
                let work = LegacyWork::Batch { stream, items };
                return Ok(Inbound { caller, work: Work::Legacy(Box::new(work)) });
            }
            // Whoever sent an id waits for an answer, and looks for it on the stream.
            Err(bad) if bad.id.is_some() && bad.error.code != rpc::PARSE_ERROR => Err(bad),
            Err(bad) => return Err(bad_request(bad.id.as_ref(), &bad.error)),
        };
        let mut item = batch_item(message, cx);
        match &mut item {
            Item::Request(ask) => {
                if let Err(error) = self.on_ask(ask, &mut caller, negotiated, cx)? {
                    item = Item::Refused(Some(ask.id.clone()), error);
                }
            }
            Item::Notification(note) => cx.passage.called = note.known,
            Item::Refused(..) | Item::Response(_) => {}
        }
        let work = LegacyWork::Message { stream, item };
        Ok(Inbound { caller, work: Work::Legacy(Box::new(work)) })
    }

    /// Judges a request: what its sender may not ask is refused at once, what is wrong with it is
    /// said on the stream.
    fn on_ask(
        &self,
        ask: &mut Ask<'_>,
        caller: &mut Caller<'_>,
        negotiated: bool,
        cx: &mut Cx<'_>,
    ) -> Result<Result<(), ErrorObject>, Response> {
        cx.passage.called = ask.known;
        let meta = ask.params.meta.take().unwrap_or_default();
        if let Some(error) = check_token(&meta) {
            return Ok(Err(error));
        }
        let early = [mcp::Method::Initialize, mcp::Method::Ping, mcp::Method::Discover];
        if !negotiated && !ask.known.is_some_and(|method| early.contains(&method)) {
            return Ok(Err(ErrorObject::invalid_request("send initialize first")));
        }
        permit(ask, caller.version, cx)
            .map_err(|lacking| deny(&self.challenge, Some(&ask.id), &lacking, cx))?;
        caller.progress_token = meta.progress_token.and_then(|token| token.0);
        Ok(Ok(()))
    }
}

/// A caller of whom nothing is known but what the filters have found out.
fn stranger<'r>(cx: &Cx<'_>) -> Caller<'r> {
    Caller {
        version: Version::V2024_11_05,
        session: None,
        principal: cx.passage.principal.clone(),
        peer: cx.peer.address,
        accepts: Accepts::both(),
        client_info: None,
        capabilities: None,
        log_level: None,
        progress_token: None,
        tasks: TaskSupport::Never,
    }
}

/// Finds the session that a message is posted to. The fields that name session and revision on
/// later transports have no say here.
fn recipient<'r>(request: &Request<'_>, cx: &mut Cx<'_>) -> Result<Recipient<'r>, Response> {
    let id = offered_session(request)?;
    let caller = stranger(cx);
    let principal = caller.principal.as_ref();
    let session = id.and_then(|id| cx.sessions.judge_on(Transport::Legacy, id, principal, cx.now));
    let Some((session, stream)) =
        session.and_then(|session| Some((&*session, session.streams.last().copied()?)))
    else {
        let message = "unknown session: its stream has ended; open another one";
        let error = ErrorObject::invalid_request(message);
        return Err(Response::rpc_error(Status::NOT_FOUND, None, &error));
    };
    let caller = Caller {
        version: session.version,
        session: id,
        log_level: session.log_level,
        capabilities: session.capabilities.clone().map(Fragment::Shared),
        client_info: session.client_info.clone().map(Fragment::Shared),
        ..caller
    };
    Ok(Recipient { caller, stream, negotiated: session.negotiated })
}

/// The parameter of the query that names the session.
pub(crate) const SESSION: &str = "sessionId";

/// The session id in the query: absent is a 400, one we could not have minted is unknown.
fn offered_session(request: &Request<'_>) -> Result<Option<SessionId>, Response> {
    let pairs = request.query().unwrap_or("").split('&').map(|pair| pair.split_once('='));
    let mut offered = pairs.flatten().filter(|(name, _)| *name == SESSION).map(|(_, value)| value);
    match (offered.next(), offered.next()) {
        (Some(id), None) => Ok(SessionId::parse(id.as_bytes())),
        _ => {
            let message = "post to the address that the stream begins with";
            Err(bad_request(None, &ErrorObject::invalid_request(message)))
        }
    }
}
