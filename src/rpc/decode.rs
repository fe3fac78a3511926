//! Bytes to messages, in one pass over the envelope. What the members hold is skipped, checked for
//! syntax and lent out as it stands; nothing is copied but ids and the rare escaped method.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::skim::{Members, Skimmer};
use super::{Body, ErrorObject, Id, Message, Notification, Request, Response, Text};

/// A body that is not a message, or a member of a batch that is not one.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// What to tell the peer.
    pub error: ErrorObject,
    /// The id of the bad message, where one could be read without guessing.
    pub id: Option<Id>,
}

impl Malformed {
    /// A refusal about nobody in particular.
    fn nameless(error: ErrorObject) -> Self {
        Self { error, id: None }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Malformed {}

/// The most messages one batch may hold: each may start a handler, and all answers wait for the
/// last one.
pub const BATCH_MESSAGES_MAX: usize = 100;

/// Reads a whole body: one message, or an array of them.
///
/// `depth_max` bounds how far arrays and objects nest, the envelope included. Skipping a member
/// costs no stack, so this check is what protects whoever reads the parameters recursively later.
pub fn decode(bytes: &[u8], depth_max: usize) -> Result<Body<'_>, Malformed> {
    let text = text_of(bytes)?;
    if is_too_deep(text.as_bytes(), depth_max) {
        return Err(Malformed::nameless(ErrorObject::parse_error(
            "Parse error: nested too deeply",
        )));
    }
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => read::<Envelope<'_>>(text)?.into_message().map(Body::Single),
        Some(b'[') => read::<Array<'_>>(text)?.into_batch(),
        _ => Err(not_a_message(read::<&RawValue>(text)?)),
    }
}

/// A request in the shape that nearly all have.
#[derive(Debug)]
pub(crate) struct Call<'a, P> {
    pub(crate) id: Id,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<Box<P>>,
    /// The message it was read from.
    pub(crate) text: &'a str,
}

/// Reads a body that is one plain request in a single pass, its parameters included.
///
/// None for everything else, be it a notification, a batch or a mistake: [`decode`] is the one that
/// judges, this only saves the usual request a second and third reading.
pub(crate) fn read_call<'a, P>(bytes: &'a [u8], depth_max: usize) -> Option<Call<'a, P>>
where
    P: Members<'a>,
{
    let text = text_of(bytes).ok()?;
    if is_too_deep(text.as_bytes(), depth_max) {
        return None;
    }
    let (mut version, mut id, mut method) = (None::<Text<'a>>, None, None::<Text<'a>>);
    let mut params = None;
    let mut json = Skimmer::new(text);
    json.object(|json, name| match name {
        "jsonrpc" => json.set(&mut version),
        "id" => json.set(&mut id),
        "method" => json.set(&mut method),
        "params" if params.is_none() => {
            // In its place at once, since it is large.
            let params: &mut Box<P> = params.insert(Box::default());
            json.object(|json, name| params.member(name, json))
        }
        // An answer, or a member that came twice.
        "params" | "result" | "error" => None,
        _ => json.skip(),
    })?;
    json.end()?;
    let is_current = version.is_some_and(|version| version.as_str() == "2.0");
    let (Some(id), Some(Text(method)), true) = (id, method, is_current) else {
        return None;
    };
    Some(Call { id, method, params, text })
}

/// The body as text, without the byte order mark some platforms prepend.
fn text_of(bytes: &[u8]) -> Result<&str, Malformed> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes)
        .map_err(|_| Malformed::nameless(ErrorObject::parse_error("Parse error: not UTF-8")))
}

/// Reads one JSON text and nothing after it.
fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Malformed> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!("Parse error: {error}");
        Malformed::nameless(ErrorObject::parse_error(message))
    })
}

/// The refusal of a value that is valid JSON but no object.
fn not_a_message(_value: &RawValue) -> Malformed {
    Malformed::nameless(ErrorObject::invalid_request("Invalid request: a message is an object"))
}

/// Whether arrays and objects nest deeper than `depth_max`.
fn is_too_deep(bytes: &[u8], depth_max: usize) -> bool {
    // Ordinary messages hold fewer openings than may nest, and to count them is quick.
    has_more_openings(bytes, depth_max) && depth_exceeds(bytes, depth_max)
}

