//! Every bound in one place, each with its reason.
//!
//! A limit is part of the contract: what is over it gets a specified answer, and nothing else is
//! lost. The defaults suit a server on a desktop or a small host; a gateway raises them.

use std::time::Duration;

/// What one HTTP message may cost, before anyone looks at its meaning.
///
/// All sizes are bytes. Over a limit the peer gets the status named with the field.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// Request line and fields together; over it 431. Cookies and bearer tokens fit, floods do not.
    pub head_bytes_max: usize,
    /// The request target alone; over it 414. An MCP endpoint needs a few bytes of path.
    pub target_bytes_max: usize,
    /// Number of header fields; over it 431. Each costs a slot in the parsed head.
    pub fields_max: usize,
    /// One request body; over it 413, at once when the length is declared. Base64 images fit.
    pub body_bytes_max: usize,
    /// What is read and thrown away after a refusal before the connection is given up.
    pub drain_bytes_max: usize,
    /// One chunk-size line with its extensions; over it 400.
    pub chunk_line_bytes_max: usize,
    /// All trailer fields of a chunked body; over it 400.
    pub trailer_bytes_max: usize,
    /// One received event of an event stream.
    pub sse_event_bytes_max: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            head_bytes_max: 64 * KIB,
            target_bytes_max: 8 * KIB,
            fields_max: 128,
            body_bytes_max: 16 * MIB,
            drain_bytes_max: MIB,
            chunk_line_bytes_max: 4 * KIB,
            trailer_bytes_max: 8 * KIB,
            sse_event_bytes_max: 4 * MIB,
        }
    }
}

/// What the whole server may hold and do.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bounds on one HTTP message.
    pub http: HttpLimits,
    /// Open connections; one more is closed as soon as it is accepted. Above ten thousand, so that
    /// a gateway works with the defaults, and below the usual descriptor limits of a service.
    pub conns_max: usize,
    /// Requests whose answer is still owed by a handler; one more is answered 503.
    pub exchanges_max: usize,
    /// Sessions of the classic era; one more `initialize` is answered 503.
    pub sessions_max: usize,
    /// Bytes that may wait behind a request which is still being answered; over it the connection
    /// is closed, since no error could be written into the middle of another answer.
    pub gated_bytes_max: usize,
    /// Unsent output of one connection beside its largest message; over it the peer is too slow and
    /// is cut off.
    pub output_bytes_max: usize,
    /// Unsent output from which handlers are told that the stream is slow.
    pub output_bytes_high: usize,
    /// Input and output buffered by all connections together; over it a request that still needs
    /// memory is answered 503 and its connection closed.
    pub buffered_bytes_max: usize,
    /// Nesting of a JSON body; over it -32700. Far above real messages, far below any stack.
    pub json_depth_max: usize,
    /// Open GET streams of one classic session; one more is answered 429. Clients use one.
    pub get_streams_max: usize,
    /// What is recorded of streams, so that a client which lost its connection can resume.
    pub replay: ReplayLimits,
    /// Messages that wait for a classic session without an open stream; the oldest is dropped.
    pub pending_messages_max: usize,
    /// Bytes of messages that wait for one classic session; the oldest are dropped.
    pub pending_bytes_max: usize,
    /// Requests to clients that may wait for an answer; one more fails at once.
    pub asks_max: usize,
    /// How often a call may ask its caller while that waits; then it fails.
    pub ask_rounds_max: usize,
    /// Resources that one session or subscription may follow; one more is refused.
    pub followed_resources_max: usize,
    /// Resources that may have changed before they are announced; one more announces all at once.
    pub announced_resources_max: usize,
    /// Items on one page of a listing; zero puts everything on one page.
    pub page_items: usize,
    /// Messages in flight from other threads; progress and log messages over it are dropped.
    pub mail_max: usize,
    /// Calls of blocking handlers that may wait for a free worker; one more is refused.
    pub blocking_queue_max: usize,
    /// Bearer tokens whose verdict is remembered, see
    /// [`BearerAuth::remember`](crate::filter::bearer::BearerAuth::remember); the oldest make room.
    /// As many as there are busy clients, at some hundred bytes each.
    pub tokens_max: usize,
    /// Threads that run blocking handlers; started when the first such call arrives.
    pub blocking_threads: usize,
    /// What tasks may hold.
    pub tasks: TaskLimits,
    /// What one turn of the loop may do.
    pub turn: TurnLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            http: HttpLimits::default(),
            conns_max: 16_384,
            exchanges_max: 16_384,
            sessions_max: 16_384,
            gated_bytes_max: 64 * KIB,
            output_bytes_max: MIB,
            output_bytes_high: 256 * KIB,
            buffered_bytes_max: 256 * MIB,
            json_depth_max: 128,
            get_streams_max: 4,
            replay: ReplayLimits::default(),
            pending_messages_max: 256,
            pending_bytes_max: 64 * KIB,
            asks_max: 16_384,
            ask_rounds_max: 16,
            followed_resources_max: 1024,
            announced_resources_max: 4096,
            page_items: 100,
            mail_max: 65_536,
            blocking_queue_max: 1024,
            tokens_max: 4096,
            blocking_threads: 4,
            tasks: TaskLimits::default(),
            turn: TurnLimits::default(),
        }
    }
}

