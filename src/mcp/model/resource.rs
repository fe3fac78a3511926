//! Resources: their descriptions, their contents, and the results that carry them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serializer};

use super::{
    At, CacheHint, Icon, Meta, Outcome, Render, Role, entry, entry_list, serialize_newest,
};
use crate::mcp::version::Version;

/// For whom a thing is, and how much it matters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Annotations {
    /// Who should see it; nobody in particular when empty.
    pub audience: Vec<Role>,
    /// From 0, which may be left out, to 1, which may not.
    pub priority: Option<f64>,
    /// When it last changed, by ISO 8601.
    pub last_modified: Option<String>,
}

impl Annotations {
    /// No annotations yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more who should see it.
    pub fn audience(mut self, role: Role) -> Self {
        self.audience.push(role);
        self
    }

    /// How much it matters; values outside 0 to 1 are brought to the nearer end.
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = (!priority.is_nan()).then(|| priority.clamp(0.0, 1.0));
        self
    }

    /// When it last changed, by ISO 8601.
    pub fn last_modified(mut self, when: impl Into<String>) -> Self {
        self.last_modified = Some(when.into());
        self
    }

    /// Whether nothing is annotated.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Render for Annotations {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry_list(&mut map, "audience", &self.audience)?;
        entry(&mut map, "priority", self.priority)?;
        let last_modified = self.last_modified.as_ref().filter(|_| version.rules().titles);
        entry(&mut map, "lastModified", last_modified)?;
        map.end()
    }
}

/// A resource as listings show it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Under what it is read.
    pub uri: String,
    /// What programs call it.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What it is about.
    pub description: Option<String>,
    /// What kind of file it is.
    pub mime_type: Option<String>,
    /// How many bytes it has before any encoding.
    pub size: Option<u64>,
    /// For whom it is.
    pub annotations: Option<Annotations>,
    /// Pictures to show it by.
    #[serde(default)]
    pub icons: Vec<Icon>,
    /// The resource's own `_meta`.
    #[serde(default, rename = "_meta")]
    pub meta: Meta,
}

/// A family of resources as listings show it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// How their addresses are made, by RFC 6570.
    pub uri_template: String,
    /// What programs call the family.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What it is about.
    pub description: Option<String>,
    /// What kind of file all its resources are.
    pub mime_type: Option<String>,
    /// For whom they are.
    pub annotations: Option<Annotations>,
    /// Pictures to show it by.
    #[serde(default)]
    pub icons: Vec<Icon>,
    /// The template's own `_meta`.
    #[serde(default, rename = "_meta")]
    pub meta: Meta,
}

/// Writes the builders a resource and a template have in common.
macro_rules! describe {
    ($type:ty) => {
        impl $type {
            /// What people call it.
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.title = Some(title.into());
                self
            }

            /// What it is about.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.description = Some(description.into());
                self
            }

            /// What kind of file it is.
            pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
                self.mime_type = Some(mime_type.into());
                self
            }

            /// For whom it is.
            pub fn annotations(mut self, annotations: Annotations) -> Self {
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

            /// Writes the members both have, all but annotations and `_meta`.
            fn description_fields<M: SerializeMap>(
                &self,
                map: &mut M,
                version: Version,
            ) -> Result<(), M::Error> {
                let rules = version.rules();
                map.serialize_entry("name", &self.name)?;
                entry(map, "title", self.title.as_ref().filter(|_| rules.titles))?;
                entry(map, "description", self.description.as_ref())?;
                entry(map, "mimeType", self.mime_type.as_ref())?;
                if rules.icons { entry_list(map, "icons", &self.icons) } else { Ok(()) }
            }

            /// Writes annotations and `_meta`.
            fn outer_fields<M: SerializeMap>(
                &self,
                map: &mut M,
                version: Version,
            ) -> Result<(), M::Error> {
                let annotations = self.annotations.as_ref().filter(|own| !own.is_empty());
                entry(map, "annotations", annotations.map(|own| At(own, version)))?;
                entry(map, "_meta", self.meta.non_empty().filter(|_| version.rules().titles))
            }
        }
    };
}

describe!(Resource);
describe!(ResourceTemplate);
serialize_newest!(Annotations, Resource, ResourceTemplate, ResourceContents);

impl Resource {
    /// A resource by its address and its name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            annotations: None,
            icons: Vec::new(),
            meta: Meta::new(),
        }
    }

    /// How many bytes it has before any encoding.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Writes the members a link and a listing have in common.
    pub(super) fn fields<M: SerializeMap>(
        &self,
        map: &mut M,
        version: Version,
    ) -> Result<(), M::Error> {
        map.serialize_entry("uri", &self.uri)?;
        self.description_fields(map, version)?;
        entry(map, "size", self.size)
    }
}

impl Render for Resource {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.fields(&mut map, version)?;
        self.outer_fields(&mut map, version)?;
        map.end()
    }
}

