//! What other threads have left for the loop: events, answers, orders.

use std::any::Any;
use std::time::Instant;

use super::Engine;
use super::answer::join;
use super::handler::Paused;
use crate::exchange::{Committed, Exchange, Mail, Purpose, Seat};
use crate::key::ExchangeId;
use crate::mcp::model::{Ending, NeedInput};
use crate::rpc::{ErrorObject, encode};

impl<T> Engine<T> {
    /// Handles the mail that is here now; what is posted meanwhile waits for the next turn.
    pub(super) fn handle_mail(&mut self, now: Instant) {
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.take(&mut mail, self.limits.turn.mail_max);
        for message in mail.drain(..) {
            match message {
                Mail::Event { id, message } => self.on_event(id, &message, now),
                Mail::Answer { id, message, ending } => self.on_answer(id, message, ending, now),
                Mail::Abandoned { id } => self.on_abandoned(id, now),
                Mail::Task { id, owner } => self.on_task(id, owner, now),
                Mail::Need { id, call, need } => self.on_need_mail(id, call, need, now),
                Mail::Pause { id, reconnect } => self.on_pause(id, reconnect, now),
                Mail::Resume { conn, ticket, told } => self.on_resume(conn, ticket, told, now),
                Mail::Command(command) => self.on_command(command, now),
            }
        }
        self.mail = mail;
    }

    fn on_event(&mut self, id: ExchangeId, message: &[u8], now: Instant) {
        let Some(exchange) = self.exchanges.find(id) else { return };
        exchange.flags.arrived(message.len());
        match exchange.seat {
            Seat::Task(task) => self.note_progress(task, message, now),
            _ => {
                self.say(id, message, now);
            }
        }
    }

    fn on_need_mail(
        &mut self,
        id: ExchangeId,
        call: Box<dyn Any + Send>,
        need: NeedInput,
        now: Instant,
    ) {
        match call.downcast::<Paused>() {
            Ok(paused) => self.on_need(id, paused, need, now),
            Err(_) => debug_assert!(false, "only calls are given back"),
        }
    }

    fn on_abandoned(&mut self, id: ExchangeId, now: Instant) {
        let Some(exchange) = self.exchanges.find(id) else {
            return;
        };
        log::error!("the handler of {id} gave up without an answer");
        let error = ErrorObject::internal();
        let mut message = Vec::new();
        encode::write_error(&mut message, exchange.call(), &error);
        self.on_answer(id, message, Ending::Error(error.code), now);
    }

    pub(super) fn on_answer(
        &mut self,
        id: ExchangeId,
        message: Vec<u8>,
        ending: Ending,
        now: Instant,
    ) {
        // A caller that reads nothing else gets its answer as a stream of one event.
        if self.exchanges.find(id).is_some_and(|exchange| !exchange.accepts.json) {
            self.open_stream(id, None, now);
        }
        let Some(mut exchange) = self.exchanges.close(id) else {
            return;
        };
        if let Some(watch) = exchange.watch.take() {
            self.app.on_end(*watch, ending, now);
        }
        if let Some(session) = exchange.session {
            self.sessions.touch(session, now);
        }
        match exchange.seat {
            Seat::Attached(key) => self.answer_exchange(key, id, &exchange, &message, ending, now),
            Seat::Part(whole) => self.on_part(whole, Some(message), now),
            Seat::Task(task) => self.end_task(task, &message, now),
            Seat::Through(stream) => self.answer_through(stream, &message, now),
            Seat::Working if exchange.committed == Committed::Record => {
                self.detached.record(id, &message);
                self.end_record(id, now);
            }
            Seat::Working => log::debug!("{id} finished after its caller had left"),
        }
    }

    /// One more answer of a batch, or none for a call that was cancelled; the last one sends all.
    fn on_part(&mut self, whole: ExchangeId, answer: Option<Vec<u8>>, now: Instant) {
        let Some(batch) = self.exchanges.find(whole).and_then(Exchange::batch) else {
            return;
        };
        batch.answers.extend(answer);
        batch.awaited = batch.awaited.saturating_sub(1);
        if batch.awaited > 0 {
            return;
        }
        if batch.answers.is_empty() {
            // Every call of it was cancelled.
            return self.cancel_call(whole, now);
        }
        let message = join(batch);
        self.on_answer(whole, message, Ending::Result, now);
    }

    /// Cancels a running call, as its caller asked, or ends a stream: nothing is sent for it.
    pub(super) fn cancel_call(&mut self, id: ExchangeId, now: Instant) {
        self.forget_asking(id, now);
        let Some(exchange) = self.exchanges.cancel(id) else { return };
        match exchange.seat {
            Seat::Attached(key) => self.end_cancelled(key, &exchange, now),
            Seat::Part(whole) => self.on_part(whole, None, now),
            Seat::Through(_) | Seat::Task(_) | Seat::Working => {}
        }
        match exchange.purpose {
            Purpose::Stream | Purpose::Legacy { .. } => self.leave_session(id, exchange.session),
            Purpose::Listen(_) => {
                self.subscriptions.remove(id);
            }
            Purpose::Call(_) | Purpose::Batch(_) => self.detached.forget(id),
        }
    }
}
