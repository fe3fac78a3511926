//! Questions to the user and the model of a client, one type for both eras: a modern caller gets
//! them as the result of its request, a classic one as requests of the server.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{
    At, CallToolResult, ClientCapabilities, CompleteResult, GetPromptResult, Meta, Outcome,
    ReadResourceResult, Render,
};
use crate::mcp::ask;
use crate::mcp::version::{Elicitation, Version};

mod answers;
mod form;
mod sampling;

pub use answers::{Answers, ElicitAction, ElicitResult, ListRootsResult};
pub use form::{
    BooleanField, ChoiceField, ChoicesField, FormField, FormSchema, NumberField, RequestedSchema,
    TextField, TextFormat,
};
pub use sampling::{
    CreateMessage, CreateMessageResult, IncludeContext, ModelPreferences, SamplingContent,
    SamplingMessage, ToolResultContent, ToolUseContent,
};

/// One question to the user or the model of a client, or to the client itself.
///
/// Ask only what the client has declared, see [`is_declared`](Self::is_declared): to a client that
/// has not, the question is never sent and the request fails.
#[derive(Clone, Debug)]
pub struct InputRequest(Question);

/// What is asked.
#[derive(Clone, Debug)]
enum Question {
    Form { message: String, schema: RequestedSchema },
    Url { message: String, url: String, elicitation_id: String },
    Sample(Box<CreateMessage>),
    Roots,
}

impl InputRequest {
    /// Asks the user to fill in a form; a [`FormSchema`] says which.
    ///
    /// Never ask for passwords, keys or tokens this way: what the user types passes through the
    /// client and its model. Clients of revisions before 2025-06-18 cannot be asked.
    pub fn elicit(message: impl Into<String>, schema: impl Into<RequestedSchema>) -> Self {
        Self(Question::Form { message: message.into(), schema: schema.into() })
    }

    /// Sends the user to `url`, where the server asks by itself, unseen by the client.
    ///
    /// `elicitation_id` tells revision 2025-11-25 which such question this is, and must be unique
    /// within the server; later revisions do not have it, earlier ones not this question.
    pub fn elicit_url(
        message: impl Into<String>,
        url: impl Into<String>,
        elicitation_id: impl Into<String>,
    ) -> Self {
        Self(Question::Url {
            message: message.into(),
            url: url.into(),
            elicitation_id: elicitation_id.into(),
        })
    }

    /// Asks the client's model.
    pub fn sample(message: CreateMessage) -> Self {
        Self(Question::Sample(Box::new(message)))
    }

    /// Asks in which folders the client works.
    pub fn roots() -> Self {
        Self(Question::Roots)
    }

    /// The method under which it is asked.
    pub fn method(&self) -> &'static str {
        match &self.0 {
            Question::Form { .. } | Question::Url { .. } => ask::ELICITATION,
            Question::Sample(_) => ask::SAMPLING,
            Question::Roots => ask::ROOTS,
        }
    }

    /// Its parameters, to be written for a revision.
    pub fn params(&self) -> InputParams<'_> {
        InputParams(self)
    }

    /// Whether clients of this revision can be asked this at all.
    pub fn exists_in(&self, version: Version) -> bool {
        let rules = version.rules();
        match &self.0 {
            Question::Form { schema, .. } => match rules.elicitation {
                Elicitation::Absent => false,
                Elicitation::Form => !schema.needs_lists(),
                Elicitation::FormAndUrl => true,
            },
            Question::Url { .. } => rules.elicitation == Elicitation::FormAndUrl,
            Question::Sample(message) => rules.sampling_tools || !message.needs_tools(),
            Question::Roots => true,
        }
    }

    /// What a client has to declare to be asked this.
    pub fn required_capability(&self) -> RequiredCapabilities {
        let none = RequiredCapabilities::default();
        match &self.0 {
            Question::Form { .. } => RequiredCapabilities { form: true, ..none },
            Question::Url { .. } => RequiredCapabilities { url: true, ..none },
            Question::Sample(message) => RequiredCapabilities {
                sampling: true,
                sampling_tools: message.needs_tools(),
                ..none
            },
            Question::Roots => RequiredCapabilities { roots: true, ..none },
        }
    }

    /// Whether a client that declared `capabilities` may be asked this.
    pub fn is_declared(&self, capabilities: &ClientCapabilities) -> bool {
        self.required_capability().missing_of(capabilities).is_none()
    }
}

impl Render for InputRequest {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("method", self.method())?;
        map.serialize_entry("params", &At(&self.params(), version))?;
        map.end()
    }
}

/// The parameters of a question.
#[derive(Clone, Copy, Debug)]
pub struct InputParams<'a>(&'a InputRequest);

