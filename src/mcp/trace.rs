//! The trace a request belongs to, as its `_meta` tells it in the formats of the W3C. What does not
//! keep to its format is dropped: whoever gets it passed on would have to drop it, too.

use serde_json::value::RawValue;

use super::designation::member;
use super::meta_key;
use crate::limits::TRACE_BYTES_MAX;

/// The trace a request belongs to, and what travels along with it.
///
/// Every part of it is valid and may be passed on as it is, in `_meta` or as HTTP fields of the
/// same names. It is what the caller says: for traces and logs, never for decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: Option<String>,
    tracestate: Option<String>,
    baggage: Option<String>,
}

impl TraceContext {
    /// A context of those parts that are valid, if any is; a state counts only with a parent.
    ///
    /// A parent of a version after 00 is brought into the form of 00, which is what may be passed
    /// on by those who know no other.
    pub fn new(
        traceparent: Option<&str>,
        tracestate: Option<&str>,
        baggage: Option<&str>,
    ) -> Option<Self> {
        let traceparent = traceparent.and_then(valid_traceparent);
        let valid = |text: Option<&str>, is_valid: fn(&str) -> bool| {
            let text = text.filter(|text| !text.is_empty() && text.len() <= TRACE_BYTES_MAX);
            text.filter(|text| is_valid(text)).map(str::to_owned)
        };
        let tracestate = valid(tracestate, is_tracestate).filter(|_| traceparent.is_some());
        let baggage = valid(baggage, is_baggage);
        let is_empty = traceparent.is_none() && baggage.is_none();
        (!is_empty).then_some(Self { traceparent, tracestate, baggage })
    }

    /// The context in the `_meta` of a request.
    pub fn read(meta: &RawValue) -> Option<Self> {
        let text = |name| serde_json::from_str::<String>(member(meta, name)?.get()).ok();
        let traceparent = text(meta_key::TRACEPARENT);
        let tracestate = text(meta_key::TRACESTATE);
        let baggage = text(meta_key::BAGGAGE);
        Self::new(traceparent.as_deref(), tracestate.as_deref(), baggage.as_deref())
    }

    /// The span of the caller, `00-<trace>-<span>-<flags>`.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// What vendors add to the trace.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// What applications add to the trace.
    pub fn baggage(&self) -> Option<&str> {
        self.baggage.as_deref()
    }

    /// Which trace it is, in 32 lower-case hexadecimal digits.
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent().and_then(|parent| parent.get(3..35))
    }

    /// Which span of it the caller's is, in 16 lower-case hexadecimal digits.
    pub fn parent_id(&self) -> Option<&str> {
        self.traceparent().and_then(|parent| parent.get(36..52))
    }

    /// Whether the caller may have recorded its span.
    pub fn is_sampled(&self) -> bool {
        let flags = self.traceparent().and_then(|parent| parent.get(53..55));
        flags
            .and_then(|flags| u8::from_str_radix(flags, 16).ok())
            .is_some_and(|flags| flags & 1 == 1)
    }

    /// All parts with their names, to be passed on.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let parts = [
            (meta_key::TRACEPARENT, self.traceparent()),
            (meta_key::TRACESTATE, self.tracestate()),
            (meta_key::BAGGAGE, self.baggage()),
        ];
        parts.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// How long a parent of version 00 is, and those of later versions at least.
const TRACEPARENT_BYTES: usize = 55;

/// The parent in the form of version 00, if it is valid.
fn valid_traceparent(text: &str) -> Option<String> {
    let known = text.get(..TRACEPARENT_BYTES)?;
    let rest = &text[TRACEPARENT_BYTES..];
    let mut parts = known.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, digits| is_hex(part, digits) && part.bytes().any(|b| b != b'0');
    let is_valid = parts.next().is_none()
        && is_hex(version, 2)
        && version != "ff"
        && is_id(trace, 32)
        && is_id(span, 16)
        && is_hex(flags, 2);
    if !is_valid {
        return None;
    }
    if version == "00" {
        return rest.is_empty().then(|| text.to_owned());
    }
    let is_extended = rest.is_empty() || rest.starts_with('-');
    // Of the flags of later versions only the one that 00 has is known.
    let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1;
    is_extended.then(|| format!("00-{trace}-{span}-{is_sampled:02x}"))
}

