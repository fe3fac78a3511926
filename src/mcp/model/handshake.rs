//! Who the two sides are, and what each can do.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    At, CacheHint, Members, Meta, Outcome, Render, entry, entry_list, is_object, raw,
    serialize_newest,
};
use crate::error::BuildError;
use crate::mcp::designation::member;
use crate::mcp::subscription::Change;
use crate::mcp::version::Version;
use crate::rpc::Text;

/// A picture to show something by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    /// Where it is, which may be a data URI.
    pub src: String,
    /// What kind of file it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// In which sizes it looks good, such as `48x48` or `any`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// Whether it is for a `light` or a `dark` background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
}

impl Icon {
    /// An icon by its address.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// What kind of file it is.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// One more size it looks good in.
    pub fn size(mut self, size: impl Into<String>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// Whether it is for a `light` or a `dark` background.
    pub fn theme(mut self, theme: impl Into<String>) -> Self {
        self.theme = Some(theme.into());
        self
    }
}

/// The program on one side.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// What programs call it.
    pub name: String,
    /// Which version of it this is; empty if a peer left it out.
    #[serde(default)]
    pub version: String,
    /// What people call it.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Where to read more.
    pub website_url: Option<String>,
    /// Pictures to show it by.
    #[serde(default)]
    pub icons: Vec<Icon>,
}

impl Implementation {
    /// A program by name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
            description: None,
            website_url: None,
            icons: Vec::new(),
        }
    }

    /// What people call it.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it does.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Where to read more.
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.website_url = Some(url.into());
        self
    }

    /// One more picture to show it by.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }
}

serialize_newest!(Implementation, ServerCapabilities);

impl Render for Implementation {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let rules = version.rules();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("version", &self.version)?;
        entry(&mut map, "title", self.title.as_ref().filter(|_| rules.titles))?;
        if rules.icons {
            entry(&mut map, "description", self.description.as_ref())?;
            entry(&mut map, "websiteUrl", self.website_url.as_ref())?;
            entry_list(&mut map, "icons", &self.icons)?;
        }
        map.end()
    }
}

/// What a server can do with a list it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListCapability {
    /// It tells when the list changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}

/// What a server can do with its resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcesCapability {
    /// It tells those who ask when a resource changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub subscribe: bool,
    /// It tells when the list changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}

/// What a server can do.
#[derive(Clone, Debug, Default)]
pub struct ServerCapabilities {
    /// It has tools.
    pub tools: Option<ListCapability>,
    /// It has prompts.
    pub prompts: Option<ListCapability>,
    /// It has resources.
    pub resources: Option<ResourcesCapability>,
    /// It sends log lines.
    pub logging: bool,
    /// It completes arguments.
    pub completions: bool,
    /// What nobody has standardized.
    pub experimental: Members,
    /// Extensions by name, each with an object of settings.
    pub extensions: Members,
}

impl ServerCapabilities {
    /// Whether changes of this kind are declared, so that somebody may want to hear of them.
    pub(crate) fn announces(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools.is_some_and(|tools| tools.list_changed),
            Change::Prompts => self.prompts.is_some_and(|prompts| prompts.list_changed),
            Change::Resources => self.resources.is_some_and(|resources| resources.list_changed),
            Change::Resource(_) => self.resources.is_some_and(|resources| resources.subscribe),
        }
    }

    /// Declares of everything that is here that its changes are announced.
    pub(crate) fn announce_all(&mut self) {
        for list in [&mut self.tools, &mut self.prompts].into_iter().flatten() {
            list.list_changed = true;
        }
        if let Some(resources) = &mut self.resources {
            *resources = ResourcesCapability { subscribe: true, list_changed: true };
        }
    }

    /// Declares an extension, once and with an object of settings.
    ///
    /// The name is one of a key in `_meta` whose prefix is a domain backwards: labels and dots, at
    /// least two labels, a slash, and a name of letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    ///
    /// When it is anything else.
    pub fn declare_extension(
        &mut self,
        name: &str,
        settings: impl Serialize,
    ) -> Result<(), BuildError> {
        let (kind, settings) = ("extension", raw(&settings));
        if self.extensions.get(name).is_some() {
            return Err(BuildError::Duplicate { kind, name: name.to_owned() });
        }
        let reason = if !is_extension_name(name) {
            "the name must be a domain backwards, a slash and a name, as in \"com.example/audit\""
        } else if !is_object(&settings) {
            "the settings must be an object"
        } else {
            self.extensions.set_raw(name.to_owned().into(), settings);
            return Ok(());
        };
        Err(BuildError::Invalid { kind, name: name.to_owned(), reason: reason.to_owned() })
    }
}

/// Whether a name has the parts that the name of an extension must have.
fn is_extension_name(text: &str) -> bool {
    let is_bounded = |part: &str, first: fn(&u8) -> bool, inner: &[u8]| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(first)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || inner.contains(byte))
    };
    let Some((prefix, name)) = text.split_once('/') else { return false };
    prefix.contains('.')
        && prefix.split('.').all(|label| is_bounded(label, u8::is_ascii_alphabetic, b"-"))
        && is_bounded(name, u8::is_ascii_alphanumeric, b"-_.")
}

