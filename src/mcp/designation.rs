//! Arguments that travel twice: a tool's input schema may designate some, by `x-mcp-header`, to be
//! repeated outside the body. Here the designations are read and judged, the repeated values
//! written and compared. What carries them is no concern of this module: it knows suffixes and
//! values.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::rpc::Text;

/// The keyword that designates a property.
const KEYWORD: &str = "x-mcp-header";

/// What a designated argument must be, by its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Any text.
    String,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
}

/// One designated argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Designation {
    path: Vec<String>,
    suffix: String,
    kind: ArgumentKind,
}

impl Designation {
    /// The property names that lead to the argument.
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// Under which suffix the argument is repeated, as the schema spells it.
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// What the argument must be.
    pub fn kind(&self) -> ArgumentKind {
        self.kind
    }

    /// The argument among all arguments of a call.
    pub fn find<'a>(&self, arguments: &'a RawValue) -> Option<&'a RawValue> {
        lookup(arguments, &self.path)
    }
}

/// All designated arguments of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Designations(Vec<Designation>);

impl Designations {
    /// Reads the designations of an input schema.
    ///
    /// One that breaks a rule spoils them all, and the tool with them; the reason is for the log.
    pub fn read(input_schema: &RawValue) -> Result<Self, String> {
        let schema: Value =
            serde_json::from_str(input_schema.get()).map_err(|error| error.to_string())?;
        let mut reader = Reader::default();
        reader.schema(&schema, Reach::Properties)?;
        Ok(Self(reader.found))
    }

    /// The designations, in the order of the schema's property names.
    pub fn iter(&self) -> std::slice::Iter<'_, Designation> {
        self.0.iter()
    }

    /// Whether nothing is designated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The suffixes under which arguments are repeated.
    pub fn suffixes(&self) -> impl Iterator<Item = &str> {
        self.iter().map(Designation::suffix)
    }
}

impl<'a> IntoIterator for &'a Designations {
    type Item = &'a Designation;
    type IntoIter = std::slice::Iter<'a, Designation>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// How a piece of a schema is reached from its root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// By naming properties only, so that the argument is in one known place.
    Properties,
    /// In some other way, by which the argument may be anywhere or nowhere.
    Otherwise,
}

/// Walks a schema and collects designations.
#[derive(Default)]
struct Reader {
    path: Vec<String>,
    found: Vec<Designation>,
}

impl Reader {
    /// Reads one schema, which may be a boolean.
    fn schema(&mut self, schema: &Value, reach: Reach) -> Result<(), String> {
        match schema {
            Value::Object(keywords) => self.keywords(keywords, reach),
            Value::Array(schemas) => {
                schemas.iter().try_for_each(|schema| self.schema(schema, Reach::Otherwise))
            }
            _ => Ok(()),
        }
    }

    /// Reads the keywords of one schema.
    fn keywords(&mut self, keywords: &Map<String, Value>, reach: Reach) -> Result<(), String> {
        if let Some(suffix) = keywords.get(KEYWORD) {
            self.designation(suffix, keywords, reach)?;
        }
        for (keyword, value) in keywords {
            match keyword.as_str() {
                KEYWORD | "default" | "const" | "enum" | "examples" => {}
                "properties" => self.named(value, reach)?,
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                    self.named(value, Reach::Otherwise)?;
                }
                _ => self.schema(value, Reach::Otherwise)?,
            }
        }
        Ok(())
    }

    /// Reads schemas kept by name, where even a designation's keyword would be just a name.
    fn named(&mut self, schemas: &Value, reach: Reach) -> Result<(), String> {
        let Value::Object(schemas) = schemas else {
            return Ok(());
        };
        for (name, schema) in schemas {
            self.path.push(name.clone());
            self.schema(schema, reach)?;
            self.path.pop();
        }
        Ok(())
    }

    /// Judges one designation.
    fn designation(
        &mut self,
        suffix: &Value,
        keywords: &Map<String, Value>,
        reach: Reach,
    ) -> Result<(), String> {
        let place = self.path.join("/");
        let suffix = suffix.as_str().filter(|suffix| is_token(suffix));
        let suffix = suffix.ok_or_else(|| format!("{KEYWORD} of {place:?} is not a token"))?;
        if reach == Reach::Otherwise || self.path.is_empty() || keywords.contains_key("$ref") {
            return Err(format!("{KEYWORD} {suffix:?} is not on a property of a fixed place"));
        }
        let kind = kind_of(keywords.get("type")).ok_or_else(|| {
            format!("{KEYWORD} {suffix:?} is not on a string, an integer or a boolean")
        })?;
        if self.found.iter().any(|found| found.suffix.eq_ignore_ascii_case(suffix)) {
            return Err(format!("{KEYWORD} {suffix:?} appears twice"));
        }
        self.found.push(Designation { path: self.path.clone(), suffix: suffix.to_owned(), kind });
        Ok(())
    }
}