/// The most entries a state may have.
const TRACESTATE_ENTRIES_MAX: usize = 32;

/// Whether a text is a list of entries of vendors, each vendor once.
fn is_tracestate(text: &str) -> bool {
    let mut vendors = Vec::new();
    for entry in text.split(',').map(trim).filter(|entry| !entry.is_empty()) {
        let Some((vendor, value)) = entry.split_once('=') else { return false };
        let is_known = vendors.contains(&vendor);
        if is_known || vendors.len() == TRACESTATE_ENTRIES_MAX || !is_vendor(vendor) {
            return false;
        }
        if !is_vendor_value(value) {
            return false;
        }
        vendors.push(vendor);
    }
    !vendors.is_empty()
}

/// Without the blanks that may surround the entries of a list.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Whether a text names a vendor, or a tenant at a vendor.
fn is_vendor(name: &str) -> bool {
    let is_name = |name: &str, len_max: usize, digit_first: bool| {
        let is_first = |b: u8| b.is_ascii_lowercase() || (digit_first && b.is_ascii_digit());
        let is_next = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
        name.len() <= len_max
            && name.bytes().next().is_some_and(is_first)
            && name.bytes().all(is_next)
    };
    match name.split_once('@') {
        Some((tenant, vendor)) => is_name(tenant, 241, true) && is_name(vendor, 14, false),
        None => is_name(name, 256, false),
    }
}

/// Whether a text may stand behind the name of a vendor.
fn is_vendor_value(value: &str) -> bool {
    let is_usual = |b: u8| matches!(b, 0x20..=0x7e) && !matches!(b, b',' | b'=');
    !value.is_empty() && value.len() <= 256 && !value.ends_with(' ') && value.bytes().all(is_usual)
}

/// The most entries of baggage that everybody must be able to pass on.
const BAGGAGE_ENTRIES_MAX: usize = 64;

/// Whether a text is a list of entries `name=value`, each with properties behind it or none.
fn is_baggage(text: &str) -> bool {
    let is_pair = |pair: &str| {
        let pair = pair.split_once('=');
        pair.is_some_and(|(name, value)| is_token(trim(name)) && is_baggage_value(trim(value)))
    };
    let is_property = |property: &str| is_pair(property) || is_token(trim(property));
    let is_entry = |entry: &str| {
        let mut parts = entry.split(';');
        parts.next().is_some_and(is_pair) && parts.all(is_property)
    };
    text.split(',').count() <= BAGGAGE_ENTRIES_MAX && text.split(',').all(is_entry)
}

/// Whether a text is a token as HTTP has them.
fn is_token(text: &str) -> bool {
    let is_usual = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_usual)
}