/// An object without members, which is how a plain yes is said here.
#[derive(Serialize)]
struct Yes {}

impl Render for ServerCapabilities {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let rules = version.rules();
        let completions = self.completions && rules.completions_capability;
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "tools", self.tools)?;
        entry(&mut map, "prompts", self.prompts)?;
        entry(&mut map, "resources", self.resources)?;
        entry(&mut map, "logging", self.logging.then_some(Yes {}))?;
        entry(&mut map, "completions", completions.then_some(Yes {}))?;
        entry(&mut map, "experimental", self.experimental.non_empty())?;
        let extensions = self.extensions.non_empty().filter(|_| rules.extensions);
        entry(&mut map, "extensions", extensions)?;
        map.end()
    }
}

/// What a client says it can do, as it was written.
///
/// Only an object or `true` declares something; what cannot be read declares nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientCapabilities(Box<RawValue>);

impl Default for ClientCapabilities {
    /// The capabilities of a client that said nothing.
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl ClientCapabilities {
    /// The capabilities a client wrote.
    pub fn new(declared: &RawValue) -> Self {
        Self(declared.to_owned())
    }

    /// What the client wrote.
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// Whether a capability is declared.
    pub fn has(&self, name: &str) -> bool {
        self.declared(name).is_some()
    }

    /// Whether a mode of a capability is declared, such as `tools` of `sampling`.
    pub fn has_mode(&self, name: &str, mode: &str) -> bool {
        self.declared(name).and_then(|value| member(value, mode)).is_some_and(declares)
    }

    /// Whether the user can be asked with a form, which is what naming no mode means.
    pub fn elicitation_form(&self) -> bool {
        let has_other = self.elicitation_url();
        self.has_mode("elicitation", "form") || (self.has("elicitation") && !has_other)
    }

    /// Whether the user can be sent to a URL.
    pub fn elicitation_url(&self) -> bool {
        self.has_mode("elicitation", "url")
    }

    /// Whether the client's model can be asked.
    pub fn sampling(&self) -> bool {
        self.has("sampling")
    }

    /// Whether the client's model can be asked with tools at hand.
    pub fn sampling_tools(&self) -> bool {
        self.has_mode("sampling", "tools")
    }

    /// Whether the client tells which folders it works in.
    pub fn roots(&self) -> bool {
        self.has("roots")
    }

    /// The settings of an extension the client knows; an entry that is no object is none.
    pub fn extension(&self, name: &str) -> Option<&RawValue> {
        member(self.declared("extensions")?, name).filter(|settings| is_object(settings))
    }

    /// What declares a capability.
    fn declared(&self, name: &str) -> Option<&RawValue> {
        member(&self.0, name).filter(|value| declares(value))
    }
}

/// Whether a value under a capability's name declares it.
fn declares(value: &RawValue) -> bool {
    is_object(value) || value.get() == "true"
}

/// What a client says to open a classic conversation.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams<'a> {
    /// The revision it would like.
    #[serde(borrow)]
    pub protocol_version: Text<'a>,
    /// What it can do.
    #[serde(borrow)]
    pub capabilities: &'a RawValue,
    /// Which program it is.
    pub client_info: Implementation,
}

/// The answer that opens a classic conversation.
#[derive(Clone, Debug)]
pub struct InitializeResult<'a> {
    /// The revision agreed on.
    pub protocol_version: Version,
    /// What the server can do.
    pub capabilities: &'a ServerCapabilities,
    /// Which program it is.
    pub server_info: &'a Implementation,
    /// How to make good use of the server.
    pub instructions: Option<&'a str>,
}

impl Outcome for InitializeResult<'_> {
    fn fields<M: SerializeMap>(&self, map: &mut M, _version: Version) -> Result<(), M::Error> {
        // What the caller asked for may be another revision; from here on it is this one.
        let version = self.protocol_version;
        map.serialize_entry("protocolVersion", &version)?;
        map.serialize_entry("capabilities", &At(self.capabilities, version))?;
        map.serialize_entry("serverInfo", &At(self.server_info, version))?;
        entry(map, "instructions", self.instructions)
    }

    fn meta(&self) -> Option<&Meta> {
        None
    }
}

/// What a server speaks and offers.
#[derive(Clone, Debug)]
pub struct DiscoverResult<'a> {
    /// The revisions it serves, newest first.
    pub supported_versions: &'a [Version],
    /// What it can do.
    pub capabilities: &'a ServerCapabilities,
    /// How to make good use of it.
    pub instructions: Option<&'a str>,
}

