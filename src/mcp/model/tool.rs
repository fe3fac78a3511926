//! Tools and what they answer.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    At, Content, Icon, Members, Meta, Outcome, Render, entry, entry_list, is_object, raw,
    serialize_newest,
};
use crate::limits::Breaker;
use crate::mcp::designation::member;
use crate::mcp::version::{StructuredContent, Version};

/// Whether the answer of a tool may be a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Streaming {
    /// Always one plain answer; progress and log messages are dropped.
    Never,
    /// One plain answer, unless the handler says something before it to a caller that can read a
    /// stream; what it says to others is dropped.
    #[default]
    Allowed,
    /// Callers that cannot read a stream are refused.
    Required,
}

/// Whether the call of a tool may become a task: answered at once, and collected later (extension
/// `io.modelcontextprotocol/tasks`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TaskSupport {
    /// Callers always wait for the result.
    #[default]
    Never,
    /// The handler decides, by
    /// [`become_task`](crate::RequestContext::become_task), for callers that know tasks; others
    /// wait for the result.
    Allowed,
    /// Every call is a task from its beginning; callers that do not know tasks are refused.
    Required,
}

/// A tool as listings show it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// What programs call it.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What it does, in words for the model.
    pub description: Option<String>,
    /// What its arguments must look like.
    pub input_schema: Box<RawValue>,
    /// What its structured results look like.
    pub output_schema: Option<Box<RawValue>>,
    /// What to expect of it.
    pub annotations: Option<ToolAnnotations>,
    /// Pictures to show it by.
    #[serde(default)]
    pub icons: Vec<Icon>,
    /// The tool's own `_meta`.
    #[serde(default, rename = "_meta")]
    pub meta: Meta,
    /// Whether its answer may be a stream; known to the server only.
    #[serde(skip)]
    pub streaming: Streaming,
    /// Whether its calls may become tasks; known to the server only.
    #[serde(skip)]
    pub tasks: TaskSupport,
    /// When it is not called any more because it keeps failing; known to the server only.
    #[serde(skip)]
    pub breaker: Option<Breaker>,
    /// What a caller must have been granted to call it; known to the server only.
    #[serde(skip)]
    pub scopes: Vec<String>,
}

/// Hints at what to expect of a tool, for those who trust the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolAnnotations {
    /// What people call the tool, in revisions without titles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it twice is as good as once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It deals with the world outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl ToolAnnotations {
    /// No hints yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What people call the tool.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Whether it changes nothing.
    pub fn read_only(mut self, hint: bool) -> Self {
        self.read_only_hint = Some(hint);
        self
    }

    /// Whether it may destroy something.
    pub fn destructive(mut self, hint: bool) -> Self {
        self.destructive_hint = Some(hint);
        self
    }

    /// Whether calling it twice is as good as once.
    pub fn idempotent(mut self, hint: bool) -> Self {
        self.idempotent_hint = Some(hint);
        self
    }

    /// Whether it deals with the world outside.
    pub fn open_world(mut self, hint: bool) -> Self {
        self.open_world_hint = Some(hint);
        self
    }
}

