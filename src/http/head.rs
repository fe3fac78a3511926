//! A request's head: parsed once into positions, and read through a view that borrows the bytes.

use std::fmt;
use std::mem::MaybeUninit;

use crate::limits::HttpLimits;

use super::facts::Facts;
use super::name::{self, Place, Places, Tag};
use super::scan::METHOD_BYTES_MAX;
use super::target::{Span, Target};
use super::{Framing, HttpError, HttpVersion, Method, Status};

/// Most fields a head can have, whatever the limits say: the parser's table lives on the stack.
const FIELDS_CAP: usize = 256;

/// Where things are in a parsed head, relative to its first byte.
///
/// It holds no bytes, so it stays valid when the queue that holds them moves. One value serves all
/// requests of a connection and keeps its table of fields.
#[derive(Debug, Default)]
pub struct Head {
    method: Method,
    version: HttpVersion,
    method_at: Span,
    target: Target,
    fields: Vec<Field>,
    places: Places,
    framing: Framing,
    keep_alive: bool,
    expect_continue: bool,
    len: usize,
}

impl Head {
    /// Parses the head that `bytes` begins with, all of which must be there.
    ///
    /// On an error the head is empty.
    ///
    /// # Errors
    ///
    /// Names the status for a head that is malformed, ambiguous about its body, or has too many
    /// fields. Lengths are not judged.
    pub fn parse(&mut self, bytes: &[u8], limits: &HttpLimits) -> Result<(), HttpError> {
        self.clear();
        let parsed = self.try_parse(bytes, limits);
        if parsed.is_err() {
            self.clear();
        }
        parsed
    }

    /// Parses a head in one go if all of it is here and nothing about it is unusual.
    ///
    /// False says nothing: the slower way, which looks at every line end first, is then the one to
    /// judge.
    pub(super) fn parse_usual(&mut self, bytes: &[u8], limits: &HttpLimits) -> bool {
        self.clear();
        let bytes = &bytes[..bytes.len().min(limits.head_bytes_max)];
        let usual = self.try_parse(bytes, limits).is_ok() && self.is_usual(bytes, limits);
        if !usual {
            self.clear();
        }
        usual
    }

    /// Whether no line ends in a bare line feed, which the parser takes for a line end and others
    /// may not, and nothing is longer than it may be.
    fn is_usual(&self, bytes: &[u8], limits: &HttpLimits) -> bool {
        let version_end = self.target.whole.end() + b" HTTP/1.1".len();
        let ends_in_crlf = |end: usize| match bytes.get(end..) {
            Some([b'\r', ..]) => true,
            Some(rest) => rest.iter().find(|&&byte| byte != b' ' && byte != b'\t') == Some(&b'\r'),
            None => false,
        };
        self.method_at.start() == 0
            && self.method_at.len() <= METHOD_BYTES_MAX
            && self.target.whole.len() <= limits.target_bytes_max
            && bytes.get(version_end) == Some(&b'\r')
            && self.fields.iter().all(|field| ends_in_crlf(field.value.end()))
            && bytes[..self.len].ends_with(b"\r\n\r\n")
    }

    /// Forgets the request, keeping the memory.
    pub fn clear(&mut self) {
        if self.len == 0 {
            return;
        }
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self { fields, ..Self::default() };
    }

