//! Every feature of the server in one program: `cargo run --release --example everything`.
//!
//! Read it from the top: `main` describes the server, and each group of features has a function
//! that registers it, followed by its handlers. With `EVERYTHING_TOKEN` set in the environment,
//! callers must send it as their bearer token.

mod support;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waterwheel::filter::security::{Denial, Verdict};
use waterwheel::filter::{Cx, Filter, Flow, Refusal, Response};
use waterwheel::http::{Method, Request, ResponseHead, Status};
use waterwheel::mcp::model::CompletionReference;
use waterwheel::{
    Annotations, CacheHint, CacheScope, CallError, CallToolResult, CompleteCall, CompleteResult,
    Content, GetPromptResult, Icon, Implementation, Limits, LogLevel, Principal, Progress, Prompt,
    PromptArgument, PromptCall, PromptMessage, ReadResourceResult, Resource, ResourceCall,
    ResourceContents, ResourceTemplate, Responder, Role, Server, ServerBuilder, ServerHandle,
    Streaming, Timeouts, Tool, ToolAnnotations, ToolCall,
};

type ToolOutcome = Result<CallToolResult, CallError>;

fn main() -> support::Outcome {
    let options = support::Options::from_args("everything", "127.0.0.1:8080");
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let mut server = Server::builder("everything", env!("CARGO_PKG_VERSION"))
        .implementation(about_this_program())
        .instructions("A server to try things on: nothing here has effects outside of it.")
        .cache(CacheHint { ttl_ms: 60_000, scope: CacheScope::Private })
        .limits(Limits { page_items: PAGE_ITEMS, ..Limits::default() })
        .timeouts(Timeouts { grace: Duration::from_secs(3), ..Timeouts::default() });
    server = add_plain_tools(server);
    server = add_talking_tools(server);
    server = add_tools_that_take_time(server);
    server = add_tools_that_know_their_caller(server);
    server = add_resources(server);
    server = add_prompts(server);
    server = add_http(server);
    let server = server.bind(&options.bind)?.handle_signals()?;
    add_while_running(&server.handle())?;
    greet_operator(&server.url());
    Ok(server.run()?)
}

/// Small enough that the tools take two pages, so that clients have to follow the cursor.
const PAGE_ITEMS: usize = 8;

fn about_this_program() -> Implementation {
    Implementation::new("everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .description("Shows every feature of a waterwheel server")
}

fn greet_operator(url: &str) {
    println!("MCP endpoint: {url}\n");
    println!("Revision 2026-07-28, one request:\n\n{}\n", MODERN.replace("URL", url));
    println!("Revision 2025-11-25, a session first:\n\n{}\n", CLASSIC.replace("URL", url));
}

const MODERN: &str = r#"curl -s -w '\n' URL \
  -H 'Content-Type: application/json' -H 'MCP-Protocol-Version: 2026-07-28' \
  -H 'Mcp-Method: tools/call' -H 'Mcp-Name: add' -d '{"jsonrpc":"2.0","id":1,
  "method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":40},"_meta":{
  "io.modelcontextprotocol/protocolVersion":"2026-07-28",
  "io.modelcontextprotocol/clientCapabilities":{}}}}'"#;

const CLASSIC: &str = r#"SESSION=$(curl -s -D - -o /dev/null URL \
  -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"initialize",
  "params":{"protocolVersion":"2025-11-25","capabilities":{},
  "clientInfo":{"name":"curl","version":"1"}}}' |
  sed -n 's/^Mcp-Session-Id: \([0-9a-f]*\).*/\1/p')
