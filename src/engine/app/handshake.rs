//! `initialize`, `server/discover` and the log level of a session.

use std::sync::Arc;

use super::{App, Desk, Made, missing};
use crate::exchange::Caller;
use crate::filter::endpoint::Ask;
use crate::http::Status;
use crate::mcp::model::{DiscoverResult, EmptyResult, InitializeResult, LogLevel};
use crate::mcp::session::{NewSession, NoSession, Transport};
use crate::mcp::unsupported_version;
use crate::mcp::version;
use crate::rpc::{self, ErrorObject};

impl App {
    /// Negotiates a revision and opens a session (revision 2025-11-25, Lifecycle).
    pub(super) fn initialize(
        &self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        let params = &ask.params;
        let asked = params.protocol_version.as_ref().ok_or_else(|| missing("protocolVersion"))?;
        let capabilities = params.capabilities.ok_or_else(|| missing("capabilities"))?;
        let client_info = params.client_info.ok_or_else(|| missing("clientInfo"))?;
        let Some(mut version) = version::negotiate(asked.as_str(), &self.identity.served) else {
            let error = unsupported_version(&self.identity.served, asked.as_str());
            return Ok(desk.refuse(Status::BAD_REQUEST, &ask.id, &error));
        };
        let mut session = None;
        let new = NewSession {
            transport: Transport::Streamable,
            version,
            capabilities: Some(Arc::from(capabilities.to_raw().to_owned())),
            client_info: Some(Arc::from(client_info.to_raw().to_owned())),
            log_level: crate::exchange::default_log_level(version),
            principal: caller.principal.clone(),
        };
        if let Some(known) = caller.session.and_then(|id| desk.sessions.find(id)) {
            version = known.settle(new);
        } else if self.sessions {
            match desk.sessions.open(new, desk.now) {
                Ok(id) => session = Some(id),
                // An answer without a session is better than none; calls will be refused.
                Err(NoSession::NoRandom) => {}
                Err(NoSession::Full) => {
                    let message = "too many sessions are open; try again later";
                    let error = ErrorObject::new(rpc::INTERNAL_ERROR, message);
                    return Ok(desk.refuse(Status::UNAVAILABLE, &ask.id, &error));
                }
            }
        }
        let result = InitializeResult {
            protocol_version: version,
            capabilities: &self.identity.capabilities,
            server_info: &self.identity.info,
            instructions: self.identity.instructions.as_deref(),
        };
        let caller = Caller { version, ..caller.clone() };
        match self.answer(&caller, &ask.id, &result, desk) {
            Made::Answered { ending, said, .. } => Ok(Made::Answered { ending, said, session }),
            other => Ok(other),
        }
    }

    /// Says what the server speaks (revision 2026-07-28, Discovery). Answered in every era.
    pub(super) fn discover(
        &self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        let result = DiscoverResult {
            supported_versions: &self.identity.served,
            capabilities: &self.identity.capabilities,
            instructions: self.identity.instructions.as_deref(),
        };
        Ok(self.answer(caller, &ask.id, &result, desk))
    }

    /// Sets from which level on a session hears log messages.
    pub(super) fn set_level(
        &self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        desk: &mut Desk<'_>,
    ) -> Result<Made, ErrorObject> {
        let level = ask.params.level.as_ref().ok_or_else(|| missing("level"))?;
        let level: LogLevel = level
            .as_str()
            .parse()
            .map_err(|_| ErrorObject::invalid_params("params.level is not a log level"))?;
        if let Some(session) = caller.session.and_then(|id| desk.sessions.find(id)) {
            session.log_level = Some(level);
        }
        Ok(self.answer(caller, &ask.id, &EmptyResult::default(), desk))
    }
}
