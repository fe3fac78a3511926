//! Blocks of content: what tools answer and prompts say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::{Annotations, At, Meta, Render, Resource, ResourceContents, entry, serialize_newest};
use crate::mcp::version::Version;

/// Who speaks, or who is meant to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The one in front of the screen.
    User,
    /// The model.
    Assistant,
}

/// One block of content.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Content {
    /// What the block holds.
    pub body: ContentBody,
    /// For whom it is and how much it matters.
    pub annotations: Option<Annotations>,
    /// The block's own `_meta`.
    pub meta: Meta,
}

/// What a block of content holds.
#[derive(Clone, Debug)]
pub enum ContentBody {
    /// Text.
    Text(String),
    /// A picture.
    Image {
        /// The file in base64.
        data: String,
        /// What kind of file it is.
        mime_type: String,
    },
    /// Sound; in words where the revision has none.
    Audio {
        /// The file in base64.
        data: String,
        /// What kind of file it is.
        mime_type: String,
    },
    /// A resource, contents and all.
    Resource(ResourceContents),
    /// A resource that can be read; in words where the revision has no links.
    ResourceLink(Box<Resource>),
}

impl From<ContentBody> for Content {
    fn from(body: ContentBody) -> Self {
        Self { body, annotations: None, meta: Meta::new() }
    }
}

impl Content {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        ContentBody::Text(text.into()).into()
    }

    /// A picture from the bytes of its file.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        let data = STANDARD.encode(bytes);
        ContentBody::Image { data, mime_type: mime_type.into() }.into()
    }

    /// Sound from the bytes of its file.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        let data = STANDARD.encode(bytes);
        ContentBody::Audio { data, mime_type: mime_type.into() }.into()
    }

    /// A resource, contents and all.
    pub fn resource(contents: ResourceContents) -> Self {
        ContentBody::Resource(contents).into()
    }

    /// A resource to be read by those who want it.
    pub fn resource_link(resource: Resource) -> Self {
        ContentBody::ResourceLink(Box::new(resource)).into()
    }

    /// The same block, annotated.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// The same block with `_meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// The text of a block of text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            ContentBody::Text(text) => Some(text),
            _ => None,
        }
    }
}

serialize_newest!(Content);

impl Render for Content {
    fn render<S: Serializer>(&self, version: Version, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.body.fields(&mut map, version)?;
        let annotations = self.annotations.as_ref().filter(|own| !own.is_empty());
        entry(&mut map, "annotations", annotations.map(|own| At(own, version)))?;
        let meta = self.meta.non_empty().filter(|_| version.rules().titles);
        entry(&mut map, "_meta", meta)?;
        map.end()
    }
}

impl ContentBody {
    /// Writes the members that depend on what the block holds.
    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error> {
        let rules = version.rules();
        match self {
            Self::Text(text) => text_fields(map, text),
            Self::Image { data, mime_type } => media_fields(map, "image", data, mime_type),
            Self::Audio { data, mime_type } if rules.audio => {
                media_fields(map, "audio", data, mime_type)
            }
            Self::Audio { mime_type, .. } => text_fields(map, &format!("[audio, {mime_type}]")),
            Self::Resource(contents) => {
                map.serialize_entry("type", "resource")?;
                map.serialize_entry("resource", &At(contents, version))
            }
            Self::ResourceLink(resource) if rules.resource_links => {
                map.serialize_entry("type", "resource_link")?;
                resource.fields(map, version)
            }
            Self::ResourceLink(resource) => {
                text_fields(map, &format!("[resource {}: {}]", resource.name, resource.uri))
            }
        }
    }
}

/// Writes the members of a block of text.
fn text_fields<M: SerializeMap>(map: &mut M, text: &str) -> Result<(), M::Error> {
    map.serialize_entry("type", "text")?;
    map.serialize_entry("text", text)
}

/// Writes the members of a picture or of sound.
fn media_fields<M: SerializeMap>(
    map: &mut M,
    kind: &str,
    data: &str,
    mime_type: &str,
) -> Result<(), M::Error> {
    map.serialize_entry("type", kind)?;
    map.serialize_entry("data", data)?;
    map.serialize_entry("mimeType", mime_type)
}

/// All members any block may have, from which the block is put together.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parts {
    r#type: String,
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    resource: Option<ResourceContents>,
    uri: Option<String>,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    size: Option<u64>,
    #[serde(default)]
    icons: Vec<super::Icon>,
    annotations: Option<Annotations>,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

