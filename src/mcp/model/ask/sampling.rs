//! Questions to the client's model and what it says.

use std::borrow::Cow;

use serde::de::{self, Deserializer};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::super::{
    At, Content, ContentBody, Meta, Render, ResourceBody, Role, entry, entry_list, raw,
    serialize_newest,
};
use crate::mcp::version::Version;

/// A question to the client's model.
///
/// The specification deprecates sampling as of revision 2026-07-28; clients may stop to offer it.
#[derive(Clone, Debug)]
pub struct CreateMessage {
    messages: Vec<SamplingMessage>,
    max_tokens: u32,
    system_prompt: Option<String>,
    temperature: Option<f64>,
    stop_sequences: Vec<String>,
    preferences: Option<ModelPreferences>,
    include_context: Option<IncludeContext>,
    metadata: Option<Box<RawValue>>,
    tools: Option<Box<RawValue>>,
    tool_choice: Option<Box<RawValue>>,
}

impl CreateMessage {
    /// Something the user says, to be answered in at most so many tokens.
    pub fn new(text: impl Into<String>, max_tokens: u32) -> Self {
        Self::conversation([SamplingMessage::user(Content::text(text))], max_tokens)
    }

    /// A conversation to be gone on with, in at most so many tokens.
    pub fn conversation(
        messages: impl IntoIterator<Item = SamplingMessage>,
        max_tokens: u32,
    ) -> Self {
        Self {
            messages: Vec::from_iter(messages),
            max_tokens,
            system_prompt: None,
            temperature: None,
            stop_sequences: Vec::new(),
            preferences: None,
            include_context: None,
            metadata: None,
            tools: None,
            tool_choice: None,
        }
    }

    /// One more thing said.
    pub fn message(mut self, message: SamplingMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// What the model is told beforehand; the client may change it or leave it out.
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }

    /// How freely the model chooses its words; left out if it is no finite number.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature).filter(|temperature| temperature.is_finite());
        self
    }

    /// One more text at which the model stops.
    pub fn stop_sequence(mut self, text: impl Into<String>) -> Self {
        self.stop_sequences.push(text.into());
        self
    }

    /// Which model would be best.
    pub fn model_preferences(mut self, preferences: ModelPreferences) -> Self {
        self.preferences = Some(preferences);
        self
    }

    /// What the client is to add of what servers say; it may choose not to.
    ///
    /// Deprecated but for [`IncludeContext::None`], which is what leaving it out means, too.
    pub fn include_context(mut self, context: IncludeContext) -> Self {
        self.include_context = Some(context);
        self
    }

    /// What is passed on to whoever runs the model; an object.
    pub fn metadata(mut self, metadata: impl Serialize) -> Self {
        self.metadata = Some(raw(&metadata));
        self
    }

    /// Tools the model may use, as listings show them; an array.
    ///
    /// Only clients that declared `sampling.tools` can be asked this, from 2025-11-25 on.
    pub fn tools(mut self, tools: impl Serialize) -> Self {
        self.tools = Some(raw(&tools));
        self
    }

    /// How the model is to choose among the tools, such as `{"mode":"required"}`.
    ///
    /// Only clients that declared `sampling.tools` can be asked this, from 2025-11-25 on.
    pub fn tool_choice(mut self, choice: impl Serialize) -> Self {
        self.tool_choice = Some(raw(&choice));
        self
    }

    /// Whether it takes a client whose model can use tools.
    pub(super) fn needs_tools(&self) -> bool {
        self.tools.is_some()
            || self.tool_choice.is_some()
            || self.messages.iter().any(SamplingMessage::needs_tools)
    }

    /// Writes the parameters.
    pub(super) fn fields<M: SerializeMap>(
        &self,
        map: &mut M,
        version: Version,
    ) -> Result<(), M::Error> {
        map.serialize_entry("messages", &Conversation(&self.messages, version))?;
        entry(map, "modelPreferences", self.preferences.as_ref())?;
        entry(map, "systemPrompt", self.system_prompt.as_ref())?;
        entry(map, "includeContext", self.include_context)?;
        entry(map, "temperature", self.temperature)?;
        map.serialize_entry("maxTokens", &self.max_tokens)?;
        entry_list(map, "stopSequences", &self.stop_sequences)?;
        entry(map, "metadata", self.metadata.as_ref())?;
        entry(map, "tools", self.tools.as_ref())?;
        entry(map, "toolChoice", self.tool_choice.as_ref())
    }
}

/// Messages as they are written for a revision.
struct Conversation<'a>(&'a [SamplingMessage], Version);

