//! The application: which handler serves which method, and what the library answers itself.

mod around;
mod circuit;
mod features;
mod handshake;
mod legacy;
mod listing;
#[cfg(feature = "metrics")]
pub(crate) mod meter;
mod need;
mod run;
mod subscribe;
pub(crate) mod tasks;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::answer::{Answer, Asked, RpcAnswer, join, status_of};
use super::body::Body;
use super::handler::{Completions, Handler, Kind, Paused, Prompts, Resources, Tools};
use crate::exchange::{
    Batch, Busy, Caller, ClientResponse, Committed, Exchange, ExchangeRegistry, Flags, Mail,
    Notifier, Outlet, Poster, Purpose, RequestContext, Seat, Source, Watch,
};
use crate::filter::endpoint::{Ask, Item, Note, Work};
use crate::filter::{Facts, Passage, Response};
use crate::http::{Reply, ResponseHead, Status};
use crate::key::{ExchangeId, Hasher, SessionId};
use crate::limits::{Breaker, Limits};
use crate::mailbox::Mailbox;
use crate::mcp::catalog::Catalog;
use crate::mcp::cursor::CursorKey;
use crate::mcp::model::{
    CacheHint, EmptyResult, Ending, Implementation, NeedInput, Outcome, ServerCapabilities, Stamp,
    Stamped,
};
use crate::mcp::schema::Schema;
use crate::mcp::seal::StateKeys;
use crate::mcp::session::Sessions;
use crate::mcp::subscription::Subscriptions;
use crate::mcp::task::Tasks;
use crate::mcp::version::Version;
use crate::mcp::{Method, method_not_found};
use crate::rpc::{self, ErrorObject, Id, encode};
use crate::workers::Workers;
pub(crate) use around::Around;
pub use around::Middleware;
pub(crate) use circuit::Circuit;
use listing::Listings;
use tasks::TaskOrder;

/// What the server is and does.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) identity: Identity,
    pub(crate) tools: HashMap<u64, ToolCode, Hasher>,
    pub(crate) resources: HashMap<u64, Handler<Resources>, Hasher>,
    pub(crate) templates: HashMap<u64, Handler<Resources>, Hasher>,
    pub(crate) prompts: HashMap<u64, Handler<Prompts>, Hasher>,
    pub(crate) completions: Option<Handler<Completions>>,
    pub(crate) workers: Workers,
    pub(crate) listings: Listings,
    /// Whether classic callers get sessions.
    pub(crate) sessions: bool,
    /// Answers from the client that nobody had asked for.
    pub(crate) unasked: u64,
    /// The breaker of tools that have none of their own.
    pub(crate) breaker: Option<Breaker>,
    /// Some if anything stands around all methods.
    pub(crate) around: Option<Box<Around>>,
}

/// How the server presents itself.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) info: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) capabilities: ServerCapabilities,
    pub(crate) stamp: Arc<Stamp>,
    /// Revisions served, newest first.
    pub(crate) served: Vec<Version>,
    pub(crate) cache: CacheHint,
    /// What seals the states that modern callers carry.
    pub(crate) states: StateKeys,
    pub(crate) cursors: CursorKey,
    pub(crate) page_items: usize,
}

/// A tool's handler and its compiled schemas.
#[derive(Debug)]
pub(crate) struct ToolCode {
    pub(crate) handler: Handler<Tools>,
    pub(crate) input: Schema,
    pub(crate) output: Option<Arc<Schema>>,
    /// Some if the tool has a breaker.
    pub(crate) circuit: Option<Box<Circuit>>,
}

/// What the engine lends the application for one POST.
pub(crate) struct Desk<'d> {
    pub(crate) now: Instant,
    /// Seconds since 1970, or since the engine was made if nobody said what the date is.
    pub(crate) now_secs: u64,
    pub(crate) seat: Seat,
    /// The exchange of a call that is run again.
    pub(crate) again: Option<ExchangeId>,
    pub(crate) reply: Reply,
    pub(crate) passage: &'d mut Passage,
    pub(crate) facts: Facts<'d>,
    pub(crate) exchanges: &'d mut ExchangeRegistry,
    pub(crate) sessions: &'d mut Sessions,
    pub(crate) subscriptions: &'d mut Subscriptions,
    pub(crate) tasks: &'d mut Tasks,
    /// What requests about tasks have the engine do.
    pub(crate) orders: Vec<TaskOrder>,
    pub(crate) catalog: &'d Catalog,
    pub(crate) mailbox: &'d Mailbox<Mail>,
    pub(crate) limits: &'d Limits,
    /// Where an answer is serialized.
    pub(crate) body: &'d mut Body,
}