curl -s -w '\n' URL -H 'Content-Type: application/json' -H "Mcp-Session-Id: $SESSION" \
  -d '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add",
  "arguments":{"a":2,"b":40}}}'"#;

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
fn object(properties: Value) -> Value {
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

/// One blue pixel.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\
    \0\0\0\x0cIDATx\xdac\x90\xcf\xdf\x04\0\x01\xf1\x01A\x04\xa9\x06\x93\0\0\0\0IEND\xaeB`\x82";

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

/// A handle changes the server from any thread.
fn add_while_running(handle: &ServerHandle) -> Result<(), waterwheel::BuildError> {
    let latecomer = Tool::new("latecomer").description("Was added when the server was running");
    handle.add_tool(latecomer, |_: &mut ToolCall<'_>| Ok(CallToolResult::text("better late")))
}

fn add_resources(server: ServerBuilder) -> ServerBuilder {
    let pixel = Resource::new("demo://blob/pixel", "pixel")
        .description("One blue pixel")
        .mime_type("image/png")
        .size(PIXEL.len() as u64);
    let item = ResourceTemplate::new("demo://item/{id}", "item")
        .description("An item by its number")
        .mime_type("text/plain");
    server
        .resource(readme(), read_readme)
        .resource(pixel, read_pixel)
        .resource_template(item, read_item)
}

fn readme() -> Resource {
    Resource::new("demo://text/readme", "readme")
        .title("Read me")
        .description("The README of the library")
        .mime_type("text/markdown")
        .annotations(Annotations::new().audience(Role::Assistant).priority(1.0))
}

/// The text is part of the program, so it keeps longer than what the server promises in general.
fn read_readme(call: &mut ResourceCall<'_>) -> Result<ReadResourceResult, CallError> {
    let text = ResourceContents::text(call.uri(), include_str!("../README.md"));
    let an_hour = CacheHint { ttl_ms: 3_600_000, scope: CacheScope::Public };
    Ok(ReadResourceResult::from(text.mime_type("text/markdown")).cache(an_hour))
}

fn read_pixel(call: &mut ResourceCall<'_>) -> Result<ReadResourceResult, CallError> {
    Ok(ResourceContents::blob(call.uri(), PIXEL).mime_type("image/png").into())
}

fn read_item(call: &mut ResourceCall<'_>) -> Result<ReadResourceResult, CallError> {
    let id = call.variable("id").and_then(|id| id.parse::<u32>().ok());
    let id = id.ok_or_else(|| call.not_found())?;
    Ok(ResourceContents::text(call.uri(), format!("Item {id}")).mime_type("text/plain").into())
}

fn add_prompts(server: ServerBuilder) -> ServerBuilder {
    let tone = PromptArgument::new("tone").description("How to say it; completed on request");
    let greet = Prompt::new("greet")
        .title("Greet somebody")
        .argument(PromptArgument::new("name").description("Whom to greet").required())
        .argument(tone);
    let plain = Prompt::new("plain").description("A prompt with nothing to fill in");
    server.prompt(greet, render_greet).prompt(plain, render_plain).completion(complete)
}

const TONES: [&str; 4] = ["casual", "formal", "friendly", "poetic"];

fn render_greet(call: &mut PromptCall<'_>) -> Result<GetPromptResult, CallError> {
    let name = call.argument("name").unwrap_or_default();
    let tone = call.argument("tone").unwrap_or("friendly");
    let order = format!("Greet {name} in a {tone} tone.");
    Ok(GetPromptResult::new([PromptMessage::user(Content::text(order))]).description("A greeting"))
}

fn render_plain(_call: &mut PromptCall<'_>) -> Result<GetPromptResult, CallError> {
    let question = PromptMessage::user(Content::text("What can this server do?"));
    let answer = PromptMessage::assistant(Content::text("Let me look at its tools."));
    Ok(GetPromptResult::new([question, answer]))
}

/// One handler completes everything there is to complete.
fn complete(call: &mut CompleteCall<'_>) -> Result<CompleteResult, CallError> {
    let typed = call.argument_value();
    Ok(match (call.reference(), call.argument_name()) {
        (CompletionReference::Prompt { name }, "tone") if name == "greet" => {
            CompleteResult::new(TONES.into_iter().filter(|tone| tone.starts_with(typed)))
        }
        (CompletionReference::Resource { uri }, "id") if uri == "demo://item/{id}" => {
            let ids = (1..=1000).map(|id: u32| id.to_string());
            CompleteResult::new(ids.filter(|id| id.starts_with(typed)))
        }
        _ => CompleteResult::default(),
    })
}

/// What lies around the endpoint: filters, pages of the program's own, credentials.
fn add_http(server: ServerBuilder) -> ServerBuilder {
    let server = server.filter(AccessLog).route(Method::Get, "/about", about);
    match std::env::var("EVERYTHING_TOKEN") {
        Ok(token) => server.authenticate(move |request| check_token(&token, request)),
        Err(_) => server,
    }
}

fn about(_request: &Request<'_>, _cx: &mut Cx<'_>) -> Response {
    let text: &[u8] = b"An MCP server that shows everything. The endpoint is /mcp.\n";
    Response::new(Status::OK, "text/plain; charset=utf-8", text)
}

/// The outermost filter: it sees a request first and its response last. What is no well-formed
/// request never gets to a filter.
struct AccessLog;

impl Filter for AccessLog {
    fn on_head(&mut self, _request: &Request<'_>, _cx: &mut Cx<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn on_request<'r>(&mut self, _request: &Request<'r>, _cx: &mut Cx<'_>) -> Flow<'r> {
        Flow::Next
    }

    fn on_response(&mut self, head: &mut ResponseHead, cx: &mut Cx<'_>) {
        let peer = cx.peer().map(|peer| peer.to_string()).unwrap_or_default();
        log::info!("{peer} {} {}: {}", cx.method(), cx.path(), head.status);
        head.field("X-Content-Type-Options", "nosniff");
    }
}

fn check_token(token: &str, request: &Request<'_>) -> Verdict {
    let field = request.field_str("authorization");
    match field.and_then(|field| field.strip_prefix("Bearer ")) {
        Some(offered) if is_same(offered, token) => Verdict::Allow(Principal::new("operator")),
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
