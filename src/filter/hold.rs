//! A request that waits at its head for a decision that is made elsewhere.

use std::any::Any;
use std::fmt;

use super::Response;

/// What is kept of a held request beside its bytes.
#[derive(Default)]
pub(crate) struct Hold {
    /// Tells the decision on this request from a late one on an earlier request.
    pub(crate) ticket: u64,
    /// The decision, once it is there.
    pub(crate) told: Option<Box<dyn Any + Send>>,
    /// The answer if nobody decides in time.
    pub(crate) otherwise: Option<Response>,
}

impl Hold {
    pub(crate) fn new(ticket: u64) -> Self {
        Self { ticket, ..Self::default() }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("ticket", &self.ticket)
            .field("told", &self.told.is_some())
            .finish_non_exhaustive()
    }
}
