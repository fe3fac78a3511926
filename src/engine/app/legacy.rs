//! What clients of the transport with two connections post.

use super::{Answer, App, Desk, accepted};
use crate::engine::answer::{LegacyAnswer, RpcAnswer};
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
        let answer = match work {
            LegacyWork::Open { address } => {
                LegacyAnswer::Open { principal: caller.principal, address }
            }
            LegacyWork::Message { stream, item } => through(stream, desk, |desk| match item {
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
            }),
            LegacyWork::Batch { stream, items } => {
                through(stream, desk, |desk| self.batch(&caller, items, cancelled, responses, desk))
            }
        };
        Answer::Legacy(Box::new(answer))
    }
}

/// Serves what is answered on this stream.
fn through<'d>(
    stream: ExchangeId,
    desk: &mut Desk<'d>,
    serve: impl FnOnce(&mut Desk<'d>) -> Answer,
) -> LegacyAnswer {
    desk.seat = Seat::Through(stream);
    // What the filters want on the response is for that of this POST, not for a later one.
    let head = std::mem::replace(&mut desk.passage.head, ResponseHead::new(Status::OK));
    let answer = serve(desk);
    desk.passage.head = head;
    LegacyAnswer::Through { stream, answer }
}
