//! Resources, resource templates, prompts, and the completion of their arguments.

use waterwheel::mcp::model::CompletionReference;
use waterwheel::{
    Annotations, CacheHint, CacheScope, CallError, CompleteCall, CompleteResult, Content,
    GetPromptResult, Prompt, PromptArgument, PromptCall, PromptMessage, ReadResourceResult,
    Resource, ResourceCall, ResourceContents, ResourceTemplate, Role, ServerBuilder,
};

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    add_prompts(add_resources(server))
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

pub(crate) fn readme() -> Resource {
    Resource::new("demo://text/readme", "readme")
        .title("Read me")
        .description("The README of the library")
        .mime_type("text/markdown")
        .annotations(Annotations::new().audience(Role::Assistant).priority(1.0))
}

/// The text is part of the program, so it keeps longer than what the server promises in general.
fn read_readme(call: &mut ResourceCall<'_>) -> Result<ReadResourceResult, CallError> {
    let text = ResourceContents::text(call.uri(), include_str!("../../README.md"));
    let an_hour = CacheHint { ttl_ms: 3_600_000, scope: CacheScope::Public };
    Ok(ReadResourceResult::from(text.mime_type("text/markdown")).cache(an_hour))
}

fn read_pixel(call: &mut ResourceCall<'_>) -> Result<ReadResourceResult, CallError> {
    Ok(ResourceContents::blob(call.uri(), PIXEL).mime_type("image/png").into())
}

/// One blue pixel.
pub(crate) const PIXEL: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\
    \0\0\0\x0cIDATx\xdac\x90\xcf\xdf\x04\0\x01\xf1\x01A\x04\xa9\x06\x93\0\0\0\0IEND\xaeB`\x82";

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