/// What one POST came to.
pub(crate) struct Worked {
    pub(crate) answer: Answer,
    pub(crate) after: Aftermath,
}

/// What is to be done after a POST has been answered.
#[derive(Default)]
pub(crate) struct Aftermath {
    /// The session in which it came.
    pub(crate) session: Option<SessionId>,
    /// What it did to tasks.
    pub(crate) orders: Vec<TaskOrder>,
    /// Running calls that the POST cancels.
    pub(crate) cancelled: Vec<ExchangeId>,
    /// Answers to requests of ours.
    pub(crate) responses: Vec<ClientResponse>,
}

/// What one request came to.
pub(crate) enum Made {
    /// The answer is in the desk's body.
    Answered { ending: Ending, said: Vec<Vec<u8>>, session: Option<SessionId> },
    /// The answer, an error, is in the desk's body, and HTTP has a status of its own for it.
    Refused(Status),
    /// A handler owes the answer.
    Pending(ExchangeId),
    /// The call asks its caller first and goes on with the answers.
    Asking { id: ExchangeId, paused: Box<Paused>, need: NeedInput, said: Vec<Vec<u8>> },
}

impl App {
    /// Does what one POST asks for.
    pub(crate) fn work(
        &mut self,
        caller: Caller<'_>,
        work: Work<'_>,
        desk: &mut Desk<'_>,
    ) -> Worked {
        let session = caller.session;
        let mut cancelled = Vec::new();
        let mut responses = Vec::new();
        let answer = match work {
            Work::Request(ask) => self.single(caller, ask, desk),
            Work::Batch(items) => self.batch(&caller, items, &mut cancelled, &mut responses, desk),
            Work::Notification(note) => {
                cancelled.extend(self.note(&caller, &note, desk));
                accepted()
            }
            Work::Response(response) => {
                responses.push(response.into());
                accepted()
            }
            Work::Stream(get) => Answer::Stream(get),
            Work::Legacy(work) => self.legacy(caller, *work, &mut cancelled, &mut responses, desk),
        };
        let orders = std::mem::take(&mut desk.orders);
        Worked { answer, after: Aftermath { session, orders, cancelled, responses } }
    }

    fn single(&mut self, caller: Caller<'_>, ask: Ask<'_>, desk: &mut Desk<'_>) -> Answer {
        let version = caller.version;
        let record = caller.session.filter(|_| version.rules().resumable);
        let record = record.map(|session| (session, version));
        let stream_only = !caller.accepts.json;
        let stream_now = !version.is_modern() && must_stream(&ask, desk.catalog);
        desk.body.anew();
        if ask.known == Some(Method::SubscriptionsListen) {
            return self.listen_around(&caller, &ask, desk);
        }
        match self.ask(caller, ask, desk) {
            Made::Pending(id) => Answer::Pending { id, stream_now },
            Made::Asking { id, paused, need, said } => {
                Answer::Asking(Box::new(Asked { id, paused, need, said }))
            }
            Made::Refused(status) => Answer::Rpc(RpcAnswer::plain(status)),
            Made::Answered { ending, said, session } => Answer::Rpc(RpcAnswer {
                status: status_of(version, ending),
                said,
                stream_only: stream_only || stream_now,
                session,
                record,
            }),
        }
    }

    fn ask(&mut self, caller: Caller<'_>, ask: Ask<'_>, desk: &mut Desk<'_>) -> Made {
        match self.around {
            None => self.serve(caller, ask, desk),
            Some(_) => self.ask_around(caller, ask, desk),
        }
    }

