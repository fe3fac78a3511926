//! Calls as handlers see them, and the three ways a handler may answer.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::exchange::{Pause, RequestContext, Responder, Resumable};
use crate::mcp::Method;
use crate::mcp::designation::member;
use crate::mcp::model::{
    CallToolResult, CompleteResult, CompletionReference, GetPromptResult, IntoText, Outcome,
    ReadResourceResult, Reply,
};
use crate::mcp::schema::Schema;
use crate::rpc::ErrorObject;
use crate::rpc::skim::Snippet;

/// Why a handler did not produce its result.
///
/// What a model can act upon is a message: for a tool it becomes a result with `isError`, which the
/// model reads. What only the client's programmer can act upon is a JSON-RPC error.
#[derive(Debug, Clone)]
pub struct CallError(pub(crate) Failure);

#[derive(Debug, Clone)]
pub(crate) enum Failure {
    Message(String),
    Rpc(ErrorObject),
}

impl CallError {
    /// A failure in words. It is sent to the caller: no secrets, no internals.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self(Failure::Message(message.to_string()))
    }

    /// A JSON-RPC error, for what is wrong with the request itself.
    #[must_use]
    pub fn protocol(error: ErrorObject) -> Self {
        Self(Failure::Rpc(error))
    }

    /// The error of kinds of calls whose results cannot carry a failure.
    pub(crate) fn into_error(self) -> ErrorObject {
        match self.0 {
            Failure::Rpc(error) => error,
            Failure::Message(message) => ErrorObject::new(crate::rpc::INTERNAL_ERROR, message),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Failure::Message(message) => f.write_str(message),
            Failure::Rpc(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

impl IntoText for CallError {
    fn into_text(self) -> String {
        self.to_string()
    }
}

impl From<ErrorObject> for CallError {
    fn from(error: ErrorObject) -> Self {
        Self::protocol(error)
    }
}

impl From<String> for CallError {
    fn from(message: String) -> Self {
        Self(Failure::Message(message))
    }
}

impl From<&str> for CallError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<serde_json::Error> for CallError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error)
    }
}

/// A call of a tool.
#[derive(Debug)]
pub struct ToolCall<'a> {
    pub(crate) name: Cow<'a, str>,
    /// None of a call that was taken away from its request; they are among its params then.
    pub(crate) arguments: Option<Snippet<'a>>,
    pub(crate) context: RequestContext<'a>,
}

impl ToolCall<'_> {
    /// The name under which the tool was called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments as a type of yours; absent arguments are an empty object.
    ///
    /// # Errors
    ///
    /// When they do not fit the type. Returned from a tool with `?`, it becomes an answer the model
    /// can read and act upon.
    pub fn arguments<'s, T: Deserialize<'s>>(&'s self) -> Result<T, CallError> {
        let text = match self.arguments {
            Some(here) => here.get(),
            None => self.raw_arguments().map_or("{}", RawValue::get),
        };
        serde_json::from_str(text)
            .map_err(|error| CallError::new(format_args!("the arguments do not fit: {error}")))
    }

    /// The arguments as they came: numbers of any size, members in their order.
    #[must_use]
    pub fn raw_arguments(&self) -> Option<&RawValue> {
        self.arguments
            .map(Snippet::to_raw)
            .or_else(|| member(self.params()?, "arguments").filter(|raw| raw.get() != "null"))
    }
}

/// A request to read a resource, by its own URI or one that matches a template.
#[derive(Debug)]
pub struct ResourceCall<'a> {
    pub(crate) uri: Cow<'a, str>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) context: RequestContext<'a>,
}

impl ResourceCall<'_> {
    /// The URI that is read.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// What the URI has in place of a template's placeholder, percent-encoding left as it is.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The error for a resource that is not there, as the caller's revision spells it.
    #[must_use]
    pub fn not_found(&self) -> CallError {
        CallError::protocol(crate::mcp::resource_not_found(self.version(), &self.uri))
    }
}

/// A request for a prompt.
#[derive(Debug)]
pub struct PromptCall<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) arguments: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(crate) context: RequestContext<'a>,
}

impl PromptCall<'_> {
    /// The name of the prompt.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One argument. Required ones are always here: a request without them is refused before.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.arguments.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// A request to complete an argument of a prompt or a placeholder of a template.
