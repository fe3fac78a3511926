//! A call that another thread answers: progress on the way, an end when its caller has left.
//!
//! `cargo run --example worker_thread`, then the line it prints.

mod support;

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use waterwheel::rpc::ErrorObject;
use waterwheel::{CallToolResult, Progress, Responder, Server, Tool, ToolCall};

/// What travels to the worker: the call, and the duty to answer it.
type Job = (ToolCall<'static>, Responder<CallToolResult>);

#[derive(Deserialize)]
struct Countdown {
    from: u32,
}

fn main() -> support::Outcome {
    env_logger::init();
    let options = support::Options::from_args("worker_thread", "127.0.0.1:8080");
    let jobs = start_worker();
    let schema = json!({
        "type": "object",
        "properties": { "from": { "type": "integer", "minimum": 0, "maximum": 3600 } },
        "required": ["from"],
    });
    let server = Server::builder("worker-thread", env!("CARGO_PKG_VERSION"))
        .tool_deferred(
            Tool::new("countdown").description("Counts down by the second").input_schema(schema),
            move |call: ToolCall, responder: Responder<CallToolResult>| {
                // Whatever is left of a job that no worker takes answers with an error.
                if jobs.send((call, responder)).is_err() {
                    log::error!("the worker has ended");
                }
            },
        )
        .bind(&options.bind)?
        .handle_signals()?;
    println!("listening on {}", server.url());
    println!(
        "try: curl -sN {} -H 'Content-Type: application/json' \
         -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \
         -H 'Mcp-Name: countdown' -d '{}'",
        server.url(),
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {
                "name": "countdown", "arguments": { "from": 5 },
                "_meta": {
                    "progressToken": "p",
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        })
    );
    Ok(server.run()?)
}

/// One thread that works through the jobs it is sent, in turn.
fn start_worker() -> Sender<Job> {
    let (jobs, queue) = channel::<Job>();
    thread::spawn(move || {
        for (call, responder) in queue {
            match call.arguments() {
                Ok(Countdown { from }) => count_down(from, responder),
                Err(error) => responder.fail(ErrorObject::invalid_params(error.to_string())),
            }
        }
    });
    jobs
}

fn count_down(from: u32, mut responder: Responder<CallToolResult>) {
    for done in 0..from {
        if responder.is_cancelled() {
            // Nobody waits any more, so that dropping the responder is all that is left to do.
            return println!("given up at {done} of {from}: the caller has left");
        }
        let progress = Progress::new(f64::from(done + 1)).total(f64::from(from));
        responder.progress(&progress.message(format!("{} left", from - done)));
        #[expect(clippy::disallowed_methods, reason = "this is a worker's thread, not the loop's")]
        thread::sleep(Duration::from_secs(1));
    }
    responder.finish(CallToolResult::text(format!("counted down from {from}")));
}
