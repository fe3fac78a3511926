//! Every feature of the server in one program: `cargo run --release --example everything`.
//!
//! Read it from here: `main` describes the server, and each group of features has a file that
//! registers it, followed by its handlers. `--help` lists what there is to try and to switch on.

mod asking;
mod changing;
mod options;
mod resources;
#[expect(dead_code, reason = "this server has a command line of its own")]
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod tools;
mod web;

use std::time::Duration;

use serde_json::json;
use waterwheel::{CacheHint, CacheScope, Implementation, Limits, Server, Timeouts};

use options::Options;

fn main() -> support::Outcome {
    let options = Options::from_args();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let mut server = Server::builder("everything", env!("CARGO_PKG_VERSION"))
        .implementation(about_this_program())
        .instructions("A server to try things on: nothing here has effects outside of it.")
        .cache(CacheHint { ttl_ms: 60_000, scope: CacheScope::Private })
        .limits(Limits { page_items: PAGE_ITEMS, ..Limits::default() })
        .timeouts(Timeouts { grace: Duration::from_secs(3), ..Timeouts::default() })
        .extension("io.github.waterwheel/everything", json!({ "clock": changing::CLOCK }));
    server = tools::add_to(server);
    server = resources::add_to(server);
    server = changing::add_to(server);
    server = tasks::add_to(server);
    let desk = asking::Desk::default();
    server = asking::add_to(server, &desk);
    server = web::add_to(server, &options);
    let server = server.bind(&options.bind)?.handle_signals()?;
    desk.open_at(server.addresses());
    changing::add_while_running(&server.handle())?;
    greet_operator(&server.url());
    Ok(server.run()?)
}

/// Small enough that the tools take several pages, so that clients have to follow the cursor.
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
