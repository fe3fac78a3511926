//! The token of a request, out of its `Authorization` field and nothing else.

use std::borrow::Cow;
use std::fmt;

use crate::http::Request;

/// A bearer token as a client has sent it (RFC 6750 section 2.1).
///
/// `Debug` hides it: whoever reads a log could otherwise use it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token<'a>(Cow<'a, str>);

/// Why a request has no token to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// No credentials, or some of another scheme.
    Absent,
    /// The scheme is right and what follows it is no token.
    Malformed,
    /// More than one `Authorization` field.
    Doubled,
}

const SCHEME: &[u8] = b"Bearer";

impl<'a> Token<'a> {
    /// Reads the token of a request. One in the query of the target is none.
    pub(super) fn read(request: &Request<'a>) -> Result<Self, Fault> {
        let mut fields = request.fields_named("authorization");
        let field = fields.next().ok_or(Fault::Absent)?;
        if fields.next().is_some() {
            return Err(Fault::Doubled);
        }
        let (scheme, rest) = field.split_at_checked(SCHEME.len()).ok_or(Fault::Absent)?;
        let separated = rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\t'));
        if !scheme.eq_ignore_ascii_case(SCHEME) || !separated {
            return Err(Fault::Absent);
        }
        let token = rest.trim_ascii_start();
        match std::str::from_utf8(token) {
            Ok(token) if is_token(token) => Ok(Self(Cow::Borrowed(token))),
            _ => Err(Fault::Malformed),
        }
    }

    /// The token itself. It is a secret: it belongs neither into a log nor into an answer.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A copy that outlives the request.
    pub(super) fn into_owned(self) -> Token<'static> {
        Token(Cow::Owned(self.0.into_owned()))
    }
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The `b64token` of RFC 6750.
fn is_token(text: &str) -> bool {
    let stem = text.trim_end_matches('=');
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
    !stem.is_empty() && stem.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Head;
    use crate::limits::HttpLimits;

    /// What a request with these fields has for a token.
    fn read(fields: &str) -> Result<String, Fault> {
        let bytes =
            format!("GET /?access_token=q HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
        let mut head = Head::default();
        head.parse(&bytes, &HttpLimits::default()).expect("the head is well-formed");
        Token::read(&Request::new(&head, &bytes, b"")).map(|token| token.as_str().to_owned())
    }

    #[test]
    fn b136_a_token_is_what_follows_the_scheme_in_any_case() {
        for field in
            ["Bearer a.b-c_d~e+f/g==", "bearer a.b-c_d~e+f/g==", "BEARER   a.b-c_d~e+f/g=="]
        {
            let read = read(&format!("aUTHORIZATION: {field}\r\n"));
            assert_eq!(read, Ok("a.b-c_d~e+f/g==".to_owned()), "{field}");
        }
        for (fields, fault) in [
            ("", Fault::Absent),
            ("Authorization:\r\n", Fault::Absent),
            ("Authorization: Basic eA==\r\n", Fault::Absent),
            ("Authorization: Bearerx\r\n", Fault::Absent),
            ("Authorization: Bear\r\n", Fault::Absent),
            ("Proxy-Authorization: Bearer x\r\n", Fault::Absent),
            ("Authorization: Bearer\r\n", Fault::Malformed),
            ("Authorization: Bearer =\r\n", Fault::Malformed),
            ("Authorization: Bearer a b\r\n", Fault::Malformed),
            ("Authorization: Bearer a, Basic b\r\n", Fault::Malformed),
            ("Authorization: Bearer a=b\r\n", Fault::Malformed),
            ("Authorization: Bearer \u{e9}\r\n", Fault::Malformed),
            ("Authorization: Bearer a\r\nAuthorization: Bearer a\r\n", Fault::Doubled),
        ] {
            assert_eq!(read(fields), Err(fault), "{fields}");
        }
    }

    #[test]
    fn debug_does_not_show_a_token() {
        assert_eq!(format!("{:?}", Token(Cow::Borrowed("secret"))), "Token(..)");
    }
}
