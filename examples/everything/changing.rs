//! What changes while the server runs: a resource that ticks, tools that come and go, and an errand
//! whose caller hangs up meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use waterwheel::{
    BuildError, CacheHint, CacheScope, CallError, CallToolResult, LogLevel, Progress,
    ReadResourceResult, Resource, ResourceCall, ResourceContents, Responder, ServerBuilder,
    ServerHandle, Streaming, Tool, ToolCall,
};

use crate::tools::object;

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    add_errand(add_tools_that_change_the_list(add_clock(server)))
}

/// The resource that changes every second, for those who want to hear of changes.
pub(crate) const CLOCK: &str = "demo://clock";

/// A handle announces changes from any thread.
fn add_clock(server: ServerBuilder) -> ServerBuilder {
    let seconds = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&seconds);
    let handle = server.handle();
    thread::spawn(move || {
        loop {
            pause(1000);
            counted.fetch_add(1, Ordering::Relaxed);
            handle.resource_updated(CLOCK);
        }
    });
    let clock = Resource::new(CLOCK, "clock")
        .description("For how many seconds this program has been running")
        .mime_type("text/plain");
    server.resource(clock, move |call: &mut ResourceCall<'_>| {
        let text = seconds.load(Ordering::Relaxed).to_string();
        let contents = ResourceContents::text(call.uri(), text).mime_type("text/plain");
        let never = CacheHint { ttl_ms: 0, scope: CacheScope::Private };
        Ok(ReadResourceResult::from(contents).cache(never))
    })
}

fn pause(milliseconds: u64) {
    #[expect(clippy::disallowed_methods, reason = "this is a thread of its own, not the loop's")]
    thread::sleep(Duration::from_millis(milliseconds));
}

/// Tools that others add may not grow without bound, either.
const OFFERED_MAX: usize = 16;

#[derive(Deserialize)]
struct Offered {
    name: String,
}

/// Adding and removing tools is announced to everybody who listens.
fn add_tools_that_change_the_list(server: ServerBuilder) -> ServerBuilder {
    let (offering, withdrawing) = (server.handle(), server.handle());
    let offered = Arc::new(std::sync::Mutex::new(Vec::new()));
    let on_offer = Arc::clone(&offered);
    let name = json!({ "type": "string", "pattern": "^extra_[a-z0-9_]{1,32}$" });
    server
        .tool(
            Tool::new("offer_tool")
                .description("Adds a tool whose name begins with extra_")
                .input_schema(object(json!({ "name": name }))),
            move |call: &mut ToolCall<'_>| {
                let Offered { name } = call.arguments()?;
                let mut offered = offered.lock().unwrap_or_else(|held| held.into_inner());
                if offered.contains(&name) || offered.len() >= OFFERED_MAX {
                    return Err(CallError::new("that one is there, or there are too many"));
                }
                offer(&offering, &name).map_err(CallError::new)?;
                offered.push(name);
                Ok(CallToolResult::text("it is there now"))
            },
        )
        .tool(
            Tool::new("withdraw_tool")
                .description("Removes a tool that offer_tool added")
                .input_schema(object(json!({ "name": name }))),
            move |call: &mut ToolCall<'_>| {
                let Offered { name } = call.arguments()?;
                let mut offered = on_offer.lock().unwrap_or_else(|held| held.into_inner());
                let at = offered.iter().position(|offered| *offered == name);
                offered.swap_remove(at.ok_or_else(|| CallError::new("there is no such tool"))?);
                withdrawing.remove_tool(&name);
                Ok(CallToolResult::text("it is gone"))
            },
        )
}

fn offer(handle: &ServerHandle, name: &str) -> Result<(), BuildError> {
    let answer = format!("{name} at your service");
    let tool = Tool::new(name).description("Was added by a call of offer_tool");
    handle.add_tool(tool, move |_: &mut ToolCall<'_>| Ok(CallToolResult::text(&*answer)))
}

pub(crate) fn add_while_running(handle: &ServerHandle) -> Result<(), BuildError> {
    let latecomer = Tool::new("latecomer").description("Was added when the server was running");
    handle.add_tool(latecomer, |_: &mut ToolCall<'_>| Ok(CallToolResult::text("better late")))
}

/// Threads that run errands; one more is refused.
const ERRANDS_MAX: usize = 16;

/// After which the caller comes back for what it missed.
const RECONNECT: Duration = Duration::from_millis(300);

#[derive(Deserialize)]
struct Errand {
    steps: u32,
    delay_ms: u64,
    hang_up: bool,
}

fn add_errand(server: ServerBuilder) -> ServerBuilder {
    let running = Arc::new(());
    let tool = Tool::new("errand")
        .description("Works in steps, and hangs up meanwhile: the caller is to resume the stream")
        .input_schema(object(json!({
            "steps": { "type": "integer", "minimum": 1, "maximum": 100 },
            "delay_ms": { "type": "integer", "minimum": 0, "maximum": 1000 },
            "hang_up": { "type": "boolean" },
        })))
        .streaming(Streaming::Allowed);
    server.tool_deferred(tool, move |call: ToolCall<'static>, responder| {
        match call.arguments::<Errand>() {
            Err(error) => responder.finish(CallToolResult::error(error.to_string())),
            Ok(_) if Arc::strong_count(&running) > ERRANDS_MAX => {
                responder.finish(CallToolResult::error("too many errands are being run"));
            }
            Ok(errand) => {
                let running = Arc::clone(&running);
                thread::spawn(move || {
                    run_errand(&errand, responder);
                    drop(running);
                });
            }
        }
    })
}

/// What is said while nobody is on the line is kept for when the caller is back.
fn run_errand(errand: &Errand, mut responder: Responder<CallToolResult>) {
    if errand.hang_up {
        responder.release_connection(RECONNECT);
    }
    for step in 1..=errand.steps {
        responder.progress(&Progress::new(step.into()).total(errand.steps.into()));
        responder.log(LogLevel::Info, Some("errand"), &json!({ "step": step }));
        pause(errand.delay_ms);
        if responder.is_cancelled() {
            return responder.finish(CallToolResult::error("cancelled"));
        }
    }
    responder.finish(CallToolResult::text(format!("{} steps are done", errand.steps)));
}
