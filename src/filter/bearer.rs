//! Bearer tokens: the server as a protected resource of OAuth (revision 2026-07-28, Authorization;
//! RFC 6750 and RFC 9728).
//!
//! The check of a token is the program's own. Around it, this module reads the token and nothing
//! but the token, tells callers what they lack in the words their client understands, and serves
//! the metadata by which a client finds out where tokens come from.

mod challenge;
mod gate;
mod memory;
mod metadata;
mod token;
mod verdict;

use std::fmt;
use std::time::Duration;

pub use token::Token;
pub use verdict::{TokenDecision, TokenVerdict};

pub(crate) use challenge::{Challenge, is_scope};
pub(crate) use gate::BearerGate;
pub(crate) use metadata::Metadata;

use crate::error::BuildError;
use crate::http::PublicUrl;
use crate::mcp;
use metadata::WELL_KNOWN;

/// Protects a server with bearer tokens, see
/// [`ServerBuilder::bearer_auth`](crate::ServerBuilder::bearer_auth).
///
/// A request without a valid token is answered 401, one whose token was not granted enough 403,
/// both with a `WWW-Authenticate` field that names the metadata of this resource and the scopes
/// that are needed. The metadata is served to everybody, below
/// `/.well-known/oauth-protected-resource`.
///
/// ```
/// use waterwheel::filter::bearer::{BearerAuth, TokenVerdict};
/// use waterwheel::{Principal, Server};
///
/// let protection = BearerAuth::new("https://mcp.example.com/mcp")
///     .authorization_server("https://login.example.com")
///     .scopes(["notes:read", "notes:write"])
///     .required_scopes(["notes:read"])
///     .check(|token| match token.as_str() {
///         // A real check verifies a signature, the issuer, the audience and the expiry.
///         "alice's token" => {
///             let scopes = ["notes:read"];
///             TokenVerdict::valid(Principal::new("alice").with_scopes(scopes))
///         }
///         _ => TokenVerdict::invalid("unknown token"),
///     });
/// let server = Server::builder("notes", "1.0.0").bearer_auth(protection);
/// # server.build_engine::<()>().expect("the description has no mistake");
/// ```
#[must_use = "it protects nothing until a server has it"]
pub struct BearerAuth {
    resource: String,
    issuers: Vec<String>,
    supported: Vec<String>,
    required: Vec<String>,
    implied: Implied,
    methods: Vec<(String, Vec<String>)>,
    metadata_url: Option<String>,
    check: Option<Check>,
    remembered: Option<Duration>,
}

/// Scopes with those they include.
type Implied = Vec<(String, Vec<String>)>;