#[derive(Debug)]
pub struct CompleteCall<'a> {
    pub(crate) reference: CompletionReference,
    pub(crate) argument: (String, String),
    pub(crate) settled: std::collections::BTreeMap<String, String>,
    pub(crate) context: RequestContext<'a>,
}

impl CompleteCall<'_> {
    /// What has the argument.
    #[must_use]
    pub fn reference(&self) -> &CompletionReference {
        &self.reference
    }

    /// The name of the argument.
    #[must_use]
    pub fn argument_name(&self) -> &str {
        &self.argument.0
    }

    /// What has been typed so far.
    #[must_use]
    pub fn argument_value(&self) -> &str {
        &self.argument.1
    }

    /// The value of another argument that is settled already.
    #[must_use]
    pub fn settled(&self, name: &str) -> Option<&str> {
        self.settled.get(name).map(String::as_str)
    }
}

macro_rules! dereference_to_context {
    ($($call:ident),*) => {$(
        impl<'a> Deref for $call<'a> {
            type Target = RequestContext<'a>;

            fn deref(&self) -> &RequestContext<'a> {
                &self.context
            }
        }

        impl<'a> DerefMut for $call<'a> {
            fn deref_mut(&mut self) -> &mut RequestContext<'a> {
                &mut self.context
            }
        }
    )*};
}
dereference_to_context!(ToolCall, ResourceCall, PromptCall, CompleteCall);

/// A call that waits for answers of its caller's user, to be run again with them.
#[derive(Debug)]
pub(crate) enum Paused {
    Tool(ToolCall<'static>),
    Resource(ResourceCall<'static>),
    Prompt(PromptCall<'static>),
}

impl Paused {
    pub(crate) fn context(&mut self) -> &mut RequestContext<'static> {
        match self {
            Self::Tool(call) => &mut call.context,
            Self::Resource(call) => &mut call.context,
            Self::Prompt(call) => &mut call.context,
        }
    }

    /// The method such a call came by.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Tool(_) => Tools::METHOD.as_str(),
            Self::Resource(_) => Resources::METHOD.as_str(),
            Self::Prompt(_) => Prompts::METHOD.as_str(),
        }
    }

    /// What the caller is told when the answers do not come.
    pub(crate) fn failure(&self, message: String) -> Result<CallToolResult, ErrorObject> {
        let error = CallError(Failure::Message(message));
        match self {
            Self::Tool(_) => Tools::failure(error),
            Self::Resource(_) | Self::Prompt(_) => Err(error.into_error()),
        }
    }
}

macro_rules! resumable {
    ($($call:ident, $variant:ident, $result:ident;)*) => {$(
        impl Resumable for $call<'static> {
            type Result = $result;
        }

        impl Pause for $call<'static> {
            fn pause(self) -> Box<dyn Any + Send> {
                Box::new(Paused::$variant(self))
            }
        }
    )*};
}
resumable! {
    ToolCall, Tool, CallToolResult;
    ResourceCall, Resource, ReadResourceResult;
    PromptCall, Prompt, GetPromptResult;
}

/// One kind of request that handlers serve.
pub(crate) trait Kind: 'static {
    type Call<'a>: AsContext<'a> + Send;
    type Output: Outcome + 'static;
    const METHOD: Method;

    /// Keeps a call to run it again; none for kinds whose calls may not ask.
    fn pause(_call: Self::Call<'static>) -> Option<Paused> {
        None
    }

    /// Takes a call away from its request.
    fn detach(call: Self::Call<'_>) -> Self::Call<'static>;

    /// The result of a failure in words, for kinds whose results can carry one.
    fn failure(error: CallError) -> Result<Self::Output, ErrorObject> {
        Err(error.into_error())
    }

    /// Whether a result keeps the promise of its schema; kinds without schemas promise nothing.
    fn verify(_schema: &Schema, _result: &Self::Output) -> Result<(), String> {
        Ok(())
    }
}

/// A call that carries a context.
pub(crate) trait AsContext<'a> {
    fn context(&mut self) -> &mut RequestContext<'a>;
}

