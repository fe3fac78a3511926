//! What a check says about a token, at once or later from another thread.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::exchange::Mail;
use crate::key::{ConnKey, Principal};
use crate::mailbox::Mailbox;

/// What a check says about a token.
#[derive(Debug, Clone)]
#[must_use]
pub struct TokenVerdict(pub(super) Finding);

#[derive(Debug, Clone)]
pub(super) enum Finding {
    Valid { principal: Principal, expires_in: Option<Duration> },
    Invalid(String),
    Unknown(String),
}

impl TokenVerdict {
    /// The token is good, was issued for this server and is this caller's, who was granted the
    /// principal's [scopes](Principal::with_scopes).
    pub fn valid(principal: Principal) -> Self {
        Self(Finding::Valid { principal, expires_in: None })
    }

    /// How long the token is good for from now on: a verdict that is
    /// [remembered](super::BearerAuth::remember) is forgotten then. Without it, or for a token that
    /// is not valid, it makes no difference.
    pub fn expires_in(mut self, time: Duration) -> Self {
        if let Finding::Valid { expires_in, .. } = &mut self.0 {
            *expires_in = Some(time);
        }
        self
    }

    /// The token is expired, forged, for somebody else or otherwise no good; answered with 401 and
    /// `invalid_token`. The caller is told the reason: a few words without secrets.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self(Finding::Invalid(reason.into()))
    }

    /// Nobody can say, because whoever would know cannot be reached; answered with 503. The reason
    /// is for the log.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self(Finding::Unknown(reason.into()))
    }
}

/// Owes the verdict on one token, and may be moved to another thread.
///
/// The request waits meanwhile, at most as long as
/// [`Timeouts::auth`](crate::Timeouts::auth), and other connections go on. A verdict that comes
/// later, or after the caller has left, does nothing. Dropping it is the verdict that nobody can
/// say, answered with 503.
#[must_use = "dropping a decision turns the caller away with 503"]
pub struct TokenDecision(Option<Waiting>);

/// The request that waits for a decision.
#[derive(Debug)]
struct Waiting {
    conn: ConnKey,
    ticket: u64,
    mailbox: Mailbox<Mail>,
}

impl TokenDecision {
    pub(super) fn new(conn: ConnKey, ticket: u64, mailbox: Mailbox<Mail>) -> Self {
        Self(Some(Waiting { conn, ticket, mailbox }))
    }

    /// Says what there is to say about the token.
    pub fn decide(mut self, verdict: TokenVerdict) {
        self.tell(verdict);
    }

    fn tell(&mut self, verdict: TokenVerdict) {
        if let Some(Waiting { conn, ticket, mailbox }) = self.0.take() {
            let told: Box<dyn Any + Send> = Box::new(verdict);
            mailbox.post(Mail::Resume { conn, ticket, told });
        }
    }
}

impl Drop for TokenDecision {
    fn drop(&mut self) {
        self.tell(TokenVerdict::unavailable("the check gave up without a verdict"));
    }
}

impl fmt::Debug for TokenDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenDecision").field(&self.0).finish()
    }
}
