//! The server the tests talk to: one tool, resource or prompt for every way to answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;
use waterwheel::mcp::version::Version;
use waterwheel::rpc::ErrorObject;
use waterwheel::{
    CallError, CallToolResult, CompleteCall, CompleteResult, Content, GetPromptResult, LogLevel,
    Progress, Prompt, PromptArgument, PromptCall, PromptMessage, ReadResourceResult, Resource,
    ResourceCall, ResourceContents, ResourceTemplate, Responder, Server, ServerBuilder, Streaming,
    Tool, ToolCall,
};

/// What the fixture's handlers share with the test.
#[derive(Clone, Default)]
pub(crate) struct Held {
    calls: Arc<Mutex<VecDeque<HeldCall>>>,
    runs: Arc<AtomicUsize>,
}

/// A call that waits for the test to answer it.
pub(crate) struct HeldCall {
    pub(crate) call: ToolCall<'static>,
    pub(crate) responder: Responder<CallToolResult>,
}

impl Held {
    /// The oldest call that waits.
    #[track_caller]
    pub(crate) fn take(&self) -> HeldCall {
        self.lock().pop_front().expect("a deferred tool was called")
    }

    /// Drops all responders that wait.
    pub(crate) fn clear(&self) {
        let calls = std::mem::take(&mut *self.lock());
        drop(calls);
    }

    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// How often a handler of the fixture has run.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    fn count(&self) {
        self.runs.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn hold(&self, call: ToolCall<'static>, responder: Responder<CallToolResult>) {
        self.count();
        self.lock().push_back(HeldCall { call, responder });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<HeldCall>> {
        self.calls.lock().expect("no holder of this lock panics")
    }
}

impl HeldCall {
    /// Answers with a text.
    pub(crate) fn finish(self, text: &str) {
        self.responder.finish(CallToolResult::text(text));
    }

    /// Reports so much progress.
    pub(crate) fn progress(&mut self, progress: f64) {
        let _ = self.responder.progress(&Progress::new(progress));
    }
}

/// The fixture server, which shares `held` with its test.
pub(crate) fn server(held: &Held) -> ServerBuilder {
    let builder = Server::builder("fixture", "1.2.3").instructions("Call echo.");
    let builder = direct_tools(builder, held);
    let builder = deferred_tools(builder, held);
    features(builder)
}

/// Adds the tools that answer on the loop.
fn direct_tools(builder: ServerBuilder, held: &Held) -> ServerBuilder {
    let runs = held.clone();
    builder
        .tool(Tool::new("echo"), move |call: &mut ToolCall<'_>| {
            runs.count();
            Ok(echo(call))
        })
        .tool(Tool::new("add").input_schema(numbers()), |call: &mut ToolCall<'_>| {
            let terms: std::collections::BTreeMap<String, f64> = call.arguments()?;
            Ok(CallToolResult::text(terms.values().sum::<f64>()))
        })
        .tool(typed_tool(), typed)
        .tool(Tool::new("fails"), |_: &mut ToolCall<'_>| {
            Err::<CallToolResult, _>(CallError::new("it broke"))
        })
        .tool(Tool::new("refuses"), |_: &mut ToolCall<'_>| {
            Err::<CallToolResult, _>(CallError::protocol(ErrorObject::new(-32050, "not today")))
        })
        .tool(Tool::new("panics"), |_: &mut ToolCall<'_>| -> Result<CallToolResult, CallError> {
            panic!("expected by the test")
        })
        .tool(Tool::new("steps").streaming(Streaming::Allowed), steps)
        .tool(Tool::new("plain_steps").streaming(Streaming::Never), steps)
        .tool(Tool::new("must_stream").streaming(Streaming::Required), steps)
        .tool(Tool::new("region").input_schema(designated()), |call: &mut ToolCall<'_>| {
            Ok(echo(call))
        })
        .tool(Tool::new("caller"), |call: &mut ToolCall<'_>| Ok(describe_caller(call)))
}

/// Adds the tools whose answers the test gives.
fn deferred_tools(builder: ServerBuilder, held: &Held) -> ServerBuilder {
    let [slow, never, required] = [held.clone(), held.clone(), held.clone()];
    builder
        .tool_deferred(Tool::new("slow").streaming(Streaming::Allowed), move |call, responder| {
            slow.hold(call, responder)
        })
        .tool_deferred(
            Tool::new("plain_slow").streaming(Streaming::Never),
            move |call, responder| never.hold(call, responder),
        )
        .tool_deferred(
            Tool::new("slow_stream").streaming(Streaming::Required),
            move |call, responder| required.hold(call, responder),
        )
        .tool_deferred(Tool::new("gives_up"), |_, responder| drop(responder))
        .tool_deferred(Tool::new("panics_late"), |_, _responder| panic!("expected by the test"))
        .tool_deferred(Tool::new("prompt_answer"), |_, responder| {
            responder.finish(CallToolResult::text("at once"));
        })
}

