//! What clients of the transport with two connections post.

use super::{Answer, App, Desk, accepted};
use crate::engine::answer::LegacyAnswer;
use crate::engine::answer::RpcAnswer;
use crate::exchange::{Caller, ClientResponse, Seat};
use crate::filter::endpoint::Item;
use crate::filter::legacy::LegacyWork;
use crate::http::{ResponseHead, Status};
use crate::key::ExchangeId;
use crate::rpc::encode;

impl App {
    /// Does what one POST asks for. What comes of it is for the stream of its sender.
    pub(super) fn legacy(
        &mut self,
        caller: Caller<'_>,
        work: LegacyWork<'_>,
        cancelled: &mut Vec<ExchangeId>,
        responses: &mut Vec<ClientResponse>,
        desk: &mut Desk<'_>,
    ) -> Answer {
        let stream = match work {
            LegacyWork::Open { address } => {
                let answer = LegacyAnswer::Open { principal: caller.principal, address };
                return Answer::Legacy(Box::new(answer));
            }
            LegacyWork::Message { stream, .. } | LegacyWork::Batch { stream, .. } => stream,
        };
        desk.seat = Seat::Through(stream);
        // What the filters want on the response is for that of this POST, not for a later one.
        let head = std::mem::replace(&mut desk.passage.head, ResponseHead::new(Status::OK));
        let answer = match work {
            LegacyWork::Message { item, .. } => match item {
                Item::Request(ask) => self.single(caller, ask, desk),
                Item::Notification(note) => {
                    cancelled.extend(self.note(&caller, &note, desk));
                    accepted()
                }
                Item::Response(response) => {
                    responses.push(response.into());
                    accepted()
                }
                Item::Refused(id, error) => {
                    encode::write_error(desk.body.anew(), id.as_ref(), &error);
                    Answer::Rpc(RpcAnswer::plain(Status::OK))
                }
            },
            LegacyWork::Batch { items, .. } => {
                self.batch(&caller, items, cancelled, responses, desk)
            }
            LegacyWork::Open { .. } => accepted(),
        };
        desk.passage.head = head;
        Answer::Legacy(Box::new(LegacyAnswer::Through { stream, answer }))
    }
}
