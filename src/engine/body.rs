//! The body of an answer while it is put together.

use std::sync::Arc;

/// JSON written for one answer, and perhaps a piece at its end that many answers share and that
/// need not be copied before they are framed.
#[derive(Debug, Default)]
pub(crate) struct Body {
    own: Vec<u8>,
    shared: Option<Arc<[u8]>>,
}

impl Body {
    /// Starts over, keeping the memory, and gives the place to write to.
    pub(crate) fn anew(&mut self) -> &mut Vec<u8> {
        self.shared = None;
        self.own.clear();
        &mut self.own
    }

    /// Lets a piece follow all that is written.
    pub(crate) fn end_with(&mut self, shared: Arc<[u8]>) {
        self.shared = Some(shared);
    }

    /// All of it, in two parts.
    pub(crate) fn parts(&self) -> [&[u8]; 2] {
        [&self.own, self.shared.as_deref().unwrap_or_default()]
    }

    /// All of it, in one part.
    pub(crate) fn whole(&mut self) -> &[u8] {
        if let Some(shared) = self.shared.take() {
            self.own.extend_from_slice(&shared);
        }
        &self.own
    }

    /// The same, given away.
    pub(crate) fn into_whole(mut self) -> Vec<u8> {
        self.whole();
        self.own
    }

    /// Starts over, keeping no more than so much memory.
    pub(crate) fn clear(&mut self, kept_bytes_max: usize) {
        self.anew().shrink_to(kept_bytes_max);
    }
}
