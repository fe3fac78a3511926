//! Media types: what a caller accepts and what it sends.

use crate::exchange::Accepts;
use crate::http::Request;

/// What the caller's `Accept` fields allow, by media ranges and weights (RFC 9110 section 12.5.1).
/// Without any field, everything.
pub(crate) fn accepts(request: &Request<'_>) -> Accepts {
    match request.sole_field("accept") {
        Ok(None) => Accepts::both(),
        // What nearly every client sends, word for word.
        Ok(Some(b"application/json, text/event-stream")) => Accepts::both(),
        _ => weigh(request),
    }
}

fn weigh(request: &Request<'_>) -> Accepts {
    let mut json = Preference::default();
    let mut stream = Preference::default();
    for value in request.fields_named("accept") {
        for range in std::str::from_utf8(value).unwrap_or("").split(',') {
            json.consider(range, "application", "json");
            stream.consider(range, "text", "event-stream");
        }
    }
    Accepts { json: json.is_accepted(), stream: stream.is_accepted() }
}

/// The most specific range that matches one media type decides about it.
#[derive(Debug, Default)]
struct Preference {
    specificity: u8,
    accepted: bool,
}

impl Preference {
    fn consider(&mut self, range: &str, kind: &str, subtype: &str) {
        let mut parts = range.split(';');
        let name = parts.next().unwrap_or("").trim();
        let Some((range_kind, range_subtype)) = name.split_once('/') else {
            return;
        };
        let specificity = match (range_kind, range_subtype) {
            ("*", "*") => 1,
            (k, "*") if k.eq_ignore_ascii_case(kind) => 2,
            (k, s) if k.eq_ignore_ascii_case(kind) && s.eq_ignore_ascii_case(subtype) => 3,
            _ => return,
        };
        if specificity >= self.specificity {
            self.specificity = specificity;
            self.accepted = !parts.any(is_zero_weight);
        }
    }

    fn is_accepted(&self) -> bool {
        self.specificity > 0 && self.accepted
    }
}

fn is_zero_weight(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return false;
    };
    let zero =
        |value: &str| value.starts_with('0') && value.bytes().all(|b| b == b'0' || b == b'.');
    name.trim().eq_ignore_ascii_case("q") && zero(value.trim())
}

/// Whether a `Content-Type` is JSON in UTF-8.
pub(crate) fn is_json(content_type: &[u8]) -> bool {
    // What nearly every client sends, word for word.
    if content_type == b"application/json" {
        return true;
    }
    let Ok(content_type) = std::str::from_utf8(content_type) else { return false };
    let mut parts = content_type.split(';');
    let essence = parts.next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case("application/json") && parts.all(is_harmless_parameter)
}

fn is_harmless_parameter(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return true;
    };
    let value = value.trim().trim_matches('"');
    !name.trim().eq_ignore_ascii_case("charset") || value.eq_ignore_ascii_case("utf-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Head;
    use crate::limits::HttpLimits;

    fn accepts_of(fields: &str) -> (bool, bool) {
        let text = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        let mut head = Head::default();
        head.parse(text.as_bytes(), &HttpLimits::default()).unwrap();
        let request = Request::new(&head, text.as_bytes(), &[]);
        let accepts = accepts(&request);
        (accepts.json, accepts.stream)
    }

    #[test]
    fn b033_bogus_types_are_not_matched_by_a_part_of_their_name() {
        assert_eq!(
            accepts_of("Accept: application/jsonx, text/event-stream-bogus\r\n"),
            (false, false)
        );
        assert_eq!(accepts_of("Accept: json\r\n"), (false, false));
    }

    #[test]
    fn b034_legal_spellings_are_all_understood() {
        for (fields, expected) in [
            ("", (true, true)),
            ("Accept: */*\r\n", (true, true)),
            ("Accept: application/*, text/*\r\n", (true, true)),
            ("Accept: text/event-stream;q=0.9, application/json\r\n", (true, true)),
            ("ACCEPT: Application/JSON\r\nAccept: text/event-stream\r\n", (true, true)),
            ("Accept: application/json;q=0, text/event-stream\r\n", (false, true)),
            ("Accept: application/json;q=0.0, */*\r\n", (false, true)),
            ("Accept: application/json; q=0.001\r\n", (true, false)),
            ("Accept: text/html\r\n", (false, false)),
        ] {
            assert_eq!(accepts_of(fields), expected, "{fields}");
        }
    }

    #[test]
    fn b005_a_charset_parameter_is_allowed_when_it_is_utf_8() {
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "Application/JSON;charset=\"UTF-8\"",
            "application/json ; charset=utf-8",
            "application/json; profile=x",
        ] {
            assert!(is_json(good.as_bytes()), "{good}");
        }
        for bad in
            ["text/plain", "application/jsonx", "application/json; charset=utf-16", "", "json"]
        {
            assert!(!is_json(bad.as_bytes()), "{bad}");
        }
    }
}