impl Outcome for DiscoverResult<'_> {
    const CACHEABLE: bool = true;

    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error> {
        // Whoever asks has not chosen yet, so it is told of all that the newest revision can have.
        let newest = self.supported_versions.iter().copied().max().unwrap_or(version);
        map.serialize_entry("supportedVersions", self.supported_versions)?;
        map.serialize_entry("capabilities", &At(self.capabilities, newest))?;
        entry(map, "instructions", self.instructions)
    }

    fn meta(&self) -> Option<&Meta> {
        None
    }

    fn cache(&self) -> Option<CacheHint> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> ClientCapabilities {
        ClientCapabilities::new(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn only_an_object_or_true_declares_a_capability() {
        for (value, expected) in [
            ("{}", true),
            ("true", true),
            (r#"{"listChanged":false}"#, true),
            ("false", false),
            ("null", false),
            ("1", false),
            ("[]", false),
            (r#""false""#, false),
            (r#""no""#, false),
        ] {
            let capabilities = client(&format!(r#"{{"roots":{value}}}"#));
            assert_eq!(capabilities.roots(), expected, "{value}");
        }
        for unreadable in ["[]", "null", "true", "5"] {
            assert!(!client(unreadable).roots(), "{unreadable}");
        }
        assert!(!ClientCapabilities::default().roots());
    }

    #[test]
    fn b058_naming_no_mode_means_forms() {
        for (declared, form, url) in [
            ("{}", false, false),
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":true}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
            (r#"{"elicitation":{"url":false}}"#, true, false),
        ] {
            let capabilities = client(declared);
            assert_eq!(capabilities.elicitation_form(), form, "{declared}");
            assert_eq!(capabilities.elicitation_url(), url, "{declared}");
        }
    }

    #[test]
    fn an_extension_has_an_object_of_settings() {
        let capabilities = client(r#"{"extensions":{"a.b/c":{"x":1},"a.b/d":true}}"#);
        assert_eq!(capabilities.extension("a.b/c").map(RawValue::get), Some(r#"{"x":1}"#));
        assert!(capabilities.extension("a.b/d").is_none());
        assert!(capabilities.extension("a.b/e").is_none());
    }

    #[test]
    fn extensions_are_declared_under_names_of_their_shape() {
        let declare = |name: &str, settings: serde_json::Value| {
            let mut capabilities = ServerCapabilities::default();
            let declared = capabilities.declare_extension(name, settings);
            assert_eq!(capabilities.extensions.get(name).is_some(), declared.is_ok(), "{name}");
            declared.is_ok()
        };
        let empty = || serde_json::json!({});
        for name in [
            "io.modelcontextprotocol/tasks",
            "com.ex-ample/a_b.c-d2",
            "a.b/c",
            "a.B2.c3/4",
            "A.b/C",
        ] {
            assert!(declare(name, empty()), "{name}");
        }
        for name in [
            "",
            "tasks",
            "/tasks",
            "com/x",
            "com.example/",
            "com.example",
            "com..example/x",
            ".com.example/x",
            "com.example./x",
            "com.2example/x",
            "com.-example/x",
            "com.example-/x",
            "com.example/-x",
            "com.example/x_",
            "com.example/x/y",
            "com.example/x y",
            "com.exämple/x",
            "https://example.com/x",
        ] {
            assert!(!declare(name, empty()), "{name}");
        }
        for settings in [serde_json::json!(true), serde_json::json!([]), serde_json::json!(null)] {
            assert!(!declare("a.b/c", settings));
        }
        let mut twice = ServerCapabilities::default();
        twice.declare_extension("a.b/c", empty()).unwrap();
        assert!(twice.declare_extension("a.b/c", empty()).is_err());
    }

    #[test]
    fn a_server_declares_what_the_revision_knows() {
        let capabilities = ServerCapabilities {
            tools: Some(ListCapability { list_changed: true }),
            resources: Some(ResourcesCapability::default()),
            completions: true,
            extensions: Members::new().with("a.b/c", Members::new()),
            ..ServerCapabilities::default()
        };
        let written = |version| serde_json::to_string(&At(&capabilities, version)).unwrap();
        let oldest = r#"{"tools":{"listChanged":true},"resources":{}}"#;
        assert_eq!(written(Version::V2024_11_05), oldest);
        assert_eq!(
            written(Version::V2026_07_28),
            concat!(
                r#"{"tools":{"listChanged":true},"resources":{},"completions":{},"#,
                r#""extensions":{"a.b/c":{}}}"#
            )
        );
    }

    #[test]
    fn the_handshake_is_answered_in_the_revision_agreed_on() {
        let info = Implementation::new("s", "1").title("S").website_url("https://example.com");
        let result = InitializeResult {
            protocol_version: Version::V2025_06_18,
            capabilities: &ServerCapabilities::default(),
            server_info: &info,
            instructions: None,
        };
        let version = Version::ASSUMED_WITHOUT_HEADER;
        let stamped = super::super::Stamped { result: &result, version, stamp: None, cache: None };
        assert_eq!(
            serde_json::to_string(&stamped).unwrap(),
            concat!(
                r#"{"protocolVersion":"2025-06-18","capabilities":{},"#,
                r#""serverInfo":{"name":"s","version":"1","title":"S"}}"#
            )
        );
    }
}