/// The kind a schema's type allows, if it allows exactly one that can be repeated.
fn kind_of(schema_type: Option<&Value>) -> Option<ArgumentKind> {
    match schema_type?.as_str()? {
        "string" => Some(ArgumentKind::String),
        "integer" => Some(ArgumentKind::Integer),
        "boolean" => Some(ArgumentKind::Boolean),
        _ => None,
    }
}

/// Whether a text is a token of RFC 9110.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// What a wrapped value begins with; the spelling counts.
const SENTINEL_OPEN: &str = "=?base64?";
/// What a wrapped value ends with.
const SENTINEL_CLOSE: &str = "?=";

/// Writes a value such that it survives as a field: plain where it can be, wrapped otherwise.
pub fn encode_value(value: &str) -> Cow<'_, str> {
    if is_plain(value) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{SENTINEL_OPEN}{}{SENTINEL_CLOSE}", STANDARD.encode(value)))
}

/// Whether a value comes through unchanged and is not taken for a wrapped one.
fn is_plain(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_edge_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    bytes.iter().all(|byte| is_field_byte(*byte))
        && !is_edge_blank(bytes.first())
        && !is_edge_blank(bytes.last())
        && !wears_sentinel(bytes)
}

/// Whether a byte may stand in a field's value.
fn is_field_byte(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t')
}

/// Whether a value looks wrapped; the two marks may share a byte, as other readers look for each.
fn wears_sentinel(value: &[u8]) -> bool {
    value.starts_with(SENTINEL_OPEN.as_bytes()) && value.ends_with(SENTINEL_CLOSE.as_bytes())
}

/// A repeated value that cannot be read: wrapped wrongly, or with bytes that needed wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSentinel;

impl fmt::Display for BadSentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value is not encoded as it should be")
    }
}

impl std::error::Error for BadSentinel {}

/// Reads a repeated value, unwrapping it once.
pub fn decode_value(value: &[u8]) -> Result<Cow<'_, str>, BadSentinel> {
    if !wears_sentinel(value) {
        let is_fit = value.iter().all(|byte| is_field_byte(*byte));
        let text = std::str::from_utf8(value).ok().filter(|_| is_fit);
        return text.map(Cow::Borrowed).ok_or(BadSentinel);
    }
    let ends = SENTINEL_OPEN.len()..value.len() - SENTINEL_CLOSE.len();
    // Wrapping nothing is not canonical: the empty text travels as it is.
    let wrapped = value.get(ends).filter(|wrapped| !wrapped.is_empty()).ok_or(BadSentinel)?;
    let bytes = STANDARD.decode(wrapped).map_err(|_| BadSentinel)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadSentinel)
}

/// How an argument and its repetition disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The argument is there, its repetition is not.
    Missing,
    /// The repetition is there, the argument is not.
    Unexpected,
    /// The repetition cannot be read.
    Malformed,
    /// The two say different things.
    Differs,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::Unexpected => "repeats an argument that is absent",
            Self::Malformed => "is not encoded as it should be",
            Self::Differs => "differs from the argument",
        })
    }
}

