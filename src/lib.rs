//! Model Context Protocol over HTTP on one thread and one mio loop.
//!
//! # The contract
//!
//! **One thread drives everything.** It is the one that calls [`Server::run`], or [`Server::turn`]
//! time and again, or the methods of an [`Engine`]. On it run filters, routes, the authentication
//! hook and all handlers but blocking ones, one at a time: they need not be [`Send`], and whatever
//! one of them waits for, every connection waits for.
//!
//! **Other threads leave mail.** They reach the loop in three ways only: a [`Responder`] that owes
//! an answer, the call that a blocking or deferred handler holds, and a [`ServerHandle`]. None of
//! them blocks, and what they say takes effect in the next turn.
//!
//! **The engine decides, its driver performs.** An [`Engine`] opens no socket and reads no clock.
//! Its driver calls, in this order and over and over:
//!
//! 1. for each connection with input: append it to [`reading`](Engine::reading), then
//!    [`receive`](Engine::receive), or [`receive_end`](Engine::receive_end) at its end;
//! 2. [`run`](Engine::run), which fires due timers and handles mail;
//! 3. for each key from [`poll_dirty`](Engine::poll_dirty): write and consume the output in
//!    [`writing`](Engine::writing), then [`wrote`](Engine::wrote), and do what that returns;
//! 4. drop what comes out of [`poll_dead`](Engine::poll_dead);
//! 5. [`set_calendar`](Engine::set_calendar) once a second, for the `Date` of responses;
//! 6. wait for input or [`next_deadline`](Engine::next_deadline), whichever comes first, but not at
//!    all while [`has_work`](Engine::has_work).
//!
//! [`Server`] is such a driver, on mio. Keys of connections that are closed resolve to nothing, so
//! that no call comes too late to be safe.
//!
//! # A server
//!
//! ```no_run
//! use serde::Deserialize;
//! use serde_json::json;
//! use waterwheel::{CallToolResult, Server, Tool, ToolCall};
//!
//! #[derive(Deserialize)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn main() -> Result<(), waterwheel::Error> {
//!     let numbers = json!({
//!         "type": "object",
//!         "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
//!         "required": ["a", "b"],
//!     });
//!     Server::builder("calculator", "1.0.0")
//!         .tool(
//!             Tool::new("add").description("Adds two numbers").input_schema(numbers),
//!             |call: &mut ToolCall| {
//!                 let Add { a, b } = call.arguments()?;
//!                 Ok(CallToolResult::text(a + b))
//!             },
//!         )
//!         .bind("127.0.0.1:8080")?
//!         .handle_signals()?
//!         .run()
//! }
//! ```
//!
//! A tool whose handler may block is added by [`tool_blocking`](ServerBuilder::tool_blocking), one
//! that answers later by [`tool_deferred`](ServerBuilder::tool_deferred). Resources, prompts and
//! completions have the same three kinds of handlers. What every call knows of its caller, and how
//! it reports progress, is in [`RequestContext`]. Clients that only speak the transport of revision
//! 2024-11-05 are served on [paths of their own](ServerBuilder::legacy_paths), `/sse` unless set.
//! What may be bounded is in [`Limits`] and [`Timeouts`], what lies around the endpoint in
//! [`filter`].
//!
//! # A server without sockets
//!
//! ```
//! use std::time::Instant;
//! use waterwheel::{AfterFlush, CallToolResult, Server, Tool, ToolCall};
//!
//! # fn main() -> Result<(), waterwheel::BuildError> {
//! let mut engine = Server::builder("greeter", "1.0.0")
//!     .tool(Tool::new("hello"), |_: &mut ToolCall| Ok(CallToolResult::text("hello")))
//!     .build_engine::<()>()?;
//! let now = Instant::now();
//! engine.start(now);
//! let key = engine.connect((), None, now).expect("there is room for a connection");
//!
//! let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello",
//!     "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!              "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
//! let request = format!(
//!     "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
//!      MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: hello\r\n\
//!      Content-Length: {}\r\n\r\n{call}",
//!     call.len(),
//! );
//! let (_, input) = engine.reading(key).expect("the connection is open");
//! input.push(request.as_bytes());
//! engine.receive(key, now);
//! engine.run(now);
//!
//! assert_eq!(engine.poll_dirty(), Some(key));
//! let (_, output) = engine.writing(key).expect("the connection is open");
//! let answer = String::from_utf8_lossy(output.data()).into_owned();
//! output.consume(output.len());
//! assert_eq!(engine.wrote(key, now), AfterFlush::Keep);
//!
//! assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
//! assert!(answer.contains(r#""content":[{"type":"text","text":"hello"}]"#), "{answer}");
//! # Ok(())
//! # }
//! ```

pub mod buf;
mod calendar;
mod dispatcher;
mod engine;
mod error;
mod exchange;
pub mod filter;
mod guard;
pub mod http;
mod key;
mod limits;
mod mailbox;
pub mod mcp;
pub mod rpc;
mod server;
mod timers;
mod workers;

#[cfg(feature = "tls")]
pub use dispatcher::Tls;
pub use engine::app::Middleware;
pub use engine::handler::{CallError, CompleteCall, PromptCall, ResourceCall, ToolCall};
pub use engine::{AfterFlush, CloseReason, Conn, Engine, Gauges};
pub use error::{BuildError, Error};
pub use exchange::{
    Accepts, AskError, Flowing, MethodCall, Pause, RequestContext, Responder, Resumable,
};
pub use key::{ConnKey, ExchangeId, Principal, SessionId};
pub use limits::{Breaker, HttpLimits, Limits, ReplayLimits, TaskLimits, Timeouts, TurnLimits};
pub use mcp::model::{
    Annotations, Answers, BooleanField, CacheHint, CacheScope, CallToolResult, ChoiceField,
    ChoicesField, CompleteResult, Content, CreateMessage, CreateMessageResult, ElicitAction,
    ElicitResult, Ending, FormField, FormSchema, GetPromptResult, Icon, Implementation,
    IncludeContext, InputRequest, InputRequests, ListRootsResult, LogLevel, ModelPreferences,
    NeedInput, NumberField, Progress, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    Reply, Resource, ResourceContents, ResourceTemplate, Role, Root, SamplingContent,
    SamplingMessage, Streaming, TaskSupport, TextField, TextFormat, Tool, ToolAnnotations,
    ToolResultContent, ToolUseContent,
};
pub use mcp::permissions::{Item, Viewer};
pub use mcp::seal::{StateKey, StateKeys};
pub use mcp::trace::TraceContext;
pub use mcp::version::{Era, Version};
pub use server::{Server, ServerBuilder, ServerHandle};

/// Holds the README's examples to what the crate is.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
