//! Who may ask at all: `Host`, `Origin`, cross-origin answers, the authentication hook.
//!
//! Everything here is decided at the head, before a byte of an unknown caller's body is kept. A
//! server on a desktop is reachable from every web page the user opens; the checks of `Host` and
//! `Origin` are what keeps those pages out (DNS rebinding), so they are on by default.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::header;
use super::{Cx, Filter, Flow, RateLimit, Refusal, Response};
use crate::http::{
    Doubled, Method, Request, ResponseHead, Status, host_of, is_loopback, literal_of,
};
use crate::key::Principal;
use crate::rpc::ErrorObject;

/// What the authentication hook says about a request.
#[derive(Debug)]
#[must_use]
pub enum Verdict {
    /// Serve it, as this caller.
    Allow(Principal),
    /// Turn it away.
    Deny(Denial),
}

/// How a request without valid credentials is answered.
#[derive(Debug)]
pub struct Denial {
    status: Status,
    message: String,
    fields: Vec<(String, String)>,
}

impl Denial {
    /// 401: credentials are missing or not valid. Name the scheme in a `WWW-Authenticate` field.
    #[must_use]
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self { status: Status::UNAUTHORIZED, message: message.into(), fields: Vec::new() }
    }

    /// 403: the caller is known and may not do this.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { status: Status::FORBIDDEN, message: message.into(), fields: Vec::new() }
    }

    /// Adds a field to the refusal.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }
}

/// The user's check of credentials.
pub(crate) type AuthHook = Box<dyn FnMut(&Request<'_>, &Cx<'_>) -> Verdict>;

/// Decides at the head whether a request is looked at.
pub(crate) struct Security {
    pub(crate) origins: Origins,
    pub(crate) hosts: Hosts,
    pub(crate) auth: Option<AuthHook>,
    pub(crate) rate: Option<RateLimit>,
    /// Paths that are answered without credentials: probes.
    pub(crate) open_paths: Vec<String>,
    /// Paths that pages of any origin may read: metadata that is for everybody.
    pub(crate) public_paths: Vec<String>,
    /// Paths and the methods that are served on each, as a preflight is told.
    pub(crate) methods: Vec<(String, String)>,
}

impl Filter for Security {
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if !self.hosts.allow(request, cx.peer.address) {
            log::warn!("refused a request for a host that is not ours (DNS rebinding?)");
            return Err(refuse_foreign("this server does not answer for that host"));
        }
        self.check_origin(request, cx)?;
        if request.method() == Method::Options {
            return Err(Refusal::drain(self.preflight(request, cx)));
        }
        self.check_caller(request, cx)
    }

    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    fn on_response(&mut self, _head: &mut ResponseHead, _cx: &mut Cx<'_>) {}
}

impl Security {
    /// Who is asking, and whether not too often.
    fn check_caller(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if self.auth.is_none() && self.rate.is_none() {
            return Ok(());
        }
        if self.open_paths.iter().any(|open| cx.facts.is_at(open)) {
            return Ok(());
        }
        // Whoever guesses at credentials runs out of guesses, and the hook is spared the rest.
        if let (Some(rate), Some(_)) = (&mut self.rate, &self.auth) {
            rate.look(request, cx)?;
        }
        self.check_credentials(request, cx)?;
        self.rate.as_mut().map_or(Ok(()), |rate| rate.admit(request, cx))
    }

    fn check_origin(&self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let origin = match request.sole_field("origin") {
            Ok(None) => return Ok(()),
            Ok(Some(origin)) => Some(std::str::from_utf8(origin).unwrap_or("")),
            Err(Doubled) => None,
        };
        if self.is_public(cx) {
            cx.response_field("Access-Control-Allow-Origin", "*");
            return Ok(());
        }
        let Some(origin) = origin.filter(|origin| self.origins.allow(origin)) else {
            log::warn!("refused a request from a web page on an origin that is not allowed");
            return Err(refuse_foreign("this origin is not allowed"));
        };
        cx.response_field("Access-Control-Allow-Origin", origin);
        cx.response_field("Vary", "Origin");
        cx.response_field("Access-Control-Expose-Headers", EXPOSED);
        Ok(())
    }

