//! A request target taken apart, as positions in the head.

use super::{HttpError, Method};

/// The parts of a request target.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Target {
    pub(super) whole: Span,
    pub(super) path: Span,
    pub(super) query: Option<Span>,
    /// Some in the absolute and the authority form.
    pub(super) authority: Option<Span>,
}

impl Target {
    pub(super) fn parse(whole: Span, text: &str, method: Method) -> Result<Self, HttpError> {
        let malformed = HttpError::bad("malformed request target");
        if text.as_bytes().contains(&b'#') {
            return Err(malformed);
        }
        if text.starts_with('/') || (text == "*" && method == Method::Options) {
            return Ok(Self { whole, ..Self::default() }.with_path(text, 0));
        }
        if method == Method::Connect {
            check_authority(text)?;
            return Ok(Self { whole, authority: Some(whole), ..Self::default() });
        }
        let authority_at = scheme_len(text).ok_or(malformed)?;
        let rest = &text[authority_at..];
        let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
        check_authority(authority)?;
        let authority_span = whole.part(authority_at, authority.len());
        Ok(Self { whole, authority: Some(authority_span), ..Self::default() }
            .with_path(text, authority_at + authority.len()))
    }

    /// Fills in path and query, which begin at `at`.
    fn with_path(mut self, text: &str, at: usize) -> Self {
        // Most are too short for a search that looks at several bytes at once.
        let rest = &text.as_bytes()[at..];
        let path_end = at + rest.iter().position(|&byte| byte == b'?').unwrap_or(rest.len());
        self.path = self.whole.part(at, path_end - at);
        self.query = (path_end < text.len())
            .then(|| self.whole.part(path_end + 1, text.len() - path_end - 1));
        self
    }
}

/// Length of the `http://` or `https://` that an absolute target starts with.
fn scheme_len(target: &str) -> Option<usize> {
    ["http://", "https://"]
        .iter()
        .find(|scheme| {
            target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
        .map(|scheme| scheme.len())
}

/// Refuses what could be read as another host by somebody else: user names, lists, paths.
fn check_authority(authority: &str) -> Result<(), HttpError> {
    if authority.is_empty() || !is_host(authority.as_bytes()) {
        return Err(HttpError::bad("malformed request target"));
    }
    Ok(())
}

/// Whether `value` has only bytes that a host with an optional port can have.
pub(super) fn is_host(value: &[u8]) -> bool {
    value.iter().all(|&byte| HOST_BYTES[usize::from(byte)])
}

/// Which bytes are visible and do not make two hosts of one to some reader.
const HOST_BYTES: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        allowed[byte] = (byte as u8).is_ascii_graphic();
        byte += 1;
    }
    let mut at = 0;
    while at < NO_HOST_BYTES.len() {
        allowed[NO_HOST_BYTES[at] as usize] = false;
        at += 1;
    }
    allowed
};
const NO_HOST_BYTES: [u8; 9] = *b"@,/\\?#\"<>";

/// Part of a head. Reading it from bytes it was not made for gives something else or nothing, but
/// never a panic.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// Where `part`, which lies inside `whole`, is.
    ///
    /// The whole is to be shorter than 4 GiB.
    pub(super) fn of(whole: &[u8], part: &[u8]) -> Self {
        let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        Self { start: start as u32, len: part.len() as u32 }
    }

    /// `len` bytes from `at` on, counted within `self`.
    fn part(self, at: usize, len: usize) -> Self {
        Self { start: self.start.wrapping_add(at as u32), len: len as u32 }
    }

    pub(super) const fn start(self) -> usize {
        self.start as usize
    }

    pub(super) const fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    pub(super) const fn len(self) -> usize {
        self.len as usize
    }

    pub(super) fn bytes(self, whole: &[u8]) -> &[u8] {
        let start = self.start as usize;
        whole.get(start..start + self.len as usize).unwrap_or_default()
    }

    pub(super) fn text(self, whole: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(whole)).unwrap_or_default()
    }
}
