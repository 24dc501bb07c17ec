// SPDX-License-Identifier: MIT OR Apache-2.0

//! What leaves the kernel: answers, events, and what the host is told. The only place that makes replies.

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::promises::{Promise, Promises};
use crate::hardware::GuestId;
use crate::port::{Effect, RequestToken};
use bellhop_protocol::control::ReplyHeader;
use bellhop_protocol::event::Event;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

/// The effects of an input, and the requests that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect>,
    promises: Promises,
}

impl Outbox {
    /// A guest's request is to be answered.
    pub(crate) fn promise(&mut self, guest: GuestId, token: RequestToken) -> Promise {
        self.promises.make(guest, token)
    }

    /// Answers a request with a body or an error. A guest that detaches gets no answer.
    pub(crate) fn answer(&mut self, promise: Promise, answer: Result<Vec<u8>, RequestError>) {
        match answer {
            Ok(body) => self.reply(promise, (Status::SUCCESS, 0), &body),
            Err(error) => self.reply(promise, (error.status(), error.detail()), &[]),
        }
    }

    /// Answers a request that was accepted: an event tells when it is done.
    pub(crate) fn answer_pending(&mut self, promise: Promise) {
        self.reply(promise, (Status::PENDING, 0), &[]);
    }

    fn reply(&mut self, promise: Promise, (status, detail): (Status, u64), body: &[u8]) {
        let Some((guest, token)) = self.promises.keep(promise) else { return };
        let length = size_of::<ReplyHeader>() + body.len();
        let header = ReplyHeader { status, length: length as u32, detail };
        let mut reply = Vec::with_capacity(length);
        reply.extend_from_slice(header.as_bytes());
        reply.extend_from_slice(body);
        self.effects.push(Effect::Reply { guest, token, reply });
    }

    /// Sends a guest an event.
    pub(crate) fn event(&mut self, guest: GuestId, event: Event) {
        self.effects.push(Effect::Event { guest, event });
    }

    /// Tells the host.
    pub(crate) fn tell(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// A guest detaches, and gets no more answers.
    pub(crate) fn forget_guest(&mut self, guest: GuestId) {
        self.promises.forget_guest(guest);
    }

    /// Takes the effects of an input.
    pub(crate) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}
