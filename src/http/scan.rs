//! The search for the end of a head in bytes that come piece by piece.

use crate::buf::ByteQueue;
use crate::limits::HttpLimits;

use super::{HttpError, Status, is_token_byte};

/// Longest method worth reading on for; the longest registered one has 17 letters.
pub(super) const METHOD_BYTES_MAX: usize = 32;
/// Empty lines a client may put before a request line. Old clients end a body with one.
const BLANK_LINES_MAX: usize = 8;
/// What stands behind the target in a request line: a space, the version, a carriage return.
const VERSION_BYTES: usize = b" HTTP/1.1\r".len();

/// Looks for the end of a head, each byte once, and refuses early what cannot become a request.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    /// Bytes known to hold no further line feed.
    scanned: usize,
    /// Start of the line that is not finished.
    line_at: usize,
    /// Finished lines, the request line included.
    lines: usize,
    /// Start of the target, zero until the method is complete.
    target_at: usize,
    /// Empty lines skipped before the request line.
    blank_lines: usize,
}

impl HeadScan {
    /// Whether nothing of a request has come.
    pub(super) const fn is_idle(&self) -> bool {
        self.scanned == 0
    }

    /// Drops empty lines before a request line.
    pub(super) fn skip_blank_lines(&mut self, input: &mut ByteQueue) -> Result<(), HttpError> {
        while self.is_idle() && input.data().starts_with(b"\r\n") {
            input.consume(2);
            self.blank_lines += 1;
            if self.blank_lines > BLANK_LINES_MAX {
                return Err(HttpError::bad("too many empty lines before a request"));
            }
        }
        Ok(())
    }

    /// Length of the head that `data` begins with, once all of it is there.
    pub(super) fn find_end(
        &mut self,
        data: &[u8],
        limits: &HttpLimits,
    ) -> Result<Option<usize>, HttpError> {
        if self.is_idle() && data == b"\r" {
            return Ok(None);
        }
        let seen = &data[..data.len().min(limits.head_bytes_max)];
        if self.target_at == 0 {
            self.check_method(seen)?;
        }
        while let Some(line) = self.next_line(seen)? {
            if self.lines == 0 {
                self.check_request_line(line, limits)?;
            } else if line.is_empty() {
                return Ok(Some(self.line_at));
            }
            self.count_line(limits)?;
        }
        self.check_lengths(data.len(), limits)?;
        Ok(None)
    }

    /// The next finished line, without its CRLF.
    fn next_line<'a>(&mut self, seen: &'a [u8]) -> Result<Option<&'a [u8]>, HttpError> {
        let Some(found) = memchr::memchr(b'\n', &seen[self.scanned..]) else {
            self.scanned = seen.len();
            return Ok(None);
        };
        let end = self.scanned + found;
        let [line @ .., b'\r'] = &seen[self.line_at..end] else {
            // Taking it for a line end, as one may, would let a field value that others pass on
            // whole become two fields here.
            return Err(HttpError::bad("line feed without carriage return"));
        };
        self.scanned = end + 1;
        self.line_at = end + 1;
        Ok(Some(line))
    }

    fn count_line(&mut self, limits: &HttpLimits) -> Result<(), HttpError> {
        self.lines += 1;
        if self.lines - 1 > limits.fields_max {
            return Err(HttpError::new(Status::HEADER_FIELDS_TOO_LARGE, "too many fields"));
        }
        Ok(())
    }

    /// A TLS handshake or plain noise shows in the first byte; nobody should wait for its line end.
    fn check_method(&mut self, seen: &[u8]) -> Result<(), HttpError> {
        let start = &seen[..seen.len().min(METHOD_BYTES_MAX + 1)];
        match start.iter().position(|&byte| !is_token_byte(byte)) {
            Some(end) if end > 0 && start[end] == b' ' => {
                self.target_at = end + 1;
                Ok(())
            }
            Some(_) => Err(HttpError::bad("malformed request line")),
            None if start.len() > METHOD_BYTES_MAX => {
                Err(HttpError::new(Status::NOT_IMPLEMENTED, "unknown method"))
            }
            None => Ok(()),
        }
    }

    fn check_request_line(&self, line: &[u8], limits: &HttpLimits) -> Result<(), HttpError> {
        let rest = line.get(self.target_at..).unwrap_or_default();
        let Some(target_len) = memchr::memrchr(b' ', rest) else {
            return Err(HttpError::bad("request line without a version"));
        };
        if target_len > limits.target_bytes_max {
            return Err(HttpError::new(Status::URI_TOO_LONG, "request target too long"));
        }
        match &rest[target_len + 1..] {
            b"HTTP/1.1" | b"HTTP/1.0" => Ok(()),
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                let status = Status::HTTP_VERSION_NOT_SUPPORTED;
                Err(HttpError::new(status, "only HTTP/1.0 and HTTP/1.1 are served"))
            }
            _ => Err(HttpError::bad("malformed version")),
        }
    }

    /// Refuses what is too long already, although its end has not come.
    fn check_lengths(&self, len: usize, limits: &HttpLimits) -> Result<(), HttpError> {
        let line_max = limits.target_bytes_max.saturating_add(self.target_at + VERSION_BYTES);
        if self.lines == 0 && self.target_at > 0 && len > line_max {
            return Err(HttpError::new(Status::URI_TOO_LONG, "request target too long"));
        }
        if len >= limits.head_bytes_max {
            return Err(HttpError::new(Status::HEADER_FIELDS_TOO_LARGE, "head too long"));
        }
        Ok(())
    }
}