type DirectCheck = dyn for<'c, 't> FnMut(&'c Token<'t>) -> TokenVerdict;
type DeferredCheck = dyn FnMut(Token<'static>, TokenDecision);

/// The program's own check of tokens.
enum Check {
    Direct(Box<DirectCheck>),
    Deferred(Box<DeferredCheck>),
}

/// How long a deferred verdict is remembered unless set: short enough that a token withdrawn a
/// minute ago is refused, long enough that a busy client asks once a minute.
const REMEMBERED: Duration = Duration::from_secs(60);

impl BearerAuth {
    /// Protects the resource that clients know by this URL: the one they connect to, for example
    /// `https://mcp.example.com/mcp`, as it stands in the audience of their tokens. Its host is
    /// answered for.
    pub fn new(resource: impl Into<String>) -> Self {
        Self {
            resource: resource.into(),
            issuers: Vec::new(),
            supported: Vec::new(),
            required: Vec::new(),
            implied: Vec::new(),
            methods: Vec::new(),
            metadata_url: None,
            check: None,
            remembered: None,
        }
    }

    /// Names an authorization server by its issuer URL, exactly as that server spells it. At least
    /// one is needed. `https`, unless it is on this machine.
    pub fn authorization_server(mut self, issuer: impl Into<String>) -> Self {
        self.issuers.push(issuer.into());
        self
    }

    /// The scopes that the metadata tells clients to ask for; none are named unless set. The fewest
    /// with which the server is of use: others are asked for when they are needed.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.supported.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// The scopes that every request needs; none unless set.
    pub fn required_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.required.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// The scopes that requests of one MCP method need beside the required ones, for example
    /// `resources/read`. Those of a tool are the [tool's](crate::Tool::scopes).
    pub fn method_scopes(
        mut self,
        method: &str,
        scopes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.methods.push((method.to_owned(), scopes.into_iter().map(Into::into).collect()));
        self
    }

    /// Says that whoever was granted one scope may do what these others allow, and what those
    /// include in turn.
    pub fn scope_includes(
        mut self,
        scope: &str,
        narrower: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.implied.push((scope.to_owned(), narrower.into_iter().map(Into::into).collect()));
        self
    }

    /// Where challenges say that the metadata is, in place of the well-known address of the
    /// resource: for a proxy that forwards nothing outside a path of its own.
    pub fn metadata_url(mut self, url: impl Into<String>) -> Self {
        self.metadata_url = Some(url.into());
        self
    }

    /// Checks tokens by this code, which runs on the loop: everybody waits for it. Enough for
    /// signatures whose key is at hand. It must refuse tokens that were not issued for this
    /// resource (revision 2026-07-28, Token Handling).
    pub fn check(mut self, check: impl FnMut(&Token<'_>) -> TokenVerdict + 'static) -> Self {
        self.check = Some(Check::Direct(Box::new(check)));
        self
    }

    /// Checks tokens by this code, which passes token and [`TokenDecision`] on and returns; for
    /// checks that ask another server. Meanwhile the request waits at its head, see
    /// [`Timeouts::auth`](crate::Timeouts::auth), and other connections go on.
    pub fn check_deferred(
        mut self,
        check: impl FnMut(Token<'static>, TokenDecision) + 'static,
    ) -> Self {
        self.check = Some(Check::Deferred(Box::new(check)));
        self
    }

    /// How long a valid token is taken for valid without another check, but never beyond its own
    /// [end](TokenVerdict::expires_in). 60 seconds unless set for a deferred check, and not at all
    /// for one on the loop; zero switches it off. See
    /// [`Limits::tokens_max`](crate::Limits::tokens_max).
    pub fn remember(mut self, time: Duration) -> Self {
        self.remembered = Some(time);
        self
    }

    /// Checks the description for a server whose endpoint is at `site.path`.
    pub(crate) fn settle(self, site: &Site<'_>) -> Result<Protection, BuildError> {
        let name = self.resource.clone();
        let wrong = |reason| BuildError::Invalid { kind: "bearer auth", name, reason };
        self.try_settle(site).map_err(wrong)
    }

    fn try_settle(self, site: &Site<'_>) -> Result<Protection, String> {
        let resource = PublicUrl::parse(&self.resource)?;
        check_place(&resource, site)?;
        let issuers = read_issuers(&self.issuers)?;
        let named = [&self.supported, &self.required].into_iter().flatten();
        let of_methods = self.methods.iter().flat_map(|(_, scopes)| scopes);
        if let Some(scope) = named.chain(of_methods).find(|scope| !is_scope(scope)) {
            return Err(format!("{scope:?} is no scope: it must be one word in ASCII"));
        }
        let methods = self.methods.into_iter().map(|(method, scopes)| {
            let known = mcp::Method::parse(&method);
            Ok((known.ok_or_else(|| format!("there is no method {method:?}"))?, scopes))
        });
        let methods = methods.collect::<Result<_, String>>()?;
        let metadata_url = match &self.metadata_url {
            Some(url) => PublicUrl::parse(url).map_err(|reason| format!("{url:?}: {reason}"))?,
            None => PublicUrl::parse(&resource.well_known(WELL_KNOWN))?,
        };
        let check = self.check.ok_or("tokens are not checked: give it a check")?;
        let usual = if matches!(check, Check::Direct(_)) { Duration::ZERO } else { REMEMBERED };
        let metadata = Metadata::new(&resource, &issuers, &self.supported, site.name, site.path);
        Ok(Protection {
            challenge: Challenge::new(metadata_url.as_str().to_owned(), self.required),
            host: resource.host().to_owned(),
            metadata,
            methods,
            check,
            implied: self.implied,
            remembered: self.remembered.unwrap_or(usual),
        })
    }
}

/// What a server says about itself that its protection depends on.
pub(crate) struct Site<'a> {
    /// The endpoint's path.
    pub(crate) path: &'a str,
    pub(crate) public_url: Option<&'a PublicUrl>,
    /// What people call the server.
    pub(crate) name: &'a str,
}

/// A protection whose description has no mistakes.
pub(crate) struct Protection {
    pub(crate) challenge: Challenge,
    pub(crate) metadata: Metadata,
    /// The host in the resource's URL.
    pub(crate) host: String,
    /// The scopes that methods need.
    pub(crate) methods: Vec<(mcp::Method, Vec<String>)>,
    check: Check,
    implied: Implied,
    remembered: Duration,
}

/// A client refuses metadata whose resource is elsewhere than the server it talks to.
fn check_place(resource: &PublicUrl, site: &Site<'_>) -> Result<(), String> {
    let Some(public) = site.public_url else { return Ok(()) };
    let endpoint = PublicUrl::parse(&public.join(site.path))?;
    let rest = endpoint.path().strip_prefix(resource.path());
    let around = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if resource.has_origin_of(&endpoint) && around {
        return Ok(());
    }
    Err(format!("clients see the endpoint at {}, which is not within it", endpoint.as_str()))
}

fn read_issuers(issuers: &[String]) -> Result<Vec<PublicUrl>, String> {
    if issuers.is_empty() {
        return Err("it names no authorization server".to_owned());
    }
    let read = |issuer: &String| match PublicUrl::parse(issuer) {
        Ok(url) if url.is_private() => Ok(url),
        Ok(_) => Err(format!("authorization server {issuer:?}: its scheme must be https")),
        Err(reason) => Err(format!("authorization server {issuer:?}: {reason}")),
    };
    issuers.iter().map(read).collect()
}

impl fmt::Debug for BearerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerAuth")
            .field("resource", &self.resource)
            .field("issuers", &self.issuers)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}