macro_rules! kind {
    ($kind:ident, $call:ident, $output:ident) => {
        #[derive(Debug)]
        pub(crate) enum $kind {}

        impl<'a> AsContext<'a> for $call<'a> {
            fn context(&mut self) -> &mut RequestContext<'a> {
                &mut self.context
            }
        }
    };
}
kind!(Tools, ToolCall, CallToolResult);
kind!(Resources, ResourceCall, ReadResourceResult);
kind!(Prompts, PromptCall, GetPromptResult);
kind!(Completions, CompleteCall, CompleteResult);

impl Kind for Tools {
    type Call<'a> = ToolCall<'a>;
    type Output = CallToolResult;
    const METHOD: Method = Method::ToolsCall;

    fn pause(call: ToolCall<'static>) -> Option<Paused> {
        Some(Paused::Tool(call))
    }

    fn detach(call: ToolCall<'_>) -> ToolCall<'static> {
        ToolCall { name: owned(call.name), arguments: None, context: call.context.into_shared() }
    }

    fn failure(error: CallError) -> Result<CallToolResult, ErrorObject> {
        match error.0 {
            Failure::Message(message) => Ok(CallToolResult::error(message)),
            Failure::Rpc(error) => Err(error),
        }
    }

    fn verify(schema: &Schema, result: &CallToolResult) -> Result<(), String> {
        match &result.structured_content {
            _ if result.is_error => Ok(()),
            Some(content) => schema.check(content.get()),
            None => Err("the tool has an output schema and returned no structured content".into()),
        }
    }
}

impl Kind for Resources {
    type Call<'a> = ResourceCall<'a>;
    type Output = ReadResourceResult;
    const METHOD: Method = Method::ResourcesRead;

    fn pause(call: ResourceCall<'static>) -> Option<Paused> {
        Some(Paused::Resource(call))
    }

    fn detach(call: ResourceCall<'_>) -> ResourceCall<'static> {
        ResourceCall {
            uri: owned(call.uri),
            variables: call.variables,
            context: call.context.into_shared(),
        }
    }
}

impl Kind for Prompts {
    type Call<'a> = PromptCall<'a>;
    type Output = GetPromptResult;
    const METHOD: Method = Method::PromptsGet;

    fn pause(call: PromptCall<'static>) -> Option<Paused> {
        Some(Paused::Prompt(call))
    }

    fn detach(call: PromptCall<'_>) -> PromptCall<'static> {
        let arguments = call.arguments.into_iter();
        PromptCall {
            name: owned(call.name),
            arguments: arguments.map(|(name, value)| (owned(name), owned(value))).collect(),
            context: call.context.into_shared(),
        }
    }
}

impl Kind for Completions {
    type Call<'a> = CompleteCall<'a>;
    type Output = CompleteResult;
    const METHOD: Method = Method::Complete;

    fn detach(call: CompleteCall<'_>) -> CompleteCall<'static> {
        CompleteCall {
            reference: call.reference,
            argument: call.argument,
            settled: call.settled,
            context: call.context.into_shared(),
        }
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

type DirectFn<K> = dyn for<'c, 'a> FnMut(&'c mut <K as Kind>::Call<'a>) -> Returned<K>;
type DeferredFn<K> = dyn FnMut(<K as Kind>::Call<'static>, Responder<<K as Kind>::Output>);
type Taken<K> = <K as Kind>::Call<'static>;
/// What a handler returns.
pub(crate) type Returned<K> = Result<Reply<<K as Kind>::Output>, CallError>;
type BlockingFn<K> = dyn for<'c> Fn(&'c mut Taken<K>) -> Returned<K> + Send + Sync;

/// The user's code for one kind of request.
pub(crate) enum Handler<K: Kind> {
    /// Runs on the loop and returns its result: the fast path.
    Direct(Box<DirectFn<K>>),
    /// Takes the call away and answers when it likes, from any thread.
    Deferred(Box<DeferredFn<K>>),
    /// Runs on a worker thread.
    Blocking(Arc<BlockingFn<K>>),
}

impl<K: Kind> fmt::Debug for Handler<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct(_) => "Direct",
            Self::Deferred(_) => "Deferred",
            Self::Blocking(_) => "Blocking",
        })
    }
}
