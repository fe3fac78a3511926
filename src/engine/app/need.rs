//! Calls that ask first: what they may ask, how a modern caller is told, what it brings back.

use super::{Identity, write_result};
use crate::exchange::{Caller, Input, RequestContext};
use crate::filter::endpoint::Ask;
use crate::mcp::missing_capability;
use crate::mcp::model::{
    Answers, ClientCapabilities, Ending, InputRequiredResult, NeedInput, Stamped,
};
use crate::mcp::seal::Scope;
use crate::rpc::skim::Snippet;
use crate::rpc::{self, ErrorObject, encode};

/// The error of a call that asks although calls of its kind have no way to.
pub(super) fn may_not_ask() -> ErrorObject {
    log::error!("only tools, resources and prompts may ask for input");
    ErrorObject::internal()
}

impl Identity {
    /// Whether a caller can be asked all this (revision 2026-07-28, Multi Round-Trip Requests).
    pub(crate) fn check_need(
        &self,
        caller: &Caller<'_>,
        need: &NeedInput,
    ) -> Result<(), ErrorObject> {
        if need.is_empty() {
            log::error!("a handler asked for input and has neither a question nor a state");
            return Err(ErrorObject::internal());
        }
        let required = need.requests().required_capabilities();
        let unknown = |(_, request): (&str, &crate::mcp::model::InputRequest)| {
            !request.exists_in(caller.version)
        };
        if need.requests().iter().any(unknown) {
            return Err(missing_capability(required));
        }
        match required.missing_of(&declared(caller)) {
            Some(missing) => Err(missing_capability(missing)),
            None => Ok(()),
        }
    }

    /// Writes the answer that asks a modern caller, and says how that ended.
    pub(crate) fn write_need(
        &self,
        context: &RequestContext<'_>,
        method: &str,
        need: &NeedInput,
        now_secs: u64,
        body: &mut Vec<u8>,
    ) -> Ending {
        let caller = &context.caller;
        let sealed = need.kept_state().map(|state| {
            let scope = Scope::new(caller.principal.as_ref(), method, context.source.params());
            self.states.seal(state, &scope, now_secs)
        });
        let state = match sealed.transpose() {
            Ok(state) => state,
            Err(error) => {
                log::error!("a handler's state was not sent: {error}");
                encode::write_error(body, Some(&context.id), &ErrorObject::internal());
                return Ending::Error(rpc::INTERNAL_ERROR);
            }
        };
        let result = InputRequiredResult { requests: need.requests(), state: state.as_deref() };
        let stamped = Stamped::new(&result, caller.version, &self.stamp);
        write_result(body, &context.id, &stamped)
    }
}

fn declared(caller: &Caller<'_>) -> ClientCapabilities {
    let raw = caller.capabilities.as_ref();
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

impl Identity {
    /// What a request carries of earlier rounds. A state is good only for the caller and the
    /// request it was sealed for.
    pub(super) fn carried(
        &self,
        caller: &Caller<'_>,
        ask: &Ask<'_>,
        now_secs: u64,
    ) -> Result<Option<Box<Input>>, ErrorObject> {
        let (responses, token) = (ask.params.input_responses, &ask.params.request_state);
        if (responses.is_none() && token.is_none()) || !caller.version.is_modern() {
            return Ok(None);
        }
        let mut state = None;
        if let Some(token) = token {
            let params = ask.source.params();
            let scope = Scope::new(caller.principal.as_ref(), &ask.method, params);
            let opened = self.states.open(token.as_str(), &scope, now_secs);
            state = Some(opened.map_err(|bad| {
                log::warn!("a request state was refused: {bad}");
                bad.into_error()
            })?);
        }
        let answers = responses.map(read_answers).transpose()?.unwrap_or_default();
        Ok(Some(Box::new(Input { answers, state, rounds: 0 })))
    }
}

/// What a client answers. An answer that is none of its question counts as missing, and is asked
/// for again; what cannot hold answers at all is a mistake of the client's program.
pub(super) fn read_answers(responses: Snippet<'_>) -> Result<Answers, ErrorObject> {
    if !responses.is_object() && responses.get() != "null" {
        return Err(ErrorObject::invalid_params("params.inputResponses must be an object"));
    }
    Ok(Answers::read(responses.to_raw()))
}