impl Render for InputParams<'_> {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let rules = version.rules();
        let mut map = serializer.serialize_map(None)?;
        match &self.0.0 {
            Question::Form { message, schema } => {
                if rules.elicitation == Elicitation::FormAndUrl {
                    map.serialize_entry("mode", "form")?;
                }
                map.serialize_entry("message", message)?;
                map.serialize_entry("requestedSchema", &At(schema, version))?;
            }
            Question::Url { message, url, elicitation_id } => {
                map.serialize_entry("mode", "url")?;
                map.serialize_entry("message", message)?;
                map.serialize_entry("url", url)?;
                if rules.elicitation_id {
                    map.serialize_entry("elicitationId", elicitation_id)?;
                }
            }
            Question::Sample(message) => message.fields(&mut map, version)?,
            Question::Roots => {}
        }
        map.end()
    }
}

/// What a client has to declare to be asked something, written as it would be declared:
/// `{"elicitation":{"url":{}}}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequiredCapabilities {
    form: bool,
    /// Forms are named although nothing else is required: to a client that declared other modes,
    /// an elicitation without modes would say nothing new.
    names_form: bool,
    url: bool,
    sampling: bool,
    sampling_tools: bool,
    roots: bool,
}

impl RequiredCapabilities {
    /// Whether nothing has to be declared.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// What has to be declared for `self` and for `other`.
    pub fn and(self, other: Self) -> Self {
        Self {
            form: self.form | other.form,
            names_form: self.names_form | other.names_form,
            url: self.url | other.url,
            sampling: self.sampling | other.sampling,
            sampling_tools: self.sampling_tools | other.sampling_tools,
            roots: self.roots | other.roots,
        }
    }

    /// What of it a client has not declared, if anything.
    pub fn missing_of(self, declared: &ClientCapabilities) -> Option<Self> {
        let form = self.form && !declared.elicitation_form();
        let sampling_tools = self.sampling_tools && !declared.sampling_tools();
        let missing = Self {
            form,
            names_form: form && declared.has("elicitation"),
            url: self.url && !declared.elicitation_url(),
            sampling: self.sampling && (sampling_tools || !declared.sampling()),
            sampling_tools,
            roots: self.roots && !declared.roots(),
        };
        (!missing.is_empty()).then_some(missing)
    }
}

/// An object whose members are the names that are switched on, each with an empty object.
struct Modes<const N: usize>([(&'static str, bool); N]);

impl<const N: usize> Serialize for Modes<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = self.0.iter().filter(|(_, is_on)| *is_on);
        serializer.collect_map(named.map(|(name, _)| (name, Modes([]))))
    }
}

impl Serialize for RequiredCapabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.form || self.url {
            let names_form = self.form && (self.url || self.names_form);
            map.serialize_entry("elicitation", &Modes([("form", names_form), ("url", self.url)]))?;
        }
        if self.sampling {
            map.serialize_entry("sampling", &Modes([("tools", self.sampling_tools)]))?;
        }
        if self.roots {
            map.serialize_entry("roots", &Modes([]))?;
        }
        map.end()
    }
}

/// Questions by name, in the order in which they were asked; each name once.
#[derive(Clone, Debug, Default)]
pub struct InputRequests(Vec<(String, InputRequest)>);

impl InputRequests {
    /// No questions.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a question, or replaces the one of the same name.
    pub fn set(&mut self, name: impl Into<String>, request: InputRequest) {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => *slot = request,
            None => self.0.push((name, request)),
        }
    }

    /// The question of this name.
    pub fn get(&self, name: &str) -> Option<&InputRequest> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, request)| request)
    }

    /// Takes the question of this name out.
    pub fn remove(&mut self, name: &str) -> Option<InputRequest> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// All questions, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &InputRequest)> {
        self.0.iter().map(|(name, request)| (&**name, request))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a client has to declare to be asked all of them.
    pub fn required_capabilities(&self) -> RequiredCapabilities {
        let each = self.0.iter().map(|(_, request)| request.required_capability());
        each.fold(RequiredCapabilities::default(), RequiredCapabilities::and)
    }
}

impl Render for InputRequests {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, request)| (name, At(request, version))))
    }
}

/// What a handler answers that cannot go on without input from the client's side.
///
/// The handler runs again once the answers are there, with the same parameters, the answers and
/// the state. It may ask again.
///
/// ```
/// use waterwheel::{FormSchema, InputRequest, NeedInput, TextField};
///
/// let form = FormSchema::new().field("name", TextField::new().required());
/// let need = NeedInput::new().ask("who", InputRequest::elicit("What is your name?", form));
/// assert_eq!(need.requests().len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct NeedInput {
    requests: InputRequests,
    state: Option<String>,
}

impl NeedInput {
    /// Nothing is asked and nothing kept, so far; left so, it is refused.
    pub const fn new() -> Self {
        Self { requests: InputRequests::new(), state: None }
    }