/// Bounds on the record of streams that classic clients may resume.
///
/// Over a bound the oldest goes first; a client that asks for what is gone gets a fresh stream.
#[derive(Debug, Clone)]
pub struct ReplayLimits {
    /// Streams on record; one that is over is not recorded unless an older one has ended. Zero
    /// switches resumption off: no event carries an id.
    pub streams_max: usize,
    /// Events kept of one stream. Long enough for the gap of a reconnecting client.
    pub events_max: usize,
    /// Bytes kept of one stream; its newest event stays, however large.
    pub stream_bytes_max: usize,
    /// Bytes kept of all streams together.
    pub bytes_max: usize,
}

impl Default for ReplayLimits {
    fn default() -> Self {
        Self {
            streams_max: 16_384,
            events_max: 256,
            stream_bytes_max: 4 * MIB,
            bytes_max: 64 * MIB,
        }
    }
}

/// What calls may hold that go on after they have been answered.
#[derive(Debug, Clone)]
pub struct TaskLimits {
    /// Tasks, finished ones that are still kept included; one more is refused.
    pub tasks_max: usize,
    /// Tasks of one caller; one more is refused. Those who are not told apart are one caller.
    pub per_caller_max: usize,
    /// Bytes of all tasks together, most of them results. A question for which there is no room is
    /// not asked, and a task whose result does not fit fails.
    pub bytes_max: usize,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { tasks_max: 4096, per_caller_max: 100, bytes_max: 64 * MIB }
    }
}

/// Budgets that keep one turn short, so that no connection starves another.
#[derive(Debug, Clone)]
pub struct TurnLimits {
    /// Connections accepted per listener and turn.
    pub accepts_max: usize,
    /// Bytes read from one connection per turn; a large body takes several turns.
    pub read_bytes_max: usize,
    /// Bytes written to one connection per turn.
    pub write_bytes_max: usize,
    /// Requests answered for one connection per turn, however many were pipelined.
    pub requests_max: usize,
    /// Steps of TLS handshakes per turn. Each may cost as much as some hundred calls, and a burst
    /// of new connections must not stall the others.
    pub handshakes_max: usize,
    /// Messages taken from the mailbox per turn.
    pub mail_max: usize,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            accepts_max: 128,
            read_bytes_max: 256 * KIB,
            write_bytes_max: 512 * KIB,
            requests_max: 16,
            handshakes_max: 32,
            mail_max: 4096,
        }
    }
}

/// Every clock of the server.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// First byte of a request to the end of its head; then 408. Also a whole TLS handshake, from
    /// the connection on; then closed.
    pub head: Duration,
    /// End of the head to the end of the body; then 408.
    pub body: Duration,
    /// A request whose credentials are being checked on another thread; then 503. Shorter than the
    /// patience of clients, so that they hear why.
    pub auth: Duration,
    /// An open connection without a request; then it is closed without a word.
    pub idle: Duration,
    /// Unsent output without progress; then the connection is cut.
    pub write: Duration,
    /// After the last answer of a connection: how long its input is still read and thrown away, so
    /// that a reset does not overtake the answer.
    pub linger: Duration,
    /// A session without a request; then its id is unknown.
    pub session_idle: Duration,
    /// A session whose client never came back after `initialize`.
    pub session_unconfirmed: Duration,
    /// Interval of comments on an otherwise silent event stream; zero switches them off. Below the
    /// 60 seconds after which common proxies cut a silent response.
    pub keep_alive: Duration,
    /// How long the record of a stream is kept after its last event, for clients that resume.
    pub retention: Duration,
    /// How long the user or model of a client may take to answer a question: people have to think.
    pub ask_user: Duration,
    /// How long a client may take to answer what it knows by itself.
    pub ask_client: Duration,
    /// How long a task can be asked about, from its beginning.
    pub task_ttl: Duration,
    /// How long callers are asked to wait before they ask about a task again.
    pub task_poll: Duration,
    /// How long a change waits for others before it is announced, so that a burst of them is told
    /// once; zero announces each at once.
    pub announce: Duration,
    /// What resumable streams tell their client to wait before it reconnects.
    pub reconnect: Duration,
    /// After a request to stop: how long running calls may take to finish.
    pub grace: Duration,
    /// Pause of a listener after the process ran out of descriptors.
    pub accept_pause: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            body: Duration::from_secs(60),
            auth: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            write: Duration::from_secs(60),
            linger: Duration::from_secs(2),
            session_idle: Duration::from_secs(300),
            session_unconfirmed: Duration::from_secs(30),
            keep_alive: Duration::from_secs(30),
            retention: Duration::from_secs(60),
            ask_user: Duration::from_secs(300),
            ask_client: Duration::from_secs(30),
            task_ttl: Duration::from_secs(3600),
            task_poll: Duration::from_secs(1),
            announce: Duration::from_millis(100),
            reconnect: Duration::from_secs(1),
            grace: Duration::from_secs(10),
            accept_pause: Duration::from_millis(100),
        }
    }
}