    /// How many bytes the head takes, its empty line included; zero when nothing was parsed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was parsed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How the body is delimited.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether the sender waits for `100 Continue` before it sends the body.
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        self.expect_continue && self.framing != Framing::None
    }

    /// Fills in everything, the length first: a head without one is an empty one.
    fn try_parse(&mut self, bytes: &[u8], limits: &HttpLimits) -> Result<(), HttpError> {
        // Spans count in 32 bits; a longer head is as good as one that never ends.
        let bytes = &bytes[..bytes.len().min(u32::MAX as usize)];
        let mut table = [const { MaybeUninit::uninit() }; FIELDS_CAP];
        let table = &mut table[..limits.fields_max.min(FIELDS_CAP)];
        let mut parsed = httparse::Request::new(&mut []);
        let status = parsed.parse_with_uninit_headers(bytes, table).map_err(parse_error)?;
        let (httparse::Status::Complete(len), Some(method), Some(target), Some(version)) =
            (status, parsed.method, parsed.path, parsed.version)
        else {
            return Err(HttpError::bad("incomplete head"));
        };
        self.len = len;
        self.method = Method::from_token(method);
        self.method_at = Span::of(bytes, method.as_bytes());
        self.version = if version == 0 { HttpVersion::Http10 } else { HttpVersion::Http11 };
        self.target = Target::parse(Span::of(bytes, target.as_bytes()), target, self.method)?;
        self.read_fields(bytes, parsed.headers)
    }

    fn read_fields(
        &mut self,
        bytes: &[u8],
        headers: &[httparse::Header<'_>],
    ) -> Result<(), HttpError> {
        let mut facts = Facts::default();
        self.fields.reserve(headers.len());
        for header in headers {
            let tag = Tag::of(header.name.as_bytes());
            self.places.note(tag, self.fields.len());
            self.fields.push(Field {
                name: Span::of(bytes, header.name.as_bytes()),
                value: Span::of(bytes, header.value),
                tag,
            });
            facts.note(tag, header.name, header.value)?;
        }
        if facts.hosts == 0 && self.version == HttpVersion::Http11 {
            return Err(HttpError::bad("no Host"));
        }
        self.framing = facts.framing(self.version)?;
        self.keep_alive = facts.keep_alive(self.version);
        // A 1.0 client cannot know of interim responses, so its wish is ignored.
        self.expect_continue = facts.expect_continue && self.version == HttpVersion::Http11;
        Ok(())
    }
}

/// A request as seen by everybody above the codec: a view of bytes that stay in the input queue.
///
/// At the head stage the body is empty. A test makes one with [`Head::parse`] and [`Request::new`].
#[derive(Clone, Copy)]
pub struct Request<'a> {
    head: &'a Head,
    bytes: &'a [u8],
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The request whose head was parsed from `bytes`, with this body.
    #[must_use]
    pub const fn new(head: &'a Head, bytes: &'a [u8], body: &'a [u8]) -> Self {
        Self { head, bytes, body }
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.head.method
    }

    /// The method as it was sent.
    #[must_use]
    pub fn method_str(&self) -> &'a str {
        self.head.method_at.text(self.bytes)
    }

    /// The request target as it was sent.
    #[must_use]
    pub fn target(&self) -> &'a str {
        self.head.target.whole.text(self.bytes)
    }

    /// The path of the target, without query and not percent-decoded; `/` when an absolute target
    /// has none, `*` for the asterisk form, empty for CONNECT.
    #[must_use]
    pub fn path(&self) -> &'a str {
        std::str::from_utf8(self.path_bytes()).unwrap_or_default()
    }

    /// The same as bytes, which need not be checked to be text.
    #[must_use]
    pub fn path_bytes(&self) -> &'a [u8] {
        match self.head.target.path.bytes(self.bytes) {
            b"" if self.head.target.authority.is_some() && self.method() != Method::Connect => b"/",
            path => path,
        }
    }

    /// The query of the target, without the question mark.
    #[must_use]
    pub fn query(&self) -> Option<&'a str> {
        self.head.target.query.map(|span| span.text(self.bytes))
    }

    /// The host and port of an absolute target. It outranks the Host field.
    #[must_use]
    pub fn authority(&self) -> Option<&'a str> {
        self.head.target.authority.map(|span| span.text(self.bytes))
    }

    /// Whom the request is addressed to: the target's authority, else the Host field.
    #[must_use]
    pub fn host(&self) -> Option<&'a str> {
        self.authority().or_else(|| self.field_str("host"))
    }

    /// The protocol version of the request.
    #[must_use]
    pub const fn version(&self) -> HttpVersion {
        self.head.version
    }

    /// Whether the client is ready to send another request on this connection.
    #[must_use]
    pub const fn keep_alive(&self) -> bool {
        self.head.keep_alive
    }

    /// How the body is delimited.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.head.framing
    }

    /// The first value under `name`, in any case, without the white space around it.
    #[must_use]
    #[inline]
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        match self.find(name) {
            Found::One(value) => Some(value),
            Found::None => None,
            Found::Unsure => self.fields_named(name).next(),
        }
    }

    /// Looks where the field must be if there is one.
    #[inline]
    fn find(&self, name: &str) -> Found<'a> {
        match self.head.places.find(Tag::of(name.as_bytes())) {
            Place::Nowhere => Found::None,
            Place::Anywhere => Found::Unsure,
            Place::Only(index) => match self.head.fields.get(index) {
                Some(field) if field.is_named(self.bytes, name) => {
                    Found::One(field.value.bytes(self.bytes))
                }
                Some(_) | None => Found::None,
            },
        }
    }

    /// The first value under `name`, when it is UTF-8.
    #[must_use]
    pub fn field_str(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.field(name)?).ok()
    }

    /// The only value under `name`, if there is one.
    ///
    /// # Errors
    ///
    /// When there are several.
    #[inline]
    pub fn sole_field(&self, name: &str) -> Result<Option<&'a [u8]>, Doubled> {
        match self.find(name) {
            Found::One(value) => Ok(Some(value)),
            Found::None => Ok(None),
            Found::Unsure => self.look_for_sole_field(name),
        }
    }

    #[cold]
    fn look_for_sole_field(&self, name: &str) -> Result<Option<&'a [u8]>, Doubled> {
        let mut values = self.fields_named(name);
        let first = values.next();
        if first.is_some() && values.next().is_some() { Err(Doubled) } else { Ok(first) }
    }

    /// All values under `name`, in the order they were sent.
    #[inline]
    pub fn fields_named<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let (bytes, tag) = (self.bytes, Tag::of(name.as_bytes()));
        self.head
            .fields
            .iter()
            .filter(move |field| field.tag == tag && field.is_named(bytes, name))
            .map(move |field| field.value.bytes(bytes))
    }

    /// All fields, in the order they were sent.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        self.head.fields.iter().map(move |field| (field.name.text(bytes), field.value.bytes(bytes)))
    }

    /// The body; empty until all of it has come.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}

