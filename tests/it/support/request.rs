//! Requests as bytes, with everything a well-behaved client sends unless a test takes it away.

use serde_json::{Value, json};

/// One HTTP request, to be changed until it is as wrong as the test wants it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: String,
    target: String,
    version: &'static str,
    fields: Vec<(String, String)>,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    None,
    Length(Vec<u8>),
    Chunked(Vec<u8>, usize),
}

impl Request {
    /// A request without a body and with no field but `Host`.
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version: "HTTP/1.1",
            fields: vec![("Host".to_owned(), "127.0.0.1:8080".to_owned())],
            body: Body::None,
        }
    }

    /// A POST to the endpoint as every client sends it.
    pub(crate) fn post(body: impl Into<Vec<u8>>) -> Self {
        Self { body: Body::Length(body.into()), ..Self::new("POST", "/mcp") }
            .field("Content-Type", "application/json")
            .field("Accept", "application/json, text/event-stream")
    }

    /// The classic handshake, under id 1.
    pub(crate) fn initialize(version: &str) -> Self {
        Self::post(message(1, "initialize", handshake(version)))
    }

    /// A request of revision 2026-07-28, with `_meta` and all mirrored fields. What `params` has in
    /// `_meta` is added to the required members and wins.
    pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Self {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if let Some(own) = params.get("_meta").and_then(Value::as_object) {
            for (key, value) in own {
                meta[key] = value.clone();
            }
        }
        params["_meta"] = meta;
        let request = Self::post(message(id, method, params.clone())).mirror(method);
        let named = ["name", "uri", "taskId"].iter().find_map(|member| params.get(member));
        match named.and_then(Value::as_str) {
            Some(name) if MIRRORED.contains(&method) => request.field("Mcp-Name", name),
            _ => request,
        }
    }

    /// The fields every modern request has.
    pub(crate) fn mirror(self, method: &str) -> Self {
        self.field("MCP-Protocol-Version", MODERN).field("Mcp-Method", method)
    }

    /// A modern `tools/call`.
    pub(crate) fn modern_call(id: impl Into<Value>, tool: &str, arguments: Value) -> Self {
        Self::modern(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// One more field.
    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The field in place of all of this name.
    pub(crate) fn set(self, name: &str, value: &str) -> Self {
        self.without(name).field(name, value)
    }

    /// No field of this name.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn method(mut self, method: &str) -> Self {
        self.method = method.to_owned();
        self
    }

    pub(crate) fn target(mut self, target: &str) -> Self {
        self.target = target.to_owned();
        self
    }

    pub(crate) fn http10(mut self) -> Self {
        self.version = "HTTP/1.0";
        self
    }

    /// The same body in chunks of this size.
    pub(crate) fn chunked(mut self, chunk_bytes: usize) -> Self {
        if let Body::Length(body) = self.body {
            self.body = Body::Chunked(body, chunk_bytes);
        }
        self
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head().into_bytes();
        match &self.body {
            Body::None => {}
            Body::Length(body) => bytes.extend_from_slice(body),
            Body::Chunked(body, chunk_bytes) => {
                for chunk in body.chunks(*chunk_bytes) {
                    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        bytes
    }

    /// Everything before the body, its empty line included.
    pub(crate) fn head(&self) -> String {
        let mut head = format!("{} {} {}\r\n", self.method, self.target, self.version);
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let is_framed = self.fields.iter().any(|(name, _)| {
            ["content-length", "transfer-encoding"].iter().any(|it| name.eq_ignore_ascii_case(it))
        });
        match &self.body {
            Body::Length(body) if !is_framed => {
                head.push_str(&format!("Content-Length: {}\r\n", body.len()));
            }
            Body::Chunked(..) if !is_framed => head.push_str("Transfer-Encoding: chunked\r\n"),
            _ => {}
        }
        head + "\r\n"
    }
}

/// What the modern era calls itself.
const MODERN: &str = "2026-07-28";
/// Methods whose name or address is repeated in `Mcp-Name`.
const MIRRORED: [&str; 6] =
    ["tools/call", "resources/read", "prompts/get", "tasks/get", "tasks/update", "tasks/cancel"];

/// Parameters of `initialize`.
fn handshake(version: &str) -> Value {
    let client = json!({ "name": "c", "version": "0" });
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client })
}

/// A JSON-RPC request.
pub(crate) fn message(id: impl Into<Value>, method: &str, params: Value) -> String {
    let id: Value = id.into();
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A JSON-RPC notification.
pub(crate) fn notification(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// A classic session as its client holds it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) version: &'static str,
}

impl Session {
    pub(crate) fn new(id: &str, version: &'static str) -> Self {
        Self { id: id.to_owned(), version }
    }

    /// A POST within the session.
    pub(crate) fn post(&self, body: impl Into<Vec<u8>>) -> Request {
        self.sign(Request::post(body))
    }

    /// A request within the session.
    pub(crate) fn request(&self, id: impl Into<Value>, method: &str, params: Value) -> Request {
        self.post(message(id, method, params))
    }

    /// A call of a tool within the session.
    pub(crate) fn call(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Request {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    pub(crate) fn notify(&self, method: &str, params: Value) -> Request {
        self.post(notification(method, params))
    }

    /// The notification that gives up on a call.
    pub(crate) fn cancel(&self, id: impl Into<Value>) -> Request {
        let id: Value = id.into();
        self.notify("notifications/cancelled", json!({ "requestId": id }))
    }

    /// Asks for a stream.
    pub(crate) fn listen(&self) -> Request {
        self.sign(Request::new("GET", "/mcp").field("Accept", "text/event-stream"))
    }

    /// Asks for what followed an event.
    pub(crate) fn resume(&self, after: &str) -> Request {
        self.listen().field("Last-Event-ID", after)
    }

    pub(crate) fn delete(&self) -> Request {
        self.sign(Request::new("DELETE", "/mcp"))
    }

    fn sign(&self, request: Request) -> Request {
        request.field("Mcp-Session-Id", &self.id).field("MCP-Protocol-Version", self.version)
    }
}
