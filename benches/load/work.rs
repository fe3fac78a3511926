//! What the load asks for: the requests of each workload, in each era's words.

use std::net::SocketAddr;
use std::{fmt, io};

use serde_json::{Value, json};

/// Which generation of the protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Revision 2025-11-25: a handshake and a session.
    Classic,
    /// Revision 2026-07-28: every request declares itself.
    Modern,
}

impl Era {
    /// Both, oldest first.
    pub(crate) const ALL: [Self; 2] = [Self::Classic, Self::Modern];

    /// The word for it in options and output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Modern => "modern",
        }
    }

    /// The revision that its clients ask for.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Classic => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// A request that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A call that echoes 100 bytes.
    Echo,
    /// A listing of 50 tools.
    List,
    /// A call that echoes 1 MiB.
    Large,
}

impl Work {
    /// All, cheapest first.
    pub(crate) const ALL: [Self; 3] = [Self::Echo, Self::List, Self::Large];

    /// The word for it in options and output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::List => "list",
            Self::Large => "large",
        }
    }

    /// How many tools the server has for it, `echo` included.
    pub(crate) fn tools(self) -> usize {
        match self {
            Self::List => 50,
            Self::Echo | Self::Large => 1,
        }
    }

    /// More connections than this would measure memory, not the server.
    pub(crate) fn connections_max(self) -> usize {
        match self {
            Self::Echo | Self::List => usize::MAX,
            Self::Large => 64,
        }
    }

    /// The JSON-RPC method.
    fn method(self) -> &'static str {
        match self {
            Self::Echo | Self::Large => "tools/call",
            Self::List => "tools/list",
        }
    }

    /// The params, without what an era adds.
    fn params(self) -> Value {
        match self {
            Self::List => json!({}),
            Self::Echo => json!({"name": "echo", "arguments": {"text": text(100)}}),
            Self::Large => json!({"name": "echo", "arguments": {"text": text(1 << 20)}}),
        }
    }

    /// True if this result is the whole answer to the workload.
    pub(crate) fn is_answered_by(self, result: &str) -> bool {
        match self {
            Self::Echo => result.contains(&text(100)),
            Self::List => result.matches("\"inputSchema\"").count() == self.tools(),
            Self::Large => result.contains(&text(1 << 20)),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Echo => "tools/call, echo of 100 bytes",
            Self::List => "tools/list, 50 tools",
            Self::Large => "tools/call, echo of 1 MiB",
        })
    }
}

/// A text of so many bytes that needs no escapes.
fn text(bytes: usize) -> String {
    "All work and no play makes a dull day. ".chars().cycle().take(bytes).collect()
}

/// An MCP endpoint on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) addr: SocketAddr,
    path: String,
}

impl Target {
    /// Reads `http://ADDRESS:PORT/PATH`.
    ///
    /// Only loopback addresses: a load is nothing to aim at somebody else's machine.
    pub(crate) fn parse(url: &str) -> io::Result<Self> {
        let wrong = || io::Error::other(format!("not http://127.0.0.1:PORT/PATH: {url}"));
        let rest = url.trim().strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let addr: SocketAddr = authority.parse().map_err(|_| wrong())?;
        if !addr.ip().is_loopback() {
            return Err(wrong());
        }
        Ok(Self { addr, path: format!("/{path}") })
    }

    /// The bytes of one workload's request.
    pub(crate) fn request(&self, era: Era, work: Work, id: u64, session: Option<&str>) -> Vec<u8> {
        self.call(era, work.method(), work.params(), id, session)
    }

    /// The bytes of a JSON-RPC request.
    pub(crate) fn call(
        &self,
        era: Era,
        method: &str,
        mut params: Value,
        id: u64,
        session: Option<&str>,
    ) -> Vec<u8> {
        let mut headers = String::new();
        if era == Era::Modern {
            headers = mirror(method, &params);
            params["_meta"] = meta(era);
        }
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.post(era, &headers, session, &body)
    }

    /// The bytes of the request that opens a session.
    pub(crate) fn initialize(&self) -> Vec<u8> {
        let era = Era::Classic;
        let client = json!({"name": "load", "version": "1.0.0"});
        let params = json!({
            "protocolVersion": era.version(), "capabilities": {}, "clientInfo": client,
        });
        self.call(era, "initialize", params, 0, None)
    }

    /// The bytes of the notification that ends the handshake.
    pub(crate) fn initialized(&self, session: Option<&str>) -> Vec<u8> {
        let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(Era::Classic, "", session, &body)
    }

    /// The bytes of the request that ends a session.
    pub(crate) fn delete(&self, session: &str) -> Vec<u8> {
        let (path, addr, version) = (&self.path, self.addr, Era::Classic.version());
        format!(
            "DELETE {path} HTTP/1.1\r\nhost: {addr}\r\n\
             mcp-protocol-version: {version}\r\nmcp-session-id: {session}\r\n\r\n"
        )
        .into_bytes()
    }

    /// Frames a message as a POST.
    fn post(&self, era: Era, headers: &str, session: Option<&str>, body: &Value) -> Vec<u8> {
        let (path, addr, version) = (&self.path, self.addr, era.version());
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let body = body.to_string();
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: {version}\r\n\
             {session}{headers}content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// The headers that repeat what a modern body says.
fn mirror(method: &str, params: &Value) -> String {
    let name = params["name"].as_str().or_else(|| params["uri"].as_str());
    let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    format!("mcp-method: {method}\r\n{name}")
}

/// How a modern request declares itself.
fn meta(era: Era) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": era.version(),
        "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}
