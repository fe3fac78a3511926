//! A filter of one's own: it gives every request a number, tells the caller, and keeps a list of
//! those who may not call.
//!
//! `cargo run --example own_filter`, then the lines it prints.

mod support;

use waterwheel::filter::{Cx, Filter, Flow, Refusal, Response};
use waterwheel::http::{Request, ResponseHead, Status};
use waterwheel::{CallToolResult, Server, Tool, ToolCall};

/// Numbers requests, and refuses agents that are not welcome.
struct FrontDesk {
    numbered: u64,
    unwelcome: Vec<String>,
}

impl Filter for FrontDesk {
    /// The head is there and the body is not: what is refused here costs the server next to
    /// nothing.
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        self.numbered += 1;
        // On whatever response this request gets, a refusal included.
        cx.response_field("X-Request-Number", &self.numbered.to_string());
        let agent = request.field_str("user-agent").unwrap_or_default();
        if self.unwelcome.iter().any(|name| agent.contains(name.as_str())) {
            let body: &[u8] = br#"{"error":"this agent is not welcome"}"#;
            return Err(Refusal::drain(Response::json(Status::FORBIDDEN, body)));
        }
        Ok(())
    }

    /// The request is whole. `Next` lets the filters behind this one decide.
    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    /// A response starts, of whichever filter; this one was added first and sees it last.
    fn on_response(&mut self, head: &mut ResponseHead, cx: &mut Cx<'_>) {
        println!("{} {} -> {}", cx.method().as_str(), cx.path(), head.status.code());
    }
}

fn main() -> support::Outcome {
    env_logger::init();
    let options = support::Options::from_args("own_filter", "127.0.0.1:8080");
    let server = Server::builder("own-filter", env!("CARGO_PKG_VERSION"))
        .filter(FrontDesk { numbered: 0, unwelcome: vec!["BadBot".to_owned()] })
        .tool(Tool::new("hello").description("Says hello"), |_: &mut ToolCall| {
            Ok(CallToolResult::text("hello"))
        })
        .bind(&options.bind)?
        .handle_signals()?;
    let url = server.url();
    println!("listening on {url}");
    println!("try: curl -i {url} -H 'Content-Type: application/json' -d '{{}}'");
    println!("and: curl -i {url} -A BadBot -H 'Content-Type: application/json' -d '{{}}'");
    Ok(server.run()?)
}
