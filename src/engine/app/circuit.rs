//! The breaker of one tool: closed while it works, open while it does not.
//!
//! ```text
//!          so many failures in a row
//! closed ----------------------------> open <------.
//!    ^                                   |         |
//!    |                cool-down is over: |         | it fails
//!    |                one call goes ahead|         |
//!    |  it succeeds                      v         |
//!    '-------------------------------- probing ----'
//! ```

use std::time::{Duration, Instant};

use super::{Desk, Made};
use crate::exchange::Pass;
use crate::limits::Breaker;
use crate::mcp::model::{CallToolResult, Ending};
use crate::rpc;

/// Counts the failures of a tool, and says when it is not to be called.
#[derive(Debug)]
pub(crate) struct Circuit {
    /// The tool's name, for the log and for callers.
    name: Box<str>,
    /// By what the end of a deferred call finds its way here.
    tool: u64,
    settings: Breaker,
    /// Failures since the last success.
    failures: u32,
    /// Some while the tool is not called: when the next call is let through. A call that is let
    /// through puts it off by another cool-down, so that its own end is waited for, but not for
    /// ever.
    open_until: Option<Instant>,
    /// Grows when the breaker opens and with every probe. Calls that were let through before that
    /// say nothing about the tool as it is now.
    epoch: u32,
}

impl Circuit {
    pub(crate) fn new(name: &str, tool: u64, settings: Breaker) -> Self {
        Self { name: name.into(), tool, settings, failures: 0, open_until: None, epoch: 0 }
    }

