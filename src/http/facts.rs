//! What a message's own fields say about its framing and its connection. Whatever two readers could
//! understand differently is refused here.

use super::name::{Tag, is_same};
use super::target::is_host;
use super::{Framing, HttpError, HttpVersion, Status, list_elements};

const HOST: Tag = Tag::of(b"host");
const EXPECT: Tag = Tag::of(b"expect");
const CONNECTION: Tag = Tag::of(b"connection");
const LENGTH: Tag = Tag::of(b"content-length");
const CODING: Tag = Tag::of(b"transfer-encoding");

/// What the fields say about the message itself.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) hosts: usize,
    length: Option<u64>,
    coding: Coding,
    close: bool,
    keep_alive: bool,
    pub(super) expect_continue: bool,
}

/// What the Transfer-Encoding fields add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Coding {
    #[default]
    Absent,
    /// `chunked`, once.
    Chunked,
    /// Anything else.
    Unsupported,
}

impl Facts {
    /// Takes note of one field.
    pub(super) fn note(&mut self, tag: Tag, name: &str, value: &[u8]) -> Result<(), HttpError> {
        let is = |known: &str| is_same(name.as_bytes(), known.as_bytes());
        match tag {
            HOST if is("host") => self.note_host(value),
            EXPECT if is("expect") => self.note_expect(value),
            CONNECTION if is("connection") => self.note_connection(value),
            LENGTH if is("content-length") => self.note_length(value),
            CODING if is("transfer-encoding") => self.note_coding(value),
            _ => Ok(()),
        }
    }

    fn note_host(&mut self, value: &[u8]) -> Result<(), HttpError> {
        self.hosts += 1;
        if self.hosts > 1 {
            return Err(HttpError::bad("more than one Host"));
        }
        if is_host(value) { Ok(()) } else { Err(HttpError::bad("malformed Host")) }
    }

    fn note_expect(&mut self, value: &[u8]) -> Result<(), HttpError> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(HttpError::new(Status::EXPECTATION_FAILED, "unknown expectation"));
        }
        self.expect_continue = true;
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8]) -> Result<(), HttpError> {
        for option in list_elements(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
        Ok(())
    }

    /// Several lengths are one length when all are the same; otherwise two readers of this message
    /// could disagree about where it ends.
    fn note_length(&mut self, value: &[u8]) -> Result<(), HttpError> {
        for element in list_elements(value) {
            let length = parse_length(element)?;
            if self.length.is_some_and(|earlier| earlier != length) {
                return Err(HttpError::bad("contradictory Content-Length"));
            }
            self.length = Some(length);
        }
        Ok(())
    }

    fn note_coding(&mut self, value: &[u8]) -> Result<(), HttpError> {
        for element in list_elements(value) {
            if element.is_empty() {
                return Err(HttpError::bad("malformed Transfer-Encoding"));
            }
            let sole = self.coding == Coding::Absent && element.eq_ignore_ascii_case(b"chunked");
            self.coding = if sole { Coding::Chunked } else { Coding::Unsupported };
        }
        Ok(())
    }

    /// How the message's body is delimited.
    pub(super) fn framing(&self, version: HttpVersion) -> Result<Framing, HttpError> {
        if self.coding == Coding::Absent {
            return Ok(self.length_framing());
        }
        if self.length.is_some() {
            return Err(HttpError::bad("both Content-Length and Transfer-Encoding"));
        }
        if version == HttpVersion::Http10 {
            return Err(HttpError::bad("Transfer-Encoding in HTTP/1.0"));
        }
        if self.coding == Coding::Unsupported {
            return Err(HttpError::new(Status::NOT_IMPLEMENTED, "unsupported transfer coding"));
        }
        Ok(Framing::Chunked)
    }

    /// A length past the address space is as good as the largest: no limit allows either.
    fn length_framing(&self) -> Framing {
        match self.length.unwrap_or(0) {
            0 => Framing::None,
            length => Framing::Length(usize::try_from(length).unwrap_or(usize::MAX)),
        }
    }

    /// Whether the connection may stay open behind the message.
    pub(super) const fn keep_alive(&self, version: HttpVersion) -> bool {
        match version {
            HttpVersion::Http11 => !self.close,
            HttpVersion::Http10 => self.keep_alive && !self.close,
        }
    }
}

/// Only digits: no sign, no space. A length past 64 bits is as good as the largest.
fn parse_length(digits: &[u8]) -> Result<u64, HttpError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(HttpError::bad("malformed Content-Length"));
    }
    Ok(digits.iter().fold(0_u64, |length, digit| {
        length.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    }))
}