/// Whether a text may be a value of baggage, which is percent-encoded where need be.
fn is_baggage_value(value: &str) -> bool {
    value.bytes().all(|b| matches!(b, 0x21..=0x7e) && !matches!(b, b'"' | b',' | b';' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    fn read(meta: serde_json::Value) -> Option<TraceContext> {
        TraceContext::read(&RawValue::from_string(meta.to_string()).unwrap())
    }

    #[test]
    fn a_parent_is_taken_apart() {
        let context = read(serde_json::json!({"traceparent": PARENT})).unwrap();
        assert_eq!(context.traceparent(), Some(PARENT));
        assert_eq!(context.trace_id(), Some("0af7651916cd43dd8448eb211c80319c"));
        assert_eq!(context.parent_id(), Some("00f067aa0ba902b7"));
        assert!(context.is_sampled());
        let unsampled = PARENT.replace("-01", "-02");
        assert!(!TraceContext::new(Some(&unsampled), None, None).unwrap().is_sampled());
    }

    #[test]
    fn inv153_an_invalid_parent_is_dropped_and_its_state_with_it() {
        for parent in [
            "",
            "garbage",
            &PARENT.to_uppercase(),
            &format!("{PARENT}-00"),
            &format!("{PARENT} "),
            &format!(" {PARENT}"),
            &PARENT[1..],
            &PARENT[..54],
            &PARENT.replace('-', "_"),
            &PARENT.replacen("00-", "ff-", 1),
            &PARENT.replacen("00-", "0g-", 1),
            &PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &PARENT.replace("-01", "-0x"),
            &PARENT.replace("c-00f", "-c00f"),
            &PARENT.replacen("00-", "01-", 1).replace("-01", "-01x"),
            &format!("{}é", &PARENT[..54]),
        ] {
            let meta = serde_json::json!({"traceparent": parent, "tracestate": "a=1"});
            assert_eq!(read(meta), None, "{parent}");
            let context = TraceContext::new(Some(parent), Some("a=1"), Some("k=v")).unwrap();
            assert_eq!(context.parts().collect::<Vec<_>>(), [("baggage", "k=v")], "{parent}");
        }
        for other in [serde_json::json!(5), serde_json::json!(null), serde_json::json!([PARENT])] {
            assert_eq!(read(serde_json::json!({"traceparent": other})), None);
        }
        assert_eq!(read(serde_json::json!({})), None);
        assert_eq!(read(serde_json::json!([])), None);
    }

    #[test]
    fn a_parent_of_a_later_version_is_passed_on_as_00() {
        let expected = Some(PARENT);
        for later in ["cc", "01"] {
            let plain = PARENT.replacen("00-", &format!("{later}-"), 1);
            for parent in
                [&plain, &format!("{plain}-what-comes-then"), &plain.replace("-01", "-ff")]
            {
                let context = TraceContext::new(Some(parent), None, None).unwrap();
                assert_eq!(context.traceparent(), expected, "{parent}");
            }
        }
    }

    #[test]
    fn states_keep_to_their_format() {
        let many = |count: usize| {
            let entries: Vec<String> = (0..count).map(|number| format!("v{number}=1")).collect();
            entries.join(",")
        };
        let long = "x".repeat(256);
        for (state, is_valid) in [
            ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", true),
            ("a=1, b=2\t,c= 3", true),
            ("a=1,,b=2,", true),
            ("1tenant@vendor=x", true),
            ("a/b*c_d-e=!\"#~", true),
            (&many(32), true),
            (&format!("a={long}"), true),
            (&format!("{long}=1"), true),
            ("", false),
            (",", false),
            ("a", false),
            ("a=", false),
            ("=1", false),
            ("A=1", false),
            ("1a=1", false),
            ("a=1,a=2", false),
            ("a=b=c", false),
            ("a=\u{e9}", false),
            ("a=1\n", false),
            ("a b=1", false),
            ("a =1", false),
            ("t@=1", false),
            ("@v=1", false),
            ("t@v@w=1", false),
            ("t@morethanfourteen=1", false),
            (&many(33), false),
            (&format!("a={long}x"), false),
            (&format!("{long}x=1"), false),
        ] {
            let context = TraceContext::new(Some(PARENT), Some(state), None).unwrap();
            assert_eq!(context.tracestate(), is_valid.then_some(state), "{state}");
        }
        let padded = format!("a=1{}", " ".repeat(TRACE_BYTES_MAX));
        assert_eq!(
            TraceContext::new(Some(PARENT), Some(&padded), None).unwrap().tracestate(),
            None
        );
    }

    #[test]
    fn baggage_keeps_to_its_format() {
        let many = |count: usize| vec!["k=v"; count].join(",");
        for (baggage, is_valid) in [
            ("userId=Am%C3%A9lie,serverNode=DF%2028,isProduction=false", true),
            ("k = v ; p ; q = 1 , l=", true),
            ("k=a=b", true),
            (&many(64), true),
            ("", false),
            ("k", false),
            ("=v", false),
            ("k=v,", false),
            ("k=a b", false),
            ("k=\"v\"", false),
            ("k=a\\b", false),
            ("k=\u{e9}", false),
            ("k=v;", false),
            ("k[]=v", false),
            ("k=v\n", false),
            (&many(65), false),
            (&format!("k={}", "v".repeat(TRACE_BYTES_MAX)), false),
        ] {
            let context = TraceContext::new(None, None, Some(baggage));
            let found = context.as_ref().and_then(TraceContext::baggage);
            assert_eq!(found, is_valid.then_some(baggage), "{baggage}");
        }
    }

    #[test]
    fn a_context_is_passed_on_part_by_part() {
        let meta =
            serde_json::json!({"traceparent": PARENT, "tracestate": "a=1", "baggage": "k=v"});
        let context = read(meta).unwrap();
        let expected = [("traceparent", PARENT), ("tracestate", "a=1"), ("baggage", "k=v")];
        assert_eq!(context.parts().collect::<Vec<_>>(), expected);
    }
}