    /// Runs the method.
    fn serve(&mut self, caller: Caller<'_>, ask: Ask<'_>, desk: &mut Desk<'_>) -> Made {
        let result = match ask.known {
            Some(Method::Initialize) => self.initialize(&caller, &ask, desk),
            Some(Method::Discover) => self.discover(&caller, &ask, desk),
            Some(Method::Ping) => Ok(self.answer(&caller, &ask.id, &EmptyResult::default(), desk)),
            Some(method @ (Method::TasksGet | Method::TasksUpdate | Method::TasksCancel)) => {
                self.task(method, &caller, &ask, desk)
            }
            Some(Method::ResourcesSubscribe) => self.subscribe(&caller, &ask, desk),
            Some(Method::ResourcesUnsubscribe) => self.unsubscribe(&caller, &ask, desk),
            Some(Method::LoggingSetLevel) => self.set_level(&caller, &ask, desk),
            Some(
                method @ (Method::ToolsList
                | Method::PromptsList
                | Method::ResourcesList
                | Method::ResourcesTemplatesList),
            ) => self.list_for(method, &caller, &ask, desk),
            Some(Method::ToolsCall) => return self.call_tool(caller, ask, desk),
            Some(Method::ResourcesRead) => return self.read_resource(caller, ask, desk),
            Some(Method::PromptsGet) => return self.get_prompt(caller, ask, desk),
            Some(Method::Complete) => return self.complete(caller, ask, desk),
            _ => Err(method_not_found(&ask.method)),
        };
        result.unwrap_or_else(|error| desk.fail(&ask.id, &error))
    }

    /// Runs the requests of a batch; their answers go out together.
    fn batch(
        &mut self,
        caller: &Caller<'_>,
        items: Vec<Item<'_>>,
        cancelled: &mut Vec<ExchangeId>,
        responses: &mut Vec<ClientResponse>,
        desk: &mut Desk<'_>,
    ) -> Answer {
        let Ok(whole) = desk.open(caller, Purpose::Batch(Batch::default())) else {
            return Answer::Whole(Response::rpc_error(Status::UNAVAILABLE, None, &busy()));
        };
        let seat = std::mem::replace(&mut desk.seat, Seat::Part(whole));
        let mut batch = Batch::default();
        for item in items {
            match item {
                Item::Request(ask) => self.batch_ask(caller, ask, &mut batch, desk),
                Item::Refused(id, error) => {
                    encode::write_error(desk.body.anew(), id.as_ref(), &error);
                    batch.answers.push(desk.body.whole().to_vec());
                }
                Item::Notification(note) => cancelled.extend(self.note(caller, &note, desk)),
                Item::Response(response) => responses.push(response.into()),
            }
        }
        desk.seat = seat;
        if batch.awaited > 0 {
            if let Some(exchange) = desk.exchanges.find(whole) {
                exchange.purpose = Purpose::Batch(batch);
            }
            return Answer::Pending { id: whole, stream_now: false };
        }
        if let Some(exchange) = desk.exchanges.close(whole) {
            desk.passage.head = exchange.head;
        }
        answer_of(&batch)
    }

    fn batch_ask(
        &mut self,
        caller: &Caller<'_>,
        ask: Ask<'_>,
        batch: &mut Batch,
        desk: &mut Desk<'_>,
    ) {
        desk.body.anew();
        // Progress would need a stream of its own; the batch is answered in one piece.
        let caller = Caller { progress_token: None, log_level: None, ..caller.clone() };
        let call = ask.id.clone();
        match self.ask(caller, ask, desk) {
            Made::Pending(_) => batch.awaited += 1,
            Made::Asking { id, .. } => {
                desk.exchanges.cancel(id);
                desk.fail(&call, &ErrorObject::internal());
                batch.answers.push(desk.body.whole().to_vec());
            }
            Made::Answered { .. } | Made::Refused(_) => {
                batch.answers.push(desk.body.whole().to_vec())
            }
        }
    }

    /// Takes a notification; the call it cancels, if it does. Unknown ones are ignored: nobody may
    /// answer a notification.
    fn note(&self, caller: &Caller<'_>, note: &Note<'_>, desk: &Desk<'_>) -> Option<ExchangeId> {
        if note.known != Some(Method::Cancelled) {
            return None;
        }
        let call = Id::from_json(note.params.request_id?.get())?;
        desk.exchanges.find_call(caller.session?, &call)
    }

    /// Tells whoever watched a request how it ended.
    pub(crate) fn on_end(&mut self, watch: Watch, ending: Ending, now: Instant) {
        if let Some((tool, pass)) = watch.circuit
            && let Some(circuit) = self.tools.get_mut(&tool).and_then(|code| code.circuit.as_mut())
        {
            circuit.note(pass, ending, now);
        }
        self.leave(watch.visit, ending, now);
    }

    /// How many tools are not called for now.
    pub(crate) fn breakers_open(&self, now: Instant) -> usize {
        let circuits = self.tools.values().filter_map(|code| code.circuit.as_ref());
        circuits.filter(|circuit| circuit.is_open(now)).count()
    }