/// Whether there are more than `max` opening brackets, be they structure or text.
fn has_more_openings(bytes: &[u8], max: usize) -> bool {
    // The two kinds differ in one bit. Counted in bytes and without a branch, a stride becomes
    // vector instructions.
    let count_in = |stride: &[u8]| stride.iter().map(|byte| u8::from(byte | 0x20 == b'{')).sum();
    let mut count = 0;
    bytes.chunks(OPENINGS_STRIDE).any(|stride| {
        let here: u8 = count_in(stride);
        count += usize::from(here);
        count > max
    })
}

/// How many bytes are looked at in one go; few enough to be counted in a byte.
const OPENINGS_STRIDE: usize = 128;

/// Follows the nesting exactly, skipping over strings.
fn depth_exceeds(bytes: &[u8], depth_max: usize) -> bool {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => at += string_bytes(&bytes[at..]),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
    }
    false
}

/// How many bytes are left of the string `rest` lies in, its closing quote included.
fn string_bytes(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr2(b'"', b'\\', &rest[at..]) {
        let is_quote = rest[at + found] == b'"';
        // A backslash takes the byte behind it along; at the end of the text there may be none.
        at = (at + found + if is_quote { 1 } else { 2 }).min(rest.len());
        if is_quote {
            return at;
        }
    }
    rest.len()
}

/// The members of a message that mean something, as they were written.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// A member that came twice, so that two readers could disagree about the message.
    doubled: Option<Member>,
}

/// A known member, by its exact name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Unknown,
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(MemberVisitor)
    }
}

/// Tells members apart without keeping their names.
struct MemberVisitor;

impl Visitor<'_> for MemberVisitor {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Member, E> {
        Ok(match name {
            "jsonrpc" => Member::Jsonrpc,
            "id" => Member::Id,
            "method" => Member::Method,
            "params" => Member::Params,
            "result" => Member::Result,
            "error" => Member::Error,
            _ => Member::Unknown,
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

/// Collects the known members of one object.
struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(member) = map.next_key()? {
            match envelope.slot(member) {
                Some(slot) => {
                    let seen = slot.replace(map.next_value()?);
                    if seen.is_some() {
                        envelope.note_doubled(member);
                    }
                }
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(envelope)
    }
}

impl<'a> Envelope<'a> {
    /// Where a member is kept.
    fn slot(&mut self, member: Member) -> Option<&mut Option<&'a RawValue>> {
        Some(match member {
            Member::Jsonrpc => &mut self.jsonrpc,
            Member::Id => &mut self.id,
            Member::Method => &mut self.method,
            Member::Params => &mut self.params,
            Member::Result => &mut self.result,
            Member::Error => &mut self.error,
            Member::Unknown => return None,
        })
    }

    /// Remembers a doubled member; a doubled id outweighs the others, as it must not be echoed.
    fn note_doubled(&mut self, member: Member) {
        if self.doubled != Some(Member::Id) {
            self.doubled = Some(member);
        }
    }

    /// Judges the members together.
    fn into_message(self) -> Result<Message<'a>, Malformed> {
        if self.doubled.is_some() {
            return Err(self.refuse("a member appears twice"));
        }
        if !self.jsonrpc.is_some_and(|version| string_is(version, "2.0")) {
            return Err(self.refuse("jsonrpc must be \"2.0\""));
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => self.into_call(method),
            (None, Some(result), None) => self.into_response(Ok(result)),
            (None, None, Some(error)) => self.into_response(Err(error)),
            (None, None, None) => Err(self.refuse("neither a method nor a result nor an error")),
            _ => Err(self.refuse("more than one of method, result and error")),
        }
    }

    /// A request, or a notification if there is no id at all.
    fn into_call(self, method: &'a RawValue) -> Result<Message<'a>, Malformed> {
        let Some(method) = string_of(method) else {
            return Err(self.refuse("the method must be a string"));
        };
        let id = self.readable_id();
        if self.id.is_some() && id.is_none() {
            return Err(self.refuse("the id must be a string or an integer"));
        }
        let params = self.params;
        if params.is_some_and(|params| !is_object(params)) {
            let error = ErrorObject::invalid_params("Invalid params: must be an object");
            return Err(Malformed { error, id });
        }
        Ok(match id {
            Some(id) => Message::Request(Request { id, method, params }),
            None => Message::Notification(Notification { method, params }),
        })
    }

    /// An answer; only an error may lack an id, or have null for one.
    fn into_response(
        self,
        outcome: Result<&'a RawValue, &'a RawValue>,
    ) -> Result<Message<'a>, Malformed> {
        let id = self.readable_id();
        let is_nameless = self.id.is_none_or(|id| id.get() == "null");
        if id.is_none() && !(is_nameless && outcome.is_err()) {
            return Err(self.refuse("a response needs the id of its request"));
        }
        if outcome.is_err_and(|error| !is_object(error)) {
            return Err(self.refuse("an error must be an object"));
        }
        Ok(Message::Response(Response { id, outcome }))
    }

    /// The id, when there is exactly one and it is a string or an integer.
    fn readable_id(&self) -> Option<Id> {
        if self.doubled == Some(Member::Id) {
            return None;
        }
        Id::from_json(self.id?.get())
    }

    /// A refusal of the whole message under its own id.
    fn refuse(&self, reason: &'static str) -> Malformed {
        let error = ErrorObject::invalid_request(format!("Invalid request: {reason}"));
        Malformed { error, id: self.readable_id() }
    }
}