impl ResourceTemplate {
    /// A template by the pattern of its addresses and its name.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri_template: uri_template.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            annotations: None,
            icons: Vec::new(),
            meta: Meta::new(),
        }
    }
}

impl Render for ResourceTemplate {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uriTemplate", &self.uri_template)?;
        self.description_fields(&mut map, version)?;
        self.outer_fields(&mut map, version)?;
        map.end()
    }
}

/// What a resource, or a part of one, contains.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ContentsParts")]
pub struct ResourceContents {
    /// The address of the part.
    pub uri: String,
    /// What kind of file it is.
    pub mime_type: Option<String>,
    /// The text or the bytes.
    pub body: ResourceBody,
    /// The part's own `_meta`.
    pub meta: Meta,
}

/// The text or the bytes of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes, in base64.
    Blob(String),
}

impl ResourceContents {
    /// Contents that are text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(uri.into(), ResourceBody::Text(text.into()))
    }

    /// Contents that are bytes.
    pub fn blob(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(uri.into(), ResourceBody::Blob(STANDARD.encode(bytes)))
    }

    /// Contents of either kind.
    fn new(uri: String, body: ResourceBody) -> Self {
        Self { uri, mime_type: None, body, meta: Meta::new() }
    }

    /// What kind of file it is.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Their own `_meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }
}

impl Render for ResourceContents {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uri", &self.uri)?;
        entry(&mut map, "mimeType", self.mime_type.as_ref())?;
        match &self.body {
            ResourceBody::Text(text) => map.serialize_entry("text", text)?,
            ResourceBody::Blob(data) => map.serialize_entry("blob", data)?,
        }
        let meta = self.meta.non_empty().filter(|_| version.rules().titles);
        entry(&mut map, "_meta", meta)?;
        map.end()
    }
}

/// All members contents may have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentsParts {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

impl TryFrom<ContentsParts> for ResourceContents {
    type Error = &'static str;

    fn try_from(parts: ContentsParts) -> Result<Self, &'static str> {
        let body = match (parts.text, parts.blob) {
            (Some(text), None) => ResourceBody::Text(text),
            (None, Some(blob)) => ResourceBody::Blob(blob),
            _ => return Err("contents are either text or blob"),
        };
        Ok(Self { uri: parts.uri, mime_type: parts.mime_type, body, meta: parts.meta })
    }
}

/// The answer to reading a resource.
#[derive(Clone, Debug, Default)]
pub struct ReadResourceResult {
    /// The resource, in one or more parts.
    pub contents: Vec<ResourceContents>,
    /// How long it keeps, if the handler knows.
    pub cache: Option<CacheHint>,
    /// The result's own `_meta`.
    pub meta: Meta,
}

impl ReadResourceResult {
    /// A resource in these parts.
    pub fn new(contents: impl IntoIterator<Item = ResourceContents>) -> Self {
        Self { contents: Vec::from_iter(contents), ..Self::default() }
    }

    /// The same result, known to keep.
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.cache = Some(hint);
        self
    }

    /// The same result with `_meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }
}

impl From<ResourceContents> for ReadResourceResult {
    fn from(contents: ResourceContents) -> Self {
        Self::new([contents])
    }
}

impl Outcome for ReadResourceResult {
    const CACHEABLE: bool = true;

    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error> {
        map.serialize_entry("contents", &At(&self.contents[..], version))
    }

    fn meta(&self) -> Option<&Meta> {
        Some(&self.meta)
    }

    fn cache(&self) -> Option<CacheHint> {
        self.cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_shows_what_its_reader_can_read() {
        let resource = Resource::new("file:///a", "a")
            .title("A")
            .mime_type("text/plain")
            .size(3)
            .annotations(Annotations::new())
            .icon(Icon::new("data:,"))
            .meta(Meta::new().with("x", 1));
        let written = |version| serde_json::to_string(&At(&resource, version)).unwrap();
        assert_eq!(
            written(Version::V2025_03_26),
            r#"{"uri":"file:///a","name":"a","mimeType":"text/plain","size":3}"#
        );
        assert_eq!(
            written(Version::V2025_11_25),
            concat!(
                r#"{"uri":"file:///a","name":"a","title":"A","mimeType":"text/plain","#,
                r#""icons":[{"src":"data:,"}],"size":3,"_meta":{"x":1}}"#
            )
        );
    }

    #[test]
    fn bytes_travel_in_base64() {
        let contents = ResourceContents::blob("a:b", [0xff, 0]).mime_type("x/y");
        let text = r#"{"uri":"a:b","mimeType":"x/y","blob":"/wA="}"#;
        assert_eq!(serde_json::to_string(&contents).unwrap(), text);
    }

    #[test]
    fn priorities_stay_within_their_range() {
        let priority = |value: f64| Annotations::new().priority(value).priority;
        assert_eq!(priority(-1.0), Some(0.0));
        assert_eq!(priority(f64::INFINITY), Some(1.0));
        assert_eq!(priority(f64::NAN), None);
    }
}
