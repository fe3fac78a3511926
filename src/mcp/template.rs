//! URI templates as resources use them: literal text with `{name}` placeholders.

/// A parsed template of RFC 6570 level 1 and 2: `{name}` takes one path segment, `{+name}` takes
/// anything.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    /// Takes text without `/`, `?` and `#`.
    Segment(Box<str>),
    /// Takes any text.
    Rest(Box<str>),
}

impl Pattern {
    /// Parses a template.
    pub(crate) fn parse(template: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                parts.push(Part::Literal(rest[..open].into()));
            } else if matches!(parts.last(), Some(Part::Segment(_) | Part::Rest(_))) {
                return Err("two placeholders need literal text between them".into());
            }
            let close = rest.find('}').ok_or("a placeholder is not closed")?;
            if close < open {
                return Err("a placeholder is closed before it is opened".into());
            }
            parts.push(placeholder(&rest[open + 1..close])?);
            rest = &rest[close + 1..];
        }
        if rest.contains('}') {
            return Err("a placeholder is closed before it is opened".into());
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.into()));
        }
        Ok(Self { parts })
    }

    /// The placeholders' values if the URI matches, percent-decoding left to the handler.
    pub(crate) fn matches<'u>(&self, uri: &'u str) -> Option<Vec<(&str, &'u str)>> {
        let mut values = Vec::new();
        let mut rest = uri;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let (name, whole) = match part {
                Part::Literal(text) => {
                    rest = rest.strip_prefix(&**text)?;
                    continue;
                }
                Part::Segment(name) => (name, false),
                Part::Rest(name) => (name, true),
            };
            let end = match parts.peek() {
                Some(Part::Literal(text)) => rest.find(&**text)?,
                _ => rest.len(),
            };
            let value = &rest[..end];
            if value.is_empty() || (!whole && value.contains(['/', '?', '#'])) {
                return None;
            }
            values.push((&**name, value));
            rest = &rest[end..];
        }
        rest.is_empty().then_some(values)
    }
}

fn placeholder(text: &str) -> Result<Part, String> {
    let (name, whole) = text.strip_prefix('+').map_or((text, false), |name| (name, true));
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(format!("{{{text}}} is not a placeholder this server can match"));
    }
    Ok(if whole { Part::Rest(name.into()) } else { Part::Segment(name.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_match_their_template() {
        type Row = (&'static str, &'static str, Option<&'static [(&'static str, &'static str)]>);
        let table: &[Row] = &[
            ("test://template/{id}/data", "test://template/123/data", Some(&[("id", "123")])),
            ("test://template/{id}/data", "test://template/1/2/data", None),
            ("test://template/{id}/data", "test://template//data", None),
            ("test://template/{id}/data", "test://template/123/data2", None),
            ("file:///{+path}", "file:///a/b.txt", Some(&[("path", "a/b.txt")])),
            ("x://{a}/{b}", "x://1/2", Some(&[("a", "1"), ("b", "2")])),
            ("x://plain", "x://plain", Some(&[])),
        ];
        for (template, uri, expected) in table {
            let pattern = Pattern::parse(template).unwrap();
            assert_eq!(pattern.matches(uri).as_deref(), *expected, "{template} on {uri}");
        }
    }

    #[test]
    fn what_is_not_a_template_is_refused() {
        for bad in ["x://{", "x://}", "x://{}", "x://{a}{b}", "x://{a b}", "x://}a{"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
