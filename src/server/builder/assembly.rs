//! From a description to a server: the chain of filters, the routes, the sockets.

#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "tls")]
use crate::dispatcher::TlsSource;
use crate::dispatcher::{self, BindPolicy, Dispatcher, Transport};
use crate::engine::{Engine, Parts, register};
use crate::error::BuildError;
use crate::filter::bearer::{BearerGate, Metadata, Protection};
use crate::filter::endpoint::Endpoint;
use crate::filter::legacy::LegacyEndpoint;
use crate::filter::routing::{ALIVE_PATHS, Action, READY_PATHS, Router};
use crate::filter::security::Security;
use crate::filter::{AccessLog, Chain};
use crate::http::Method;
use crate::mcp::TASKS_EXTENSION;
use crate::mcp::catalog::ToolEntry;
use crate::mcp::cursor::CursorKey;
use crate::mcp::model::CacheScope;
use crate::mcp::model::{Members, TaskSupport};
use crate::mcp::seal::StateKeys;
use crate::server::Server;
use crate::workers::Workers;

use super::ServerBuilder;

impl ServerBuilder {
    /// Makes the server listen on `HOST:PORT`. The host is an IP address or `localhost`, which
    /// stands for both loopback addresses; no host means 127.0.0.1, no port 8080, and port 0 one
    /// that is free.
    ///
    /// # Errors
    ///
    /// When the description has a mistake, a file for TLS cannot be used, the address is public and
    /// that is not allowed, or the operating system refuses.
    pub fn bind(self, address: &str) -> Result<Server, BuildError> {
        let (policy, path) = (self.bind_policy, self.path.clone());
        #[cfg(feature = "tls")]
        let tls = self.tls.clone().map(TlsSource::load).transpose()?.map(Arc::new);
        let mut engine = self.build_engine::<Transport>()?;
        let sockets = dispatcher::bind(address, policy)?;
        let mut dispatcher = Dispatcher::new(&engine).map_err(BuildError::Loop)?;
        #[cfg(feature = "tls")]
        if let Some(source) = &tls {
            dispatcher.speak_tls(Arc::clone(source));
        }
        let mut addresses = Vec::new();
        for socket in sockets {
            addresses.push(dispatcher.serve(socket).map_err(BuildError::Loop)?);
        }
        engine.start(dispatcher.now());
        Ok(Server {
            engine,
            dispatcher,
            addresses,
            path,
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// Makes the server without sockets and clock, for loops and tests of your own.
    ///
    /// # Errors
    ///
    /// When the description has a mistake or the system has no randomness to give.
    pub fn build_engine<T>(mut self) -> Result<Engine<T>, BuildError> {
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        self.versions.sort_unstable_by(|a, b| b.cmp(a));
        self.versions.dedup();
        self.app.identity.served = self.versions.clone();
        self.app.identity.cursors = CursorKey::new(random_key()?);
        self.app.identity.states = self.states.take().map_or_else(StateKeys::random, Ok)?;
        self.app.identity.page_items = self.limits.page_items;
        if self.catalog.permissions.is_personal() {
            self.app.identity.cache.scope = CacheScope::Private;
        }
        self.app.workers =
            Workers::new(self.limits.blocking_threads, self.limits.blocking_queue_max);
        let tasks = |(_, entry): (u64, &ToolEntry)| entry.tool.tasks != TaskSupport::Never;
        let declared = &mut self.app.identity.capabilities;
        if self.catalog.tools.iter().any(tasks)
            && declared.extensions.get(TASKS_EXTENSION).is_none()
        {
            declared.declare_extension(TASKS_EXTENSION, Members::new())?;
        }
        if self.announces {
            self.app.identity.capabilities.announce_all();
        }
        register::install_breakers(&self.catalog, &mut self.app);
        let chain = self.build_chain()?;
        Ok(Engine::new(Parts {
            app: self.app,
            catalog: self.catalog,
            chain,
            mailbox: self.mailbox,
            limits: self.limits,
            timeouts: self.timeouts,
            http10: self.http10,
            measures_turns: self.ops.measures_turns(),
        }))
    }

    fn build_chain(&mut self) -> Result<Chain, BuildError> {
        let protection = self.settle_bearer_auth()?;
        let paths = vec![self.path.clone(), RPC_ALIAS.to_owned()];
        let mut chain = Chain::new();
        #[cfg(feature = "metrics")]
        self.install_meter(&mut chain);
        if self.ops.access_log {
            chain.push(AccessLog::new());
        }
        chain.push(std::mem::take(&mut self.filters));
        self.hosts.any_literal =
            self.bind_policy == BindPolicy::Public && self.hosts.allowed.is_empty();
        let public_paths = self.public_paths(protection.as_ref());
        let open_paths = self.open_paths(&public_paths);
        let metadata = protection.as_ref().map(|protection| &protection.metadata);
        let challenge = protection.as_ref().map(|protection| protection.challenge.clone());
        let challenge = challenge.unwrap_or_default();
        let legacy = self.settle_legacy(&paths, &challenge)?;
        let router = self.build_router(&paths, legacy.as_ref(), metadata);
        // Whoever checks the credentials asks it, because it is about whose they are.
        let mut rate = self.ops.rate.take();
        chain.push(Security {
            origins: self.origins.clone(),
            hosts: self.hosts.clone(),
            auth: self.auth.take(),
            rate: rate.take_if(|_| protection.is_none()),
            open_paths: open_paths.clone(),
            public_paths,
            methods: router.served(),
        });
        if let Some(protection) = protection {
            let tokens_max = self.limits.tokens_max;
            let mailbox = self.mailbox.clone();
            chain.push(BearerGate::new(protection, open_paths, tokens_max, rate, mailbox));
        }
        chain.push(router);
        chain.push(Endpoint {
            paths,
            served: self.versions.clone(),
            sessions: self.app.sessions,
            json_depth_max: self.limits.json_depth_max,
            http10: self.http10,
            challenge,
            legacy,
        });
        Ok(chain)
    }

    /// Paths that pages of any origin may read, unless the user replaced what is there.
    fn public_paths(&self, protection: Option<&Protection>) -> Vec<String> {
        let paths = protection.map_or(&[][..], |protection| &protection.metadata.paths);
        paths.iter().filter(|path| !self.router.has(path)).cloned().collect()
    }

    /// Paths that are answered without credentials: these, the probes, and the pages about the
    /// server if they are for everybody, unless the user replaced them.
    fn open_paths(&self, public_paths: &[String]) -> Vec<String> {
        let reports = self.ops.reports.iter().filter(|_| self.ops.open_reports);
        let probes = ALIVE_PATHS.into_iter().chain(READY_PATHS);
        let ours = probes.chain(reports.map(|report| report.path()));
        let ours = ours.filter(|path| !self.router.has(path)).map(str::to_owned);
        ours.chain(public_paths.iter().cloned()).collect()
    }

    /// The library's own routes, then the user's, which win.
    fn build_router(
        &mut self,
        paths: &[String],
        legacy: Option<&LegacyEndpoint>,
        metadata: Option<&Metadata>,
    ) -> Router {
        let mut router = Router::default();
        router.add_probes();
        router.add_reports(&self.ops.reports);
        if let Some(metadata) = metadata {
            metadata.add_routes(&mut router);
        }
        for path in paths {
            router.add(Method::Post, path, Action::Pass);
        }
        let sessions =
            self.app.sessions && self.versions.iter().any(|version| !version.is_modern());
        for path in paths.iter().filter(|_| sessions) {
            router.add(Method::Get, path, Action::PassClassic);
            router.add(Method::Delete, path, Action::PassClassic);
        }
        if let Some(legacy) = legacy {
            router.add(Method::Get, &legacy.stream_path, Action::Pass);
            router.add(Method::Post, &legacy.messages_path, Action::Pass);
        }
        router.adopt(std::mem::take(&mut self.router));
        router
    }
}

/// A second path of the endpoint, for clients that were configured with it.
const RPC_ALIAS: &str = "/rpc";

fn random_key() -> Result<[u8; 32], BuildError> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| BuildError::Random(error.to_string()))?;
    Ok(key)
}