impl fmt::Debug for Request<'_> {
    /// Leaves out fields and query, which carry secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method_str())
            .field("path", &self.path())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// What a quick look for a field shows.
enum Found<'a> {
    None,
    One(&'a [u8]),
    /// Nothing: all fields have to be looked at.
    Unsure,
}

/// A field was given more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubled;

#[derive(Debug, Clone, Copy)]
struct Field {
    name: Span,
    value: Span,
    tag: Tag,
}

impl Field {
    fn is_named(&self, bytes: &[u8], name: &str) -> bool {
        name::is_same(self.name.bytes(bytes), name.as_bytes())
    }
}

fn parse_error(error: httparse::Error) -> HttpError {
    match error {
        httparse::Error::TooManyHeaders => {
            HttpError::new(Status::HEADER_FIELDS_TOO_LARGE, "too many fields")
        }
        httparse::Error::HeaderName => HttpError::bad("malformed field name"),
        httparse::Error::HeaderValue => HttpError::bad("malformed field value"),
        httparse::Error::NewLine => HttpError::bad("malformed line end"),
        httparse::Error::Version => HttpError::bad("malformed version"),
        httparse::Error::Token | httparse::Error::Status => {
            HttpError::bad("malformed request line")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a request line and fields, given without the line end of the last one.
    fn parsed(text: &str) -> (Head, Vec<u8>) {
        let bytes = format!("{text}\r\n\r\n").into_bytes();
        let mut head = Head::default();
        head.parse(&bytes, &HttpLimits::default()).expect("the head is well-formed");
        (head, bytes)
    }

    #[test]
    fn targets_come_apart_into_authority_path_and_query() {
        let table = [
            ("GET /", None, "/", None),
            ("GET /mcp/", None, "/mcp/", None),
            ("GET /a%2Fb?x=1?y", None, "/a%2Fb", Some("x=1?y")),
            ("GET /?", None, "/", Some("")),
            ("GET //x/y", None, "//x/y", None),
            ("GET /http://x/", None, "/http://x/", None),
            ("OPTIONS *", None, "*", None),
            ("GET http://h", Some("h"), "/", None),
            ("GET http://h:80/p?q", Some("h:80"), "/p", Some("q")),
            ("GET HTTPS://[::1]:8/", Some("[::1]:8"), "/", None),
            ("GET http://h?q/r", Some("h"), "/", Some("q/r")),
            ("CONNECT h:443", Some("h:443"), "", None),
        ];
        for (line, authority, path, query) in table {
            let (head, bytes) = parsed(&format!("{line} HTTP/1.1\r\nHost: a"));
            let request = Request::new(&head, &bytes, b"");
            let parts = (request.authority(), request.path(), request.query());
            assert_eq!(parts, (authority, path, query), "{line}");
            assert!(line.ends_with(request.target()));
            assert_eq!(request.host(), authority.or(Some("a")));
        }
    }

    #[test]
    fn fields_are_found_in_any_case_and_without_surrounding_space() {
        let (head, bytes) =
            parsed("GET / HTTP/1.1\r\nHost: a\r\nAccept: x\r\naccept:\t y \r\nBad: \u{e9}");
        let request = Request::new(&head, &bytes, b"");
        assert_eq!(request.field("ACCEPT"), Some(&b"x"[..]));
        assert_eq!(request.field_str("host"), Some("a"));
        assert_eq!(request.field("accep"), None);
        assert!(request.fields_named("accept").eq([b"x", b"y"]));
        assert!(request.fields().map(|(name, _)| name).eq(["Host", "Accept", "accept", "Bad"]));
        assert_eq!(request.fields().len(), 4);
    }

    #[test]
    fn a_value_that_is_not_text_is_only_there_as_bytes() {
        let mut head = Head::default();
        let bytes = b"GET / HTTP/1.0\r\nX: \xff\r\n\r\n";
        head.parse(bytes, &HttpLimits::default()).expect("is well-formed");
        let request = Request::new(&head, bytes, b"");
        assert_eq!((request.field("x"), request.field_str("x")), (Some(&b"\xff"[..]), None));
    }

    #[test]
    fn methods_are_known_by_their_exact_name() {
        for name in
            ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "PURGE"]
        {
            let (head, bytes) = parsed(&format!("{name} / HTTP/1.1\r\nHost: a"));
            let request = Request::new(&head, &bytes, b"");
            assert_eq!(request.method_str(), name);
            let known = request.method() != Method::Other;
            assert_eq!(known, request.method().as_str() == name);
            assert_eq!(known, !["get", "PURGE"].contains(&name));
        }
    }

    #[test]
    fn an_incomplete_head_is_an_error_and_leaves_nothing() {
        let (mut head, _) = parsed("GET / HTTP/1.1\r\nHost: a");
        let error = head.parse(b"GET / HTTP/1.1\r\n", &HttpLimits::default());
        assert_eq!(error.map_err(|error| error.status), Err(Status::BAD_REQUEST));
        assert!(head.is_empty());
        assert_eq!(Request::new(&head, b"", b"").fields().len(), 0);
    }

    #[test]
    fn reading_a_head_from_other_bytes_gives_nothing_and_does_not_panic() {
        let (head, bytes) = parsed("GET http://h/p?q HTTP/1.1\r\nHost: a");
        for other in [&b""[..], &bytes[..10], &[0xff; 200]] {
            let request = Request::new(&head, other, b"");
            assert_eq!(request.field("x"), None);
            let _ = (request.method_str(), request.target(), request.query(), request.host());
            assert_eq!(request.fields().count(), 1);
        }
    }

    #[test]
    fn a_head_can_be_parsed_into_again() {
        let (mut head, _) = parsed("POST /long/path HTTP/1.1\r\nHost: a\r\nContent-Length: 3");
        assert_eq!(head.framing(), Framing::Length(3));
        let bytes = b"GET / HTTP/1.0\r\n\r\n";
        head.parse(bytes, &HttpLimits::default()).expect("is well-formed");
        assert_eq!((head.framing(), head.len()), (Framing::None, bytes.len()));
        assert_eq!(Request::new(&head, bytes, b"").fields().len(), 0);
    }
}