impl Serialize for Conversation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let version = self.1;
        if version.rules().sampling_tools {
            return serializer.collect_seq(self.0.iter().map(|message| At(message, version)));
        }
        // A message holds one block there, so that each block becomes a message.
        let blocks = self.0.iter().flat_map(|message| {
            message.content.iter().map(|block| Said {
                role: message.role,
                content: std::slice::from_ref(block),
                meta: &message.meta,
            })
        });
        let blocks = Vec::from_iter(blocks);
        serializer.collect_seq(blocks.iter().map(|said| At(said, version)))
    }
}

/// What of what servers say a client is to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IncludeContext {
    /// Nothing.
    None,
    /// What this server says.
    ThisServer,
    /// What any of the client's servers says.
    AllServers,
}

/// Which model would be best for a question; the client may choose another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelPreferences {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<ModelHint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_priority: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed_priority: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intelligence_priority: Option<f64>,
}

/// A part of a model's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct ModelHint {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl ModelPreferences {
    /// No preferences, so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more part of a name to look for, after those before it.
    pub fn hint(mut self, name: impl Into<String>) -> Self {
        self.hints.push(ModelHint { name: Some(name.into()) });
        self
    }

    /// How much low costs matter, from 0 to 1; what is outside is brought inside.
    pub fn cost(mut self, priority: f64) -> Self {
        self.cost_priority = fraction(priority);
        self
    }

    /// How much speed matters, from 0 to 1; what is outside is brought inside.
    pub fn speed(mut self, priority: f64) -> Self {
        self.speed_priority = fraction(priority);
        self
    }

    /// How much intelligence matters, from 0 to 1; what is outside is brought inside.
    pub fn intelligence(mut self, priority: f64) -> Self {
        self.intelligence_priority = fraction(priority);
        self
    }
}

/// A number between 0 and 1; none for what is no number.
fn fraction(number: f64) -> Option<f64> {
    (!number.is_nan()).then(|| number.clamp(0.0, 1.0))
}

/// One thing said in a conversation with a model.
#[derive(Clone, Debug, Deserialize)]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What is said; one block for revisions before 2025-11-25, which get a message for each.
    #[serde(deserialize_with = "one_or_many")]
    pub content: Vec<SamplingContent>,
    /// The message's own `_meta`.
    #[serde(default, rename = "_meta")]
    pub meta: Meta,
}

impl SamplingMessage {
    /// Something said, in as many blocks as it takes.
    pub fn new<C: Into<SamplingContent>>(role: Role, content: impl IntoIterator<Item = C>) -> Self {
        let content = content.into_iter().map(C::into).collect();
        Self { role, content, meta: Meta::new() }
    }

    /// Something the user says.
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, [content])
    }

    /// Something the model says.
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, [content])
    }

    fn needs_tools(&self) -> bool {
        !self.content.iter().all(|block| matches!(block, SamplingContent::Block(_)))
    }

    fn said(&self) -> Said<'_> {
        Said { role: self.role, content: &self.content, meta: &self.meta }
    }
}

serialize_newest!(SamplingMessage, CreateMessageResult);

impl Render for SamplingMessage {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        self.said().render(version, serializer)
    }
}

/// A message, or one block of it.
struct Said<'a> {
    role: Role,
    content: &'a [SamplingContent],
    meta: &'a Meta,
}

impl Render for Said<'_> {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        content_field(&mut map, self.content, version)?;
        // Messages have got a `_meta` together with tools.
        let meta = self.meta.non_empty().filter(|_| version.rules().sampling_tools);
        entry(&mut map, "_meta", meta)?;
        map.end()
    }
}

/// Writes content, which is no list where there is only one block.
fn content_field<M: SerializeMap>(
    map: &mut M,
    content: &[SamplingContent],
    version: Version,
) -> Result<(), M::Error> {
    match content {
        [block] => map.serialize_entry("content", &At(block, version)),
        blocks => map.serialize_entry("content", &At(blocks, version)),
    }
}

/// Reads a list of blocks, or the only one.
fn one_or_many<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<SamplingContent>, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    let read = if text.get().starts_with('[') {
        serde_json::from_str(text.get())
    } else {
        serde_json::from_str(text.get()).map(|block| vec![block])
    };
    read.map_err(de::Error::custom)
}

/// One block of what is said in a conversation with a model.
#[derive(Clone, Debug)]
pub enum SamplingContent {
    /// Text, a picture or sound; a resource is put in words, since conversations have none.
    Block(Content),
    /// The model wants to use a tool.
    ToolUse(ToolUseContent),
    /// What came of it.
    ToolResult(ToolResultContent),
}

