//! The members of `params` that the protocol itself reads, found in one pass and borrowed.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::meta_key;
use super::model::ProgressToken;
use crate::limits::PROGRESS_TOKEN_BYTES_MAX;
use crate::rpc::Text;

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
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) capabilities: Option<&'a RawValue>,
    pub(crate) client_info: Option<&'a RawValue>,
    pub(crate) request_id: Option<&'a RawValue>,
    pub(crate) input_responses: Option<&'a RawValue>,
    pub(crate) request_state: Option<Text<'a>>,
}

/// What a request's `_meta` says to the protocol.
#[derive(Debug, Default)]
pub(crate) struct Meta<'a> {
    pub(crate) protocol_version: Option<Text<'a>>,
    pub(crate) client_info: Option<&'a RawValue>,
    pub(crate) capabilities: Option<&'a RawValue>,
    pub(crate) log_level: Option<Text<'a>>,
    pub(crate) progress_token: Option<Token>,
}

/// A progress token as it was given: one that is neither a string nor an integer is an invalid
/// request, like such an id, rather than an invalid parameter.
#[derive(Debug)]
pub(crate) struct Token(pub(crate) Option<ProgressToken>);

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let short = Some(raw.get()).filter(|text| text.len() <= PROGRESS_TOKEN_BYTES_MAX);
        Ok(Self(short.and_then(ProgressToken::from_json)))
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

impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Params<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params<'de>, A::Error> {
                let mut params = Params::default();
                while let Some(Text(key)) = map.next_key()? {
                    let map = &mut map;
                    match &*key {
                        "_meta" => fill(&mut params.meta, "_meta", map)?,
                        "name" => fill(&mut params.name, "name", map)?,
                        "uri" => fill(&mut params.uri, "uri", map)?,
                        "taskId" => fill(&mut params.task_id, "taskId", map)?,
                        "cursor" => fill(&mut params.cursor, "cursor", map)?,
                        "level" => fill(&mut params.level, "level", map)?,
                        "arguments" => fill(&mut params.arguments, "arguments", map)?,
                        "protocolVersion" => {
                            fill(&mut params.protocol_version, "protocolVersion", map)?;
                        }
                        "capabilities" => fill(&mut params.capabilities, "capabilities", map)?,
                        "clientInfo" => fill(&mut params.client_info, "clientInfo", map)?,
                        "requestId" => fill(&mut params.request_id, "requestId", map)?,
                        "inputResponses" => {
                            fill(&mut params.input_responses, "inputResponses", map)?;
                        }
                        "requestState" => {
                            fill(&mut params.request_state, "requestState", map)?;
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(params)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Meta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Meta<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta<'de>, A::Error> {
                let mut meta = Meta::default();
                while let Some(Text(key)) = map.next_key()? {
                    let map = &mut map;
                    let name = &*key;
                    match name {
                        meta_key::PROTOCOL_VERSION => {
                            fill(&mut meta.protocol_version, name, map)?;
                        }
                        meta_key::CLIENT_INFO => fill(&mut meta.client_info, name, map)?,
                        meta_key::CLIENT_CAPABILITIES => fill(&mut meta.capabilities, name, map)?,
                        meta_key::LOG_LEVEL => fill(&mut meta.log_level, name, map)?,
                        meta_key::PROGRESS_TOKEN => fill(&mut meta.progress_token, name, map)?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(meta)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
