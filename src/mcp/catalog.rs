//! What the server offers, apart from the code that does it: the source of every listing.

use std::collections::{BTreeMap, HashMap};

use super::designation::Designations;
use super::model::{Prompt, Resource, ResourceTemplate, Tool};
use super::permissions::{Item, Permissions, Viewer};
use crate::key::Hasher;

/// Tools, resources, templates and prompts in the order they were added.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: Shelf<ToolEntry>,
    pub(crate) resources: Shelf<Resource>,
    pub(crate) templates: Shelf<TemplateEntry>,
    pub(crate) prompts: Shelf<Prompt>,
    /// What of it depends on who asks.
    pub(crate) permissions: Permissions,
}

/// A tool with what its input schema designates to travel in headers.
#[derive(Debug)]
pub(crate) struct ToolEntry {
    pub(crate) tool: Tool,
    pub(crate) designations: Designations,
}

/// A template with its parsed pattern.
#[derive(Debug)]
pub(crate) struct TemplateEntry {
    pub(crate) template: ResourceTemplate,
    pub(crate) pattern: super::template::Pattern,
}

impl Catalog {
    /// Every designated header suffix of every tool, as a browser must be told before it may send
    /// them.
    pub(crate) fn designated_suffixes(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().flat_map(|(_, entry)| entry.designations.suffixes())
    }

    /// Whether there is something at a URI of which the caller sees nothing.
    pub(crate) fn hides(&self, uri: &str, viewer: &Viewer<'_>) -> bool {
        if !self.permissions.is_personal() {
            return false;
        }
        let resource = self.resources.find(uri).map(|(_, resource)| Item::Resource(resource));
        let templates = self.templates.iter().map(|(_, entry)| entry);
        let matching = templates.filter(|entry| entry.pattern.matches(uri).is_some());
        let templates = matching.map(|entry| Item::ResourceTemplate(&entry.template));
        let mut here = resource.into_iter().chain(templates).peekable();
        here.peek().is_some() && !here.any(|item| self.permissions.shows(item, viewer))
    }
}

/// Items with unique names and a stable order.
///
/// The sequence number of an item never changes and is never used again, so a page of a listing
/// can be continued behind an item even after that item has gone.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    items: BTreeMap<u64, T>,
    by_name: HashMap<Box<str>, u64, Hasher>,
    next: u64,
    /// Grows with every change: what was rendered under another number is stale.
    revision: u64,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), by_name: HashMap::default(), next: 1, revision: 0 }
    }
}

impl<T> Shelf<T> {
    /// Adds an item behind the others; none if the name is taken.
    pub(crate) fn add(&mut self, name: &str, item: T) -> Option<u64> {
        if self.by_name.contains_key(name) {
            return None;
        }
        let seq = self.next;
        self.next += 1;
        self.revision += 1;
        self.by_name.insert(name.into(), seq);
        self.items.insert(seq, item);
        Some(seq)
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<(u64, T)> {
        let seq = self.by_name.remove(name)?;
        self.revision += 1;
        self.items.remove(&seq).map(|item| (seq, item))
    }

    pub(crate) fn find(&self, name: &str) -> Option<(u64, &T)> {
        let seq = *self.by_name.get(name)?;
        self.items.get(&seq).map(|item| (seq, item))
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&T> {
        self.items.get(&seq)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.items.iter().map(|(seq, item)| (*seq, item))
    }

    /// Items behind the one with this number, whether or not it is still here.
    pub(crate) fn after(&self, seq: u64) -> impl Iterator<Item = (u64, &T)> {
        self.items.range(seq.saturating_add(1)..).map(|(seq, item)| (*seq, item))
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_continue_behind_an_item_that_has_gone() {
        let mut shelf = Shelf::default();
        let seqs: Vec<u64> =
            ["a", "b", "c"].into_iter().map(|name| shelf.add(name, name).unwrap()).collect();
        shelf.remove("b");
        shelf.add("d", "d");
        let rest: Vec<&str> = shelf.after(seqs[1]).map(|(_, item)| *item).collect();
        assert_eq!(rest, ["c", "d"]);
    }

    #[test]
    fn a_name_is_taken_until_it_is_removed() {
        let mut shelf = Shelf::default();
        let first = shelf.add("a", 1).unwrap();
        assert_eq!(shelf.add("a", 2), None);
        shelf.remove("a");
        let second = shelf.add("a", 2).unwrap();
        assert_ne!(first, second);
        assert_eq!(shelf.find("a"), Some((second, &2)));
    }
}
