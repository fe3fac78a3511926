//! Requests of the revisions up to 2025-11-25: sessions, negotiated versions, batches.

use super::{
    Ask, Endpoint, GetStream, Inbound, Item, Note, Post, Work, bad_request, called_tool,
    check_framing, deny, permit,
};
use crate::exchange::{Caller, Source};
use crate::filter::bearer::Challenge;
use crate::filter::header::{self, VersionField};
use crate::filter::{Cx, Response};
use crate::http::{Doubled, Request, Status};
use crate::key::{EventId, SessionId};
use crate::mcp;
use crate::mcp::model::TaskSupport;
use crate::mcp::params::{Meta, Params};
use crate::mcp::version::Version;
use crate::rpc::{self, ErrorObject, Id, Malformed, Message};

impl Endpoint {
    pub(super) fn classic_ask<'r>(
        &self,
        post: &Post<'_, 'r>,
        mut ask: Ask<'r>,
        meta: Meta<'r>,
        cx: &mut Cx<'_>,
    ) -> Result<Inbound<'r>, Response> {
        let mut caller = match ask.known {
            Some(mcp::Method::Initialize) => self.handshake_caller(post, &ask, cx)?,
            Some(mcp::Method::Discover) => self.stranger(post, Some(&ask.id), cx)?,
            _ => self.classic_caller(post, Some(&ask.id), cx)?,
        };
        permit(&mut ask, caller.version, cx)
            .map_err(|lacking| deny(&self.challenge, Some(&ask.id), &lacking, cx))?;
        check_framing(&ask, post, cx)?;
        ask.known = ask.known.filter(|method| method.facts().classic);
        caller.progress_token = meta.progress_token.and_then(|token| token.0);
        Ok(Inbound { caller, work: Work::Request(ask) })
    }

    /// Judges version and session of anything but a handshake.
    pub(super) fn classic_caller<'r>(
        &self,
        post: &Post<'_, 'r>,
        id: Option<&Id>,
        cx: &mut Cx<'_>,
    ) -> Result<Caller<'r>, Response> {
        let mut caller = self.stranger(post, id, cx)?;
        if !self.sessions {
            return Ok(caller);
        }
        let session_id = offered_session(post.request, id)?;
        let principal = cx.passage.principal.as_ref();
        let session = session_id
            .and_then(|session_id| cx.sessions.judge(session_id, principal, cx.now))
            .ok_or_else(|| unknown_session(id))?;
        if post.field != VersionField::Absent && caller.version != session.version {
            let message = format!(
                "the session speaks {}, the {} field says {}",
                session.version.as_str(),
                header::PROTOCOL_VERSION,
                caller.version.as_str()
            );
            return Err(bad_request(id, &ErrorObject::invalid_request(message)));
        }
        caller.version = session.version;
        caller.session = session_id;
        caller.log_level = session.log_level;
        caller.capabilities = session.capabilities.clone().map(crate::exchange::Fragment::Shared);
        caller.client_info = session.client_info.clone().map(crate::exchange::Fragment::Shared);
        Ok(caller)
    }

    /// A caller of whom only the version field is known.
    fn stranger<'r>(
        &self,
        post: &Post<'_, 'r>,
        id: Option<&Id>,
        cx: &Cx<'_>,
    ) -> Result<Caller<'r>, Response> {
        let version = self.field_version(post.field, id)?;
        Ok(Caller {
            version,
            session: None,
            principal: cx.passage.principal.clone(),
            peer: cx.peer.address,
            accepts: post.accepts,
            client_info: None,
            capabilities: None,
            log_level: crate::exchange::default_log_level(version),
            progress_token: None,
            tasks: TaskSupport::Never,
        })
    }

    fn field_version(&self, field: VersionField<'_>, id: Option<&Id>) -> Result<Version, Response> {
        match field {
            VersionField::Absent => Ok(Version::ASSUMED_WITHOUT_HEADER),
            VersionField::Broken => {
                let message = "the MCP-Protocol-Version field must name one version, once";
                Err(bad_request(id, &ErrorObject::invalid_request(message)))
            }
            VersionField::Names(text) => Version::parse(text)
                .filter(|version| self.served.contains(version))
                .ok_or_else(|| self.unsupported(id, text)),
        }
    }

    /// A handshake is exempt from the session check and settles its version in the body. A stale
    /// session id on it is ignored; a live one must be the caller's own.
    fn handshake_caller<'r>(
        &self,
        post: &Post<'_, 'r>,
        ask: &Ask<'r>,
        cx: &mut Cx<'_>,
    ) -> Result<Caller<'r>, Response> {
        let id = Some(&ask.id);
        let asked = ask.params.protocol_version.as_ref().map(|version| version.as_str());
        if let VersionField::Names(text) = post.field
            && asked.is_some_and(|asked| asked != text)
        {
            let message = "the MCP-Protocol-Version field and params.protocolVersion differ";
            return Err(bad_request(id, &ErrorObject::invalid_request(message)));
        }
        let judged =
            if post.field == VersionField::Broken { post.field } else { VersionField::Absent };
        let mut caller = self.stranger(
            &Post { request: post.request, field: judged, accepts: post.accepts },
            id,
            cx,
        )?;
        if self.sessions
            && let Some(offered) = offered_session(post.request, id).unwrap_or(None)
            && cx.sessions.find(offered).is_some()
        {
            let principal = cx.passage.principal.as_ref();
            cx.sessions.judge(offered, principal, cx.now).ok_or_else(|| unknown_session(id))?;
            caller.session = Some(offered);
        }
        Ok(caller)
    }

    /// A batch: served where the session's revision has them, refused whole elsewhere.
    pub(super) fn classic_batch<'r>(
        &self,
        post: &Post<'_, 'r>,
        items: Vec<Result<Message<'r>, Malformed>>,
        cx: &mut Cx<'_>,
    ) -> Result<Inbound<'r>, Response> {
        let refuse = |message| Err(bad_request(None, &ErrorObject::invalid_request(message)));
        if post.field.is_modern() || items.is_empty() {
            return refuse(NO_MESSAGE);
        }
        let caller = self.classic_caller(post, None, cx)?;
        if !caller.version.rules().batches {
            return refuse(NO_BATCHES);
        }
        if !post.accepts.json {
            return Err(super::not_acceptable(None, "a batch is answered with application/json"));
        }
        let items = batch_items(items, caller.version, &self.challenge, cx)?;
        Ok(Inbound { caller, work: Work::Batch(items) })
    }

    /// Opens or resumes a stream (revision 2025-11-25, Listening for Messages from the Server).
    pub(super) fn on_get<'r>(
        &self,
        request: &Request<'r>,
        cx: &mut Cx<'_>,
    ) -> Result<Inbound<'r>, Response> {
        let readable = self.readable(request);
        // Unlike for a POST, silence is no consent: a browser that wanders here says nothing.
        if request.field("accept").is_none() || !super::accepts(request).stream {
            let message = "this is a stream of events; accept text/event-stream";
            return Err(super::not_acceptable(None, message));
        }
        if !readable.stream {
            return Err(Response::stream_needs_http_1_1());
        }
        let post = Post { request, field: VersionField::read(request), accepts: readable };
        let caller = self.classic_caller(&post, None, cx)?;
        let Some(session) = caller.session else {
            return Err(Response::plain_error(Status::METHOD_NOT_ALLOWED).field("Allow", "POST"));
        };
        let mut cursors = request.fields_named(header::LAST_EVENT_ID);
        // Two of them name no place.
        let cursor = cursors.next().filter(|_| cursors.next().is_none());
        let after = cursor.and_then(EventId::parse);
        let get = GetStream { session, version: caller.version, after };
        Ok(Inbound { caller, work: Work::Stream(get) })
    }

    /// Ends a session (revision 2025-11-25, Session Management).
    pub(super) fn on_delete(&self, request: &Request<'_>, cx: &mut Cx<'_>) -> Response {
        let post = Post {
            request,
            field: VersionField::read(request),
            accepts: crate::exchange::Accepts::both(),
        };
        match self.classic_caller(&post, None, cx) {
            Err(refusal) => refusal,
            Ok(caller) => {
                if let Some(session) = caller.session {
                    cx.sessions.end(session);
                }
                Response::empty(Status::NO_CONTENT)
            }
        }
    }
}

