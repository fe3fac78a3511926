//! Parameters of requests, read where they stand: texts and nested values are borrowed.

use std::collections::BTreeMap;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::is_object;
use crate::rpc::{ErrorObject, Text};

/// Reads the parameters of a request; absent ones are read as an empty object.
pub fn read_params<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, ErrorObject> {
    serde_json::from_str(params.map_or("{}", RawValue::get))
        .map_err(|error| ErrorObject::invalid_params(format!("Invalid params: {error}")))
}

/// Reads a value that is an object, or null, which is as good as absent.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    let value = Option::<&RawValue>::deserialize(deserializer)?;
    match value {
        Some(value) if !is_object(value) => Err(de::Error::custom("not an object")),
        _ => Ok(value),
    }
}

/// What a request that was asked back brings along.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CarriedInput<'a> {
    /// Answers by the names of their questions; an object.
    #[serde(borrow, default, deserialize_with = "object")]
    pub input_responses: Option<&'a RawValue>,
    /// What the question wanted to have back, to the byte.
    #[serde(borrow, default)]
    pub request_state: Option<Text<'a>>,
}

/// Parameters of `completion/complete`.
#[derive(Clone, Debug, Deserialize)]
pub struct CompleteParams<'a> {
    /// Of what an argument is being typed.
    pub r#ref: CompletionReference,
    /// What is being typed.
    #[serde(borrow)]
    pub argument: CompletionArgument<'a>,
    /// What has been typed before.
    #[serde(default)]
    pub context: CompletionContext,
}

/// The argument being typed.
#[derive(Clone, Debug, Deserialize)]
pub struct CompletionArgument<'a> {
    /// Which argument.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// How far it has been typed.
    #[serde(borrow)]
    pub value: Text<'a>,
}

/// Arguments typed before.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CompletionContext {
    /// Their values by name.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
}

/// Of what an argument is being typed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum CompletionReference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The prompt's name.
        name: String,
    },
    /// A family of resources.
    #[serde(rename = "ref/resource")]
    Resource {
        /// The template of their addresses.
        uri: String,
    },
}

/// Parameters of `subscriptions/listen`.
#[derive(Clone, Debug, Deserialize)]
pub struct SubscriptionsListenParams {
    /// What the caller wants to hear of.
    pub notifications: SubscriptionFilter,
}

/// What a subscription hears; also what its acknowledgement promises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tools_list_changed: bool,
    /// Changes of the list of prompts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompts_list_changed: bool,
    /// Changes of the list of resources.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resources_list_changed: bool,
    /// Changes of these resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
    /// Changes of these tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn completions_name_what_is_typed() {
        let params = raw(r#"{"ref":{"type":"ref/prompt","name":"p","title":"P"},
                "argument":{"name":"language","value":"py"},
                "context":{"arguments":{"framework":"flask"}}}"#);
        let params: CompleteParams<'_> = read_params(Some(&params)).unwrap();
        assert_eq!(params.r#ref, CompletionReference::Prompt { name: "p".to_owned() });
        assert_eq!(params.argument.value.as_str(), "py");
        assert_eq!(params.context.arguments["framework"], "flask");
    }

    #[test]
    fn params_that_do_not_fit_are_invalid() {
        for text in [
            "{}",
            r#"{"ref":{"type":"ref/other","name":"p"},"argument":{"name":"a","value":""}}"#,
            r#"{"ref":{"type":"ref/resource","name":"p"},"argument":{"name":"a","value":""}}"#,
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":1}}"#,
        ] {
            let error = read_params::<CompleteParams<'_>>(Some(&raw(text))).unwrap_err();
            assert_eq!(error.code, crate::rpc::INVALID_PARAMS, "{text}");
        }
        assert!(read_params::<SubscriptionsListenParams>(None).is_err());
    }

    #[test]
    fn carried_state_is_read_to_the_byte() {
        let params = raw(r#"{"requestState":"\u00e9 +/=","inputResponses":{"q":{"a":1}}}"#);
        let carried: CarriedInput<'_> = read_params(Some(&params)).unwrap();
        assert_eq!(carried.request_state.unwrap().as_str(), "é +/=");
        assert_eq!(carried.input_responses.unwrap().get(), r#"{"q":{"a":1}}"#);
        assert!(read_params::<CarriedInput<'_>>(Some(&raw(r#"{"inputResponses":[]}"#))).is_err());
        assert!(read_params::<CarriedInput<'_>>(None).unwrap().input_responses.is_none());
    }

    #[test]
    fn a_filter_says_only_what_is_asked_for() {
        let filter: SubscriptionFilter =
            serde_json::from_str(r#"{"toolsListChanged":true,"promptsListChanged":false}"#)
                .unwrap();
        assert_eq!(serde_json::to_string(&filter).unwrap(), r#"{"toolsListChanged":true}"#);
    }
}
