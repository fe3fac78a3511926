//! JSON-RPC 2.0 as values: ids, messages and error objects, borrowed from the bytes they were read
//! from. This module knows nothing of MCP, of HTTP, or of where bytes come from.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

pub mod decode;
pub mod encode;
pub(crate) mod json;
pub(crate) mod skim;

pub(crate) use decode::read_call;
pub use decode::{Malformed, decode};

/// The identity of a request.
///
/// `5` and `"5"` are two ids; all numbers order before all strings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// An integer between `i64::MIN` and `u64::MAX`, kept exactly.
    Number(i128),
    /// A string, which may be empty.
    String(Box<str>),
}

impl Id {
    /// Reads the JSON text of an id; none for anything but a string or an integer in range.
    ///
    /// A fraction or an exponent is refused even where the value is whole, because the answer could
    /// then not be echoed as it was written.
    pub fn from_json(text: &str) -> Option<Self> {
        if text.starts_with('"') {
            return serde_json::from_str(text).ok().map(Self::String);
        }
        let number = text.parse().ok()?;
        let in_range = (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number);
        // The standard parser is laxer than JSON in exactly one way that matters here.
        (in_range && !text.starts_with('+')).then_some(Self::Number(number))
    }
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Display for Id {
    /// Writes the id as a log shows it, strings in quotes so that `5` and `"5"` differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::String(text) => write!(f, "{text:?}"),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => match i64::try_from(*number) {
                Ok(number) => serializer.serialize_i64(number),
                Err(_) => serializer.serialize_i128(*number),
            },
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

/// Accepts the two kinds of id and nothing that would need rounding.
struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
        Ok(number.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
        Ok(number.into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        Ok(text.into())
    }
}

/// A string borrowed from its source wherever it holds no escape.
///
/// Unlike `Cow`, it borrows behind an `Option` too, which is where parameters need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor).map(Self)
    }
}

/// Borrows what it can and copies what had to be unescaped.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A call that expects an answer.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What the answer has to carry.
    pub id: Id,
    /// What is called.
    pub method: Cow<'a, str>,
    /// The parameters as they were written; always an object.
    pub params: Option<&'a RawValue>,
}

/// A statement that is never answered.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    /// What is stated.
    pub method: Cow<'a, str>,
    /// The parameters as they were written; always an object.
    pub params: Option<&'a RawValue>,
}

/// The answer to a request the other side received.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// Whose answer it is; none only for an error about a request whose id could not be read.
    pub id: Option<Id>,
    /// The result, which may be any value, or the error, which is an object.
    pub outcome: Result<&'a RawValue, &'a RawValue>,
}

/// One message.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A call that expects an answer.
    Request(Request<'a>),
    /// A statement that is never answered.
    Notification(Notification<'a>),
    /// An answer.
    Response(Response<'a>),
}

impl Message<'_> {
    /// The method, of a message that names one.
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Request(request) => Some(&request.method),
            Self::Notification(notification) => Some(&notification.method),
            Self::Response(_) => None,
        }
    }

    /// The id, of a message that has one.
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Request(request) => Some(&request.id),
            Self::Notification(_) => None,
            Self::Response(response) => response.id.as_ref(),
        }
    }
}

/// All that one body held.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// One message.
    Single(Message<'a>),
    /// An array of messages, each good or bad on its own; an empty one is for the caller to judge.
    Batch(Vec<Result<Message<'a>, Malformed>>),
}

/// The text was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON was not a message.
pub const INVALID_REQUEST: i64 = -32600;
/// Nobody serves the method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method is served, but not with these parameters.
pub const INVALID_PARAMS: i64 = -32602;
/// Our own fault.
pub const INTERNAL_ERROR: i64 = -32603;

/// The error member of a response: what the peer is told, never what the log is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorObject {
    /// What kind of error it is.
    pub code: i64,
    /// One sentence for a reader.
    pub message: Cow<'static, str>,
    /// What a program may act upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl ErrorObject {
    /// An error of any code.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The text was not JSON.
    pub fn parse_error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(PARSE_ERROR, message)
    }

    /// The JSON was not a message, or not one that may come here.
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// Nobody serves `method`.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {}", excerpt(method)))
    }

    /// The parameters do not fit the method.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// Our own fault; the log says what, the peer is not told.
    pub fn internal() -> Self {
        Self::new(INTERNAL_ERROR, "Internal error")
    }

    /// The same error with `data`; without any when the value has no JSON form.
    pub fn with_data(mut self, data: impl Serialize) -> Self {
        self.data = to_raw_value(&data).ok();
        self
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}

/// The longest piece of a peer's text quoted back in an error.
const EXCERPT_BYTES_MAX: usize = 100;

/// The beginning of `text`, so that an error is never as large as what caused it.
pub fn excerpt(text: &str) -> &str {
    excerpt_to(text, EXCERPT_BYTES_MAX)
}

/// The beginning of `text`, at most `bytes_max` of it and whole characters only.
pub fn excerpt_to(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_strings_are_different_ids_in_a_total_order() {
        let mut ids: Vec<Id> =
            vec!["5".into(), 5i64.into(), "".into(), u64::MAX.into(), (-1i64).into(), "10".into()];
        ids.sort();
        let shown: Vec<String> = ids.iter().map(Id::to_string).collect();
        assert_eq!(shown, ["-1", "5", "18446744073709551615", "\"\"", "\"10\"", "\"5\""]);
        assert_ne!(Id::from(5i64), Id::from("5"));
    }

    #[test]
    fn ids_read_elsewhere_are_no_less_strict() {
        for text in ["1.0", "1e3", "null", "true", "[]", "18446744073709551616"] {
            assert!(serde_json::from_str::<Id>(text).is_err(), "{text}");
            assert_eq!(Id::from_json(text), None, "{text}");
        }
    }

    #[test]
    fn errors_quote_no_more_than_a_piece_of_what_caused_them() {
        let error = ErrorObject::method_not_found(&"é".repeat(10_000));
        assert!(error.message.len() < 200);
        assert_eq!(error.code, METHOD_NOT_FOUND);
    }

    #[test]
    fn errors_are_read_as_they_are_written() {
        let text = r#"{"code":-32602,"message":"no","data":{"a":[1]}}"#;
        let error: ErrorObject = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&error).unwrap(), text);
        assert_eq!(error.to_string(), "no (-32602)");
    }
}