impl std::error::Error for Mismatch {}

/// Compares an argument with its repetition; null is as good as absent.
///
/// What counts is the argument as it is, not as its schema wants it: whether it fits the schema is
/// another question with another answer. Only of an integer the value counts and not the spelling.
pub fn matches(
    kind: ArgumentKind,
    argument: Option<&RawValue>,
    repeated: Option<&[u8]>,
) -> Result<(), Mismatch> {
    let argument = argument.map(RawValue::get).filter(|argument| *argument != "null");
    let (argument, repeated) = match (argument, repeated) {
        (None, None) => return Ok(()),
        (Some(_), None) => return Err(Mismatch::Missing),
        (None, Some(_)) => return Err(Mismatch::Unexpected),
        (Some(argument), Some(repeated)) => (argument, repeated),
    };
    let repeated = decode_value(repeated).map_err(|BadSentinel| Mismatch::Malformed)?;
    if says(kind, argument, &repeated) { Ok(()) } else { Err(Mismatch::Differs) }
}

/// Whether a repeated text says the same as a JSON value.
fn says(kind: ArgumentKind, argument: &str, repeated: &str) -> bool {
    match argument.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<Text<'_>>(argument)
            .is_ok_and(|argument| argument.as_str() == repeated),
        Some(b'-' | b'0'..=b'9') if kind == ArgumentKind::Integer => {
            let value = Decimal::read(argument);
            value.is_some() && value == Decimal::read(repeated)
        }
        Some(b'[' | b'{') => false,
        _ => argument == repeated,
    }
}

/// The exact value of a JSON number, whatever its size: digits without outer zeros, scaled by a
/// power of ten. Equal values have equal parts, so that `42`, `42.0` and `4.2e1` agree and nothing
/// rounds.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a number as JSON spells it.
    fn read(text: &str) -> Option<Self> {
        if !is_number(text) {
            return None;
        }
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().ok()?;
        let is_negative = mantissa.starts_with('-');
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
        let significant = digits.trim_end_matches('0');
        let dropped = digits.len() - significant.len();
        let digits = significant.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { is_negative: false, digits, exponent: 0 });
        }
        let shift = i64::try_from(dropped).ok()? - i64::try_from(fraction.len()).ok()?;
        Some(Self { is_negative, digits, exponent: exponent.checked_add(shift)? })
    }

    /// The value, when it is a whole number every peer can hold exactly.
    fn safe_integer(&self) -> Option<i64> {
        // Sixteen digits are enough for every safe integer, zeros put back included.
        let zeros = usize::try_from(self.exponent).ok().filter(|zeros| *zeros <= 16)?;
        let sign = if self.is_negative { "-" } else { "" };
        let digits = if self.digits.is_empty() { "0" } else { &self.digits };
        let value: i64 = format!("{sign}{digits}{}", "0".repeat(zeros)).parse().ok()?;
        (value.unsigned_abs() <= SAFE_INTEGER_MAX).then_some(value)
    }
}

/// The largest integer a double holds together with all smaller ones.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Whether a text is a JSON number and nothing else.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && text.ends_with(|last: char| last.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// An argument that has no form outside the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsendable;

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only texts, booleans and integers up to 2^53-1 can be repeated")
    }
}

impl std::error::Error for Unsendable {}

/// The text that repeats an argument; none for null.
pub fn repetition_of(argument: &RawValue) -> Result<Option<String>, Unsendable> {
    let text = argument.get();
    match text.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b't' | b'f') => Ok(Some(text.to_owned())),
        Some(b'"') => {
            let text: Text<'_> = serde_json::from_str(text).map_err(|_| Unsendable)?;
            Ok(Some(encode_value(text.as_str()).into_owned()))
        }
        _ => {
            let integer = Decimal::read(text).and_then(|number| number.safe_integer());
            integer.map(|integer| Some(integer.to_string())).ok_or(Unsendable)
        }
    }
}

