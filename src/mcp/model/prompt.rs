//! Prompts, what they say, and completions of arguments being typed.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serializer};

use super::{At, Content, Icon, Meta, Outcome, Render, Role, entry, entry_list, serialize_newest};
use crate::mcp::version::Version;

/// A prompt as listings show it.
#[derive(Clone, Debug, Deserialize)]
pub struct Prompt {
    /// What programs call it.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What can be filled in.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// Pictures to show it by.
    #[serde(default)]
    pub icons: Vec<Icon>,
    /// The prompt's own `_meta`.
    #[serde(default, rename = "_meta")]
    pub meta: Meta,
}

/// What can be filled in in a prompt; its value is text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PromptArgument {
    /// What programs call it.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What to fill in.
    pub description: Option<String>,
    /// The prompt makes no sense without it.
    #[serde(default)]
    pub required: bool,
}

impl Prompt {
    /// A prompt with nothing to fill in, so far.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            arguments: Vec::new(),
            icons: Vec::new(),
            meta: Meta::new(),
        }
    }

    /// What people call it.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it is for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// One more thing to fill in.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }

    /// One more picture to show it by.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Its own `_meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// The first required argument that `is_given` does not know.
    pub fn missing_argument(&self, is_given: impl Fn(&str) -> bool) -> Option<&str> {
        let mut required = self.arguments.iter().filter(|argument| argument.required);
        required.find(|argument| !is_given(&argument.name)).map(|argument| &*argument.name)
    }
}

impl PromptArgument {
    /// An argument that may be left out.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), title: None, description: None, required: false }
    }

    /// What people call it.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What to fill in.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same argument, which may not be left out.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

serialize_newest!(Prompt, PromptArgument, PromptMessage);

impl Render for Prompt {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let rules = version.rules();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        entry(&mut map, "title", self.title.as_ref().filter(|_| rules.titles))?;
        entry(&mut map, "description", self.description.as_ref())?;
        let arguments = (!self.arguments.is_empty()).then_some(&self.arguments[..]);
        entry(&mut map, "arguments", arguments.map(|arguments| At(arguments, version)))?;
        if rules.icons {
            entry_list(&mut map, "icons", &self.icons)?;
        }
        entry(&mut map, "_meta", self.meta.non_empty().filter(|_| rules.titles))?;
        map.end()
    }
}

impl Render for PromptArgument {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        entry(&mut map, "title", self.title.as_ref().filter(|_| version.rules().titles))?;
        entry(&mut map, "description", self.description.as_ref())?;
        entry(&mut map, "required", self.required.then_some(true))?;
        map.end()
    }
}

/// One thing said in a prompt.
#[derive(Clone, Debug, Deserialize)]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

impl PromptMessage {
    /// Something the user says.
    pub fn user(content: Content) -> Self {
        Self { role: Role::User, content }
    }

    /// Something the model says.
    pub fn assistant(content: Content) -> Self {
        Self { role: Role::Assistant, content }
    }
}

impl Render for PromptMessage {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry("content", &At(&self.content, version))?;
        map.end()
    }
}

/// A prompt filled in.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GetPromptResult {
    /// What it is for.
    pub description: Option<String>,
    /// What is said, in order.
    pub messages: Vec<PromptMessage>,
    /// The result's own `_meta`.
    #[serde(default, rename = "_meta")]
    pub meta: Meta,
}

impl GetPromptResult {
    /// A prompt that says this.
    pub fn new(messages: impl IntoIterator<Item = PromptMessage>) -> Self {
        Self { messages: Vec::from_iter(messages), ..Self::default() }
    }

    /// What it is for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same result with `_meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }
}

impl Outcome for GetPromptResult {
    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error> {
        entry(map, "description", self.description.as_ref())?;
        map.serialize_entry("messages", &At(&self.messages[..], version))
    }

    fn meta(&self) -> Option<&Meta> {
        Some(&self.meta)
    }
}

/// The most values one completion may hold, by the schema of every revision.
const COMPLETION_VALUES_MAX: usize = 100;

/// How an argument may go on.
#[derive(Clone, Debug, Default)]
pub struct CompleteResult {
    values: Vec<String>,
    total: Option<u64>,
    has_more: bool,
    meta: Meta,
}

impl CompleteResult {
    /// These values, of which the first hundred are sent and the others announced.
    pub fn new<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Self {
        let mut values = values.into_iter();
        let sent = Vec::from_iter(values.by_ref().take(COMPLETION_VALUES_MAX).map(V::into));
        Self { values: sent, has_more: values.next().is_some(), ..Self::default() }
    }

    /// How many values there are in all.
    pub fn total(mut self, total: u64) -> Self {
        self.total = Some(total);
        self.has_more |= total > self.values.len() as u64;
        self
    }

    /// The same result with `_meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// The values that are sent.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

/// The inner object of a completion.
struct Completion<'a>(&'a CompleteResult);

impl serde::Serialize for Completion<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("values", &self.0.values)?;
        entry(&mut map, "total", self.0.total)?;
        map.serialize_entry("hasMore", &self.0.has_more)?;
        map.end()
    }
}

impl Outcome for CompleteResult {
    fn fields<M: SerializeMap>(&self, map: &mut M, _version: Version) -> Result<(), M::Error> {
        map.serialize_entry("completion", &Completion(self))
    }

    fn meta(&self) -> Option<&Meta> {
        Some(&self.meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(result: &impl Outcome) -> serde_json::Value {
        let version = Version::V2025_11_25;
        let stamped = super::super::Stamped { result, version, stamp: None, cache: None };
        serde_json::to_value(stamped).unwrap()
    }

    #[test]
    fn b032_an_empty_list_is_written() {
        let prompts = super::super::Listing::<Prompt>::new([], None);
        assert_eq!(written(&prompts), json!({"prompts": []}));
        assert_eq!(written(&GetPromptResult::default()), json!({"messages": []}));
    }

    #[test]
    fn a_completion_sends_a_hundred_values_and_announces_the_others() {
        let numbers = |count: usize| (0..count).map(|number| number.to_string());
        for (count, total, sent, has_more) in [
            (0, None, 0, false),
            (100, None, 100, false),
            (101, None, 100, true),
            (5, Some(9), 5, true),
        ] {
            let mut result = CompleteResult::new(numbers(count));
            if let Some(total) = total {
                result = result.total(total);
            }
            let completion = &written(&result)["completion"];
            assert_eq!(completion["values"].as_array().unwrap().len(), sent, "{count}");
            assert_eq!(completion["hasMore"], json!(has_more), "{count}");
            assert_eq!(completion.get("total"), total.map(|total| json!(total)).as_ref());
        }
    }

    #[test]
    fn the_first_missing_argument_is_named() {
        let prompt = Prompt::new("p")
            .argument(PromptArgument::new("free"))
            .argument(PromptArgument::new("a").required())
            .argument(PromptArgument::new("b").required());
        assert_eq!(prompt.missing_argument(|name| name == "a"), Some("b"));
        assert_eq!(prompt.missing_argument(|_| true), None);
    }

    #[test]
    fn titles_begin_with_2025_06_18() {
        let prompt = Prompt::new("p").title("P").argument(PromptArgument::new("a").title("A"));
        let titles = |version| {
            let text = serde_json::to_string(&At(&prompt, version)).unwrap();
            text.matches("title").count()
        };
        assert_eq!((titles(Version::V2025_03_26), titles(Version::V2025_06_18)), (0, 2));
    }
}
