//! A server in twenty lines: `cargo run --release --example hello_server`.

mod support;

use serde::Deserialize;
use serde_json::json;
use waterwheel::{CallToolResult, Server, Tool, ToolCall};

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn main() -> support::Outcome {
    let options = support::Options::from_args("hello_server", "127.0.0.1:8080");
    let numbers = json!({
        "type": "object",
        "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
        "required": ["a", "b"],
    });
    let server = Server::builder("calculator", "1.0.0")
        .tool(
            Tool::new("add").description("Adds two numbers").input_schema(numbers),
            |call: &mut ToolCall| {
                let Add { a, b } = call.arguments()?;
                Ok(CallToolResult::text(a + b))
            },
        )
        .bind(&options.bind)?
        .handle_signals()?;
    println!("listening on {}", server.url());
    Ok(server.run()?)
}