    /// Lets a call through, or says how long to wait with the next.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<Pass, Duration> {
        match self.open_until {
            Some(until) if now < until => return Err(until - now),
            Some(_) => {
                self.open_until = Some(now + self.settings.cool_down);
                self.epoch = self.epoch.wrapping_add(1);
            }
            None => {}
        }
        Ok(Pass(self.epoch))
    }

    /// Whether the next call would have to wait.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.open_until.is_some_and(|until| now < until)
    }

    /// What a caller is told that has to wait. A model can act upon it, so it is the tool's result.
    pub(crate) fn refusal(&self, wait: Duration) -> CallToolResult {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        CallToolResult::error(format!(
            "the tool {:?} keeps failing and is not called for now; try again in {seconds} s",
            self.name
        ))
    }

    /// Takes note of what became of a call that was let through, or has it watched.
    pub(super) fn follow(&mut self, pass: Pass, made: &Made, desk: &mut Desk<'_>) {
        match made {
            Made::Answered { ending, .. } => self.note(pass, *ending, desk.now),
            // There was no room for the call, which says nothing about the tool.
            Made::Refused(_) => self.note(pass, Ending::Cancelled, desk.now),
            Made::Pending(id) | Made::Asking { id, .. } => {
                if let Some(exchange) = desk.exchanges.find(*id) {
                    let watch = exchange.watch.get_or_insert_default();
                    watch.circuit = Some((self.tool, pass));
                }
            }
        }
    }

    /// Takes note of how a call that was let through has ended.
    pub(crate) fn note(&mut self, pass: Pass, ending: Ending, now: Instant) {
        if pass != Pass(self.epoch) {
            return;
        }
        let failed = match ending {
            Ending::Cancelled => {
                // It has shown nothing, so the next call may try.
                self.open_until = self.open_until.map(|_| now);
                return;
            }
            Ending::Failure => self.settings.tool_errors,
            Ending::Error(code) => code == rpc::INTERNAL_ERROR,
            Ending::Result => false,
        };
        if !failed {
            self.failures = 0;
            if self.open_until.take().is_some() {
                log::info!("the tool {:?} works again", self.name);
            }
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.open_until.is_some() || self.failures >= self.settings.failures {
            self.open(now);
        }
    }

    fn open(&mut self, now: Instant) {
        let Self { name, failures, settings: Breaker { cool_down, .. }, .. } = self;
        log::warn!("the tool {name:?} failed {failures} times in a row; pausing for {cool_down:?}");
        self.open_until = Some(now + *cool_down);
        self.epoch = self.epoch.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BROKEN: Ending = Ending::Error(rpc::INTERNAL_ERROR);

    fn epoch() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
        Instant::now()
    }

    fn circuit(failures: u32) -> Circuit {
        Circuit::new("t", 1, Breaker::new(failures, SECOND))
    }

    /// Makes a call that ends like this.
    #[track_caller]
    fn call(circuit: &mut Circuit, ending: Ending, now: Instant) {
        let pass = circuit.admit(now).expect("the call is let through");
        circuit.note(pass, ending, now);
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let now = epoch();
        let mut circuit = circuit(2);
        for ending in [BROKEN, Ending::Result, BROKEN, Ending::Error(-32602), BROKEN, BROKEN] {
            call(&mut circuit, ending, now);
        }
        assert_eq!(circuit.admit(now), Err(SECOND));
    }

    #[test]
    fn a_tool_s_own_failures_count_when_they_are_meant_to() {
        let now = epoch();
        let mut lenient = circuit(1);
        call(&mut lenient, Ending::Failure, now);
        assert!(lenient.admit(now).is_ok());
        let mut strict = Circuit::new("t", 1, Breaker::new(1, SECOND).tool_errors());
        call(&mut strict, Ending::Failure, now);
        assert_eq!(strict.admit(now), Err(SECOND));
    }

    #[test]
    fn calls_from_before_it_opened_say_nothing() {
        let now = epoch();
        let mut circuit = circuit(1);
        let [first, late, later] = [(); 3].map(|()| circuit.admit(now).unwrap());
        circuit.note(first, BROKEN, now);
        circuit.note(late, Ending::Result, now);
        assert_eq!(circuit.admit(now), Err(SECOND), "it is still open");
        circuit.note(later, BROKEN, now + SECOND / 2);
        assert!(circuit.admit(now + SECOND).is_ok(), "and no longer than it was");
    }

    #[test]
    fn one_probe_decides() {
        let now = epoch();
        let later = now + SECOND;
        for ending in [Ending::Result, BROKEN] {
            let mut circuit = circuit(3);
            (0..3).for_each(|_| call(&mut circuit, BROKEN, now));
            let probe = circuit.admit(later).unwrap();
            assert_eq!(circuit.admit(later), Err(SECOND), "the probe is still out");
            circuit.note(probe, ending, later);
            assert_eq!(circuit.admit(later).is_ok(), ending == Ending::Result);
        }
    }

    #[test]
    fn after_a_success_it_takes_as_many_failures_again() {
        let now = epoch();
        let mut circuit = circuit(2);
        (0..2).for_each(|_| call(&mut circuit, BROKEN, now));
        call(&mut circuit, Ending::Result, now + SECOND);
        call(&mut circuit, BROKEN, now + SECOND);
        assert!(circuit.admit(now + SECOND).is_ok());
    }

    #[test]
    fn a_probe_without_an_end_is_followed_by_another() {
        let now = epoch();
        let mut circuit = circuit(1);
        call(&mut circuit, BROKEN, now);
        let lost = circuit.admit(now + SECOND).unwrap();
        let second = circuit.admit(now + SECOND * 2).unwrap();
        circuit.note(lost, Ending::Result, now + SECOND * 2);
        assert!(circuit.admit(now + SECOND * 2).is_err(), "the lost one does not decide any more");
        circuit.note(second, Ending::Result, now + SECOND * 2);
        assert!(circuit.admit(now + SECOND * 2).is_ok());
    }

    #[test]
    fn a_cancelled_call_decides_nothing() {
        let now = epoch();
        let mut circuit = circuit(1);
        call(&mut circuit, Ending::Cancelled, now);
        call(&mut circuit, BROKEN, now);
        call(&mut circuit, Ending::Cancelled, now + SECOND);
        assert!(circuit.admit(now + SECOND).is_ok(), "the next call is the probe");
        assert!(circuit.admit(now + SECOND).is_err(), "and the only one");
    }
}
