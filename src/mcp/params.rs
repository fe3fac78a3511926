//! The members of `params` that the protocol itself reads, found in one pass and borrowed.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::meta_key;
use super::model::ProgressToken;
use crate::limits::PROGRESS_TOKEN_BYTES_MAX;
use crate::rpc::Text;
use crate::rpc::skim::{Members, Skim, Skimmer, Snippet};

/// What a request's `params` say to the protocol; everything else stays in the raw text.
#[derive(Debug, Default)]
pub(crate) struct Params<'a> {
    pub(crate) meta: Option<Meta<'a>>,
    pub(crate) name: Option<Text<'a>>,
    pub(crate) uri: Option<Text<'a>>,
    pub(crate) task_id: Option<Text<'a>>,
    pub(crate) cursor: Option<Text<'a>>,
    pub(crate) level: Option<Text<'a>>,
    pub(crate) protocol_version: Option<Text<'a>>,
    pub(crate) arguments: Option<Snippet<'a>>,
    pub(crate) capabilities: Option<Snippet<'a>>,
    pub(crate) client_info: Option<Snippet<'a>>,
    pub(crate) request_id: Option<Snippet<'a>>,
    pub(crate) input_responses: Option<Snippet<'a>>,
    pub(crate) request_state: Option<Text<'a>>,
}

/// What a request's `_meta` says to the protocol.
#[derive(Debug, Default)]
pub(crate) struct Meta<'a> {
    pub(crate) protocol_version: Option<Text<'a>>,
    pub(crate) client_info: Option<Snippet<'a>>,
    pub(crate) capabilities: Option<Snippet<'a>>,
    pub(crate) log_level: Option<Text<'a>>,
    pub(crate) progress_token: Option<Token>,
}

/// A progress token as it was given: one that is neither a string nor an integer is an invalid
/// request, like such an id, rather than an invalid parameter.
#[derive(Debug)]
pub(crate) struct Token(pub(crate) Option<ProgressToken>);

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Snippet::deserialize(deserializer).map(Self::from)
    }
}

impl From<Snippet<'_>> for Token {
    fn from(json: Snippet<'_>) -> Self {
        let short = Some(json.get()).filter(|text| text.len() <= PROGRESS_TOKEN_BYTES_MAX);
        Self(short.and_then(ProgressToken::from_json))
    }
}

impl<'a> Params<'a> {
    /// Reads `params`; the error text names the member that is wrong.
    pub(crate) fn read(params: Option<&'a RawValue>) -> Result<Self, String> {
        params.map_or_else(
            || Ok(Self::default()),
            |raw| serde_json::from_str(raw.get()).map_err(|error| strip_position(&error)),
        )
    }
}

/// A position inside a fragment means nothing to the caller, who sees the whole body.
fn strip_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Fills a slot once. A member given twice means that two readers may understand two requests.
fn fill<'de, T, A>(slot: &mut Option<T>, name: &str, map: &mut A) -> Result<(), A::Error>
where
    T: Deserialize<'de>,
    A: MapAccess<'de>,
{
    if slot.is_some() {
        return Err(A::Error::custom(format_args!("`{name}` is given twice")));
    }
    match map.next_value() {
        Ok(value) => *slot = value,
        Err(error) => return Err(A::Error::custom(format_args!("`{name}`: {error}"))),
    }
    Ok(())
}

/// Reads members into the slots of their names, in a general and in a quick way.
macro_rules! members {
    ($type:ident: $($name:pat => $slot:ident,)*) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $type<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Object;
                impl<'de> Visitor<'de> for Object {
                    type Value = $type<'de>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A>(self, mut map: A) -> Result<$type<'de>, A::Error>
                    where
                        A: MapAccess<'de>,
                    {
                        let mut members = $type::default();
                        while let Some(Text(name)) = map.next_key()? {
                            match &*name {
                                $($name => fill(&mut members.$slot, &name, &mut map)?,)*
                                _ => _ = map.next_value::<IgnoredAny>()?,
                            }
                        }
                        Ok(members)
                    }
                }
                deserializer.deserialize_map(Object)
            }
        }

        impl<'a> Members<'a> for $type<'a> {
            fn member(&mut self, name: &'a str, json: &mut Skimmer<'a>) -> Option<()> {
                match name {
                    $($name => json.fill(&mut self.$slot),)*
                    _ => json.skip(),
                }
            }
        }
    };
}