impl Tool {
    /// A tool that takes any arguments, so far.
    pub fn new(name: impl Into<String>) -> Self {
        /// The least an input schema must say.
        #[derive(Serialize)]
        struct AnyObject {
            r#type: &'static str,
        }
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema: raw(&AnyObject { r#type: "object" }),
            output_schema: None,
            annotations: None,
            icons: Vec::new(),
            meta: Meta::new(),
            streaming: Streaming::default(),
            tasks: TaskSupport::default(),
            breaker: None,
            scopes: Vec::new(),
        }
    }

    /// What people call it.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it does, in words for the model.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// What its arguments must look like: a JSON Schema whose root type is `object`. An argument
    /// that is a string, an integer or a boolean may be repeated in a header, by `x-mcp-header`.
    pub fn input_schema(mut self, schema: impl Serialize) -> Self {
        self.input_schema = raw(&schema);
        self
    }

    /// What its structured results look like: a JSON Schema.
    pub fn output_schema(mut self, schema: impl Serialize) -> Self {
        self.output_schema = Some(raw(&schema));
        self
    }

    /// What to expect of it.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = Some(annotations);
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

    /// Whether its answer may be a stream.
    pub fn streaming(mut self, streaming: Streaming) -> Self {
        self.streaming = streaming;
        self
    }

    /// Whether its calls may become tasks. Its handler must be a deferred or blocking one.
    pub fn tasks(mut self, tasks: TaskSupport) -> Self {
        self.tasks = tasks;
        self
    }

    /// When it is not called any more because it keeps failing, in place of what
    /// [`circuit_breaker`](crate::ServerBuilder::circuit_breaker) says for all tools.
    pub fn circuit_breaker(mut self, breaker: Breaker) -> Self {
        self.breaker = Some(breaker);
        self
    }

    /// What a caller must have been granted to call it, all of it; nothing unless set. A caller who
    /// lacks some is told what to ask for, and no handler runs (revision 2026-07-28, Scope
    /// Challenge Handling). Clients are not told beforehand.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Whether arguments can be objects at all, as every revision demands of an input schema.
    pub fn takes_object(&self) -> bool {
        describes_object(&self.input_schema)
    }

    /// The output schema, as far as a revision can express it.
    fn output_schema_in(&self, version: Version) -> Option<&RawValue> {
        let schema = self.output_schema.as_deref()?;
        match version.rules().structured_content {
            StructuredContent::Absent => None,
            StructuredContent::Object => describes_object(schema).then_some(schema),
            StructuredContent::Any => Some(schema),
        }
    }
}

/// Whether the root type of a schema is `object` and nothing else.
fn describes_object(schema: &RawValue) -> bool {
    is_object(schema) && member(schema, "type").is_some_and(|it| it.get() == "\"object\"")
}

serialize_newest!(Tool);

impl Render for Tool {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let rules = version.rules();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        entry(&mut map, "title", self.title.as_ref().filter(|_| rules.titles))?;
        entry(&mut map, "description", self.description.as_ref())?;
        map.serialize_entry("inputSchema", &self.input_schema)?;
        entry(&mut map, "outputSchema", self.output_schema_in(version))?;
        let annotations = self.annotations.as_ref().filter(|_| rules.tool_annotations);
        entry(&mut map, "annotations", annotations)?;
        if rules.icons {
            entry_list(&mut map, "icons", &self.icons)?;
        }
        entry(&mut map, "_meta", self.meta.non_empty().filter(|_| rules.titles))?;
        map.end()
    }
}

/// What a tool answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallToolResult {
    /// What the model reads.
    pub content: Vec<Content>,
    /// What programs read.
    pub structured_content: Option<Box<RawValue>>,
    /// The tool was run and failed; the content says how.
    pub is_error: bool,
    /// The result's own `_meta`.
    #[serde(rename = "_meta")]
    pub meta: Meta,
    /// Further members, for extensions.
    #[serde(skip)]
    pub extra: Members,
}

/// The members a result of a tool writes by itself, which extensions must leave alone.
const OWN_MEMBERS: [&str; 7] =
    ["content", "structuredContent", "isError", "_meta", "resultType", "ttlMs", "cacheScope"];

/// What can be a text of a result: strings, moved rather than copied, and values that have one way
/// to be written.
pub trait IntoText {
    /// The text.
    fn into_text(self) -> String;
}

impl IntoText for String {
    fn into_text(self) -> String {
        self
    }
}

macro_rules! written_texts {
    ($($type:ty),* $(,)?) => {$(
        impl IntoText for $type {
            fn into_text(self) -> String {
                self.to_string()
            }
        }
    )*};
}
written_texts!(
    &str,
    &String,
    Box<str>,
    std::borrow::Cow<'_, str>,
    std::fmt::Arguments<'_>,
    char,
    bool,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
);

impl CallToolResult {
    /// A result without content, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// A result of one block of text.
    pub fn text(text: impl IntoText) -> Self {
        Self { content: vec![Content::text(text.into_text())], ..Self::default() }
    }

    /// A failure the model is to hear of, so that it can try something else.
    pub fn error(text: impl IntoText) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// A result for programs, with the same as text for those who read only text.
    pub fn structured(value: impl Serialize) -> Self {
        let value = raw(&value);
        Self { structured_content: Some(value.clone()), ..Self::text(value.get()) }
    }

