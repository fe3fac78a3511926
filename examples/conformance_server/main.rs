//! The fixture of the official conformance suite: what its server scenarios expect to find.
//!
//! `cargo run --release --example conformance_server -- --bind 127.0.0.1:8001`, then
//! `conformance server --url http://127.0.0.1:8001/mcp`.

mod asking;
#[path = "../support/mod.rs"]
mod support;
mod tasks;

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use waterwheel::{
    CallError, CallToolResult, CompleteResult, Content, GetPromptResult, LogLevel, Progress,
    Prompt, PromptArgument, PromptCall, PromptMessage, ReadResourceResult, Resource, ResourceCall,
    ResourceContents, ResourceTemplate, Responder, Server, ServerBuilder, Tool, ToolCall,
};

fn main() -> support::Outcome {
    env_logger::init();
    let options = support::Options::from_args("conformance_server", "127.0.0.1:8001");
    let builder = Server::builder("waterwheel-conformance", env!("CARGO_PKG_VERSION"));
    let builder = completions(prompts(resources(capabilities(messages(contents(builder))))));
    let builder = tasks::tasks(asking::modern(asking::classic(changes(builder))));
    let server = builder.bind(&options.bind)?.handle_signals()?;
    println!("listening on {}", server.url());
    Ok(server.run()?)
}

/// A pixel and a moment of silence: the least that is really of its type.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0, 0,
    0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];
const WAV: &[u8] = b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\
    \x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\x02\0\0\0\0\0";

fn tool(name: &str, description: &str) -> Tool {
    Tool::new(name)
        .description(description)
        .input_schema(json!({ "type": "object", "properties": {} }))
}

fn contents(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool(tool("test_simple_text", "Returns a text"), |_: &mut ToolCall| {
            Ok(CallToolResult::text("This is a simple text response for testing."))
        })
        .tool(tool("test_image_content", "Returns an image"), |_: &mut ToolCall| {
            Ok(CallToolResult::new().with(Content::image(PNG, "image/png")))
        })
        .tool(tool("test_audio_content", "Returns a sound"), |_: &mut ToolCall| {
            Ok(CallToolResult::new().with(Content::audio(WAV, "audio/wav")))
        })
        .tool(tool("test_embedded_resource", "Returns a resource"), |_: &mut ToolCall| {
            let text = "This is an embedded resource content.";
            let resource = ResourceContents::text("test://embedded-resource", text);
            let content = Content::resource(resource.mime_type("text/plain"));
            Ok(CallToolResult::new().with(content))
        })
        .tool(tool("test_multiple_content_types", "Returns several"), |_: &mut ToolCall| {
            let data = json!({ "test": "data", "value": 123 }).to_string();
            let resource = ResourceContents::text("test://mixed-content-resource", data);
            Ok(CallToolResult::text("Multiple content types test:")
                .with(Content::image(PNG, "image/png"))
                .with(Content::resource(resource.mime_type("application/json"))))
        })
        .tool(tool("test_error_handling", "Always fails"), |_: &mut ToolCall| {
            Err::<CallToolResult, _>(CallError::new(
                "This tool intentionally returns an error for testing",
            ))
        })
        .tool(
            Tool::new("json_schema_2020_12_tool")
                .description("Has a schema with everything")
                .input_schema(schema_2020_12()),
            |_: &mut ToolCall| Ok(CallToolResult::text("ok")),
        )
        .tool(
            Tool::new("test_x_mcp_header")
                .description("Has a parameter that travels in a header, too")
                .input_schema(json!({
                    "type": "object",
                    "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
                })),
            |_: &mut ToolCall| Ok(CallToolResult::text("ok")),
        )
}

fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// Tools that speak before they answer.
fn messages(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool_blocking(tool("test_tool_with_logging", "Logs"), |call: &mut ToolCall| {
            for line in
                ["Tool execution started", "Tool processing data", "Tool execution completed"]
            {
                call.log(LogLevel::Info, None, &line);
                pause();
            }
            Ok(CallToolResult::text("logged"))
        })
        .tool_deferred(
            tool("test_tool_with_progress", "Reports progress"),
            |_call: ToolCall, mut responder: Responder<CallToolResult>| {
                thread::spawn(move || {
                    for done in [0.0, 50.0, 100.0] {
                        responder.progress(&Progress::new(done).total(100.0));
                        pause();
                    }
                    responder.finish(CallToolResult::text("done"));
                });
            },
        )
        .tool(tool("test_logging_tool", "Logs for who asked"), |call: &mut ToolCall| {
            call.log(LogLevel::Info, Some("test"), &"asked for");
            Ok(CallToolResult::text("logged"))
        })
}

/// The suite wants to see messages arrive one by one.
fn pause() {
    #[expect(clippy::disallowed_methods, reason = "this is a worker's thread, not the loop's")]
    thread::sleep(Duration::from_millis(50));
}

