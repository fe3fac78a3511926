//! What lies around the endpoint: pages that may call, filters, pages of the program's own,
//! credentials, and what those who run a server switch on.

use std::time::Duration;

use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::filter::{Cx, Filter, Flow, RateLimit, Refusal, Response};
use waterwheel::http::{Method, Request, ResponseHead, Status};
use waterwheel::rpc::ErrorObject;
use waterwheel::{Breaker, Ending, MethodCall, Middleware, Principal, ServerBuilder};

use crate::asking::CONFIRM_PATH;
use crate::options::Options;

pub(crate) fn add_to(mut server: ServerBuilder, options: &Options) -> ServerBuilder {
    server = server.filter(NoSniff).route(Method::Get, "/about", about);
    for origin in &options.origins {
        server = server.allow_origin(origin);
    }
    if let Ok(token) = std::env::var("EVERYTHING_TOKEN") {
        server = server.authenticate(move |request| check_token(&token, request));
    }
    add_operations(server, options)
}

/// All of this is off unless the command line asks for it.
fn add_operations(mut server: ServerBuilder, options: &Options) -> ServerBuilder {
    if options.logs_access {
        server = server.access_log();
    }
    if options.audits {
        server = server.middleware(Audit);
    }
    if options.informs {
        server = server.info();
    }
    #[cfg(feature = "metrics")]
    if options.measures {
        server = server.metrics();
    }
    if let Some(requests) = options.rate {
        server = server.rate_limit(RateLimit::per_second(requests));
    }
    if let Some(failures) = options.breaker {
        // `fail` answers with a tool error; without the second call only a crash is a failure.
        let breaker = Breaker::new(failures, Duration::from_secs(10));
        server = server.circuit_breaker(breaker.tool_errors());
    }
    server
}

/// Writes down which method was called, of which tool, prompt or resource, and how it ended. It
/// could refuse the call as well.
struct Audit;

impl Middleware for Audit {
    fn before(&mut self, call: &MethodCall<'_>) -> Result<(), ErrorObject> {
        log::info!("audit: {} {:?} begins", call.method(), call.name().unwrap_or_default());
        Ok(())
    }

    fn after(&mut self, call: &MethodCall<'_>, ending: Ending, took: Duration) {
        let name = call.name().unwrap_or_default();
        log::info!("audit: {} {name:?}: {ending:?} in {took:?}", call.method());
    }
}

fn about(_request: &Request<'_>, _cx: &mut Cx<'_>) -> Response {
    let text: &[u8] = b"An MCP server that shows everything. The endpoint is /mcp.\n";
    Response::new(Status::OK, "text/plain; charset=utf-8", text)
}

/// The outermost filter: it sees a request first and its response last. What is no well-formed
/// request never gets to a filter.
struct NoSniff;

impl Filter for NoSniff {
    fn on_head(&mut self, _request: &Request<'_>, _cx: &mut Cx<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    fn on_response(&mut self, head: &mut ResponseHead, _cx: &mut Cx<'_>) {
        head.field("X-Content-Type-Options", "nosniff");
    }
}

fn check_token(token: &str, request: &Request<'_>) -> Verdict {
    let field = request.field_str("authorization");
    match field.and_then(|field| field.strip_prefix("Bearer ")) {
        Some(offered) if is_same(offered, token) => Verdict::Allow(Principal::new("operator")),
        // A user who was sent there by `sign_in` has a browser, not the token.
        _ if request.path() == CONFIRM_PATH => Verdict::Allow(Principal::new("visitor")),
        _ => Verdict::Deny(
            Denial::unauthorized("send the token as `Authorization: Bearer TOKEN`")
                .field("WWW-Authenticate", "Bearer"),
        ),
    }
}

/// Takes equally long wherever two texts differ, so that a token cannot be guessed byte by byte.
fn is_same(offered: &str, token: &str) -> bool {
    let pairs = offered.bytes().zip(token.bytes());
    offered.len() == token.len() && pairs.fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}
