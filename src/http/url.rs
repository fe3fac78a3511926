//! URLs that configuration names servers by.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An absolute `http` or `https` URL that is told to others: this server's own, or another's.
///
/// It has no user, query or fragment, and nothing in it that could end a header field or a quoted
/// string. It is told exactly as it was written, since those who hear it compare it to the byte.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    text: String,
    authority_at: usize,
    path_at: usize,
}

impl PublicUrl {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("it must begin with https://")?;
        if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
            return Err("its scheme must be https or http");
        }
        if !text.bytes().all(is_url_byte) {
            return Err("it has a character that a URL cannot have");
        }
        if text.contains(['?', '#']) {
            return Err("it must have neither a query nor a fragment");
        }
        let authority_at = text.len() - rest.len();
        let path_at = authority_at + rest.find('/').unwrap_or(rest.len());
        let host = host_of(&text[authority_at..path_at]).ok_or("it names no host")?;
        if !is_host_name(host) {
            return Err("its host is neither a name nor an address");
        }
        Ok(Self { text: text.to_owned(), authority_at, path_at })
    }

    /// The URL to the byte, trailing slash and all.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> &str {
        &self.text[..self.path_at]
    }

    /// The host without its port; an IPv6 address keeps its brackets.
    pub(crate) fn host(&self) -> &str {
        host_of(&self.text[self.authority_at..self.path_at]).unwrap_or_default()
    }

    /// The path without its trailing slash; empty for the root.
    pub(crate) fn path(&self) -> &str {
        self.text[self.path_at..].trim_end_matches('/')
    }

    /// Whether what is said to this URL stays between the two ends.
    pub(crate) fn is_private(&self) -> bool {
        self.text.as_bytes()[..self.authority_at].eq_ignore_ascii_case(b"https://")
            || is_loopback(self.host())
    }

    /// The URL of a path on this server, as others see it.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin(), self.path())
    }

    /// Where others look for metadata about this URL: the name goes between host and path (RFC 8615
    /// section 3, RFC 9728 section 3.1).
    pub(crate) fn well_known(&self, name: &str) -> String {
        format!("{}/.well-known/{name}{}", self.origin(), self.path())
    }

    /// Whether both are on the same server; names compare without case.
    pub(crate) fn has_origin_of(&self, other: &Self) -> bool {
        self.origin().eq_ignore_ascii_case(other.origin())
    }
}

impl fmt::Debug for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicUrl").field(&self.text).finish()
    }
}

/// The host of `host[:port]`; none if that is not what the text is.
pub(crate) fn host_of(authority: &str) -> Option<&str> {
    let split = match authority.strip_prefix('[') {
        Some(literal) => literal.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(split);
    let numeric =
        |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
    let port_ok = port.is_empty() || port.strip_prefix(':').is_some_and(numeric);
    let named = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ', '\\']);
    (port_ok && named).then_some(host)
}

/// The address that a host is, if it is one.
pub(crate) fn literal_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether a host is this machine by its very spelling.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || literal_of(host).is_some_and(|literal| literal.is_loopback())
}

fn is_host_name(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(literal) => literal.parse::<Ipv6Addr>().is_ok(),
        None => host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
    }
}

/// What RFC 3986 lets into a URL, as far as it is ASCII anyway.
const fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_comes_apart_and_is_told_as_it_was_written() {
        for (text, host, path) in [
            ("https://p.example/app", "p.example", "/app"),
            ("https://p.example/app/", "p.example", "/app"),
            ("HTTPS://P.example:8443", "P.example", ""),
            ("http://[::1]:80/a/b", "[::1]", "/a/b"),
            ("http://127.0.0.1", "127.0.0.1", ""),
            ("http://localhost/", "localhost", ""),
        ] {
            let url = PublicUrl::parse(text).unwrap();
            assert_eq!((url.host(), url.path()), (host, path), "{text}");
            assert_eq!(url.as_str(), text);
        }
    }

    #[test]
    fn b142_what_could_end_a_field_or_name_another_server_is_no_url() {
        for text in [
            "",
            "p.example/app",
            "ftp://p.example",
            "https://",
            "https:///app",
            "https://user@p.example",
            "https://p.example:port",
            "https://p.example?x=1",
            "https://p.example/#x",
            "https://p.example/\r\nX-Evil: 1",
            "https://p.example/\"x",
            "https://p.example/\\x",
            "https://p.example/ x",
            "https://p.example/\u{e9}",
            "https://p\u{e9}.example",
            "https://p,q.example",
            "https://[::1",
            "https://[p.example]",
        ] {
            assert!(PublicUrl::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn metadata_is_looked_for_between_host_and_path() {
        let url = PublicUrl::parse("https://p.example/app/mcp").unwrap();
        assert_eq!(url.well_known("x"), "https://p.example/.well-known/x/app/mcp");
        assert_eq!(url.join("/sse"), "https://p.example/app/mcp/sse");
        let root = PublicUrl::parse("https://p.example/").unwrap();
        assert_eq!(root.well_known("x"), "https://p.example/.well-known/x");
        assert_eq!(root.join("/mcp"), "https://p.example/mcp");
        assert!(root.has_origin_of(&PublicUrl::parse("HTTPS://P.EXAMPLE/app").unwrap()));
        assert!(!root.has_origin_of(&PublicUrl::parse("https://p.example:444/").unwrap()));
    }

    #[test]
    fn only_this_machine_is_private_without_encryption() {
        for (text, private) in [
            ("https://as.example", true),
            ("http://localhost:9000", true),
            ("http://127.0.0.1", true),
            ("http://[::1]", true),
            ("http://as.example", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(PublicUrl::parse(text).unwrap().is_private(), private, "{text}");
        }
    }

    #[test]
    fn authorities_split_into_host_and_port() {
        for (text, host) in [
            ("a:80", Some("a")),
            ("a", Some("a")),
            ("[::1]:80", Some("[::1]")),
            ("[::1]", Some("[::1]")),
            ("a:b", None),
            ("", None),
            ("a/b", None),
            ("[::1]x", None),
        ] {
            assert_eq!(host_of(text), host, "{text}");
        }
    }
}
