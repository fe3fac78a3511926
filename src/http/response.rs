//! What is said about a response before it is written: its head, and the request it answers.

use crate::buf::ByteQueue;

use super::{HttpVersion, Method, Request, Status, is_token, is_value_byte};

/// Fields that only the writer may write.
const FRAMING_NAMES: [&str; 4] = ["content-length", "transfer-encoding", "connection", "date"];
/// Fields that only the writer may write on a stream.
pub(super) const STREAM_NAMES: [&str; 3] = ["content-type", "cache-control", "x-accel-buffering"];

/// Status and fields of a response, as far as the writer does not set them itself.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// The status.
    pub status: Status,
    /// Complete field lines, each with its CRLF.
    lines: Vec<u8>,
    /// One of `STREAM_NAMES` is among the lines, which then have to be looked through.
    has_stream_names: bool,
}

impl ResponseHead {
    /// A response without fields of its own. Allocates nothing.
    #[must_use]
    pub const fn new(status: Status) -> Self {
        Self { status, lines: Vec::new(), has_stream_names: false }
    }

    /// Starts over with another status, keeping the memory.
    pub fn reset(&mut self, status: Status) {
        self.status = status;
        self.lines.clear();
        self.has_stream_names = false;
    }

    /// Adds a field. The same name may be added several times.
    ///
    /// The framing fields and `Date` are the writer's and are dropped. A field that is not
    /// well-formed, or has a line end in it, is dropped with an error log: whoever put it together
    /// would otherwise let a client write the rest of the response.
    pub fn field(&mut self, name: &str, value: &str) -> &mut Self {
        if !is_sendable(name, value) {
            return self;
        }
        if is_one_of(name.as_bytes(), &FRAMING_NAMES) {
            log::debug!("response field {name} is set by the writer, not by its caller");
            return self;
        }
        self.has_stream_names |= is_one_of(name.as_bytes(), &STREAM_NAMES);
        self.lines.reserve(name.len() + value.len() + 4);
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value.as_bytes());
        self.lines.extend_from_slice(b"\r\n");
        self
    }

    /// The first value under `name`, in any case.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let found = self
            .split_lines()
            .find(|line| line_name(line).eq_ignore_ascii_case(name.as_bytes()))?;
        std::str::from_utf8(&found[name.len() + 2..found.len() - 2]).ok()
    }

    /// The lines, each with its CRLF.
    fn split_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.split_inclusive(|&byte| byte == b'\n')
    }

    /// Appends the lines, without those called by one of `names`.
    pub(super) fn write_lines(&self, out: &mut ByteQueue, names: &[&str]) {
        if !self.has_stream_names || names.is_empty() {
            return out.push(&self.lines);
        }
        for line in self.split_lines().filter(|line| !is_one_of(line_name(line), names)) {
            out.push(line);
        }
    }
}

/// What a response has to know of the request it answers. Taken when the request is, because by the
/// time of the answer the connection may have read the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The request's version.
    pub version: HttpVersion,
    /// Whether the connection may stay open afterwards.
    pub keep_alive: bool,
    /// The request was a HEAD: the response has no body, whatever its fields say.
    pub head_only: bool,
}

impl Reply {
    /// The reply to `request`.
    #[must_use]
    pub fn to(request: &Request<'_>) -> Self {
        Self {
            version: request.version(),
            keep_alive: request.keep_alive(),
            head_only: request.method() == Method::Head,
        }
    }

    /// A reply to something that was not even a request: it closes.
    #[must_use]
    pub const fn to_garbage() -> Self {
        Self { version: HttpVersion::Http11, keep_alive: false, head_only: false }
    }

    /// The same, but the connection closes afterwards.
    #[must_use]
    pub const fn closing(self) -> Self {
        Self { keep_alive: false, ..self }
    }
}

/// Whether the field is well-formed; one that is not is logged.
pub(super) fn is_sendable(name: &str, value: &str) -> bool {
    let sendable = is_token(name.as_bytes()) && value.bytes().all(is_value_byte);
    if !sendable {
        log::error!("malformed response field {name:?} was dropped");
    }
    sendable
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// The name that a field line starts with.
fn line_name(line: &[u8]) -> &[u8] {
    &line[..memchr::memchr(b':', line).unwrap_or(0)]
}
