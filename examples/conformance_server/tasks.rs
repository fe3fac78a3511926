//! Tools whose calls may become tasks.

use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use waterwheel::mcp::model::{BooleanField, FormSchema, InputRequest, NeedInput, TextField};
use waterwheel::rpc::ErrorObject;
use waterwheel::{
    CallError, CallToolResult, Responder, ServerBuilder, TaskSupport, Tool, ToolCall,
};

use crate::tool;

type Answer = Responder<CallToolResult>;

pub(crate) fn tasks(builder: ServerBuilder) -> ServerBuilder {
    asking(working(builder))
}

#[derive(Deserialize)]
struct Greet {
    name: String,
}

#[derive(Deserialize)]
struct Compute {
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    label: String,
}

fn working(builder: ServerBuilder) -> ServerBuilder {
    let greet = Tool::new("greet").description("Greets at once").input_schema(json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "required": ["name"],
    }));
    let compute = Tool::new("slow_compute").description("Takes its time").input_schema(json!({
        "type": "object",
        "properties": { "seconds": { "type": "number" }, "label": { "type": "string" } },
    }));
    builder
        .tool(greet, |call: &mut ToolCall| {
            let Greet { name } = call.arguments()?;
            Ok(CallToolResult::text(format!("Hello, {name}!")))
        })
        .tool_deferred(compute.tasks(TaskSupport::Allowed), |mut call: ToolCall, answer: Answer| {
            call.become_task();
            thread::spawn(move || match call.arguments() {
                Ok(compute) => {
                    let result = slow_compute(&answer, &compute);
                    answer.finish(result);
                }
                Err(error) => answer.finish(CallToolResult::error(error)),
            });
        })
        .tool_blocking(
            tool("failing_job", "Fails as a task").tasks(TaskSupport::Required),
            |_: &mut ToolCall| Err::<CallToolResult, _>(CallError::new("This job always fails")),
        )
        .tool_deferred(
            tool("protocol_error_job", "Ends in an error").tasks(TaskSupport::Required),
            |_call: ToolCall, answer: Answer| {
                answer.fail(ErrorObject::new(-32050, "This job ends in an error"));
            },
        )
}

/// Sleeps in small pieces, so that a cancelled task ends soon.
fn slow_compute(answer: &Answer, compute: &Compute) -> CallToolResult {
    const PIECE: Duration = Duration::from_millis(50);
    let whole = Duration::try_from_secs_f64(compute.seconds).unwrap_or_default();
    let mut slept = Duration::ZERO;
    while slept < whole && !answer.is_cancelled() {
        let piece = PIECE.min(whole - slept);
        #[expect(clippy::disallowed_methods, reason = "this is a worker's thread, not the loop's")]
        thread::sleep(piece);
        slept += piece;
    }
    CallToolResult::text(format!("Computed {} in {} s", compute.label, compute.seconds))
}

fn confirmation(message: &str) -> InputRequest {
    let form = FormSchema::new().field("confirm", BooleanField::new().required());
    InputRequest::elicit(message, form)
}

fn asking(builder: ServerBuilder) -> ServerBuilder {
    let delete = Tool::new("confirm_delete").description("Asks before it acts").input_schema(
        json!({ "type": "object", "properties": { "filename": { "type": "string" } } }),
    );
    builder
        .tool_deferred(delete.tasks(TaskSupport::Required), |call: ToolCall, answer: Answer| {
            match call.answers().elicited("confirm") {
                None => {
                    let need = NeedInput::new().ask("confirm", confirmation("Really delete it?"));
                    answer.ask(call, need);
                }
                Some(reply) if reply.is_accepted() => {
                    answer.finish(CallToolResult::text("Deleted"));
                }
                Some(_) => answer.finish(CallToolResult::text("Kept")),
            }
        })
        .tool_deferred(
            tool("multi_input", "Asks two things at once").tasks(TaskSupport::Required),
            |call: ToolCall, answer: Answer| {
                if call.answers().is_empty() {
                    let need = NeedInput::new()
                        .ask("first", confirmation("The first thing?"))
                        .ask("second", confirmation("The second thing?"));
                    return answer.ask(call, need);
                }
                answer.finish(CallToolResult::text("Both are answered"));
            },
        )
        .tool_deferred(
            tool("test_tool_with_task", "Asks, and then is a task").tasks(TaskSupport::Allowed),
            |mut call: ToolCall, answer: Answer| {
                let name = call.answers().elicited("user_name").and_then(|reply| {
                    let Greet { name } = reply.content()?;
                    Some(name)
                });
                let Some(name) = name else {
                    let form = FormSchema::new().field("name", TextField::new().required());
                    let request = InputRequest::elicit("What is your name?", form);
                    return answer.ask(call, NeedInput::new().ask("user_name", request));
                };
                call.become_task();
                thread::spawn(move || {
                    answer.finish(CallToolResult::text(format!("Hello, {name}!")));
                });
            },
        )
}
