//! The filter that lets nobody in without a token.

use std::fmt;

use super::super::{Cx, Filter, Flow, Hold, RateLimit, Refusal, Response};
use super::memory::Memory;
use super::token::Fault;
use super::verdict::Finding;
use super::{Challenge, Check, Implied, Protection, Token, TokenDecision, TokenVerdict};
use crate::exchange::Mail;
use crate::http::{Request, ResponseHead, Status};
use crate::key::Principal;
use crate::mailbox::Mailbox;
use crate::rpc::ErrorObject;

/// Asks for the verdict on a request's token, at the head, and acts on it.
pub(crate) struct BearerGate {
    check: Check,
    implied: Implied,
    challenge: Challenge,
    /// Paths that are answered without credentials.
    open_paths: Vec<String>,
    memory: Memory,
    /// How often a caller may ask; it is asked here because only here the caller is known.
    rate: Option<RateLimit>,
    mailbox: Mailbox<Mail>,
    /// Deferred checks so far. The next one's number tells its verdict from those of others that
    /// come too late.
    tickets: u64,
}

impl BearerGate {
    pub(crate) fn new(
        protection: Protection,
        open_paths: Vec<String>,
        tokens_max: usize,
        rate: Option<RateLimit>,
        mailbox: Mailbox<Mail>,
    ) -> Self {
        Self {
            check: protection.check,
            implied: protection.implied,
            challenge: protection.challenge,
            open_paths,
            memory: Memory::new(tokens_max, protection.remembered),
            rate,
            mailbox,
            tickets: 0,
        }
    }

    /// Who is asking.
    fn identify(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<Principal, Refusal> {
        let identified = match Token::read(request) {
            Ok(token) => self.judge(token, cx),
            Err(fault) => Err(Refusal::drain(no_token(fault, &self.challenge))),
        };
        if let (Err(refusal), Some(rate)) = (&identified, &mut self.rate)
            && refusal.response.status != Status::UNAVAILABLE
        {
            rate.note_denial(request, cx);
        }
        identified
    }

    /// Whose token it is.
    fn judge(&mut self, token: Token<'_>, cx: &mut Cx<'_>) -> Result<Principal, Refusal> {
        let verdict = match take_told(cx) {
            Some(verdict) => verdict,
            None => {
                if let Some(principal) = self.memory.find(&token, cx.now) {
                    return Ok(principal);
                }
                match &mut self.check {
                    Check::Direct(check) => check(&token),
                    Check::Deferred(_) => return Err(self.defer(token, cx)),
                }
            }
        };
        match verdict.0 {
            Finding::Valid { principal, expires_in } => {
                let principal = widen(principal, &self.implied);
                self.memory.keep(&token, &principal, expires_in, cx.now);
                Ok(principal)
            }
            Finding::Invalid(reason) => Err(Refusal::drain(self.challenge.invalid(&reason))),
            Finding::Unknown(reason) => {
                log::error!("a token could not be checked: {reason}");
                Err(Refusal::drain(unavailable()))
            }
        }
    }

    /// Gives the token away, and holds the request until somebody knows.
    fn defer(&mut self, token: Token<'_>, cx: &mut Cx<'_>) -> Refusal {
        self.tickets += 1;
        let decision = TokenDecision::new(cx.conn, self.tickets, self.mailbox.clone());
        if let Check::Deferred(check) = &mut self.check {
            check(token.into_owned(), decision);
        }
        cx.passage.hold = Some(Box::new(Hold::new(self.tickets)));
        Refusal::hold(unavailable())
    }
}

impl Filter for BearerGate {
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if self.open_paths.iter().any(|open| cx.facts.is_at(open)) {
            return Ok(());
        }
        // Whoever guesses at tokens runs out of guesses, and the check is spared the rest.
        self.rate.as_mut().map_or(Ok(()), |rate| rate.look(request, cx))?;
        let principal = self.identify(request, cx)?;
        let is_granted = self.challenge.required().iter().all(|it| principal.has_scope(it));
        cx.set_principal(principal);
        self.rate.as_mut().map_or(Ok(()), |rate| rate.admit(request, cx))?;
        if is_granted {
            return Ok(());
        }
        Err(Refusal::drain(self.challenge.insufficient(None, &[])))
    }

    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    fn on_response(&mut self, _head: &mut ResponseHead, _cx: &mut Cx<'_>) {}
}

/// The verdict for which this request was held, if it was.
fn take_told(cx: &mut Cx<'_>) -> Option<TokenVerdict> {
    let told = cx.passage.hold.take()?.told?;
    told.downcast().ok().map(|verdict| *verdict)
}

fn no_token(fault: Fault, challenge: &Challenge) -> Response {
    match fault {
        Fault::Absent => challenge.unauthorized(None, &[]),
        Fault::Malformed => challenge.invalid("it is not in the form of a bearer token"),
        Fault::Doubled => challenge.ambiguous("the Authorization field must be given once"),
    }
}

/// Not the caller's fault, so it says when to come back and nothing about the token.
fn unavailable() -> Response {
    let error = ErrorObject::invalid_request("the token cannot be checked now; try again later");
    Response::rpc_error(Status::UNAVAILABLE, None, &error).field("Retry-After", "1")
}

/// The principal with every scope that those it was granted include.
fn widen(principal: Principal, implied: &Implied) -> Principal {
    if implied.is_empty() {
        return principal;
    }
    let mut scopes = principal.scopes().to_vec();
    let mut at = 0;
    while let Some(scope) = scopes.get(at).cloned() {
        let included = implied.iter().filter(|(broad, _)| *broad == scope);
        for narrow in included.flat_map(|(_, narrower)| narrower) {
            if !scopes.contains(narrow) {
                scopes.push(narrow.clone());
            }
        }
        at += 1;
    }
    principal.with_scopes(scopes)
}

impl fmt::Debug for BearerGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerGate")
            .field("challenge", &self.challenge)
            .field("tickets", &self.tickets)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broad_scope_includes_what_its_narrower_ones_include() {
        let implied = vec![
            ("admin".to_owned(), vec!["write".to_owned(), "admin".to_owned()]),
            ("write".to_owned(), vec!["read".to_owned()]),
        ];
        let widened = widen(Principal::new("a").with_scopes(["admin"]), &implied);
        assert_eq!(widened.scopes(), ["admin", "write", "read"]);
        let widened = widen(Principal::new("a").with_scopes(["read"]), &implied);
        assert_eq!(widened.scopes(), ["read"]);
    }
}
