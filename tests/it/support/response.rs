//! Responses read back as strictly as a suspicious client would: whatever two readers could
//! understand differently fails the test.

use serde_json::Value;
use waterwheel::http::sse::SseDecoder;

/// One response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Some for a stream.
    pub(crate) blocks: Option<Vec<Block>>,
}

/// What stands between two empty lines of an event stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    /// An event, and the id it gives.
    Event { data: Value, id: Option<String> },
    /// A place to resume from, before anything was said, and when to come back.
    Primer { id: String, retry: u64 },
    /// When to come back.
    Retry(u64),
    /// A comment.
    Comment(String),
    /// Where a client of the legacy transport is to post.
    Endpoint(String),
}

impl Block {
    /// The message of an event.
    #[track_caller]
    pub(crate) fn data(&self) -> &Value {
        match self {
            Self::Event { data, .. } => data,
            other => panic!("no event: {other:?}"),
        }
    }

    /// The id of an event or primer.
    #[track_caller]
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Event { id: Some(id), .. } | Self::Primer { id, .. } => id,
            other => panic!("nothing with an id: {other:?}"),
        }
    }

    pub(crate) fn is_event(&self) -> bool {
        matches!(self, Self::Event { .. })
    }

    pub(crate) fn is_comment(&self) -> bool {
        matches!(self, Self::Comment(_))
    }
}

impl Response {
    /// The complete response that `bytes` begins with and how long it is.
    #[track_caller]
    pub(crate) fn parse(bytes: &[u8], is_head: bool, at_end: bool) -> Option<(Self, usize)> {
        let (mut response, head_bytes) = Self::parse_head(bytes)?;
        let rest = &bytes[head_bytes..];
        let taken = if response.is_stream() && !is_head {
            response.check_stream();
            let (blocks, taken) = if response.is_chunked() {
                let (blocks, taken) = parse_chunks(rest);
                rest[taken..].strip_prefix(b"0\r\n\r\n")?;
                (blocks, taken + 5)
            } else {
                assert!(response.closes(), "a stream without framing must close");
                (at_end.then(|| parse_blocks(rest))?, rest.len())
            };
            response.blocks = Some(blocks);
            taken
        } else {
            let length = response.check_whole();
            let length = if is_head { 0 } else { length };
            response.body = rest.get(..length)?.to_vec();
            length
        };
        Some((response, head_bytes + taken))
    }

    /// The head that `bytes` begins with and how long it is.
    #[track_caller]
    pub(crate) fn parse_head(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
        let mut lines = head.split("\r\n");
        let status_line = lines.next().expect("a head has a first line");
        let (version, rest) = status_line.split_once(' ').expect("a version");
        let (code, reason) = rest.split_once(' ').expect("a code and a reason");
        assert_eq!(version, "HTTP/1.1", "{status_line}");
        assert!(code.len() == 3 && !reason.is_empty(), "{status_line}");
        assert!(!reason.contains("Unknown"), "{status_line}");
        let fields: Vec<_> = lines.map(parse_field).collect();
        for name in SINGLE {
            let count = fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count();
            assert!(count <= 1, "{name} appears {count} times: {head}");
        }
        let status = code.parse().expect("a number");
        Some((Self { status, fields, body: Vec::new(), blocks: None }, end + 4))
    }

    /// Checks the head of a stream: its framing, and what keeps proxies from buffering it.
    #[track_caller]
    pub(crate) fn check_stream(&self) {
        assert_eq!(self.field("content-type"), Some("text/event-stream"), "{self:?}");
        assert_eq!(self.field("cache-control"), Some("no-cache, no-transform"), "{self:?}");
        assert_eq!(self.field("x-accel-buffering"), Some("no"), "{self:?}");
        assert_eq!(self.field("content-length"), None, "a stream has no length: {self:?}");
        assert!(self.is_chunked() || self.closes(), "a stream has framing: {self:?}");
    }

    /// Checks the head of a response that is no stream; the length of its body.
    #[track_caller]
    fn check_whole(&self) -> usize {
        assert_eq!(self.field("transfer-encoding"), None, "{self:?}");
        if self.status < 200 || self.status == 204 {
            assert_eq!(self.field("content-length"), None, "no length where no body is: {self:?}");
            return 0;
        }
        let length = self.field("content-length").expect("every other response has a length");
        let length: usize = length.parse().expect("a number");
        assert_eq!(length > 0, self.field("content-type").is_some(), "type or no body: {self:?}");
        length
    }

    fn is_stream(&self) -> bool {
        self.field("content-type") == Some("text/event-stream")
    }

    fn is_chunked(&self) -> bool {
        self.field("transfer-encoding") == Some("chunked")
    }

