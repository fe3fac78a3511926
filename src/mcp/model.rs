//! The things MCP messages are made of, as types with builders. Each knows how to write itself for
//! every revision: what a revision does not have is left out, or said in words it does have.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::version::Version;

mod answer;
mod ask;
mod content;
mod handshake;
mod listing;
mod message;
mod prompt;
mod request;
mod resource;
mod tool;

pub use answer::{CacheHint, CacheScope, EmptyResult, Ending, Outcome, RawResult, Stamp, Stamped};
pub use ask::{
    Answers, BooleanField, ChoiceField, ChoicesField, CreateMessage, CreateMessageResult,
    ElicitAction, ElicitResult, FormField, FormSchema, IncludeContext, InputParams, InputRequest,
    InputRequests, InputRequiredResult, ListRootsResult, ModelPreferences, NeedInput, NumberField,
    Reply, RequestedSchema, RequiredCapabilities, SamplingContent, SamplingMessage, TextField,
    TextFormat, ToolResultContent, ToolUseContent,
};
pub use content::{Content, ContentBody, Role};
pub use handshake::{
    ClientCapabilities, DiscoverResult, Icon, Implementation, InitializeParams, InitializeResult,
    ListCapability, ResourcesCapability, ServerCapabilities,
};
pub use listing::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Listed,
    Listing,
};
pub use message::{LogLevel, Progress, ProgressToken, Root, UnknownLogLevel};
pub use prompt::{CompleteResult, GetPromptResult, Prompt, PromptArgument, PromptMessage};
pub use request::{
    CarriedInput, CompleteParams, CompletionArgument, CompletionContext, CompletionReference,
    SubscriptionFilter, SubscriptionsListenParams, read_params,
};
pub use resource::{
    Annotations, ReadResourceResult, Resource, ResourceBody, ResourceContents, ResourceTemplate,
};
pub use tool::{CallToolResult, IntoText, Streaming, TaskSupport, Tool, ToolAnnotations};

/// A value that is written differently for different revisions.
pub trait Render {
    /// Writes the value for `version`.
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error>;
}

/// A value together with the revision to write it for.
#[derive(Clone, Copy, Debug)]
pub struct At<'a, T: ?Sized>(pub &'a T, pub Version);

impl<T: Render + ?Sized> Serialize for At<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.render(self.1, serializer)
    }
}

impl<T: Render + ?Sized> Render for &T {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).render(version, serializer)
    }
}

impl<T: Render> Render for [T] {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|item| At(item, version)))
    }
}

/// Lets a value be written without saying for whom: for the newest revision.
macro_rules! serialize_newest {
    ($($type:ty),* $(,)?) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::mcp::model::Render::render(
                    self,
                    $crate::mcp::version::Version::NEWEST,
                    serializer,
                )
            }
        }
    )*};
}
use serialize_newest;

/// Writes a member if there is something to write.
fn entry<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &str,
    value: Option<T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, &value),
        None => Ok(()),
    }
}

/// Writes a list if there is anything in it.
fn entry_list<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &str,
    list: &[T],
) -> Result<(), M::Error> {
    if list.is_empty() { Ok(()) } else { map.serialize_entry(name, list) }
}

/// The JSON of a value; a value without a JSON form becomes null and an error in the log.
///
/// Builders take values of the application, and a mistake there must not take the server down.
pub(super) fn raw(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|error| {
        log::error!("a value has no JSON form and is sent as null: {error}");
        RawValue::NULL.to_owned()
    })
}

/// Whether a JSON text is an object.
fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// The members of an object whose meaning is somebody else's, in order, each name once.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(Cow<'static, str>, Box<RawValue>)>);

/// The `_meta` of a thing.
pub type Meta = Members;

impl Members {
    /// No members.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The same with one more member, which replaces one of the same name.
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Serialize) -> Self {
        self.set(name, value);
        self
    }

    /// Adds a member, or replaces the one of the same name.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Serialize) {
        self.set_raw(name.into(), raw(&value));
    }

    /// Adds or replaces a member that is JSON already.
    fn set_raw(&mut self, name: Cow<'static, str>, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name, value)),
        }
    }

    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Takes the member of this name out.
    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// All members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the members into an object that has others, leaving out those it names itself.
    fn entries<M: SerializeMap>(&self, map: &mut M, except: &[&str]) -> Result<(), M::Error> {
        self.iter()
            .filter(|(name, _)| !except.contains(name))
            .try_for_each(|(name, value)| map.serialize_entry(name, value))
    }

    /// The members, unless there are none.
    fn non_empty(&self) -> Option<&Self> {
        (!self.is_empty()).then_some(self)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Collects members as they are written.
struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, _>()? {
            members.push((Cow::Owned(name), value));
        }
        Ok(Members(last_of_each(members)))
    }
}

/// Keeps the last of the members of each name, in the order of their last appearance.
fn last_of_each(
    mut members: Vec<(Cow<'static, str>, Box<RawValue>)>,
) -> Vec<(Cow<'static, str>, Box<RawValue>)> {
    let mut seen = std::collections::HashSet::new();
    members.reverse();
    members.retain(|(name, _)| seen.insert(name.clone()));
    members.reverse();
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_the_last_of_each_name() {
        let members: Members = serde_json::from_str(r#"{"b":1,"a":{"x":2},"b":[3]}"#).unwrap();
        assert_eq!(serde_json::to_string(&members).unwrap(), r#"{"a":{"x":2},"b":[3]}"#);
        let members = members.with("a", 5).with("c", "d");
        assert_eq!(serde_json::to_string(&members).unwrap(), r#"{"a":5,"b":[3],"c":"d"}"#);
        assert_eq!(members.get("b").map(RawValue::get), Some("[3]"));
    }

    #[test]
    fn a_value_without_json_form_becomes_null() {
        let unwritable = std::collections::BTreeMap::from([(vec![1], 1)]);
        assert_eq!(raw(&unwritable).get(), "null");
    }
}