/// The value a path of member names leads to, borrowed from the text of the whole.
///
/// Of a member that appears twice the last one counts, as it does for those who parse it all.
pub fn lookup<'a>(arguments: &'a RawValue, path: &[String]) -> Option<&'a RawValue> {
    path.iter().try_fold(arguments, |value, name| member(value, name))
}

/// One member of an object, borrowed from its text.
pub fn member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    let mut deserializer = serde_json::Deserializer::from_str(object.get());
    deserializer.deserialize_map(MemberSeeker(name)).ok().flatten()
}

/// Finds the last member of one name.
struct MemberSeeker<'n>(&'n str);

impl<'de> Visitor<'de> for MemberSeeker<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_wanted) = map.next_key_seed(NameMatcher(self.0))? {
            if is_wanted {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Compares a member's name without keeping it.
struct NameMatcher<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for NameMatcher<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for NameMatcher<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn read(properties: Value) -> Result<Designations, String> {
        let schema = json!({"type": "object", "properties": properties});
        Designations::read(&to_raw_value(&schema).unwrap())
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn b126_designations_of_a_good_tool_are_found() {
        let found = read(json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {
                "n": {"type": "integer", "x-mcp-header": "N"},
                "x-mcp-header": {"type": "boolean", "x-mcp-header": "Flag!"},
            }},
            "plain": {"type": "number", "default": {"x-mcp-header": ""}},
        }))
        .unwrap();
        let found: Vec<_> =
            found.iter().map(|it| (it.path().join("."), it.suffix(), it.kind())).collect();
        let expected = [
            ("deep.n".to_owned(), "N", ArgumentKind::Integer),
            ("deep.x-mcp-header".to_owned(), "Flag!", ArgumentKind::Boolean),
            ("region".to_owned(), "Region", ArgumentKind::String),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn b126_one_bad_designation_spoils_its_tool() {
        let good = || json!({"type": "string", "x-mcp-header": "X"});
        let cases = [
            ("an empty name", json!({"a": {"type": "string", "x-mcp-header": ""}})),
            ("a space", json!({"a": {"type": "string", "x-mcp-header": "A B"}})),
            ("a line break", json!({"a": {"type": "string", "x-mcp-header": "Re\r\ngion"}})),
            ("a colon", json!({"a": {"type": "string", "x-mcp-header": "A:"}})),
            ("no text", json!({"a": {"type": "string", "x-mcp-header": true}})),
            ("twice", json!({"a": good(), "b": {"type": "string", "x-mcp-header": "x"}})),
            ("a number", json!({"a": {"type": "number", "x-mcp-header": "X"}})),
            ("a union", json!({"a": {"type": ["string"], "x-mcp-header": "X"}})),
            ("no type", json!({"a": {"x-mcp-header": "X"}})),
            ("an object", json!({"a": {"type": "object", "x-mcp-header": "X"}})),
            ("items", json!({"a": {"type": "array", "items": good()}})),
            ("prefixItems", json!({"a": {"prefixItems": [good()]}})),
            ("oneOf", json!({"a": {"oneOf": [good()]}})),
            ("anyOf", json!({"a": {"anyOf": [{"properties": {"b": good()}}]}})),
            ("allOf", json!({"a": {"allOf": [good()]}})),
            ("not", json!({"a": {"not": good()}})),
            ("if", json!({"a": {"if": good()}})),
            ("then", json!({"a": {"then": {"properties": {"b": good()}}}})),
            ("additionalProperties", json!({"a": {"additionalProperties": good()}})),
            ("patternProperties", json!({"a": {"patternProperties": {"b": good()}}})),
            ("$defs", json!({"a": {"$defs": {"b": good()}}})),
            ("$ref", json!({"a": {"type": "string", "x-mcp-header": "X", "$ref": "#/$defs/b"}})),
        ];
        for (why, properties) in cases {
            assert!(read(properties).is_err(), "{why}");
        }
        let root = raw(r#"{"type":"string","x-mcp-header":"X"}"#);
        assert!(Designations::read(&root).is_err());
    }

    #[test]
    fn b126_schemas_without_designations_are_fine() {
        for text in [r#"{"type":"object"}"#, "true", r#"{"properties":[]}"#] {
            assert_eq!(Designations::read(&raw(text)).unwrap(), Designations::default(), "{text}");
        }
    }

    #[test]
    fn b127_values_are_wrapped_only_where_they_must_be() {
        for (argument, expected) in [
            (r#""Hello, 世界""#, Ok(Some("=?base64?SGVsbG8sIOS4lueVjA==?="))),
            (r#"" padded ""#, Ok(Some("=?base64?IHBhZGRlZCA=?="))),
            (r#""a\nb""#, Ok(Some("=?base64?YQpi?="))),
            (r#""a\tb""#, Ok(Some("a\tb"))),
            (r#""\tb""#, Ok(Some("=?base64?CWI=?="))),
            (r#""in between""#, Ok(Some("in between"))),
            (r#""""#, Ok(Some(""))),
            ("true", Ok(Some("true"))),
            ("-7", Ok(Some("-7"))),
            ("42.0", Ok(Some("42"))),
            ("4.2e1", Ok(Some("42"))),
            ("-0", Ok(Some("0"))),
            ("9007199254740991", Ok(Some("9007199254740991"))),
            ("null", Ok(None)),
            ("9007199254740992", Err(Unsendable)),
            ("1e400", Err(Unsendable)),
            ("1.5", Err(Unsendable)),
            ("[]", Err(Unsendable)),
            ("{}", Err(Unsendable)),
        ] {
            let expected = expected.map(|text| text.map(str::to_owned));
            assert_eq!(repetition_of(&raw(argument)), expected, "{argument}");
        }
    }

    #[test]
    fn b055_a_value_that_looks_wrapped_is_wrapped_and_unwrapped_once() {
        let name = "=?base64?dGVzdA==?=";
        let wrapped = encode_value(name);
        assert_eq!(wrapped, "=?base64?PT9iYXNlNjQ/ZEdWemRBPT0/PQ==?=");
        assert_eq!(decode_value(wrapped.as_bytes()).unwrap(), name);
    }

    #[test]
    fn b054_values_are_unwrapped_strictly() {
        for (value, expected) in [
            ("plain", Ok("plain")),
            ("", Ok("")),
            ("=?base64?ZmlsZTovLy/OtC50eHQ=?=", Ok("file:///δ.txt")),
            ("=?base64?SGVsbG8=", Ok("=?base64?SGVsbG8=")),
            ("=?BASE64?eA==?=", Ok("=?BASE64?eA==?=")),
            ("=?base64?***?=", Err(BadSentinel)),
            ("=?base64?SGVsbG8?=", Err(BadSentinel)),
            ("=?base64?SGVs!!!bG8=?=", Err(BadSentinel)),
            ("=?base64?eB==?=", Err(BadSentinel)),
            ("=?base64?eA==\t?=", Err(BadSentinel)),
            ("=?base64??=", Err(BadSentinel)),
            ("=?base64?=", Err(BadSentinel)),
            ("=?base64?/w==?=", Err(BadSentinel)),
            ("δ", Err(BadSentinel)),
            ("a\0", Err(BadSentinel)),
        ] {
            let decoded = decode_value(value.as_bytes());
            assert_eq!(decoded.as_deref(), expected.as_ref().copied(), "{value}");
        }
    }

    #[test]
    fn b056_arguments_and_repetitions_are_compared() {
        use ArgumentKind::{Boolean, Integer, String};
        use Mismatch::{Differs, Malformed, Missing, Unexpected};
        for (kind, argument, repeated, expected) in [
            (String, Some(r#""us-west1""#), Some("us-west1"), Ok(())),
            (String, Some(r#""us\u002dwest1""#), Some("us-west1"), Ok(())),
            (String, Some(r#""us-west1""#), None, Err(Missing)),
            (String, Some(r#""us-west1""#), Some("eu"), Err(Differs)),
            (String, Some(r#""us-west1""#), Some("US-WEST1"), Err(Differs)),
            (String, Some(r#""Hello""#), Some("=?base64?SGVsbG8=?="), Ok(())),
            (String, Some(r#""=?base64?SGVsbG8=""#), Some("=?base64?SGVsbG8="), Ok(())),
            (String, Some(r#""Hello""#), Some("=?base64?SGVsbG8?="), Err(Malformed)),
            (String, Some(r#""""#), Some(""), Ok(())),
            (String, Some("42"), Some("42.0"), Err(Differs)),
            (String, None, None, Ok(())),
            (String, Some("null"), None, Ok(())),
            (String, Some("null"), Some("null"), Err(Unexpected)),
            (String, None, Some(""), Err(Unexpected)),
            (Integer, Some("42"), Some("42"), Ok(())),
            (Integer, Some("42"), Some("42.0"), Ok(())),
            (Integer, Some("42.0"), Some("42"), Ok(())),
            (Integer, Some("42"), Some("+42"), Err(Differs)),
            (Integer, Some("42"), Some("042"), Err(Differs)),
            (Integer, Some("42"), Some("42 "), Err(Differs)),
            (Integer, Some("42"), Some("NaN"), Err(Differs)),
            (Integer, Some("0"), Some("-0"), Ok(())),
            (Integer, Some("100"), Some("1e2"), Ok(())),
            (Integer, Some("9007199254740993"), Some("9007199254740993"), Ok(())),
            (Integer, Some("9007199254740993"), Some("9007199254740992"), Err(Differs)),
            (Integer, Some("18446744073709551617"), Some("18446744073709551616"), Err(Differs)),
            (Integer, Some("1e999999999999999999"), Some("1e999999999999999999"), Ok(())),
            (Integer, Some("1e9999999999999999999"), Some("1"), Err(Differs)),
            (Integer, Some(r#""42""#), Some("42"), Ok(())),
            (Integer, Some("[42]"), Some("[42]"), Err(Differs)),
            (Boolean, Some("true"), Some("true"), Ok(())),
            (Boolean, Some("true"), Some("True"), Err(Differs)),
            (Boolean, Some("false"), Some("true"), Err(Differs)),
        ] {
            let raw = argument.map(raw);
            let found = matches(kind, raw.as_deref(), repeated.map(str::as_bytes));
            assert_eq!(found, expected, "{argument:?} {repeated:?}");
        }
    }

    #[test]
    fn arguments_are_found_without_parsing_the_rest() {
        let arguments = raw(r#"{"a":{"b":1,"\u0062":{"c":[2]}},"x":{"a":9},"s":"a"}"#);
        let find = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
            lookup(&arguments, &path).map(|found| found.get().to_owned())
        };
        assert_eq!(find(&["a", "b", "c"]).as_deref(), Some("[2]"));
        assert_eq!(find(&["x", "a"]).as_deref(), Some("9"));
        for absent in [&["b"][..], &["a", "c"], &["s", "a"], &["x", "a", "b"]] {
            assert_eq!(find(absent), None, "{absent:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_text_survives_its_repetition(text in ".{0,20}") {
            let encoded = encode_value(&text);
            proptest::prop_assert!(encoded.bytes().all(is_field_byte));
            proptest::prop_assert_eq!(encoded.trim(), &*encoded);
            proptest::prop_assert_eq!(decode_value(encoded.as_bytes()).unwrap(), &text[..]);
        }

        #[test]
        fn equal_integers_have_equal_decimals(number: i64, zeros in 0usize..5) {
            let plain = Decimal::read(&number.to_string());
            let fraction = format!("{number}.{}", "0".repeat(zeros + 1));
            let scaled = format!("{number}{}e-{zeros}", "0".repeat(zeros));
            proptest::prop_assert_eq!(&plain, &Decimal::read(&fraction));
            proptest::prop_assert_eq!(&plain, &Decimal::read(&scaled));
            let next = Decimal::read(&(i128::from(number) + 1).to_string());
            proptest::prop_assert_ne!(&plain, &next);
        }
    }
}