/// The elements of a batch as they were written, and whether there were too many to keep.
struct Array<'a> {
    elements: Vec<&'a RawValue>,
    is_too_long: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Array<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ArrayVisitor)
    }
}

/// Collects a bounded number of elements and checks the syntax of all.
struct ArrayVisitor;

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = Array<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut array = Array { elements: Vec::new(), is_too_long: false };
        while let Some(element) = seq.next_element()? {
            if array.elements.len() < BATCH_MESSAGES_MAX {
                array.elements.push(element);
            } else {
                array.is_too_long = true;
            }
        }
        Ok(array)
    }
}

impl<'a> Array<'a> {
    /// The messages, or one refusal if there are too many.
    fn into_batch(self) -> Result<Body<'a>, Malformed> {
        if self.is_too_long {
            let message = format!("Invalid request: more than {BATCH_MESSAGES_MAX} messages");
            return Err(Malformed::nameless(ErrorObject::invalid_request(message)));
        }
        Ok(Body::Batch(self.elements.into_iter().map(element_of).collect()))
    }
}

/// Reads one element of a batch.
fn element_of(element: &RawValue) -> Result<Message<'_>, Malformed> {
    if !is_object(element) {
        return Err(not_a_message(element));
    }
    read::<Envelope<'_>>(element.get())?.into_message()
}

/// Whether a value is an object; raw values begin with their first significant byte.
fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// Whether a value is this very string.
fn string_is(value: &RawValue, expected: &str) -> bool {
    string_of(value).is_some_and(|text| text == expected)
}

