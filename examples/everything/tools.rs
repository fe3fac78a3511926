//! Tools that need nothing but their arguments: direct ones, talking ones, blocking ones, deferred
//! ones, and what a tool can know of its caller.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waterwheel::{
    Annotations, CallError, CallToolResult, Content, Icon, LogLevel, Progress, ResourceContents,
    Responder, Role, ServerBuilder, Streaming, Tool, ToolAnnotations, ToolCall,
};

use crate::resources::{PIXEL, readme};

type ToolOutcome = Result<CallToolResult, CallError>;

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    add_tools_that_know_their_caller(add_tools_that_take_time(add_talking_tools(add_plain_tools(
        server,
    ))))
}

/// Direct handlers: they run on the loop and return at once.
fn add_plain_tools(server: ServerBuilder) -> ServerBuilder {
    let number = json!({ "type": "number" });
    server
        .tool(
            Tool::new("echo")
                .description("Gives the text back")
                .input_schema(object(json!({ "text": { "type": "string" } }))),
            echo,
        )
        .tool(
            Tool::new("add")
                .description("Adds two numbers")
                .input_schema(object(json!({ "a": number, "b": number })))
                .output_schema(object(json!({ "sum": number }))),
            add,
        )
        .tool(Tool::new("fail").description("Fails, in words a model can read"), fail)
        .tool(
            Tool::new("all_content").description("Answers with one block of every kind"),
            all_content,
        )
}

