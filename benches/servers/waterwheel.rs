//! The server under test, as a user of the crate would write it.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use waterwheel::{
    CallToolResult, ReadResourceResult, Resource, ResourceCall, ResourceContents, Server,
    ServerHandle, Timeouts, Tool, ToolCall,
};

/// The echo tool's argument.
#[derive(Deserialize)]
struct Echo {
    text: String,
}

/// Serves `echo` and as many tools beside it as make up the number.
pub(super) fn serve(addr: &str, tools: usize) -> Result<(), Box<dyn Error>> {
    let mut builder = Server::builder("bench", "1.0.0").tool(echo(), |call: &mut ToolCall| {
        let Echo { text } = call.arguments()?;
        Ok(CallToolResult::text(text))
    });
    for number in 1..tools {
        builder = builder.tool(filler(number), |_: &mut ToolCall| Ok(CallToolResult::text("")));
    }
    let handle: Arc<OnceLock<ServerHandle>> = Arc::default();
    let announcer = Arc::clone(&handle);
    let server = builder
        .timeouts(Timeouts { announce: Duration::ZERO, ..Timeouts::default() })
        .resource(Resource::new(CHANGE, "change"), move |call: &mut ResourceCall| {
            if let Some(handle) = announcer.get() {
                handle.tools_changed();
            }
            Ok(ReadResourceResult::new([ResourceContents::text(call.uri(), "announced")]))
        })
        .bind(addr)?;
    handle.get_or_init(|| server.handle());
    println!("{}", server.url());
    Ok(server.run()?)
}

/// Whoever reads this makes the server announce that its tools have changed.
pub(crate) const CHANGE: &str = "bench:change";

/// The tool that is called.
fn echo() -> Tool {
    Tool::new("echo").description("Repeats a text").input_schema(json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to repeat"}},
        "required": ["text"],
    }))
}

/// A tool that is only listed.
fn filler(number: usize) -> Tool {
    let name = format!("tool_{number:02}");
    Tool::new(name).description("Stands in the listing and is not called").input_schema(json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        "required": ["query"],
    }))
}
