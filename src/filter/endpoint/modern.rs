//! Requests of revision 2026-07-28: everything in the request, mirrored into its header fields.
//!
//! The body is the truth. A field that disagrees with it is refused, because something between
//! client and server may have decided by the field.

use super::{
    Ask, Endpoint, Inbound, Post, Work, bad_request, check_framing, deny, permit, unknown_method,
};
use crate::exchange::{Caller, Fragment};
use crate::filter::header::{self, VersionField};
use crate::filter::{Cx, Response};
use crate::http::{Doubled, Request};
use crate::mcp::designation::{self, decode_value};
use crate::mcp::model::{LogLevel, TaskSupport};
use crate::mcp::params::Meta;
use crate::mcp::version::Version;
use crate::mcp::{self, meta_key};
use crate::rpc::{ErrorObject, Id};

impl Endpoint {
    /// Checks a request in the order the specification and its conformance suite expect; the first
    /// failure wins.
    pub(super) fn modern_ask<'r>(
        &self,
        post: &Post<'_, 'r>,
        mut ask: Ask<'r>,
        meta: Meta<'r>,
        cx: &Cx<'_>,
    ) -> Result<Inbound<'r>, Response> {
        let id = Some(&ask.id);
        let invalid = |message: String| bad_request(id, &ErrorObject::invalid_params(message));
        let claimed = required_meta(&meta).map_err(invalid)?;
        check_version_field(post.field, claimed).map_err(|error| bad_request(id, &error))?;
        let version = self.modern_version(claimed, id)?;
        permit(&mut ask, version, cx)
            .map_err(|lacking| deny(&self.challenge, Some(&ask.id), &lacking, cx))?;
        let id = Some(&ask.id);
        check_mirrors(post.request, &ask, cx).map_err(|error| bad_request(id, &error))?;
        ask.known = ask.known.filter(|method| method.facts().modern);
        if ask.known.is_none() {
            return Err(unknown_method(&ask));
        }
        let log_level = read_log_level(&meta)
            .map_err(|error| bad_request(Some(&ask.id), &ErrorObject::invalid_params(error)))?;
        check_framing(&ask, post, cx)?;
        let caller = Caller {
            version,
            session: None,
            principal: cx.passage.principal.clone(),
            peer: cx.peer.address,
            accepts: post.accepts,
            client_info: meta.client_info.map(Fragment::Borrowed),
            capabilities: meta.capabilities.map(Fragment::Borrowed),
            log_level,
            progress_token: meta.progress_token.and_then(|token| token.0),
            tasks: TaskSupport::Never,
        };
        Ok(Inbound { caller, work: Work::Request(ask) })
    }

    /// The sender of a notification: it declares nothing, but a version it names must be served.
    pub(super) fn modern_bystander<'r>(
        &self,
        post: &Post<'_, 'r>,
        meta: &Meta<'r>,
        cx: &Cx<'_>,
    ) -> Result<Caller<'r>, Response> {
        let claimed = match (&meta.protocol_version, post.field) {
            (Some(version), _) => version.as_str(),
            (None, VersionField::Names(text)) => text,
            (None, VersionField::Absent | VersionField::Broken) => "",
        };
        Ok(Caller {
            version: self.modern_version(claimed, None)?,
            session: None,
            principal: cx.passage.principal.clone(),
            peer: cx.peer.address,
            accepts: post.accepts,
            client_info: None,
            capabilities: None,
            log_level: None,
            progress_token: None,
            tasks: TaskSupport::Never,
        })
    }

    fn modern_version(&self, claimed: &str, id: Option<&Id>) -> Result<Version, Response> {
        let modern = |version: &Version| version.is_modern() && self.served.contains(version);
        Version::parse(claimed).filter(modern).ok_or_else(|| self.unsupported(id, claimed))
    }
}

