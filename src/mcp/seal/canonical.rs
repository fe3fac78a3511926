//! One text for all texts that say the same JSON: members in the order of their names, strings with
//! no more escapes than they need, no blanks. Numbers stay as they are written, to the digit.

use crate::rpc::json::write_str;

/// The canonical form of an object, without those of its own members that are named in `except`.
///
/// Of members of one name the last one counts. The text must be valid JSON, which its reader has
/// seen to; of one that is not, something comes out, but nothing in particular. No stack is needed
/// for nested values, so that their depth does not matter.
pub(super) fn text(json: &str, except: &[&str]) -> Vec<u8> {
    let mut writer = Writer { out: Vec::with_capacity(json.len()), open: Vec::new(), except };
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'"' => at + string_length(&bytes[at..]),
            b' ' | b'\t' | b'\n' | b'\r' | b'{' | b'}' | b'[' | b']' | b',' | b':' => at + 1,
            _ => at + scalar_length(&bytes[at..]),
        };
        writer.token(&json[at..end]);
        at = end;
    }
    writer.out
}

/// How long the string at the beginning is, quotes included.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// How long the number or the word at the beginning is.
fn scalar_length(bytes: &[u8]) -> usize {
    let is_end = |byte: &u8| b" \t\n\r{}[],:\"".contains(byte);
    bytes.iter().position(is_end).unwrap_or(bytes.len())
}

/// Writes token by token, and puts the members of an object in order when it ends.
struct Writer<'a> {
    out: Vec<u8>,
    /// The arrays and objects that have not ended yet.
    open: Vec<Open>,
    except: &'a [&'a str],
}

/// An array or an object that has not ended yet.
enum Open {
    Array,
    Object {
        members: Vec<Member>,
        /// Where the member begins that is being written, and where its name ends.
        start: usize,
        colon: usize,
    },
}

/// Where a member is written: its name from `start` to `colon`, all of it up to `end`.
#[derive(Clone, Copy)]
struct Member {
    start: usize,
    colon: usize,
    end: usize,
}

impl Writer<'_> {
    fn token(&mut self, token: &str) {
        match token.as_bytes()[0] {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' => self.string(token),
            b'{' => {
                self.out.push(b'{');
                let start = self.out.len();
                self.open.push(Open::Object { members: Vec::new(), start, colon: start });
            }
            b'[' => {
                self.out.push(b'[');
                self.open.push(Open::Array);
            }
            b']' => {
                self.out.push(b']');
                self.open.pop();
            }
            b'}' => self.end_object(),
            b',' => self.comma(),
            b':' => {
                if let Some(Open::Object { colon, .. }) = self.open.last_mut() {
                    *colon = self.out.len();
                }
                self.out.push(b':');
            }
            _ => self.out.extend_from_slice(token.as_bytes()),
        }
    }

    fn string(&mut self, token: &str) {
        match serde_json::from_str::<String>(token) {
            Ok(text) if token.contains('\\') => write_str(&mut self.out, &text),
            _ => self.out.extend_from_slice(token.as_bytes()),
        }
    }

    fn comma(&mut self) {
        let end = self.out.len();
        self.out.push(b',');
        if let Some(Open::Object { members, start, colon }) = self.open.last_mut() {
            members.push(Member { start: *start, colon: *colon, end });
            (*start, *colon) = (end + 1, end + 1);
        }
    }

    fn end_object(&mut self) {
        let Some(Open::Object { mut members, start, colon }) = self.open.pop() else { return };
        if colon > start {
            members.push(Member { start, colon, end: self.out.len() });
        }
        let except = if self.open.is_empty() { self.except } else { &[] };
        let is_in_order = members.is_sorted_by(|a, b| self.name(a) < self.name(b));
        if !is_in_order || !except.is_empty() {
            self.put_in_order(members, except);
        }
        self.out.push(b'}');
    }

    /// Writes the members of an object again, in order, each once, and some not at all.
    fn put_in_order(&mut self, mut members: Vec<Member>, except: &[&str]) {
        members.sort_by(|a, b| self.name(a).cmp(self.name(b)));
        let begin = members.iter().map(|member| member.start).min().unwrap_or(self.out.len());
        let mut ordered = Vec::with_capacity(self.out.len() - begin);
        for (number, member) in members.iter().enumerate() {
            let name = self.name(member);
            let is_replaced = members.get(number + 1).is_some_and(|next| self.name(next) == name);
            if is_replaced || except.iter().any(|left_out| is_quoted(name, left_out)) {
                continue;
            }
            if !ordered.is_empty() {
                ordered.push(b',');
            }
            ordered.extend_from_slice(&self.out[member.start..member.end]);
        }
        self.out.truncate(begin);
        self.out.append(&mut ordered);
    }

    /// The name of a member, quotes included.
    fn name(&self, member: &Member) -> &[u8] {
        &self.out[member.start..member.colon]
    }
}