    /// A result for this caller, serialized into the desk's body.
    fn answer<R: Outcome>(
        &self,
        caller: &Caller<'_>,
        id: &Id,
        result: &R,
        desk: &mut Desk<'_>,
    ) -> Made {
        self.identity.answer(caller, id, result, desk.body)
    }
}

impl Identity {
    fn answer<R: Outcome>(
        &self,
        caller: &Caller<'_>,
        id: &Id,
        result: &R,
        body: &mut Body,
    ) -> Made {
        let stamped = Stamped::new(result, caller.version, &self.stamp).cache(self.cache);
        let stamped = if R::CACHEABLE { stamped } else { Stamped { cache: None, ..stamped } };
        let ending = write_result(body.anew(), id, &stamped);
        Made::Answered { ending, said: Vec::new(), session: None }
    }
}

/// Serializes a result, or an internal error in place of one that has no JSON form.
fn write_result<R: Outcome>(body: &mut Vec<u8>, id: &Id, stamped: &Stamped<'_, R>) -> Ending {
    if encode::write_result(body, id, stamped) {
        return Ending::of(stamped.result);
    }
    log::error!("a result has no JSON form and is answered as an internal error");
    Ending::Error(rpc::INTERNAL_ERROR)
}

impl Desk<'_> {
    /// An error, serialized into the body.
    pub(crate) fn fail(&mut self, id: &Id, error: &ErrorObject) -> Made {
        encode::write_error(self.body.anew(), Some(id), error);
        Made::Answered { ending: Ending::Error(error.code), said: Vec::new(), session: None }
    }

    /// An error with an HTTP status of its own.
    pub(crate) fn refuse(&mut self, status: Status, id: &Id, error: &ErrorObject) -> Made {
        self.fail(id, error);
        Made::Refused(status)
    }

    /// Opens an exchange for a request whose answer comes later.
    pub(crate) fn open(
        &mut self,
        caller: &Caller<'_>,
        purpose: Purpose,
    ) -> Result<ExchangeId, Busy> {
        if let Some(again) = self.again {
            return Ok(again);
        }
        if self.exchanges.is_full() {
            return Err(Busy);
        }
        let head = std::mem::replace(&mut self.passage.head, ResponseHead::new(Status::OK));
        self.exchanges.open(Exchange {
            seat: self.seat,
            purpose,
            version: caller.version,
            session: caller.session,
            accepts: caller.accepts,
            committed: Committed::Nothing,
            on_disconnect: caller.version.rules().on_disconnect,
            flags: Arc::new(Flags::default()),
            reply: self.reply,
            head,
            facts: (self.facts.method, self.facts.path().into()),
            keep_alive: None,
            watch: None,
        })
    }

    /// The way back to an open exchange, for a handler on any thread.
    pub(crate) fn poster(&mut self, exchange: ExchangeId) -> Poster {
        let flags = self.exchanges.find(exchange).map(|open| Arc::clone(&open.flags));
        Poster {
            exchange,
            mailbox: self.mailbox.clone(),
            flags: flags.unwrap_or_default(),
            mail_max: self.limits.mail_max,
            bytes_max: self.limits.output_bytes_max,
        }
    }
}

/// The context of a request that is served on the loop.
pub(crate) fn context<'r>(caller: Caller<'r>, id: Id, source: Source<'r>) -> RequestContext<'r> {
    let notifier = Notifier::new(&caller, Outlet::Buffer(Vec::new()));
    RequestContext { caller, id, source, notifier, input: None }
}

/// Whether the answer must be an event stream, whatever comes of the call.
fn must_stream(ask: &Ask<'_>, catalog: &Catalog) -> bool {
    use crate::mcp::model::Streaming;
    ask.tool
        .and_then(|seq| catalog.tools.get(seq))
        .is_some_and(|entry| entry.tool.streaming == Streaming::Required)
}

fn accepted() -> Answer {
    Answer::Whole(Response::empty(Status::ACCEPTED))
}

/// The answer of a batch that waits for nothing; without any requests there is nothing to say.
pub(crate) fn answer_of(batch: &Batch) -> Answer {
    if batch.answers.is_empty() {
        return accepted();
    }
    Answer::Whole(Response::json(Status::OK, join(batch)))
}

fn busy() -> ErrorObject {
    ErrorObject::new(rpc::INTERNAL_ERROR, "too many calls are running; try again later")
}

/// The error for a parameter that must be there.
fn missing(member: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("params.{member} is missing"))
}

/// Lets `Kind` implementations be named where only the trait is.
type Output<K> = <K as Kind>::Output;