/// The text of a string value, borrowed when nothing in it is escaped.
fn string_of(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|text| text.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};

    /// As deep as a test body may nest.
    const DEPTH_MAX: usize = 8;

    /// The names of all members.
    #[derive(Debug, Default)]
    struct Names<'a>(Vec<&'a str>);

    impl<'a> Members<'a> for Names<'a> {
        fn member(&mut self, name: &'a str, json: &mut Skimmer<'a>) -> Option<()> {
            self.0.push(name);
            json.skip()
        }
    }

    fn single(body: &str) -> Message<'_> {
        match decode(body.as_bytes(), DEPTH_MAX) {
            Ok(Body::Single(message)) => message,
            other => panic!("{body}: {other:?}"),
        }
    }

    fn request(body: &str) -> Request<'_> {
        match single(body) {
            Message::Request(request) => request,
            other => panic!("{body}: {other:?}"),
        }
    }

    fn batch(body: &str) -> Vec<Result<Message<'_>, Malformed>> {
        match decode(body.as_bytes(), DEPTH_MAX) {
            Ok(Body::Batch(messages)) => messages,
            other => panic!("{body}: {other:?}"),
        }
    }

    /// The code and the salvaged id of a refusal.
    fn refusal(body: &[u8]) -> (i64, Option<Id>) {
        let shown = String::from_utf8_lossy(body).into_owned();
        let malformed = decode(body, DEPTH_MAX).expect_err(&shown);
        (malformed.error.code, malformed.id)
    }

    #[test]
    fn the_short_way_reads_what_the_long_way_reads_and_nothing_else() {
        let plain = r#"{"jsonrpc":"2.0","id":7,"x":[{}],"method":"a\u0062","params":{"k":1}}"#;
        let call: Call<'_, Names<'_>> = read_call(plain.as_bytes(), DEPTH_MAX).unwrap();
        let long = request(plain);
        assert_eq!((call.id, &call.method), (long.id, &long.method));
        assert_eq!(call.params.unwrap().0, ["k"]);
        for other in [
            r#"{"jsonrpc":"2.0","method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1.0,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
            r#"{"id":1,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a"} {}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[[[[[[[[[]]]]]]]]]}"#,
        ] {
            let call = read_call::<Names<'_>>(other.as_bytes(), DEPTH_MAX);
            assert!(call.is_none(), "{other}");
        }
    }

    #[test]
    fn b023_ids_keep_their_type_and_value() {
        let cases: [(&str, Id); 10] = [
            (r#""1""#, "1".into()),
            ("1", 1i64.into()),
            ("0", 0i64.into()),
            ("-7", (-7i64).into()),
            (r#""req-abc""#, "req-abc".into()),
            (r#""""#, "".into()),
            (r#""tab\t\u00e9""#, "tab\té".into()),
            ("9007199254740993", 9_007_199_254_740_993i64.into()),
            ("-9223372036854775808", i64::MIN.into()),
            ("18446744073709551615", u64::MAX.into()),
        ];
        for (text, expected) in cases {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"ping"}}"#);
            assert_eq!(request(&body).id, expected, "{text}");
        }
    }

    #[test]
    fn b023_other_ids_are_refused_without_being_echoed() {
        let bad =
            ["null", "1.5", "1.0", "1e3", "true", "{}", "[]", "18446744073709551616", "1E400"];
        for text in bad {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"ping"}}"#);
            assert_eq!(refusal(body.as_bytes()), (INVALID_REQUEST, None), "{text}");
        }
    }

    #[test]
    fn b028_case_variants_are_unknown_members() {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call",
            "ID":2,"PARAMS":[],"params":{"name":"a","Name":"b"}}"#;
        let request = request(body);
        assert_eq!(request.method, "tools/list");
        assert_eq!(request.id, 1i64.into());
        assert_eq!(request.params.unwrap().get(), r#"{"name":"a","Name":"b"}"#);
    }

    #[test]
    fn b028_exact_duplicates_are_refused() {
        for (body, id) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, Some(1i64.into())),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"a"}"#, Some(1i64.into())),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}"#, Some(1i64.into())),
            (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}"#, Some(1i64.into())),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"a"}"#, None),
        ] {
            assert_eq!(refusal(body.as_bytes()), (INVALID_REQUEST, id), "{body}");
        }
    }

    #[test]
    fn b029_numbers_are_lent_out_as_they_are_written() {
        let arguments = r#"{"n":9007199254740993,"m":18446744073709551615,"f":1e400,"z":-0}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{arguments}}}"#);
        assert_eq!(request(&body).params.unwrap().get(), arguments);
    }

    #[test]
    fn b030_a_batch_is_judged_message_by_message() {
        let messages = batch(
            r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}, 1, [],
                {"jsonrpc":"2.0","method":"notifications/initialized"},
                {"jsonrpc":"1.0","id":"x","method":"ping"}] "#,
        );
        let codes: Vec<_> = messages
            .iter()
            .map(|message| message.as_ref().map(|message| message.method().unwrap().to_owned()))
            .map(|message| message.map_err(|bad| (bad.error.code, bad.id.clone())))
            .collect();
        let expected = [
            Ok("ping".to_owned()),
            Err((INVALID_REQUEST, None)),
            Err((INVALID_REQUEST, None)),
            Ok("notifications/initialized".to_owned()),
            Err((INVALID_REQUEST, Some("x".into()))),
        ];
        assert_eq!(codes, expected);
        assert!(batch("[]").is_empty());
    }

    #[test]
    fn b030_a_batch_is_bounded() {
        let array = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert_eq!(batch(&array(BATCH_MESSAGES_MAX)).len(), BATCH_MESSAGES_MAX);
        let too_long = array(BATCH_MESSAGES_MAX + 1);
        assert_eq!(refusal(too_long.as_bytes()), (INVALID_REQUEST, None));
    }

    #[test]
    fn text_that_is_not_one_json_value_is_a_parse_error() {
        let bodies: [&[u8]; 13] = [
            b"",
            b"  ",
            b"not json",
            b"{",
            b"[",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"} x",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}{\"jsonrpc\":\"2.0\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"a\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"params\":{\"a\":tru}}",
            b"[1,]",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":\"\n\"}",
        ];
        for body in bodies {
            assert_eq!(refusal(body), (PARSE_ERROR, None), "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn values_that_are_no_messages_are_invalid_requests() {
        for (body, id) in [
            ("1", None),
            ("\"ping\"", None),
            ("null", None),
            ("{}", None),
            (r#"{"jsonrpc":"2.0"}"#, None),
            (r#"{"jsonrpc":"2.0","id":2}"#, Some(2i64.into())),
            (r#"{"id":2,"method":"ping"}"#, Some(2i64.into())),
            (r#"{"jsonrpc":2.0,"id":2,"method":"ping"}"#, Some(2i64.into())),
            (r#"{"jsonrpc":"2.1","id":2,"method":"ping"}"#, Some(2i64.into())),
            (r#"{"jsonrpc":"2.0","id":2,"method":7}"#, Some(2i64.into())),
            (r#"{"jsonrpc":"2.0","id":2,"method":"\ud800"}"#, Some(2i64.into())),
            (r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{}}"#, Some(2i64.into())),
            (r#"{"jsonrpc":"2.0","id":2,"method":"ping","result":{}}"#, Some(2i64.into())),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"error":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":2,"error":"text"}"#, Some(2i64.into())),
        ] {
            assert_eq!(refusal(body.as_bytes()), (INVALID_REQUEST, id), "{body}");
        }
    }

    #[test]
    fn params_are_an_object_or_absent() {
        for params in ["[]", "1", "null", "\"x\""] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"m","params":{params}}}"#);
            assert_eq!(refusal(body.as_bytes()), (INVALID_PARAMS, Some("a".into())), "{params}");
        }
        assert!(request(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#).params.is_none());
    }

    #[test]
    fn responses_are_told_apart() {
        let Message::Response(response) = single(r#"{"jsonrpc":"2.0","id":"7","result":null}"#)
        else {
            panic!("not a response")
        };
        assert_eq!(response.id, Some("7".into()));
        assert_eq!(response.outcome.unwrap().get(), "null");
        for id in ["", r#""id":null,"#] {
            let body =
                format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"x"}}}}"#);
            let Message::Response(response) = single(&body) else { panic!("not a response") };
            assert_eq!(response.id, None);
            assert!(response.outcome.is_err());
        }
    }

    #[test]
    fn a_byte_order_mark_is_ignored_once() {
        let message = r#"{"jsonrpc":"2.0","method":"m"}"#;
        let marked = format!("\u{feff}{message}");
        assert!(matches!(single(&marked), Message::Notification(_)));
        let twice = format!("\u{feff}\u{feff}{message}");
        assert_eq!(refusal(twice.as_bytes()), (PARSE_ERROR, None));
    }

    #[test]
    fn a_plain_method_is_borrowed() {
        let plain = request(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).method;
        assert!(matches!(plain, Cow::Borrowed("tools/list")));
        let escaped = request(r#"{"jsonrpc":"2.0","id":1,"method":"tools\/list"}"#).method;
        assert_eq!(escaped, "tools/list");
    }

    /// A request whose params nest so that the whole body is `depth` deep.
    fn nested(depth: usize, open: &str, close: &str) -> String {
        let inner = depth - 2;
        let (open, close) = (open.repeat(inner), close.repeat(inner));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{open}1{close}}}}}"#)
    }

    #[test]
    fn nesting_is_bounded() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            request(&nested(DEPTH_MAX, open, close));
            let too_deep = nested(DEPTH_MAX + 1, open, close);
            assert_eq!(refusal(too_deep.as_bytes()), (PARSE_ERROR, None));
        }
        let bomb = "[".repeat(1 << 20);
        assert_eq!(refusal(bomb.as_bytes()), (PARSE_ERROR, None));
    }

    #[test]
    fn width_and_strings_do_not_count_as_depth() {
        let wide = format!("[{}]", vec!["[]"; 1000].join(","));
        let text = r#""[[[[[[[[[[{{{{{{{{{{\"[[[[[[\\""#;
        for value in [wide.as_str(), text] {
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{value}}}}}"#);
            request(&body);
        }
    }

    /// Counts the depth byte by byte, without any of the shortcuts.
    fn naive_depth(text: &str) -> usize {
        let (mut depth, mut deepest) = (0usize, 0);
        let (mut in_string, mut escaped) = (false, false);
        for byte in text.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'[' | b'{' if !in_string => depth += 1,
                b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        deepest
    }

    proptest::proptest! {
        #[test]
        fn the_depth_check_agrees_with_a_naive_one(text in r#"[\[\]{}"\\a]{0,60}"#) {
            for depth_max in [0, 1, 3, 10] {
                proptest::prop_assert_eq!(
                    is_too_deep(text.as_bytes(), depth_max),
                    naive_depth(&text) > depth_max,
                );
            }
        }

        #[test]
        fn decoding_never_panics(bytes in proptest::collection::vec(0u8.., 0..200)) {
            _ = decode(&bytes, DEPTH_MAX);
        }
    }
}
