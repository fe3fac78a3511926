//! Pages of listings.

use serde::ser::SerializeMap;

use super::{
    At, CacheHint, Meta, Outcome, Prompt, Render, Resource, ResourceTemplate, Tool, entry,
};
use crate::mcp::permissions::Item;
use crate::mcp::version::Version;

/// A thing that is listed.
pub trait Listed: Render {
    /// The member of the result that holds the list, which also names the list in cursors.
    const LIST: &'static str;

    /// The thing as those see it who decide who else does.
    fn as_item(&self) -> Item<'_>;
}

impl Listed for Tool {
    const LIST: &'static str = "tools";

    fn as_item(&self) -> Item<'_> {
        Item::Tool(self)
    }
}

impl Listed for Prompt {
    const LIST: &'static str = "prompts";

    fn as_item(&self) -> Item<'_> {
        Item::Prompt(self)
    }
}

impl Listed for Resource {
    const LIST: &'static str = "resources";

    fn as_item(&self) -> Item<'_> {
        Item::Resource(self)
    }
}

impl Listed for ResourceTemplate {
    const LIST: &'static str = "resourceTemplates";

    fn as_item(&self) -> Item<'_> {
        Item::ResourceTemplate(self)
    }
}

/// One page of a listing, which borrows what it lists.
#[derive(Clone, Debug)]
pub struct Listing<'a, T> {
    /// What the page holds.
    pub items: Vec<&'a T>,
    /// Where the next page begins; none on the last one.
    pub next_cursor: Option<String>,
    /// The result's own `_meta`.
    pub meta: Meta,
}

/// A page of tools.
pub type ListToolsResult<'a> = Listing<'a, Tool>;
/// A page of prompts.
pub type ListPromptsResult<'a> = Listing<'a, Prompt>;
/// A page of resources.
pub type ListResourcesResult<'a> = Listing<'a, Resource>;
/// A page of templates.
pub type ListResourceTemplatesResult<'a> = Listing<'a, ResourceTemplate>;

impl<'a, T> Listing<'a, T> {
    /// A page, and where the next one begins.
    pub fn new(items: impl IntoIterator<Item = &'a T>, next_cursor: Option<String>) -> Self {
        Self { items: Vec::from_iter(items), next_cursor, meta: Meta::new() }
    }
}

impl<T: Listed> Outcome for Listing<'_, T> {
    const CACHEABLE: bool = true;

    fn fields<M: SerializeMap>(&self, map: &mut M, version: Version) -> Result<(), M::Error> {
        map.serialize_entry(T::LIST, &At(&self.items[..], version))?;
        entry(map, "nextCursor", self.next_cursor.as_ref())
    }

    fn meta(&self) -> Option<&Meta> {
        Some(&self.meta)
    }

    fn cache(&self) -> Option<CacheHint> {
        None
    }
}