/// Tools that need something of the client.
fn capabilities(builder: ServerBuilder) -> ServerBuilder {
    builder.tool(tool("test_missing_capability", "Needs sampling"), |call: &mut ToolCall| {
        call.require_capability("sampling")?;
        Ok(CallToolResult::text("the client can sample"))
    })
}

/// Tools that change what the server offers, or say so, and one that lets its caller go.
fn changes(builder: ServerBuilder) -> ServerBuilder {
    let (tools, prompts) = (builder.handle(), builder.handle());
    builder
        .tool(tool("test_trigger_tool_change", "Announces other tools"), move |_: &mut ToolCall| {
            tools.tools_changed();
            Ok(CallToolResult::text("announced"))
        })
        .tool(
            tool("test_trigger_prompt_change", "Announces other prompts"),
            move |_: &mut ToolCall| {
                prompts.prompts_changed();
                Ok(CallToolResult::text("announced"))
            },
        )
        .tool_deferred(
            tool("test_reconnection", "Lets its caller go and come back"),
            |_call: ToolCall, responder: Responder<CallToolResult>| {
                responder.release_connection(Duration::from_millis(500));
                thread::spawn(move || {
                    pause();
                    responder.finish(CallToolResult::text("collected"));
                });
            },
        )
}

fn resources(builder: ServerBuilder) -> ServerBuilder {
    builder
        .resource(
            Resource::new("test://static-text", "static-text").mime_type("text/plain"),
            |call: &mut ResourceCall| {
                let text = "This is the content of the static text resource.";
                Ok(one(ResourceContents::text(call.uri(), text).mime_type("text/plain")))
            },
        )
        .resource(
            Resource::new("test://static-binary", "static-binary").mime_type("image/png"),
            |call: &mut ResourceCall| {
                Ok(one(ResourceContents::blob(call.uri(), PNG).mime_type("image/png")))
            },
        )
        .resource(
            Resource::new("test://watched-resource", "watched-resource").mime_type("text/plain"),
            |call: &mut ResourceCall| {
                Ok(one(ResourceContents::text(call.uri(), "watched").mime_type("text/plain")))
            },
        )
        .resource_template(
            ResourceTemplate::new("test://template/{id}/data", "template-data")
                .mime_type("application/json"),
            |call: &mut ResourceCall| {
                let id = call.variable("id").unwrap_or_default();
                let data = format!("Data for ID: {id}");
                let text = json!({ "id": id, "templateTest": true, "data": data }).to_string();
                Ok(one(ResourceContents::text(call.uri(), text).mime_type("application/json")))
            },
        )
}

fn one(contents: ResourceContents) -> ReadResourceResult {
    ReadResourceResult::new([contents])
}

fn prompts(builder: ServerBuilder) -> ServerBuilder {
    builder
        .prompt(
            Prompt::new("test_simple_prompt").description("A prompt without arguments"),
            |_: &mut PromptCall| Ok(user_says("This is a simple prompt for testing.")),
        )
        .prompt(
            Prompt::new("test_prompt_with_arguments")
                .description("A prompt with two arguments")
                .argument(PromptArgument::new("arg1").required())
                .argument(PromptArgument::new("arg2").required()),
            |call: &mut PromptCall| {
                let argument = |name| call.argument(name).unwrap_or_default();
                let (one, two) = (argument("arg1"), argument("arg2"));
                Ok(user_says(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'")))
            },
        )
        .prompt(
            Prompt::new("test_prompt_with_embedded_resource")
                .description("A prompt with a resource in it")
                .argument(PromptArgument::new("resourceUri").required()),
            |call: &mut PromptCall| {
                let uri = call.argument("resourceUri").unwrap_or_default();
                let text = "Embedded resource content for testing.";
                let resource = ResourceContents::text(uri, text).mime_type("text/plain");
                Ok(GetPromptResult::new([
                    PromptMessage::user(Content::resource(resource)),
                    PromptMessage::user(Content::text(
                        "Please process the embedded resource above.",
                    )),
                ]))
            },
        )
        .prompt(
            Prompt::new("test_prompt_with_image").description("A prompt with an image in it"),
            |_: &mut PromptCall| {
                Ok(GetPromptResult::new([
                    PromptMessage::user(Content::image(PNG, "image/png")),
                    PromptMessage::user(Content::text("Please analyze the image above.")),
                ]))
            },
        )
}

fn user_says(text: &str) -> GetPromptResult {
    GetPromptResult::new([PromptMessage::user(Content::text(text))])
}

fn completions(builder: ServerBuilder) -> ServerBuilder {
    builder.completion(|call| {
        let known = ["test", "testing", "tester"];
        let typed = call.argument_value();
        Ok(CompleteResult::new(known.into_iter().filter(|value| value.starts_with(typed))))
    })
}