    /// The same result with one more block.
    pub fn with(mut self, content: Content) -> Self {
        self.content.push(content);
        self
    }

    /// The same result with `_meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// The same result with one more member, which must be none of a result's own.
    pub fn extra(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        self.extra.set(name.into(), value);
        self
    }

    /// The structured content, as far as a revision can carry it.
    fn structured_content_in(&self, version: Version) -> Option<&RawValue> {
        let value = self.structured_content.as_deref()?;
        match version.rules().structured_content {
            StructuredContent::Absent => None,
            StructuredContent::Object => is_object(value).then_some(value),
            StructuredContent::Any => Some(value),
        }
    }
}

impl Outcome for CallToolResult {
    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error> {
        map.serialize_entry("content", &At(&self.content[..], version))?;
        entry(map, "structuredContent", self.structured_content_in(version))?;
        entry(map, "isError", self.is_error.then_some(true))?;
        self.extra.entries(map, &OWN_MEMBERS)
    }

    fn meta(&self) -> Option<&Meta> {
        Some(&self.meta)
    }

    fn is_failure(&self) -> bool {
        self.is_error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn listed(tool: &Tool, version: Version) -> Value {
        serde_json::to_value(At(tool, version)).unwrap()
    }

    fn answered(result: &CallToolResult, version: Version) -> Value {
        let stamped = super::super::Stamped { result, version, stamp: None, cache: None };
        serde_json::to_value(stamped).unwrap()
    }

    #[test]
    fn a_tool_shows_what_its_reader_can_read() {
        let tool = Tool::new("t")
            .title("T")
            .output_schema(json!({"type": "object"}))
            .annotations(ToolAnnotations::new().read_only(true))
            .icon(Icon::new("data:,"))
            .meta(Meta::new().with("a", 1))
            .streaming(Streaming::Required);
        let members = |version| {
            let Value::Object(members) = listed(&tool, version) else { panic!("not an object") };
            members.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(members(Version::V2024_11_05), "inputSchema name");
        assert_eq!(members(Version::V2025_03_26), "annotations inputSchema name");
        let later = "_meta annotations inputSchema name outputSchema title";
        assert_eq!(members(Version::V2025_06_18), later);
        let newest = "_meta annotations icons inputSchema name outputSchema title";
        assert_eq!(members(Version::V2025_11_25), newest);
        assert_eq!(members(Version::V2026_07_28), newest);
    }

    #[test]
    fn output_that_is_no_object_is_for_modern_callers() {
        let tool = Tool::new("t").output_schema(json!({"type": "array"}));
        assert_eq!(listed(&tool, Version::V2025_11_25).get("outputSchema"), None);
        assert!(listed(&tool, Version::V2026_07_28).get("outputSchema").is_some());

        let result = CallToolResult::structured([1, 2]);
        assert_eq!(
            answered(&result, Version::V2025_11_25),
            json!({"content": [{"type": "text", "text": "[1,2]"}]})
        );
        assert_eq!(answered(&result, Version::V2026_07_28)["structuredContent"], json!([1, 2]));
    }

    #[test]
    fn structured_content_begins_with_2025_06_18() {
        let result = CallToolResult::structured(json!({"a": 1}));
        let structured = |version| answered(&result, version).get("structuredContent").cloned();
        assert_eq!(structured(Version::V2025_03_26), None);
        assert_eq!(structured(Version::V2025_06_18), Some(json!({"a": 1})));
    }

    #[test]
    fn extensions_cannot_write_what_a_result_writes_itself() {
        let result = CallToolResult::error("no")
            .extra("content", 1)
            .extra("resultType", "x")
            .extra("_meta", 1)
            .extra("taskId", "t1");
        let expected = json!({
            "content": [{"type": "text", "text": "no"}],
            "isError": true,
            "taskId": "t1",
        });
        assert_eq!(answered(&result, Version::V2025_11_25), expected);
    }

    #[test]
    fn arguments_are_always_an_object() {
        assert!(Tool::new("t").takes_object());
        for schema in [json!({}), json!(true), json!({"type": ["object"]}), json!(null)] {
            assert!(!Tool::new("t").input_schema(&schema).takes_object(), "{schema}");
        }
    }
}
