//! Listings: pages in the order of registration, rendered once per revision.

use std::collections::HashMap;
use std::sync::Arc;

use super::{App, Desk, Made};
use crate::engine::body::Body;
use crate::exchange::Caller;
use crate::filter::endpoint::Ask;
use crate::key::Hasher;
use crate::mcp::catalog::Shelf;
use crate::mcp::model::{Ending, Listed, Listing, Stamped};
use crate::mcp::permissions::{Permissions, Viewer};
use crate::mcp::version::Version;
use crate::mcp::{Method, method_not_found};
use crate::rpc::{ErrorObject, encode, json};

/// First pages as they were last rendered: they are what nearly everybody asks for, and they
/// change only when the catalog does.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    /// Each with the revision of its shelf, and with what ends the message behind it.
    first: HashMap<(&'static str, Version), Rendered, Hasher>,
}

/// A page, and the revision of the catalog it shows.
type Rendered = (u64, Arc<[u8]>);

impl App {
    /// One page of the listing that a method asks for.
    pub(super) fn list_for(
        &mut self,
        method: Method,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        let declared = &self.identity.capabilities;
        let (catalog, body) = (desk.catalog, &mut *desk.body);
        let permissions = &catalog.permissions;
        match method {
            Method::ToolsList if declared.tools.is_some() => {
                self.list(caller, ask, permissions, &catalog.tools, |entry| &entry.tool, body)
            }
            Method::PromptsList if declared.prompts.is_some() => {
                self.list(caller, ask, permissions, &catalog.prompts, |prompt| prompt, body)
            }
            Method::ResourcesList if declared.resources.is_some() => {
                self.list(caller, ask, permissions, &catalog.resources, |resource| resource, body)
            }
            Method::ResourcesTemplatesList if declared.resources.is_some() => self.list(
                caller,
                ask,
                permissions,
                &catalog.templates,
                |entry| &entry.template,
                body,
            ),
            // What is not declared does not exist, however empty the list would be.
            _ => Err(method_not_found(&ask.method)),
        }
    }

    fn list<E, T: Listed>(
        &mut self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        permissions: &Permissions,
        shelf: &Shelf<E>,
        item: impl Fn(&E) -> &T,
        body: &mut Body,
    ) -> Result<Made, ErrorObject> {
        let answered = Made::Answered { ending: Ending::Result, said: Vec::new(), session: None };
        // The empty cursor is a cursor: it stands for the beginning.
        let cursor = ask.params.cursor.as_ref().map(|cursor| cursor.as_str()).unwrap_or_default();
        if !cursor.is_empty() {
            let after = self.identity.cursors.open(T::LIST, cursor).map_err(|_| {
                ErrorObject::invalid_params("params.cursor is not one this server gave out")
            })?;
            let page = self.page(caller, permissions, shelf, after, item);
            encode::write_result_raw(body.anew(), &ask.id, &page);
            return Ok(answered);
        }
        if permissions.is_personal() {
            let page = self.page(caller, permissions, shelf, 0, item);
            encode::write_result_raw(body.anew(), &ask.id, &page);
            return Ok(answered);
        }
        let key = (T::LIST, caller.version);
        let page = match self.listings.first.get(&key) {
            Some((revision, page)) if *revision == shelf.revision() => Arc::clone(page),
            _ => {
                let mut page = self.render(caller.version, shelf.after(0), item);
                page.extend_from_slice(encode::RESULT_END);
                let page: Arc<[u8]> = page.into();
                self.listings.first.insert(key, (shelf.revision(), Arc::clone(&page)));
                page
            }
        };
        encode::open_result(body.anew(), &ask.id);
        body.end_with(page);
        Ok(answered)
    }

    /// One page as this caller sees it: as long as any other, and with another one behind it only
    /// if there is something to see on that. What is hidden leaves no gap.
    fn page<E, T: Listed>(
        &self,
        caller: &Caller<'_>,
        permissions: &Permissions,
        shelf: &Shelf<E>,
        after: u64,
        item: impl Fn(&E) -> &T,
    ) -> Vec<u8> {
        let viewer = Viewer::new(caller.principal.as_ref(), caller.version);
        let seen = |(_, entry): &(u64, &E)| permissions.shows(item(entry).as_item(), &viewer);
        self.render(caller.version, shelf.after(after).filter(seen), &item)
    }

    fn render<'s, E: 's, T: Listed + 's>(
        &self,
        version: Version,
        mut rest: impl Iterator<Item = (u64, &'s E)>,
        item: impl Fn(&'s E) -> &'s T,
    ) -> Vec<u8> {
        let size = match self.identity.page_items {
            0 => usize::MAX,
            size => size,
        };
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