    /// One more question, under a name by which its answer is found; it replaces one of that name.
    pub fn ask(mut self, name: impl Into<String>, request: InputRequest) -> Self {
        self.requests.set(name, request);
        self
    }

    /// A text to be given back when the handler runs again, for what it has worked out so far.
    ///
    /// A modern client carries it there and back and can read it, but neither change it nor use it
    /// for another request: it is sealed, not encrypted.
    pub fn state(mut self, state: impl Into<String>) -> Self {
        self.state = Some(state.into());
        self
    }

    /// The questions.
    pub fn requests(&self) -> &InputRequests {
        &self.requests
    }

    /// The text to be given back.
    pub fn kept_state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Takes questions and text apart.
    pub fn into_parts(self) -> (InputRequests, Option<String>) {
        (self.requests, self.state)
    }

    /// Whether there is neither a question nor a text: a client could only try again for ever.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.state.is_none()
    }
}

/// What a handler that may ask answers: its result, or what it needs first.
///
/// Every result converts into it, so a handler that never asks need not mention it.
#[derive(Clone, Debug)]
pub enum Reply<R> {
    /// The result.
    Done(R),
    /// Questions. Tools, resources and prompts may ask; completions may not and fail if they do.
    NeedInput(NeedInput),
}

impl<R> From<NeedInput> for Reply<R> {
    fn from(need: NeedInput) -> Self {
        Self::NeedInput(need)
    }
}

/// Lets results be answered as they are.
macro_rules! replies {
    ($($result:ty),* $(,)?) => {$(
        impl From<$result> for Reply<$result> {
            fn from(result: $result) -> Self {
                Self::Done(result)
            }
        }
    )*};
}
replies!(CallToolResult, CompleteResult, GetPromptResult, ReadResourceResult);

/// The kind of a result that asks.
const INPUT_REQUIRED: &str = "input_required";

/// Questions as the result of a modern request.
#[derive(Clone, Copy, Debug)]
pub struct InputRequiredResult<'a> {
    /// What is asked.
    pub requests: &'a InputRequests,
    /// What the client is to bring along, sealed already.
    pub state: Option<&'a str>,
}