    fn is_public(&self, cx: &Cx<'_>) -> bool {
        self.public_paths.iter().any(|public| cx.facts.is_at(public))
    }

    /// Answers a preflight without credentials: browsers send none with it.
    fn preflight(&self, request: &Request<'_>, cx: &Cx<'_>) -> Response {
        let served = self.methods.iter().find(|(known, _)| cx.facts.is_at(known));
        let methods = served.map_or("OPTIONS", |(_, methods)| methods).to_owned();
        let response = Response::empty(Status::NO_CONTENT).field("Allow", methods.clone());
        if request.field("origin").is_none() {
            return response;
        }
        let mut allowed = String::from(ALLOWED_FIELDS);
        for suffix in cx.catalog.designated_suffixes() {
            push_listed(&mut allowed, header::PARAM_PREFIX, suffix);
        }
        for suffix in requested_param_suffixes(request) {
            push_listed(&mut allowed, header::PARAM_PREFIX, suffix);
        }
        response
            .field("Access-Control-Allow-Methods", methods)
            .field("Access-Control-Allow-Headers", allowed)
            .field("Access-Control-Max-Age", "86400")
    }

    fn check_credentials(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let Some(hook) = &mut self.auth else {
            return Ok(());
        };
        match hook(request, cx) {
            Verdict::Allow(principal) => {
                cx.set_principal(principal);
                Ok(())
            }
            Verdict::Deny(denial) => {
                if let Some(rate) = &mut self.rate {
                    rate.note_denial(request, cx);
                }
                let error = ErrorObject::invalid_request(denial.message);
                let mut response = Response::rpc_error(denial.status, None, &error);
                for (name, value) in denial.fields {
                    response = response.field(name, value);
                }
                Err(Refusal::drain(response))
            }
        }
    }
}

/// Response fields that scripts of an allowed origin may read.
const EXPOSED: &str = "Mcp-Session-Id, WWW-Authenticate, Retry-After";

fn refuse_foreign(message: &'static str) -> Refusal {
    let error = ErrorObject::invalid_request(message);
    Refusal::close(Response::rpc_error(Status::FORBIDDEN, None, &error))
}

const ALLOWED_FIELDS: &str = "Content-Type, Accept, Authorization, Mcp-Session-Id, \
    MCP-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name";

/// Parameter headers the page asks for. A gateway in front may serve tools this server has not
/// heard of yet, and an unknown parameter header is ignored anyway.
fn requested_param_suffixes<'r>(request: &Request<'r>) -> impl Iterator<Item = &'r str> {
    let list = request.field_str("access-control-request-headers").unwrap_or("");
    list.split(',').filter_map(|name| {
        let name = name.trim();
        let (prefix, suffix) = name.split_at_checked(header::PARAM_PREFIX.len())?;
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let listed = prefix.eq_ignore_ascii_case(header::PARAM_PREFIX)
            && !suffix.is_empty()
            && suffix.bytes().all(token);
        listed.then_some(suffix)
    })
}

fn push_listed(list: &mut String, prefix: &str, suffix: &str) {
    let name = format!("{prefix}{suffix}");
    if !list.split(", ").any(|known| known.eq_ignore_ascii_case(&name)) {
        list.push_str(", ");
        list.push_str(&name);
    }
}

/// Which web pages may call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins {
    /// Replaces the default when not empty; `*` stands for every origin.
    pub(crate) allowed: Vec<String>,
}

impl Origins {
    fn allow(&self, origin: &str) -> bool {
        if self.allowed.is_empty() {
            return is_local_origin(origin);
        }
        self.allowed.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
    }
}

/// Pages of this machine: a loopback host under http or https, on any port.
fn is_local_origin(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    web && host_of(authority).is_some_and(|host| {
        ["localhost", "127.0.0.1", "[::1]"].iter().any(|local| host.eq_ignore_ascii_case(local))
    })
}