impl TryFrom<Parts> for Content {
    type Error = &'static str;

    fn try_from(mut parts: Parts) -> Result<Self, &'static str> {
        let body = parts.body()?;
        Ok(Self { body, annotations: parts.annotations, meta: parts.meta })
    }
}

impl Parts {
    /// What the block holds, judged by its type.
    fn body(&mut self) -> Result<ContentBody, &'static str> {
        let data = self.data.take().ok_or("data is missing");
        match self.r#type.as_str() {
            "text" => self.text.take().map(ContentBody::Text).ok_or("text is missing"),
            "image" => Ok(ContentBody::Image { data: data?, mime_type: self.mime_type()? }),
            "audio" => Ok(ContentBody::Audio { data: data?, mime_type: self.mime_type()? }),
            "resource" => {
                self.resource.take().map(ContentBody::Resource).ok_or("resource is missing")
            }
            "resource_link" => Ok(ContentBody::ResourceLink(Box::new(self.link()?))),
            _ => Err("unknown type of content"),
        }
    }

    /// The kind of file, which pictures and sound need.
    fn mime_type(&mut self) -> Result<String, &'static str> {
        self.mime_type.take().ok_or("mimeType is missing")
    }

    /// The resource a link leads to; annotations and `_meta` stay with the block.
    fn link(&mut self) -> Result<Resource, &'static str> {
        let uri = self.uri.take().ok_or("uri is missing")?;
        let name = self.name.take().ok_or("name is missing")?;
        let mut resource = Resource::new(uri, name);
        resource.title = self.title.take();
        resource.description = self.description.take();
        resource.mime_type = self.mime_type.take();
        resource.size = self.size;
        resource.icons = std::mem::take(&mut self.icons);
        Ok(resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(content: &Content, version: Version) -> String {
        serde_json::to_string(&At(content, version)).unwrap()
    }

    #[test]
    fn older_revisions_get_in_words_what_they_do_not_have() {
        let audio = Content::audio([0, 1], "audio/wav");
        assert_eq!(
            written(&audio, Version::V2025_03_26),
            r#"{"type":"audio","data":"AAE=","mimeType":"audio/wav"}"#
        );
        let words = r#"{"type":"text","text":"[audio, audio/wav]"}"#;
        assert_eq!(written(&audio, Version::V2024_11_05), words);

        let link = Content::resource_link(Resource::new("file:///a", "a").title("A"));
        assert_eq!(
            written(&link, Version::V2025_06_18),
            r#"{"type":"resource_link","uri":"file:///a","name":"a","title":"A"}"#
        );
        let words = r#"{"type":"text","text":"[resource a: file:///a]"}"#;
        assert_eq!(written(&link, Version::V2025_03_26), words);
    }

    #[test]
    fn older_revisions_get_no_meta_and_no_dates() {
        let annotations = Annotations::new().priority(2.0).last_modified("2025-01-12T15:00:58Z");
        let content = Content::text("x").annotations(annotations).meta(Meta::new().with("a", 1));
        assert_eq!(
            written(&content, Version::V2025_03_26),
            r#"{"type":"text","text":"x","annotations":{"priority":1.0}}"#
        );
        let newer = written(&content, Version::V2025_06_18);
        assert!(newer.contains("lastModified") && newer.contains(r#""_meta":{"a":1}"#));
    }

    #[test]
    fn every_kind_is_read_as_it_is_written() {
        for text in [
            r#"{"type":"text","text":"x","_meta":{"a":1}}"#,
            r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
            r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#,
            r#"{"type":"resource","resource":{"uri":"a:b","text":"x","_meta":{"a":1}}}"#,
            r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"x/y","blob":"AA=="}}"#,
            r#"{"type":"resource_link","uri":"a:b","name":"n","annotations":{"priority":1.0}}"#,
        ] {
            let content: Content = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&content).unwrap(), text);
        }
    }

    #[test]
    fn incomplete_and_unknown_blocks_are_not_read() {
        for text in [
            r#"{"type":"text"}"#,
            r#"{"type":"image","data":"AA=="}"#,
            r#"{"type":"resource","resource":{"uri":"a:b"}}"#,
            r#"{"type":"resource","resource":{"uri":"a:b","text":"x","blob":""}}"#,
            r#"{"type":"resource_link","uri":"a:b"}"#,
            r#"{"type":"smell"}"#,
            r#"{"text":"x"}"#,
        ] {
            assert!(serde_json::from_str::<Content>(text).is_err(), "{text}");
        }
    }
}