    /// Whether it says that the connection closes behind it.
    pub(crate) fn closes(&self) -> bool {
        self.field("connection") == Some("close")
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The names of all fields that begin with this.
    pub(crate) fn has_field_like(&self, prefix: &str) -> bool {
        let prefix = prefix.to_ascii_lowercase();
        self.fields.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with(&prefix))
    }

    /// The JSON of a body.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert!(self.blocks.is_none(), "a stream instead of JSON: {self:?}");
        assert_eq!(self.field("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// The JSON-RPC message that answers: the body, or the last event of a stream.
    #[track_caller]
    pub(crate) fn message(&self) -> Value {
        match &self.blocks {
            None => self.json(),
            Some(blocks) => blocks.last().expect("the stream has an answer").data().clone(),
        }
    }

    /// The result of a call.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        let message = self.message();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        assert!(message.get("error").is_none(), "{message}");
        message.get("result").expect("a result").clone()
    }

    /// The error of a call, which has no result then.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let message = self.message();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        assert!(message.get("result").is_none(), "{message}");
        assert!(message["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
        message.get("error").expect("an error").clone()
    }

    /// The text a tool answered with.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        self.result()["content"][0]["text"].as_str().expect("a block of text").to_owned()
    }
}

/// Fields that mean something else when they come twice.
const SINGLE: [&str; 9] = [
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "date",
    "cache-control",
    "allow",
    "access-control-allow-origin",
    "mcp-session-id",
];

#[track_caller]
fn parse_field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(": ").expect("a field has a name and a value");
    let is_token = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    assert!(is_token && !name.is_empty(), "{line:?}");
    assert!(!value.bytes().any(|b| b.is_ascii_control()), "{line:?}");
    (name.to_owned(), value.to_owned())
}

/// The complete chunks that `bytes` begins with, each exactly one block, and how long they are.
#[track_caller]
pub(crate) fn parse_chunks(bytes: &[u8]) -> (Vec<Block>, usize) {
    let mut blocks = Vec::new();
    let mut taken = 0;
    while let Some(line) = bytes[taken..].windows(2).position(|window| window == b"\r\n") {
        let digits = std::str::from_utf8(&bytes[taken..taken + line]).expect("hexadecimal digits");
        let size = usize::from_str_radix(digits, 16).expect("a chunk begins with its size");
        if size == 0 {
            break;
        }
        let start = taken + line + 2;
        let Some(chunk) = bytes.get(start..start + size + 2) else { break };
        let chunk = chunk.strip_suffix(b"\r\n").expect("a chunk is as long as its size says");
        let mut in_chunk = parse_blocks(chunk);
        assert_eq!(in_chunk.len(), 1, "one block a chunk: {:?}", String::from_utf8_lossy(chunk));
        blocks.append(&mut in_chunk);
        taken = start + size + 2;
    }
    (blocks, taken)
}

/// The blocks of an event stream, all of them complete.
#[track_caller]
fn parse_blocks(bytes: &[u8]) -> Vec<Block> {
    let text = std::str::from_utf8(bytes).expect("an event stream is UTF-8");
    assert!(text.is_empty() || text.ends_with("\n\n"), "a block ends with an empty line: {text:?}");
    text.split_inclusive("\n\n").map(parse_block).collect()
}

#[track_caller]
fn parse_block(text: &str) -> Block {
    if let Some(comment) = text.strip_prefix(": ") {
        return Block::Comment(comment.trim_end().to_owned());
    }
    if let Some(primer) = parse_primer(text) {
        return primer;
    }
    if let Some(rest) = text.strip_prefix("event: endpoint\ndata: ") {
        return Block::Endpoint(rest.trim_end().to_owned());
    }
    if let Some(retry) = text.strip_prefix("retry: ") {
        return Block::Retry(retry.trim_end().parse().expect("milliseconds"));
    }
    let mut found = None;
    let mut decoder = SseDecoder::new(text.len() + 1);
    let fed = decoder.feed(text.as_bytes(), |event| {
        assert_eq!(event.name, "message");
        let id = Some(event.id.to_owned()).filter(|id| !id.is_empty());
        let data = serde_json::from_slice(event.data).expect("an event holds a message");
        assert!(found.is_none(), "one event a block: {text:?}");
        found = Some(Block::Event { data, id });
    });
    assert_eq!(fed, Ok(()));
    found.unwrap_or_else(|| panic!("neither an event nor a comment: {text:?}"))
}

/// An event without data, which browsers and the decoder above keep to themselves.
fn parse_primer(text: &str) -> Option<Block> {
    let (id, rest) = text.strip_prefix("id: ")?.split_once('\n')?;
    let retry = rest.strip_prefix("retry: ")?.strip_suffix("\ndata: \n\n")?;
    Some(Block::Primer { id: id.to_owned(), retry: retry.parse().ok()? })
}
