//! An echo server on the official Rust SDK, set up as its documentation advises, on one thread.
//!
//! Usage: `rmcp-peer json|sse|sessions TOOLS`. Its first line of output is its URL; it ends with
//! its standard input.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let config = config(&arguments.next().ok_or("no mode")?)?;
    let tools = tools(arguments.next().ok_or("no number of tools")?.parse()?);
    std::thread::spawn(end_with_input);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config, tools))
}

/// The three ways in which it can answer.
fn config(mode: &str) -> Result<StreamableHttpServerConfig, String> {
    let config = StreamableHttpServerConfig::default();
    match mode {
        "json" => Ok(config.with_legacy_session_mode(false).with_json_response(true)),
        "sse" => Ok(config.with_legacy_session_mode(false)),
        "sessions" => Ok(config),
        _ => Err(format!("no such mode: {mode}")),
    }
}

/// Serves until the process ends.
async fn serve(config: StreamableHttpServerConfig, tools: Vec<Tool>) -> Result<(), Box<dyn Error>> {
    let server = Echo { tools: Arc::new(tools) };
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    // Without this each streamed answer waits for the client's delayed acknowledgement.
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    axum::serve(listener, Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

/// Ends this process when its parent has gone.
fn end_with_input() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// A server with one tool that can be called.
#[derive(Clone)]
struct Echo {
    tools: Arc<Vec<Tool>>,
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_ref().and_then(|arguments| arguments.get("text")?.as_str());
        let text = text.ok_or_else(|| ErrorData::invalid_params("text is missing", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }
}

/// `echo`, and as many tools beside it as make up the number.
fn tools(count: usize) -> Vec<Tool> {
    (0..count).map(|number| if number == 0 { echo() } else { filler(number) }).collect()
}

/// The tool that is called.
fn echo() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to repeat"}},
        "required": ["text"],
    });
    Tool::new("echo", "Repeats a text", Arc::new(schema.as_object().cloned().unwrap_or_default()))
}

/// A tool that is only listed.
fn filler(number: usize) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        "required": ["query"],
    });
    let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
    Tool::new(format!("tool_{number:02}"), "Stands in the listing and is not called", schema)
}
