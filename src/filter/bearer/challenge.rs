//! What a caller without a sufficient token is told (RFC 6750 section 3, RFC 9728 section 5.1).

use super::super::Response;
use crate::http::Status;
use crate::rpc::{ErrorObject, Id};

/// The refusals of a protected resource. Every part of their `WWW-Authenticate` field is from the
/// configuration or written as a quoted string, so that no text can begin another field.
#[derive(Debug, Clone, Default)]
pub(crate) struct Challenge {
    /// Where the metadata is; none on a server that has no bearer tokens.
    metadata: Option<String>,
    /// The scopes that every request needs.
    required: Vec<String>,
}

/// An error code of RFC 6750 section 3.1 and the words for people.
struct Problem<'a>(&'static str, &'a str);

/// Longer descriptions are cut: a field has to fit into the reader's limits.
const DESCRIPTION_CHARS_MAX: usize = 200;

impl Challenge {
    pub(crate) fn new(metadata: String, required: Vec<String>) -> Self {
        Self { metadata: Some(metadata), required }
    }

    /// 401 to a caller who has shown no token. It carries no error code: nothing was wrong yet.
    pub(crate) fn unauthorized(&self, id: Option<&Id>, needed: &[&str]) -> Response {
        let field = self.render(needed, None);
        refusal(Status::UNAUTHORIZED, id, "a bearer token is needed", field)
    }

    /// 401 to a caller whose token is not good; the reason is told.
    pub(crate) fn invalid(&self, reason: &str) -> Response {
        let field = self.render(&[], Some(&Problem("invalid_token", reason)));
        refusal(Status::UNAUTHORIZED, None, &format!("the token is not valid: {reason}"), field)
    }

    /// 400 to a caller whose credentials could be read in two ways.
    pub(crate) fn ambiguous(&self, reason: &str) -> Response {
        let field = self.render(&[], Some(&Problem("invalid_request", reason)));
        refusal(Status::BAD_REQUEST, None, reason, field)
    }

    /// 403 to a caller whose token is good but not for this, with everything that is needed: a
    /// client should have to ask its user once.
    pub(crate) fn insufficient(&self, id: Option<&Id>, needed: &[&str]) -> Response {
        let reason = "the token lacks a scope that this needs";
        let field = self.render(needed, Some(&Problem("insufficient_scope", reason)));
        refusal(Status::FORBIDDEN, id, reason, field)
    }

    pub(crate) fn required(&self) -> &[String] {
        &self.required
    }

    fn render(&self, needed: &[&str], problem: Option<&Problem<'_>>) -> String {
        let mut scopes: Vec<&str> = self.required.iter().map(String::as_str).collect();
        for scope in needed {
            if !scopes.contains(scope) {
                scopes.push(scope);
            }
        }
        let mut field = String::from("Bearer");
        if let Some(metadata) = &self.metadata {
            push_parameter(&mut field, "resource_metadata", metadata);
        }
        if !scopes.is_empty() {
            push_parameter(&mut field, "scope", &scopes.join(" "));
        }
        if let Some(Problem(code, reason)) = problem {
            push_parameter(&mut field, "error", code);
            push_parameter(&mut field, "error_description", &description(reason));
        }
        field
    }
}

fn refusal(status: Status, id: Option<&Id>, message: &str, field: String) -> Response {
    let error = ErrorObject::invalid_request(message.to_owned());
    Response::rpc_error(status, id, &error).field("WWW-Authenticate", field)
}

/// Appends `name="value"`, with what cannot stand in a quoted string escaped or replaced (RFC 9110
/// section 5.6.4).
fn push_parameter(field: &mut String, name: &str, value: &str) {
    field.push_str(if field.contains('=') { ", " } else { " " });
    field.push_str(name);
    field.push_str("=\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => field.extend(['\\', c]),
            ' '..='~' => field.push(c),
            _ => field.push('?'),
        }
    }
    field.push('"');
}

/// A reason in the few characters that a description may have (RFC 6750 section 3).
fn description(reason: &str) -> String {
    let plain = |c: char| match c {
        '"' | '\\' => '\'',
        ' '..='~' => c,
        _ => '?',
    };
    reason.chars().take(DESCRIPTION_CHARS_MAX).map(plain).collect()
}

/// Whether the text is one scope (RFC 6749 section 3.3).
pub(crate) fn is_scope(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    !text.is_empty() && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b142_no_text_ends_its_quotes_or_its_line() {
        let mut field = String::from("Bearer");
        push_parameter(&mut field, "a", "x\"y\\z\r\nX-Evil: 1\u{e9}\0");
        push_parameter(&mut field, "b", "");
        assert_eq!(field, "Bearer a=\"x\\\"y\\\\z??X-Evil: 1??\", b=\"\"");
        assert_eq!(description("a \"b\" \\ \u{20ac}\n"), "a 'b' ' ??");
        assert_eq!(description(&"x".repeat(999)).len(), DESCRIPTION_CHARS_MAX);
    }

    #[test]
    fn scopes_are_listed_once_and_all_together() {
        let challenge = Challenge::new("https://a/b".into(), vec!["x".into(), "y".into()]);
        let field = challenge.render(&["y", "z", "z"], None);
        assert_eq!(field, r#"Bearer resource_metadata="https://a/b", scope="x y z""#);
        assert_eq!(Challenge::default().render(&[], None), "Bearer");
        assert_eq!(Challenge::default().render(&["z"], None), r#"Bearer scope="z""#);
    }

    #[test]
    fn a_scope_has_no_space_quote_or_backslash() {
        for good in ["a", "files:read", "https://x/y", "!#[]~"] {
            assert!(is_scope(good), "{good}");
        }
        for bad in ["", "a b", "a\"", "a\\", "\u{e9}", "a\n"] {
            assert!(!is_scope(bad), "{bad:?}");
        }
    }
}
