//! Listings: pages in the order of registration, rendered once per revision.

use std::collections::HashMap;

use super::{App, Desk, Made};
use crate::exchange::Caller;
use crate::filter::endpoint::Ask;
use crate::key::Hasher;
use crate::mcp::catalog::Shelf;
use crate::mcp::method_not_found;
use crate::mcp::model::{Listed, Listing, Stamped};
use crate::mcp::version::Version;
use crate::rpc::{ErrorObject, encode, json};

/// First pages as they were last rendered: they are what nearly everybody asks for, and they
/// change only when the catalog does.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    first: HashMap<(&'static str, Version), (u64, Vec<u8>), Hasher>,
}

impl App {
    pub(super) fn list_tools(
        &mut self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        if self.identity.capabilities.tools.is_none() {
            return Err(method_not_found(&ask.method));
        }
        self.list(caller, ask, &desk.catalog.tools, |entry| &entry.tool, desk.body)
    }

    pub(super) fn list_prompts(
        &mut self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        if self.identity.capabilities.prompts.is_none() {
            return Err(method_not_found(&ask.method));
        }
        self.list(caller, ask, &desk.catalog.prompts, |prompt| prompt, desk.body)
    }

    pub(super) fn list_resources(
        &mut self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        if self.identity.capabilities.resources.is_none() {
            return Err(method_not_found(&ask.method));
        }
        self.list(caller, ask, &desk.catalog.resources, |resource| resource, desk.body)
    }

    pub(super) fn list_templates(
        &mut self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        if self.identity.capabilities.resources.is_none() {
            return Err(method_not_found(&ask.method));
        }
        self.list(caller, ask, &desk.catalog.templates, |entry| &entry.template, desk.body)
    }

    fn list<E, T: Listed>(
        &mut self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        shelf: &Shelf<E>,
        item: impl Fn(&E) -> &T,
        body: &mut Vec<u8>,
    ) -> Result<Made, ErrorObject> {
        let answered = Made::Answered { error: None, said: Vec::new(), session: None };
        // The empty cursor is a cursor: it stands for the beginning.
        let cursor = ask.params.cursor.as_ref().map(|cursor| cursor.as_str()).unwrap_or_default();
        if !cursor.is_empty() {
            let after = self.identity.cursors.open(T::LIST, cursor).map_err(|_| {
                ErrorObject::invalid_params("params.cursor is not one this server gave out")
            })?;
            let page = self.render(caller.version, shelf, after, item);
            encode::write_result_raw(body, &ask.id, &page);
            return Ok(answered);
        }
        let key = (T::LIST, caller.version);
        let fresh = |(revision, _): &&(u64, Vec<u8>)| *revision == shelf.revision();
        if self.listings.first.get(&key).filter(fresh).is_none() {
            let page = self.render(caller.version, shelf, 0, item);
            self.listings.first.insert(key, (shelf.revision(), page));
        }
        let (_, page) = &self.listings.first[&key];
        encode::write_result_raw(body, &ask.id, page);
        Ok(answered)
    }

    fn render<E, T: Listed>(
        &self,
        version: Version,
        shelf: &Shelf<E>,
        after: u64,
        item: impl Fn(&E) -> &T,
    ) -> Vec<u8> {
        let size = match self.identity.page_items {
            0 => usize::MAX,
            size => size,
        };
        let mut rest = shelf.after(after);
        let mut last = 0;
        let mut items = Vec::new();
        for (seq, entry) in rest.by_ref().take(size) {
            last = seq;
            items.push(item(entry));
        }
        let next = rest.next().map(|_| self.identity.cursors.seal(T::LIST, last));
        let listing = Listing::new(items, next);
        let stamped =
            Stamped::new(&listing, version, &self.identity.stamp).cache(self.identity.cache);
        let mut page = Vec::new();
        if let Err(error) = json::write(&mut page, &stamped) {
            log::error!("a listing has no JSON form: {error}");
            return format!("{{\"{}\":[]}}", T::LIST).into_bytes();
        }
        page
    }
}
