//! HTTP/1.x as bytes: requests out of an input queue, responses and event streams into an output
//! queue. It knows nothing of JSON, of any protocol above, of sockets or of clocks.

mod body;
mod date;
mod facts;
mod head;
mod name;
mod response;
mod scan;
mod server;
pub mod sse;
mod status;
mod target;
#[cfg(test)]
mod tests;
mod url;
mod writer;

use std::fmt;

pub use body::{BodyDecoder, Framing, Piece};
pub use date::Date;
pub use head::{Doubled, Head, Request};
pub use response::{Reply, ResponseHead};
pub use server::{Decoded, Phase, ServerCodec};
pub use status::{Slug, Status};
pub(crate) use url::{PublicUrl, host_of, is_loopback, literal_of};
pub use writer::{
    AfterReply, Http10Streams, Rejected, ResponseWriter, StreamStart, write_continue,
};

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `OPTIONS`.
    Options,
    /// `PATCH`.
    Patch,
    /// `TRACE`.
    Trace,
    /// `CONNECT`.
    Connect,
    /// Any other token; [`Request::method_str`] tells which.
    #[default]
    Other,
}

impl Method {
    /// The method that `token` names. Methods are case-sensitive, so `get` is [`Method::Other`].
    #[must_use]
    pub fn from_token(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            "PATCH" => Self::Patch,
            "TRACE" => Self::Trace,
            "CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// The method's name, `"OTHER"` for [`Method::Other`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Patch => "PATCH",
            Self::Trace => "TRACE",
            Self::Connect => "CONNECT",
            Self::Other => "OTHER",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The protocol version a request was sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HttpVersion {
    /// HTTP/1.0, which knows no chunked bodies.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

/// Why bytes are not an acceptable request. The framing is lost with it: the connection has to
/// close after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpError {
    /// What to answer with.
    pub status: Status,
    /// What is wrong, for the peer and the log alike. It never repeats the peer's bytes.
    pub message: &'static str,
}

impl HttpError {
    /// An error answered with `status`.
    #[must_use]
    pub const fn new(status: Status, message: &'static str) -> Self {
        Self { status, message }
    }

    /// An error answered with 400.
    const fn bad(message: &'static str) -> Self {
        Self::new(Status::BAD_REQUEST, message)
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl std::error::Error for HttpError {}

/// Whether `byte` may stand in a token: a method, a field name, a coding.
const fn is_token_byte(byte: u8) -> bool {
    matches!(byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
        | b'|' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z')
}

/// Whether `bytes` is a token.
fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_token_byte)
}

/// Whether `byte` may stand in a field value: no controls but the tab.
const fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The elements of a comma-separated list, without the white space around them.
fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim_ows)
}

/// `bytes` without the spaces and tabs at both ends.
fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}
