//! The one place where a panic of the user's code is caught.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The user's code panicked; the panic hook has already reported where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs the user's code and turns a panic into an error, so that the loop goes on.
///
/// What the code was working on is dropped by the unwinding; state it shares with later calls is
/// the user's own to keep consistent.
pub(crate) fn guarded<R>(code: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|_| Panicked)
}