/// A tool the model wants to use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolUseContent {
    /// What its result is to refer to.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// The arguments; an object.
    pub input: Box<RawValue>,
    /// The block's own `_meta`.
    #[serde(default, rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// What came of a tool the model wanted to use.
///
/// A message that holds one may hold nothing else but others of its kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultContent {
    /// The use it refers to.
    pub tool_use_id: String,
    /// What the tool says.
    pub content: Vec<Content>,
    /// The same as a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Box<RawValue>>,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The block's own `_meta`.
    #[serde(default, rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

impl From<Content> for SamplingContent {
    fn from(content: Content) -> Self {
        Self::Block(content)
    }
}

impl From<ToolUseContent> for SamplingContent {
    fn from(content: ToolUseContent) -> Self {
        Self::ToolUse(content)
    }
}

impl From<ToolResultContent> for SamplingContent {
    fn from(content: ToolResultContent) -> Self {
        Self::ToolResult(content)
    }
}

impl SamplingContent {
    /// The text of a block of text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Block(content) => content.as_text(),
            _ => None,
        }
    }
}

/// A block together with its type.
#[derive(Serialize)]
struct Typed<'a, T> {
    r#type: &'static str,
    #[serde(flatten)]
    block: &'a T,
}

/// The types of the blocks that only conversations have.
const TOOL_USE: &str = "tool_use";
const TOOL_RESULT: &str = "tool_result";

impl Render for SamplingContent {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Block(content) => in_words(content).render(version, serializer),
            Self::ToolUse(block) => Typed { r#type: TOOL_USE, block }.serialize(serializer),
            Self::ToolResult(block) => Typed { r#type: TOOL_RESULT, block }.serialize(serializer),
        }
    }
}

/// The same content as text, if conversations have none of its kind.
fn in_words(content: &Content) -> Cow<'_, Content> {
    let words = match &content.body {
        ContentBody::Resource(contents) => match &contents.body {
            ResourceBody::Text(text) => text.clone(),
            ResourceBody::Blob(_) => format!("[resource {}]", contents.uri),
        },
        ContentBody::ResourceLink(resource) => {
            format!("[resource {}: {}]", resource.name, resource.uri)
        }
        _ => return Cow::Borrowed(content),
    };
    let (annotations, meta) = (content.annotations.clone(), content.meta.clone());
    Cow::Owned(Content { body: ContentBody::Text(words), annotations, meta })
}

impl<'de> Deserialize<'de> for SamplingContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Kind {
            r#type: String,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let text = text.get();
        let kind: Kind = serde_json::from_str(text).map_err(de::Error::custom)?;
        match kind.r#type.as_str() {
            TOOL_USE => serde_json::from_str(text).map(Self::ToolUse),
            TOOL_RESULT => serde_json::from_str(text).map(Self::ToolResult),
            _ => serde_json::from_str(text).map(Self::Block),
        }
        .map_err(de::Error::custom)
    }
}

/// What the client's model said.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageResult {
    /// Who says it, as a rule the model.
    pub role: Role,
    /// What is said.
    #[serde(deserialize_with = "one_or_many")]
    pub content: Vec<SamplingContent>,
    /// The model's name.
    pub model: String,
    /// Why it stopped, such as `endTurn`, `maxTokens` or `toolUse`.
    pub stop_reason: Option<String>,
    /// The result's own `_meta`.
    #[serde(default, rename = "_meta")]
    pub meta: Meta,
}

impl CreateMessageResult {
    /// The first text the model said.
    pub fn text(&self) -> Option<&str> {
        self.content.iter().find_map(SamplingContent::as_text)
    }
}