/// What every request must carry in `_meta`; the version it names.
fn required_meta<'m>(meta: &'m Meta<'_>) -> Result<&'m str, String> {
    let missing = |key: &str| format!("params._meta must carry {key:?}");
    let version = meta.protocol_version.as_ref();
    let version = version.ok_or_else(|| missing(meta_key::PROTOCOL_VERSION))?;
    let capabilities = meta.capabilities.ok_or_else(|| missing(meta_key::CLIENT_CAPABILITIES))?;
    if !capabilities.is_object() {
        return Err(format!("{:?} must be an object", meta_key::CLIENT_CAPABILITIES));
    }
    Ok(version.as_str())
}

fn check_version_field(field: VersionField<'_>, claimed: &str) -> Result<(), ErrorObject> {
    match field {
        VersionField::Names(text) if text == claimed => Ok(()),
        VersionField::Names(_) => Err(differs(header::PROTOCOL_VERSION, "the version in _meta")),
        VersionField::Absent => Err(missing(header::PROTOCOL_VERSION)),
        VersionField::Broken => Err(doubled(header::PROTOCOL_VERSION)),
    }
}

/// `Mcp-Method`, `Mcp-Name` and the designated arguments.
fn check_mirrors(request: &Request<'_>, ask: &Ask<'_>, cx: &Cx<'_>) -> Result<(), ErrorObject> {
    let method = sole(request, header::METHOD)?.ok_or_else(|| missing(header::METHOD))?;
    if method != ask.method.as_bytes() {
        return Err(differs(header::METHOD, "the method in the body"));
    }
    let Some(known) = ask.known else {
        return Ok(());
    };
    if let Some(member) = known.facts().mirrored_name {
        check_name(request, ask, member)?;
    }
    if known == mcp::Method::ToolsCall {
        check_arguments(request, ask, cx)?;
    }
    Ok(())
}

fn check_name(request: &Request<'_>, ask: &Ask<'_>, member: &str) -> Result<(), ErrorObject> {
    let named = match member {
        "uri" => &ask.params.uri,
        "taskId" => &ask.params.task_id,
        _ => &ask.params.name,
    };
    let field = sole(request, header::NAME)?;
    match (named, field) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(missing(header::NAME)),
        (None, Some(_)) => Err(differs(header::NAME, member)),
        (Some(named), Some(field)) => match decode_value(field) {
            Ok(decoded) if decoded == named.as_str() => Ok(()),
            Ok(_) => Err(differs(header::NAME, member)),
            Err(_) => Err(mcp::header_mismatch(format!(
                "{}: neither plain ASCII nor well-formed base64",
                header::NAME
            ))),
        },
    }
}

fn check_arguments(request: &Request<'_>, ask: &Ask<'_>, cx: &Cx<'_>) -> Result<(), ErrorObject> {
    let Some(entry) = ask.tool.and_then(|seq| cx.catalog.tools.get(seq)) else { return Ok(()) };
    for designated in entry.designations.iter() {
        let field_name = format!("{}{}", header::PARAM_PREFIX, designated.suffix());
        let field = sole(request, &field_name)?;
        let argument = ask.params.arguments.and_then(|all| designated.find(all.to_raw()));
        designation::matches(designated.kind(), argument, field)
            .map_err(|mismatch| mcp::header_mismatch(format!("{field_name}: {mismatch}")))?;
    }
    Ok(())
}

/// The value of a field that must not be given twice.
#[inline]
fn sole<'r>(request: &Request<'r>, name: &str) -> Result<Option<&'r [u8]>, ErrorObject> {
    request.sole_field(name).map_err(|Doubled| doubled(name))
}

fn read_log_level(meta: &Meta<'_>) -> Result<Option<LogLevel>, String> {
    let Some(text) = &meta.log_level else {
        return Ok(None);
    };
    let level = text.as_str().parse();
    level.map(Some).map_err(|_| format!("{:?} is not a log level", meta_key::LOG_LEVEL))
}

fn missing(field: &str) -> ErrorObject {
    mcp::header_mismatch(format!("the {field} field is missing"))
}

fn doubled(field: &str) -> ErrorObject {
    mcp::header_mismatch(format!("the {field} field must be given once"))
}

fn differs(field: &str, what: &str) -> ErrorObject {
    mcp::header_mismatch(format!("the {field} field differs from {what}"))
}
