//! Model Context Protocol over HTTP on one thread and one mio loop.

pub mod buf;
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

pub use dispatcher::{Dispatcher, Transport};
pub use engine::handler::{CallError, CompleteCall, PromptCall, ResourceCall, ToolCall};
pub use engine::{AfterFlush, CloseReason, Conn, Engine};
pub use error::{BuildError, Error};
pub use exchange::{Accepts, Flowing, RequestContext, Responder};
pub use key::{ConnKey, ExchangeId, Principal, SessionId};
pub use limits::{HttpLimits, Limits, Timeouts, TurnLimits};
pub use mcp::model::{
    Annotations, CacheHint, CacheScope, CallToolResult, CompleteResult, Content, GetPromptResult,
    Icon, Implementation, LogLevel, Progress, Prompt, PromptArgument, PromptMessage,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role, Streaming, Tool,
    ToolAnnotations,
};
pub use mcp::version::{Era, Version};
pub use server::{Server, ServerBuilder, ServerHandle};