/// Whether `name`, which comes in quotes, is `plain`, which needs no escapes.
fn is_quoted(name: &[u8], plain: &str) -> bool {
    let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\""));
    name == Some(plain.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn canonical(json: &str) -> String {
        String::from_utf8(text(json, &["x"])).unwrap()
    }

    #[test]
    fn the_same_json_is_the_same_text() {
        for (json, expected) in [
            ("{}", "{}"),
            (" { } ", "{}"),
            (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"\u0061":1,"a":2,"b":3}"#, r#"{"a":2,"b":3}"#),
            (
                r#"{"a":{"z":[ 1 , {"d":0,"c":null} ],"y":""}}"#,
                r#"{"a":{"y":"","z":[1,{"c":null,"d":0}]}}"#,
            ),
            (r#"{"k":"\u00e9\/\u0001\n\"\\"}"#, r#"{"k":"é/\u0001\n\"\\"}"#),
            (r#"{"k":"{,:}[]"}"#, r#"{"k":"{,:}[]"}"#),
            ("[ ]", "[]"),
            ("[[],{},[1,2],-1.50e+3,true]", "[[],{},[1,2],-1.50e+3,true]"),
        ] {
            assert_eq!(canonical(json), expected, "{json}");
        }
    }

    #[test]
    fn outer_members_are_left_out_and_inner_ones_are_not() {
        assert_eq!(canonical(r#"{"x":{"y":1},"a":{"x":1}}"#), r#"{"a":{"x":1}}"#);
        assert_eq!(canonical(r#"{"x":1}"#), "{}");
        assert_eq!(canonical(r#"{"\u0078":1,"x":2,"y":3}"#), r#"{"y":3}"#);
    }

    #[test]
    fn numbers_differ_to_the_last_digit() {
        assert_ne!(canonical("[18446744073709551617]"), canonical("[18446744073709551618]"));
    }

    #[test]
    fn depth_does_not_matter() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(canonical(&deep), deep);
        let deep = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
        assert_eq!(canonical(&deep), deep);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-f\\\\\"\u{1}]{0,3}", inner, 0..5)
                    .prop_map(Value::from_iter),
            ]
        })
    }

    /// The value with the members of every object backwards.
    fn backwards(value: &Value) -> String {
        match value {
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(backwards).collect();
                format!("[ {} ]", items.join(" , "))
            }
            Value::Object(members) => {
                let member = |(name, value)| format!("{}:{}", Value::from(name), backwards(value));
                let members: Vec<String> =
                    members.iter().rev().map(|(name, value)| member((&**name, value))).collect();
                format!("{{{}}}", members.join(","))
            }
            scalar => scalar.to_string(),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_says_what_was_read(value in values()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let written = String::from_utf8(text(&pretty, &[])).unwrap();
            prop_assert_eq!(text(&written, &[]), written.as_bytes());
            prop_assert_eq!(text(&backwards(&value), &[]), written.as_bytes());
            prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
        }
    }
}