/// The schema of an object that must have all of these properties.
pub(crate) fn object(properties: Value) -> Value {
    let names = properties.as_object().into_iter().flat_map(|all| all.keys());
    let required: Vec<&String> = names.collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// Arguments are read as a type of the program's own; what the schema refuses never gets here.
#[derive(Deserialize)]
struct Echo {
    text: String,
}

fn echo(call: &mut ToolCall<'_>) -> ToolOutcome {
    let Echo { text } = call.arguments()?;
    Ok(CallToolResult::text(text))
}

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn add(call: &mut ToolCall<'_>) -> ToolOutcome {
    let Add { a, b } = call.arguments()?;
    Ok(CallToolResult::structured(json!({ "sum": a + b })))
}

/// A message becomes a result with `isError`; `CallError::protocol` would be a JSON-RPC error.
fn fail(_call: &mut ToolCall<'_>) -> ToolOutcome {
    Err(CallError::new("this tool always fails; try another one"))
}

fn all_content(_call: &mut ToolCall<'_>) -> ToolOutcome {
    let for_the_user = Annotations::new().audience(Role::User).priority(0.8);
    let note = ResourceContents::text("demo://text/note", "Embedded.").mime_type("text/plain");
    Ok(CallToolResult::text("One block of every kind:")
        .with(Content::image(PIXEL, "image/png").annotations(for_the_user))
        .with(Content::audio(BEEP, "audio/wav"))
        .with(Content::resource(note))
        .with(Content::resource_link(readme())))
}

/// A millisecond of sound.
const BEEP: &[u8] = b"RIFF,\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0\
    data\x08\0\0\0\x80\xff\x80\0\x80\xff\x80\0";

/// Tools that say something before they answer, which makes the answer an event stream.
fn add_talking_tools(server: ServerBuilder) -> ServerBuilder {
    let steps = json!({ "type": "integer", "minimum": 1, "maximum": 1000 });
    let delay = json!({ "type": "integer", "minimum": 0, "maximum": 1000 });
    server
        .tool_blocking(
            Tool::new("slow_count")
                .description("Counts to `steps` and reports progress on the way")
                .input_schema(object(json!({ "steps": steps, "delay_ms": delay })))
                .streaming(Streaming::Allowed),
            slow_count,
        )
        .tool(
            Tool::new("log_messages")
                .description("Logs a debug, an info and an error message")
                .streaming(Streaming::Allowed),
            log_messages,
        )
}

#[derive(Deserialize)]
struct SlowCount {
    steps: u32,
    delay_ms: u64,
}

/// A blocking handler has a worker thread to itself while the loop goes on.
fn slow_count(call: &mut ToolCall<'static>) -> ToolOutcome {
    let SlowCount { steps, delay_ms } = call.arguments()?;
    for step in 1..=steps {
        #[expect(clippy::disallowed_methods, reason = "this is a worker thread, not the loop")]
        thread::sleep(Duration::from_millis(delay_ms));
        if call.is_cancelled() {
            log::info!("slow_count was cancelled at {step} of {steps}");
            return Err(CallError::new("cancelled"));
        }
        call.progress(&Progress::new(step.into()).total(steps.into()).message("counting"));
    }
    Ok(CallToolResult::text(format!("counted to {steps}")))
}

fn log_messages(call: &mut ToolCall<'_>) -> ToolOutcome {
    call.log(LogLevel::Debug, Some("everything"), &"for those who look closely");
    call.log(LogLevel::Info, Some("everything"), &json!({ "what": "data of any shape" }));
    call.log(LogLevel::Error, None, &"nothing is wrong, this is a demonstration");
    Ok(CallToolResult::text("said three things, of which you hear what you asked for"))
}

/// A deferred handler gives the call to a thread of the program's own and returns. Whoever holds
/// the responder answers, whenever it likes.
fn add_tools_that_take_time(server: ServerBuilder) -> ServerBuilder {
    let (questions, asked) = channel();
    thread::spawn(move || answer_questions(&asked));
    server.tool_deferred(
        Tool::new("ask_oracle")
            .description("Puts a question to the oracle, who lives on another thread")
            .input_schema(object(json!({ "question": { "type": "string" } }))),
        move |call, responder| pass_on(&call, responder, &questions),
    )
}

struct Question {
    text: String,
    responder: Responder<CallToolResult>,
}

#[derive(Deserialize)]
struct AskOracle {
    question: String,
}

fn pass_on(
    call: &ToolCall<'_>,
    responder: Responder<CallToolResult>,
    questions: &Sender<Question>,
) {
    match call.arguments() {
        Ok(AskOracle { question: text }) => {
            responder.on_cancel(|| log::info!("nobody waits for the oracle any more"));
            // Were the oracle gone, the responder in the question would answer by being dropped.
            let _ = questions.send(Question { text, responder });
        }
        Err(error) => responder.finish(CallToolResult::error(error.to_string())),
    }
}

fn answer_questions(asked: &Receiver<Question>) {
    for Question { text, responder } in asked {
        let answer = if text.len() % 2 == 0 { "yes" } else { "no" };
        responder.finish(CallToolResult::text(answer));
    }
}

/// What a handler can know of its caller, and what a tool can say about itself.
fn add_tools_that_know_their_caller(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(
            Tool::new("whoami")
                .title("Who am I?")
                .description("Tells what the server knows about the caller")
                .annotations(ToolAnnotations::new().read_only(true).idempotent(true))
                .icon(wheel()),
            whoami,
        )
        .tool(
            Tool::new("weather")
                .description("Invents the weather of a region, which is also sent as a header")
                .input_schema(object(json!({
                    "region": { "type": "string", "x-mcp-header": "Region" },
                }))),
            weather,
        )
}

fn wheel() -> Icon {
    let drawing = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
                   viewBox='0 0 8 8'%3E%3Ccircle cx='4' cy='4' r='3'/%3E%3C/svg%3E";
    Icon::new(drawing).mime_type("image/svg+xml").size("any")
}

#[derive(Serialize)]
struct Caller {
    revision: String,
    client: Option<String>,
    has_session: bool,
    principal: Option<String>,
    address: Option<String>,
    wants_progress: bool,
}

fn whoami(call: &mut ToolCall<'_>) -> ToolOutcome {
    Ok(CallToolResult::structured(Caller {
        revision: call.version().to_string(),
        client: call.client_info().map(|client| format!("{} {}", client.name, client.version)),
        has_session: call.session_id().is_some(),
        principal: call.principal().map(|principal| principal.name().to_owned()),
        address: call.peer().map(|peer| peer.to_string()),
        wants_progress: call.progress_token().is_some(),
    }))
}

#[derive(Deserialize)]
struct Weather {
    region: String,
}

/// A modern caller repeats the region in `Mcp-Param-Region`, where a proxy can route by it. The
/// library has made sure that both are the same.
fn weather(call: &mut ToolCall<'_>) -> ToolOutcome {
    let Weather { region } = call.arguments()?;
    Ok(CallToolResult::text(format!("It is raining in {region}.")))
}