/// Which names this server answers for.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    /// Names beside the loopback ones.
    pub(crate) allowed: Vec<String>,
    /// The server listens publicly and nobody said under which name: any address literal will do,
    /// since a name is what a rebinding attack needs.
    pub(crate) any_literal: bool,
    /// Proxies whose word about the host is taken.
    pub(crate) proxies: Vec<IpAddr>,
    /// The field that was allowed last: on most servers it is always the same one.
    pub(crate) last_allowed: Vec<u8>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            any_literal: false,
            proxies: Vec::new(),
            // Allowed anyway, unlike the empty field, which nobody may be taken for.
            last_allowed: b"localhost".to_vec(),
        }
    }
}

impl Hosts {
    fn allow(&mut self, request: &Request<'_>, peer: Option<SocketAddr>) -> bool {
        if let Some(host) = self.forwarded(request, peer) {
            return std::str::from_utf8(host).is_ok_and(|host| self.allow_authority(host));
        }
        // The authority of an absolute target would win over the field, which then says nothing.
        let field = request.field("host").filter(|_| request.authority().is_none());
        if field.is_some_and(|host| host == self.last_allowed) {
            return true;
        }
        let allowed = self.judge(request);
        if let Some(host) = field.filter(|_| allowed) {
            self.last_allowed.clear();
            self.last_allowed.extend_from_slice(host);
        }
        allowed
    }

    fn judge(&self, request: &Request<'_>) -> bool {
        // The authority of an absolute target wins over the field (RFC 9112 section 3.2.2).
        let authority = request.authority().or_else(|| request.field_str("host"));
        let Some(authority) = authority else {
            // The codec lets a request without the field pass for HTTP/1.0 only, whose clients
            // predate it. A browser always sends it.
            return request.field("host").is_none();
        };
        self.allow_authority(authority)
    }

    /// The host that a trusted proxy was asked for. Of several it is the one it added itself, the
    /// last: the others came from somebody else.
    fn forwarded<'r>(&self, request: &Request<'r>, peer: Option<SocketAddr>) -> Option<&'r [u8]> {
        if self.proxies.is_empty() || !self.proxies.contains(&peer?.ip().to_canonical()) {
            return None;
        }
        let hosts = request.fields_named("x-forwarded-host").last()?;
        hosts.rsplit(|byte| *byte == b',').next().map(<[u8]>::trim_ascii)
    }

    fn allow_authority(&self, authority: &str) -> bool {
        host_of(authority).is_some_and(|host| self.allow_name(host))
    }

    fn allow_name(&self, host: &str) -> bool {
        is_loopback(host)
            || (self.any_literal && literal_of(host).is_some())
            || self.allowed.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security")
            .field("origins", &self.origins)
            .field("hosts", &self.hosts)
            .field("auth", &self.auth.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b044_only_pages_of_this_machine_are_local() {
        let origins = Origins::default();
        for good in [
            "http://localhost",
            "https://localhost:3000",
            "http://127.0.0.1:9999",
            "http://[::1]:80",
            "HTTP://LOCALHOST:1",
        ] {
            assert!(origins.allow(good), "{good}");
        }
        for bad in [
            "null",
            "",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://localhost:80x",
            "http://localhost/path",
            "http://user@localhost",
            "ftp://localhost",
            "http://[::1",
            "http://[::2]",
            "http://localhost:",
        ] {
            assert!(!origins.allow(bad), "{bad}");
        }
    }

    #[test]
    fn a_configured_list_replaces_the_local_default() {
        let origins = Origins { allowed: vec!["https://app.example".into()] };
        assert!(origins.allow("https://APP.example"));
        assert!(!origins.allow("http://localhost"));
        assert!(Origins { allowed: vec!["*".into()] }.allow("https://any.example"));
    }

    #[test]
    fn b045_hosts_are_compared_without_port_and_case() {
        let hosts = Hosts {
            allowed: vec!["mcp.example.com".into()],
            any_literal: false,
            ..Hosts::default()
        };
        for good in ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "[::1]", "MCP.example.com"]
        {
            assert!(hosts.allow_name(good), "{good}");
        }
        for bad in ["evil.example", "localhost.evil", "192.168.1.1", "[::2]", ""] {
            assert!(!hosts.allow_name(bad), "{bad}");
        }
        assert!(Hosts { any_literal: true, ..Hosts::default() }.allow_name("192.168.1.1"));
    }
}