/// The session id a request offers: absent is a 400, one we could not have minted is unknown.
fn offered_session(request: &Request<'_>, id: Option<&Id>) -> Result<Option<SessionId>, Response> {
    let message = match request.sole_field(header::SESSION_ID) {
        Ok(Some(value)) => return Ok(SessionId::parse(value)),
        Err(Doubled) => "the Mcp-Session-Id field must be given once",
        Ok(None) => {
            "no Mcp-Session-Id: send initialize first, then its session id on every request"
        }
    };
    Err(bad_request(id, &ErrorObject::invalid_request(message)))
}

fn unknown_session(id: Option<&Id>) -> Response {
    let message = "unknown or expired session: send initialize again, without a session id";
    Response::rpc_error(Status::NOT_FOUND, id, &ErrorObject::invalid_request(message))
}

/// Why a body with several messages, or none, is refused.
pub(in crate::filter) const NO_MESSAGE: &str = "the body must be a single JSON-RPC message";
/// Why a body with several messages is refused of a classic client.
pub(in crate::filter) const NO_BATCHES: &str =
    "this revision does not allow batches; send one message per request";

/// The members of a batch whose caller may do all they ask for.
pub(in crate::filter) fn batch_items<'r>(
    messages: Vec<Result<Message<'r>, Malformed>>,
    version: Version,
    challenge: &Challenge,
    cx: &Cx<'_>,
) -> Result<Vec<Item<'r>>, Response> {
    let mut items: Vec<Item<'r>> =
        messages.into_iter().map(|message| batch_item(message, cx)).collect();
    let handshake = |item: &Item<'_>| match item {
        Item::Request(ask) => ask.known == Some(mcp::Method::Initialize),
        _ => false,
    };
    if items.iter().any(handshake) {
        let message = "initialize must not be part of a batch";
        return Err(bad_request(None, &ErrorObject::invalid_request(message)));
    }
    for item in &mut items {
        // None of it runs: a challenge is about the whole HTTP request.
        if let Item::Request(ask) = item {
            permit(ask, version, cx).map_err(|lacking| deny(challenge, None, &lacking, cx))?;
        }
    }
    Ok(items)
}

pub(in crate::filter) fn batch_item<'r>(
    message: Result<Message<'r>, Malformed>,
    cx: &Cx<'_>,
) -> Item<'r> {
    match message {
        Err(bad) => Item::Refused(bad.id, bad.error),
        Ok(Message::Response(response)) => Item::Response(response),
        Ok(Message::Notification(message)) => Item::Notification(Note {
            known: mcp::Method::parse(&message.method),
            params: Box::new(Params::read(message.params).unwrap_or_default()),
        }),
        Ok(Message::Request(message)) => batch_ask(message, cx),
    }
}

fn batch_ask<'r>(message: rpc::Request<'r>, cx: &Cx<'_>) -> Item<'r> {
    let known = mcp::Method::parse(&message.method).filter(|method| method.facts().classic);
    match Params::read(message.params) {
        Err(reason) => Item::Refused(Some(message.id), ErrorObject::invalid_params(reason)),
        Ok(params) => Item::Request(Ask {
            id: message.id,
            known,
            method: message.method,
            source: Source::Params(message.params),
            tool: called_tool(known, &params, cx),
            params: Box::new(params),
        }),
    }
}
