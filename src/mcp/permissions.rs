//! Who sees what a server offers, and what using it takes.

use std::fmt;

use super::Method;
use super::model::{Prompt, Resource, ResourceTemplate, Tool};
use super::version::Version;
use crate::guard::guarded;
use crate::key::Principal;

/// One thing that a server offers.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A tool.
    Tool(&'a Tool),
    /// A prompt.
    Prompt(&'a Prompt),
    /// A resource with a URI of its own.
    Resource(&'a Resource),
    /// A family of resources.
    ResourceTemplate(&'a ResourceTemplate),
}

/// Who asks what there is.
#[derive(Debug, Clone, Copy)]
pub struct Viewer<'a> {
    principal: Option<&'a Principal>,
    version: Version,
}

impl<'a> Viewer<'a> {
    pub(crate) fn new(principal: Option<&'a Principal>, version: Version) -> Self {
        Self { principal, version }
    }

    /// Who the caller is, if somebody said so.
    #[must_use]
    pub fn principal(&self) -> Option<&'a Principal> {
        self.principal
    }

    /// What the caller was granted; nothing when nobody said who it is.
    #[must_use]
    pub fn scopes(&self) -> &'a [String] {
        self.principal.map_or(&[], Principal::scopes)
    }

    /// Whether the caller was granted this scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.principal.is_some_and(|principal| principal.has_scope(scope))
    }

    /// The revision under which the caller asks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}

type Visible = dyn for<'i, 'v> Fn(Item<'i>, &Viewer<'v>) -> bool;

/// What of a catalog depends on who asks. Nothing, unless it is set up.
#[derive(Default)]
pub(crate) struct Permissions {
    visible: Option<Box<Visible>>,
    methods: Vec<(Method, Vec<String>)>,
    engaged: bool,
}

impl Permissions {
    /// Shows items to those callers only of whom this says so.
    pub(crate) fn show_if(
        &mut self,
        visible: impl for<'i, 'v> Fn(Item<'i>, &Viewer<'v>) -> bool + 'static,
    ) {
        self.visible = Some(Box::new(visible));
        self.engaged = true;
    }

    /// Makes methods need scopes.
    pub(crate) fn need(&mut self, methods: Vec<(Method, Vec<String>)>) {
        self.engaged |= !methods.is_empty();
        self.methods.extend(methods);
    }

    /// Says that a tool of the catalog needs scopes.
    pub(crate) fn engage(&mut self) {
        self.engaged = true;
    }

    /// Whether a request has to be looked at: it spares all others the look.
    pub(crate) fn is_engaged(&self) -> bool {
        self.engaged
    }

    /// Whether callers see different things.
    pub(crate) fn is_personal(&self) -> bool {
        self.visible.is_some()
    }

    /// Whether a caller sees an item. When the hook panics, it does not.
    pub(crate) fn shows(&self, item: Item<'_>, viewer: &Viewer<'_>) -> bool {
        let Some(visible) = &self.visible else {
            return true;
        };
        guarded(|| visible(item, viewer)).unwrap_or_else(|_| {
            log::error!("the hook that decides who sees what panicked; the item stays hidden");
            false
        })
    }

    /// The scopes that requests of a method need.
    pub(crate) fn scopes_of(&self, method: Method) -> impl Iterator<Item = &str> {
        let ours = self.methods.iter().filter(move |(known, _)| *known == method);
        ours.flat_map(|(_, scopes)| scopes).map(String::as_str)
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions")
            .field("visible", &self.visible.is_some())
            .field("methods", &self.methods)
            .finish_non_exhaustive()
    }
}
