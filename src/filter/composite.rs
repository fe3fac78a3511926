//! The composite: several filters that act as one.

use std::fmt;

use super::{Cx, Filter, Flow, Refusal};
use crate::http::{Request, ResponseHead};

/// Filters in the order in which they see a request.
///
/// The first that refuses or answers ends the walk. Responses pass all of them in reverse order,
/// so that the outermost filter sees what the caller will see.
#[derive(Default)]
pub struct Chain {
    filters: Vec<Box<dyn Filter>>,
}

impl Chain {
    /// A chain without filters: every request passes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a filter behind those that are here.
    pub fn push(&mut self, filter: impl Filter + 'static) {
        self.filters.push(Box::new(filter));
    }

    /// Shows a head to the filters from this one on; those before it have seen it already.
    pub(crate) fn on_head_from(
        &mut self,
        first: usize,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        for (index, filter) in self.filters.iter_mut().enumerate().skip(first) {
            if let Err(refusal) = filter.on_head(request, cx) {
                cx.passage.stopped_at = index;
                return Err(refusal);
            }
        }
        Ok(())
    }
}

impl Filter for Chain {
    fn on_head(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        self.on_head_from(0, request, cx)
    }

    fn on_request<'r>(&mut self, request: &Request<'r>, cx: &mut Cx<'_>) -> Flow<'r> {
        for filter in &mut self.filters {
            match filter.on_request(request, cx) {
                Flow::Next => {}
                decided => return decided,
            }
        }
        Flow::Next
    }

    fn on_response(&mut self, head: &mut ResponseHead, cx: &mut Cx<'_>) {
        for filter in self.filters.iter_mut().rev() {
            filter.on_response(head, cx);
        }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({} filters)", self.filters.len())
    }
}