impl Outcome for InputRequiredResult<'_> {
    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error> {
        if !self.requests.is_empty() {
            map.serialize_entry("inputRequests", &At(self.requests, version))?;
        }
        super::entry(map, "requestState", self.state)
    }

    fn meta(&self) -> Option<&Meta> {
        None
    }

    fn result_type(&self) -> Option<&str> {
        Some(INPUT_REQUIRED)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CacheHint, Implementation, Stamp, Stamped};
    use super::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    fn client(text: &str) -> ClientCapabilities {
        ClientCapabilities::new(&RawValue::from_string(text.to_owned()).unwrap())
    }

    fn params(request: &InputRequest, version: Version) -> serde_json::Value {
        serde_json::to_value(At(&request.params(), version)).unwrap()
    }

    fn form() -> InputRequest {
        InputRequest::elicit("m", FormSchema::new().field("a", BooleanField::new()))
    }

    fn url() -> InputRequest {
        InputRequest::elicit_url("m", "https://example.com/x", "e-1")
    }

    fn sample() -> InputRequest {
        InputRequest::sample(CreateMessage::new("q", 100))
    }

    #[test]
    fn the_mode_of_a_form_is_named_where_modes_exist() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "boolean"}}});
        let with_mode = json!({"mode": "form", "message": "m", "requestedSchema": schema});
        let without = json!({"message": "m", "requestedSchema": schema});
        assert_eq!(params(&form(), Version::V2025_06_18), without);
        assert_eq!(params(&form(), Version::V2025_11_25), with_mode);
        assert_eq!(params(&form(), Version::V2026_07_28), with_mode);
    }

    #[test]
    fn only_2025_11_25_numbers_questions_by_url() {
        let modern = json!({"mode": "url", "message": "m", "url": "https://example.com/x"});
        let mut classic = modern.clone();
        classic["elicitationId"] = json!("e-1");
        assert_eq!(params(&url(), Version::V2025_11_25), classic);
        assert_eq!(params(&url(), Version::V2026_07_28), modern);
    }

    #[test]
    fn a_question_exists_from_its_revision_on() {
        let lists = FormSchema::new().field("a", ChoicesField::new(["x"]));
        let lists = InputRequest::elicit("m", lists);
        let tools = CreateMessage::new("q", 1).tools(json!([]));
        let tools = InputRequest::sample(tools);
        for (request, since) in [
            (form(), Version::V2025_06_18),
            (lists, Version::V2025_11_25),
            (url(), Version::V2025_11_25),
            (sample(), Version::V2024_11_05),
            (tools, Version::V2025_11_25),
            (InputRequest::roots(), Version::V2024_11_05),
        ] {
            for version in Version::ALL {
                assert_eq!(request.exists_in(version), version >= since, "{request:?} {version}");
            }
        }
    }

    #[test]
    fn b058_a_question_is_asked_of_those_who_declared_it() {
        let tools = InputRequest::sample(CreateMessage::new("q", 1).tools(json!([])));
        for (request, declared, expected) in [
            (form(), r#"{"elicitation":{}}"#, true),
            (form(), r#"{"elicitation":true}"#, true),
            (form(), r#"{"elicitation":{"form":{}}}"#, true),
            (form(), r#"{"elicitation":{"url":{}}}"#, false),
            (form(), r#"{"elicitation":"yes"}"#, false),
            (form(), "{}", false),
            (url(), r#"{"elicitation":{}}"#, false),
            (url(), r#"{"elicitation":{"form":{}}}"#, false),
            (url(), r#"{"elicitation":{"url":{}}}"#, true),
            (sample(), r#"{"sampling":{}}"#, true),
            (sample(), r#"{"sampling":[]}"#, false),
            (tools.clone(), r#"{"sampling":{}}"#, false),
            (tools, r#"{"sampling":{"tools":{}}}"#, true),
            (InputRequest::roots(), r#"{"roots":{"listChanged":true}}"#, true),
            (InputRequest::roots(), r#"{"roots":1}"#, false),
        ] {
            assert_eq!(request.is_declared(&client(declared)), expected, "{request:?} {declared}");
        }
    }

    #[test]
    fn b058_what_is_missing_is_shaped_as_it_would_be_declared() {
        let all = |requests: &[InputRequest]| {
            let mut asked = InputRequests::new();
            for (number, request) in requests.iter().enumerate() {
                asked.set(number.to_string(), request.clone());
            }
            asked.required_capabilities()
        };
        let tools = InputRequest::sample(CreateMessage::new("q", 1).tool_choice(json!({})));
        for (required, declared, expected) in [
            (all(&[form(), form()]), "{}", json!({"elicitation": {}})),
            (all(&[url()]), "{}", json!({"elicitation": {"url": {}}})),
            (all(&[form(), url()]), "{}", json!({"elicitation": {"form": {}, "url": {}}})),
            (all(&[form()]), r#"{"elicitation":{"url":{}}}"#, json!({"elicitation": {"form": {}}})),
            (all(&[form(), url()]), r#"{"elicitation":{}}"#, json!({"elicitation": {"url": {}}})),
            (all(&[sample(), tools]), r#"{"sampling":{}}"#, json!({"sampling": {"tools": {}}})),
            (all(&[sample(), InputRequest::roots()]), r#"{"sampling":{}}"#, json!({"roots": {}})),
        ] {
            let missing = required.missing_of(&client(declared)).unwrap();
            assert_eq!(serde_json::to_value(missing).unwrap(), expected);
        }
        assert_eq!(all(&[sample()]).missing_of(&client(r#"{"sampling":{}}"#)), None);
        assert!(all(&[]).is_empty());
    }

    #[test]
    fn questions_keep_their_order_and_their_names_are_unique() {
        let need = NeedInput::new()
            .ask("z", form())
            .ask("a", InputRequest::roots())
            .ask("z", InputRequest::roots());
        let text = serde_json::to_string(&At(need.requests(), Version::NEWEST)).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"z":{"method":"roots/list","params":{}},"#,
                r#""a":{"method":"roots/list","params":{}}}"#
            )
        );
    }

    #[test]
    fn b094_an_empty_need_says_so() {
        assert!(NeedInput::new().is_empty());
        assert!(!NeedInput::new().state("s").is_empty());
        assert!(!NeedInput::new().ask("a", form()).is_empty());
    }

    #[test]
    fn a_question_is_a_result_without_a_cache_hint() {
        let need = NeedInput::new().ask("a", InputRequest::roots());
        let result = InputRequiredResult { requests: need.requests(), state: Some("sealed") };
        let stamp = Stamp::new(&Implementation::new("s", "1"));
        let stamped = Stamped::new(&result, Version::NEWEST, &stamp).cache(CacheHint::default());
        assert_eq!(
            serde_json::to_string(&stamped).unwrap(),
            concat!(
                r#"{"inputRequests":{"a":{"method":"roots/list","params":{}}},"#,
                r#""requestState":"sealed","resultType":"input_required","#,
                r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#
            )
        );
        let only_state = InputRequiredResult { requests: &InputRequests::new(), state: Some("s") };
        let text = serde_json::to_string(&Stamped::new(&only_state, Version::NEWEST, &stamp));
        assert!(text.unwrap().starts_with(r#"{"requestState":"s","resultType""#));
    }
}