members! { Params:
    "_meta" => meta,
    "name" => name,
    "uri" => uri,
    "taskId" => task_id,
    "cursor" => cursor,
    "level" => level,
    "arguments" => arguments,
    "protocolVersion" => protocol_version,
    "capabilities" => capabilities,
    "clientInfo" => client_info,
    "requestId" => request_id,
    "inputResponses" => input_responses,
    "requestState" => request_state,
}

members! { Meta:
    meta_key::PROTOCOL_VERSION => protocol_version,
    meta_key::CLIENT_INFO => client_info,
    meta_key::CLIENT_CAPABILITIES => capabilities,
    meta_key::LOG_LEVEL => log_level,
    meta_key::PROGRESS_TOKEN => progress_token,
}

impl<'a> Skim<'a> for Meta<'a> {
    fn skim(json: &mut Skimmer<'a>) -> Option<Self> {
        let mut meta = Self::default();
        json.object(|json, name| meta.member(name, json))?;
        Some(meta)
    }
}

impl<'a> Skim<'a> for Token {
    fn skim(json: &mut Skimmer<'a>) -> Option<Self> {
        if json.is_at_number() {
            return json.integer().map(|number| Self(Some(number.into())));
        }
        Snippet::skim(json).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{Body, Message, decode, read_call};
    use std::borrow::Cow;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn strings_are_borrowed_unless_escaped() {
        let raw = raw(r#"{"name":"plain","uri":"a\u0062"}"#);
        let params = Params::read(Some(&raw)).unwrap();
        assert!(matches!(params.name, Some(Text(Cow::Borrowed("plain")))));
        assert!(matches!(params.uri, Some(Text(Cow::Owned(ref uri))) if uri == "ab"));
    }

    #[test]
    fn wrong_types_and_doubled_members_are_named() {
        for (text, expected) in [
            (r#"{"name":5}"#, "`name`: invalid type: integer `5`, expected a string"),
            (r#"{"name":"a","name":"b"}"#, "`name` is given twice"),
            (r#"[]"#, "invalid type: sequence, expected an object"),
        ] {
            assert_eq!(Params::read(Some(&raw(text))).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn nothing_is_given_where_nothing_came() {
        let params = Params::read(None).unwrap();
        assert!(params.meta.is_none() && params.arguments.is_none());
        assert!(Params::read(Some(&raw(r#"{"name":null}"#))).unwrap().name.is_none());
    }

    const DEPTH_MAX: usize = 8;

    /// What a body says, read the general way.
    fn read_in_general(body: &str) -> Option<String> {
        let Ok(Body::Single(Message::Request(request))) = decode(body.as_bytes(), DEPTH_MAX) else {
            return None;
        };
        let params = Params::read(request.params).ok()?;
        Some(format!("{:?} {:?} {params:?}", request.id, request.method))
    }

    /// The same, read the quick way.
    fn read_quickly(body: &str) -> Option<String> {
        let call = read_call::<Params<'_>>(body.as_bytes(), DEPTH_MAX)?;
        let params = call.params.unwrap_or_default();
        Some(format!("{:?} {:?} {params:?}", call.id, call.method))
    }

    #[test]
    fn usual_requests_are_read_quickly() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#" { "id" : "a\u0062" , "method" : "x" , "jsonrpc" : "2.0" , "params" : { } } "#,
            r#"{"jsonrpc":"2.0","id":-7,"method":"a","params":{"cursor":null,"x":[{"y":1e5}]}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"\u00e9","_meta":{
                "progressToken":"p","io.modelcontextprotocol/clientCapabilities":{"a":{}},
                "io.modelcontextprotocol/protocolVersion":"2026-07-28","other":true},
                "arguments":{"text":"a long one, with \"quotes\" and an é in it"}}}"#,
        ] {
            let read = read_quickly(body);
            assert!(read.is_some(), "{body}");
            assert_eq!(read, read_in_general(body));
        }
    }

    #[test]
    fn values_that_nest_beyond_reason_are_read_in_general() {
        for depth in [1, 63, 64, 100] {
            let (open, close) = ("[{\"a\":".repeat(depth / 2), "}]".repeat(depth / 2));
            let arguments = format!("{open}1{close}");
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"arguments":{arguments}}}}}"#
            );
            let call = read_call::<Params<'_>>(body.as_bytes(), 200);
            let found = call.and_then(|call| call.params).and_then(|params| params.arguments);
            assert_eq!(found.map(Snippet::get), (depth < 64).then_some(&*arguments), "{depth}");
        }
    }

    /// Values of all kinds, good and bad.
    const VALUES: &[&str] = &[
        "1",
        "-0",
        "01",
        "123456789012345678",
        "1234567890123456789",
        "1.0",
        "1.5e+30",
        "-2E-3",
        "1.",
        ".5",
        "1e",
        "-",
        "\"\"",
        "\"a\"",
        "\"2.0\"",
        "\"eight bytes and more\"",
        "\"a\\u0062\"",
        "\"\\/\\b\\f\\n\\r\\t\\\\\\\"\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"a\nb\"",
        "\"é\"",
        "\"open",
        "null",
        "nul",
        "true",
        "false",
        "{}",
        "[]",
        "[1,[2]]",
        "[1,]",
        "[1 2]",
        "[1}",
        "{\"a\":[{}],\"b\":null}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{\"progressToken\":7}",
        "{\"progressToken\":null,\"a\":1}",
        "[[[[[[[[[]]]]]]]]]",
    ];

    /// Names that mean something, and some that do not.
    const NAMES: [&str; 12] = [
        "jsonrpc",
        "id",
        "method",
        "result",
        "params",
        "name",
        "_meta",
        "arguments",
        "cursor",
        "n\\u0061me",
        "other",
        "",
    ];

    /// An object of `members`, each made of a name, a value and what stands around them.
    fn object(members: &[(usize, usize, usize)]) -> String {
        let spaces = ["", " ", "\n\t", "\r"];
        let member = |&(name, value, space): &(usize, usize, usize)| {
            let (name, value) = (NAMES[name % NAMES.len()], VALUES[value % VALUES.len()]);
            let space = spaces[space % spaces.len()];
            format!("{space}\"{name}\"{space}:{space}{value}{space}")
        };
        format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
    }

    proptest::proptest! {
        #[test]
        fn what_is_read_quickly_is_read_alike_in_general(
            outer in proptest::collection::vec((0_usize..99, 0_usize..99, 0_usize..99), 0..3),
            inner in proptest::collection::vec((0_usize..99, 0_usize..99, 0_usize..99), 0..4),
            cut in (0_usize..400, 0_usize..9, 0_usize..3),
        ) {
            let (at, what, rarely) = cut;
            let usual = r#""jsonrpc":"2.0","id":1,"method":"m""#;
            let params = format!(r#""params":{}"#, object(&inner));
            let extra = object(&outer);
            let mut parts = [usual, &params, &extra[1..extra.len() - 1]];
            parts.rotate_left(what % 3);
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let mut body = format!("{{{}}}", parts.join(","));
            // Now and then something is missing or out of place.
            if rarely == 0 && body.is_char_boundary(at) {
                match what {
                    0 => body.truncate(at),
                    _ => body.insert(at.min(body.len()), b"\"\\{}[],: "[what] as char),
                }
            }
            if let Some(read) = read_quickly(&body) {
                proptest::prop_assert_eq!(Some(read), read_in_general(&body), "{}", body);
            }
        }
    }
}