/// Adds everything but tools.
fn features(builder: ServerBuilder) -> ServerBuilder {
    let data = ResourceTemplate::new("test://{id}/data", "data").mime_type("text/plain");
    let greet = Prompt::new("greet").argument(PromptArgument::new("who").required());
    builder
        .resource(Resource::new("file:///a.txt", "a"), |call: &mut ResourceCall<'_>| {
            Ok(ReadResourceResult::new([ResourceContents::text(call.uri(), "contents of a")]))
        })
        .resource(Resource::new("file:///δ.txt", "delta"), |call: &mut ResourceCall<'_>| {
            Ok(ReadResourceResult::new([ResourceContents::text(call.uri(), "Δ")]))
        })
        .resource_template(data, |call: &mut ResourceCall<'_>| match call.variable("id") {
            Some("none") | None => Err(call.not_found()),
            Some(id) => Ok(ReadResourceResult::new([ResourceContents::text(call.uri(), id)])),
        })
        .prompt(greet, |call: &mut PromptCall<'_>| {
            let who = call.argument("who").unwrap_or("nobody");
            let text = Content::text(format!("Greet {who}."));
            Ok(GetPromptResult::new([PromptMessage::user(text)]))
        })
        .completion(|call: &mut CompleteCall<'_>| {
            let known = ["paris", "porto", "rome"].into_iter();
            Ok(CompleteResult::new(known.filter(|it| it.starts_with(call.argument_value()))))
        })
}

/// The arguments, to the byte.
fn echo(call: &ToolCall<'_>) -> CallToolResult {
    CallToolResult::text(call.raw_arguments().map_or("{}", |raw| raw.get()))
}

/// Says the same progress twice, falls back, and logs from the quietest level to a loud one.
fn steps(call: &mut ToolCall<'_>) -> Result<CallToolResult, CallError> {
    for progress in [1.0, 1.0, 3.0, 2.0, 5.0] {
        let _ = call.progress(&Progress::new(progress).total(5.0));
    }
    let _ = call.log(LogLevel::Debug, None, &"quiet");
    let _ = call.log(LogLevel::Error, Some("steps"), &json!({ "loud": true }));
    Ok(CallToolResult::text("done"))
}

fn typed_tool() -> Tool {
    let output = json!({
        "type": "object",
        "properties": { "ok": { "type": "boolean" } },
        "required": ["ok"],
    });
    Tool::new("typed").output_schema(output)
}

/// Keeps or breaks the promise of its output schema, as its argument says.
fn typed(call: &mut ToolCall<'_>) -> Result<CallToolResult, CallError> {
    let arguments: std::collections::BTreeMap<String, String> = call.arguments()?;
    match arguments.get("how").map_or("", String::as_str) {
        "right" => Ok(CallToolResult::structured(json!({ "ok": true }))),
        "wrong" => Ok(CallToolResult::structured(json!({ "ok": "yes" }))),
        "absent" => Ok(CallToolResult::text("nothing structured")),
        _ => Err(CallError::new("it broke")),
    }
}

/// What the handler was told about its caller.
fn describe_caller(call: &ToolCall<'_>) -> CallToolResult {
    CallToolResult::structured(json!({
        "version": call.version().as_str(),
        "modern": call.version() >= Version::V2026_07_28,
        "session": call.session_id().map(|id| id.as_str().to_owned()),
        "principal": call.principal().map(|principal| principal.name().to_owned()),
        "client": call.client_info().map(|info| info.name),
        "elicits": call.client_capabilities().has("elicitation"),
        "meta": call.meta(),
    }))
}

fn numbers() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
        "required": ["a", "b"],
    })
}

/// Arguments that travel in header fields too.
fn designated() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "n": { "type": "integer", "x-mcp-header": "N" },
            "dry": { "type": "boolean", "x-mcp-header": "Dry" },
            "where": {
                "type": "object",
                "properties": { "zone": { "type": "string", "x-mcp-header": "Zone" } },
            },
        },
    })
}
