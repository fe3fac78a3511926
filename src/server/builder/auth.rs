//! Where clients see the server, and who may use it.

use std::net::IpAddr;

use super::ServerBuilder;
use crate::error::BuildError;
use crate::filter::bearer::{BearerAuth, Protection, Site};
use crate::http::{PublicUrl, is_loopback};
use crate::mcp::permissions::{Item, Viewer};

impl ServerBuilder {
    /// The URL under which clients see this server, when a proxy is in front of it: what stands in
    /// place of `http://HOST:PORT` in theirs, for example `https://mcp.example.com/tools` for an
    /// endpoint at `https://mcp.example.com/tools/mcp`.
    ///
    /// Its host is answered for without [`allow_host`](Self::allow_host). URLs that the server
    /// tells are made from it, never from what a request says. An `http` or `https` URL without
    /// query; anything else is a mistake in the description.
    pub fn public_url(mut self, url: &str) -> Self {
        match PublicUrl::parse(url) {
            Ok(url) => {
                self.answer_for(url.host());
                self.public_url = Some(url);
                self
            }
            Err(reason) => self.note(Err(BuildError::Invalid {
                kind: "public URL",
                name: url.to_owned(),
                reason: reason.to_owned(),
            })),
        }
    }

    /// Takes the word of the proxies at these addresses for which host a request was sent to: their
    /// `X-Forwarded-Host` is checked in place of `Host`, by the same rules. From any other peer the
    /// field means nothing. `Forwarded` and the other `X-Forwarded` fields are never read.
    pub fn trust_proxy(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.hosts.proxies.extend(addresses.into_iter().map(|address| address.to_canonical()));
        self
    }

    /// Lets nobody in without a valid bearer token, and tells clients where to get one: every path
    /// but probes, preflights and the metadata itself. See [`BearerAuth`]. In place of
    /// [`authenticate`](Self::authenticate): only one of the two can say who a caller is.
    pub fn bearer_auth(mut self, protection: BearerAuth) -> Self {
        self.bearer = Some(protection);
        self
    }

    /// Shows tools, prompts, resources and templates only to those callers of whom this hook says
    /// so. What a caller does not see is in none of its listings, and asking for it by name is
    /// answered as if it were not there. All are seen by everybody unless set.
    ///
    /// It runs on the loop, for every item of a listing: keep it quick. If it panics, the item is
    /// hidden. Listings and reads are then [private](crate::CacheScope::Private) to their caller,
    /// whatever [`cache`](Self::cache) says.
    pub fn visible(
        mut self,
        hook: impl for<'i, 'v> Fn(Item<'i>, &Viewer<'v>) -> bool + 'static,
    ) -> Self {
        self.catalog.permissions.show_if(hook);
        self
    }

    /// Checks the description of the tokens, now that all of the server is described.
    pub(super) fn settle_bearer_auth(&mut self) -> Result<Option<Protection>, BuildError> {
        let Some(described) = self.bearer.take() else {
            return Ok(None);
        };
        if self.auth.is_some() {
            let reason = "authenticate is set, too; only one can say who a caller is".to_owned();
            let name = self.app.identity.info.name.clone();
            return Err(BuildError::Invalid { kind: "bearer auth of", name, reason });
        }
        let info = &self.app.identity.info;
        let site = Site {
            path: &self.path,
            public_url: self.public_url.as_ref(),
            name: info.title.as_deref().unwrap_or(&info.name),
        };
        let mut protection = described.settle(&site)?;
        self.answer_for(&protection.host);
        self.catalog.permissions.need(std::mem::take(&mut protection.methods));
        Ok(Some(protection))
    }

    /// Adds a name of this server. Those of this machine are known anyway.
    fn answer_for(&mut self, host: &str) {
        if !is_loopback(host) {
            self.hosts.allowed.push(host.to_owned());
        }
    }
}