impl Render for CreateMessageResult {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        content_field(&mut map, &self.content, version)?;
        map.serialize_entry("model", &self.model)?;
        entry(&mut map, "stopReason", self.stop_reason.as_ref())?;
        entry(&mut map, "_meta", self.meta.non_empty())?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Resource, ResourceContents};
    use super::super::InputRequest;
    use super::*;
    use serde_json::{Value, json};

    fn params(message: CreateMessage, version: Version) -> Value {
        let request = InputRequest::sample(message);
        serde_json::to_value(At(&request.params(), version)).unwrap()
    }

    #[test]
    fn a_question_says_what_was_set_and_no_more() {
        assert_eq!(
            params(CreateMessage::new("q", 100), Version::V2024_11_05),
            json!({
                "messages": [{"role": "user", "content": {"type": "text", "text": "q"}}],
                "maxTokens": 100
            })
        );
        let preferences =
            ModelPreferences::new().hint("small").cost(2.0).speed(0.5).intelligence(f64::NAN);
        let message = CreateMessage::new("q", 1)
            .message(SamplingMessage::assistant(Content::text("a")))
            .system_prompt("be brief")
            .temperature(0.5)
            .stop_sequence("END")
            .include_context(IncludeContext::ThisServer)
            .metadata(json!({"k": 1}))
            .model_preferences(preferences)
            .tools(json!([{"name": "t", "inputSchema": {"type": "object"}}]))
            .tool_choice(json!({"mode": "auto"}));
        assert_eq!(
            params(message, Version::V2026_07_28),
            json!({
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": "q"}},
                    {"role": "assistant", "content": {"type": "text", "text": "a"}}
                ],
                "modelPreferences":
                    {"hints": [{"name": "small"}], "costPriority": 1.0, "speedPriority": 0.5},
                "systemPrompt": "be brief",
                "includeContext": "thisServer",
                "temperature": 0.5,
                "maxTokens": 1,
                "stopSequences": ["END"],
                "metadata": {"k": 1},
                "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
                "toolChoice": {"mode": "auto"}
            })
        );
        let odd = CreateMessage::new("q", 1).temperature(f64::INFINITY);
        assert!(params(odd, Version::NEWEST).get("temperature").is_none());
    }

    #[test]
    fn several_blocks_are_several_messages_where_a_message_holds_one() {
        let blocks = [Content::text("a"), Content::audio([0], "audio/wav")];
        let message = CreateMessage::conversation([SamplingMessage::new(Role::User, blocks)], 1);
        let messages = |version| params(message.clone(), version)["messages"].take();
        let audio = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"});
        let text = json!({"type": "text", "text": "a"});
        assert_eq!(
            messages(Version::V2025_11_25),
            json!([{"role": "user", "content": [text, audio]}])
        );
        assert_eq!(
            messages(Version::V2025_06_18),
            json!([{"role": "user", "content": text}, {"role": "user", "content": audio}])
        );
        let words = json!({"type": "text", "text": "[audio, audio/wav]"});
        assert_eq!(messages(Version::V2024_11_05)[1]["content"], words);
    }

    #[test]
    fn resources_are_put_in_words() {
        for (content, expected) in [
            (Content::resource(ResourceContents::text("a:b", "inside")), "inside"),
            (Content::resource(ResourceContents::blob("a:b", [0])), "[resource a:b]"),
            (Content::resource_link(Resource::new("a:b", "n")), "[resource n: a:b]"),
        ] {
            let message = SamplingMessage::user(content);
            let written = serde_json::to_value(&message).unwrap();
            assert_eq!(written["content"], json!({"type": "text", "text": expected}));
        }
    }

    #[test]
    fn a_conversation_about_tools_is_read_as_it_is_written() {
        for text in [
            concat!(
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"w","#,
                r#""input":{"city":"Paris"}},{"type":"text","text":"x"}]}"#
            ),
            concat!(
                r#"{"role":"user","content":{"type":"tool_result","toolUseId":"c1","#,
                r#""content":[{"type":"text","text":"18"}],"structuredContent":[1],"#,
                r#""isError":true,"_meta":{"a":1}}}"#
            ),
        ] {
            let message: SamplingMessage = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&message).unwrap(), text);
            let message = CreateMessage::conversation([message], 1);
            assert!(message.needs_tools());
        }
    }

    #[test]
    fn what_the_model_says_is_one_block_or_several() {
        let one = r#"{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}"#;
        let several = concat!(
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"w","#,
            r#""input":{}},{"type":"text","text":"Paris"}],"model":"m","stopReason":"toolUse"}"#
        );
        for text in [one, several] {
            let result: CreateMessageResult = serde_json::from_str(text).unwrap();
            assert_eq!(result.text(), Some("Paris"));
            assert_eq!(serde_json::to_string(&result).unwrap(), text);
        }
        for text in [
            r#"{"role":"assistant","content":{"type":"text","text":"x"}}"#,
            r#"{"role":"assistant","content":"x","model":"m"}"#,
            r#"{"role":"system","content":[],"model":"m"}"#,
            r#"{"role":"assistant","content":{"type":"tool_use","id":"1"},"model":"m"}"#,
        ] {
            assert!(serde_json::from_str::<CreateMessageResult>(text).is_err(), "{text}");
        }
    }
}
