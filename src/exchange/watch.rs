//! Who wants to know how a request has ended.

/// A note on an exchange: whom to tell how it ended. Nearly all exchanges have none.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The tool whose breaker let the call through, and with which pass.
    pub(crate) circuit: Option<(u64, Pass)>,
}

/// What a breaker recognises a call by which it let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass(pub(crate) u32);