/// A progress token comes back with every report, so a long one would be multiplied; over it the
/// request is refused. Clients use numbers and short names.
pub(crate) const PROGRESS_TOKEN_BYTES_MAX: usize = KIB;

/// When a tool is not called any more, and for how long.
///
/// A tool that fails so many times in a row is left alone for a while: its calls are answered at
/// once, with a tool error that says when to try again. Then one call is let through, and its end
/// decides whether the tool is called again or left alone for as long once more.
///
/// A failure is a JSON-RPC internal error: a panic, a responder that was dropped, a result that
/// breaks the tool's schema, or an error of that code from the handler. Other errors and results
/// are successes; arguments that do not fit the schema and cancelled calls are neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Breaker {
    /// Failures in a row that open it, at least one.
    pub failures: u32,
    /// How long it stays open.
    pub cool_down: Duration,
    /// Whether results with `isError` are failures, too. They are not unless set: most of them say
    /// that the question was wrong, and the tool is well.
    pub tool_errors: bool,
}

impl Breaker {
    /// Opens after so many failures, for so long.
    pub fn new(failures: u32, cool_down: Duration) -> Self {
        Self { failures, cool_down, tool_errors: false }
    }

    /// The same, with results that have `isError` among the failures.
    pub fn tool_errors(mut self) -> Self {
        self.tool_errors = true;
        self
    }
}

/// Unsent answers on the one stream of a client of revision 2024-11-05, beside the
/// [`output_bytes_max`](Limits::output_bytes_max) of everything else; over it the client is cut
/// off. A single answer may be larger. As much as the largest request, so that images fit.
pub(crate) const LEGACY_ANSWERS_BYTES_MAX: usize = 16 * MIB;

/// Callers whose rate is counted at once: some 4 MiB, and more than are busy at the same time.
pub(crate) const RATE_KEYS_MAX: usize = 65_536;

/// Texts of strangers in the log: paths and names are shorter, and a line should stay readable.
pub(crate) const LOGGED_TEXT_BYTES_MAX: usize = 256;

/// A modern client carries the state of a handler there and back with every round; over it the call
/// fails. What is larger belongs into a store of the application, and its key into the state.
pub(crate) const REQUEST_STATE_BYTES_MAX: usize = 64 * KIB;

/// What a task says of itself in words; the rest is cut off. Every answer repeats it.
pub(crate) const TASK_STATUS_BYTES_MAX: usize = KIB;

/// Questions one task may ask in its life; their names are remembered, so that none is used twice.
pub(crate) const TASK_QUESTIONS_MAX: usize = 256;

/// Trace state and baggage of a request, each; a longer one is dropped. It is as much baggage as
/// everybody must be able to pass on.
pub(crate) const TRACE_BYTES_MAX: usize = 8 * KIB;

/// One PEM file. The largest are lists of the authorities of the world, a quarter of this.
#[cfg(feature = "tls")]
pub(crate) const TLS_FILE_BYTES_MAX: u64 = MIB as u64;
/// Encrypted output that a connection may hold beside the output it was made from: four records,
/// so that a large answer takes few writes.
#[cfg(feature = "tls")]
pub(crate) const TLS_OUTPUT_BYTES_MAX: usize = 64 * KIB;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
