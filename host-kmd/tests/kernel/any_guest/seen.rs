// SPDX-License-Identifier: MIT OR Apache-2.0

//! A step of an arbitrary guest, and the objects that it can choose from.

use bellhop_protocol::control::{Handle, RequestCode};

/// One step. The numbers choose among the objects that exist.
#[derive(Debug, Clone)]
pub struct Step {
    /// Index of one of the two guests.
    pub guest: usize,
    /// Below [`KINDS`](super::KINDS).
    pub kind: u8,
    pub choice: [usize; 4],
    /// Position of a byte to change, and the bits to flip.
    pub mutation: Option<(usize, u8)>,
}

/// The objects that a guest has: the code of the request that returned each, its process and its handle (or address).
#[derive(Default)]
pub(super) struct Seen(pub(super) Vec<(RequestCode, u32, Handle)>);

impl Seen {
    /// Picks, mostly, a live object of the right kind; sometimes of any kind, or one that does not exist.
    pub(super) fn pick(&self, code: RequestCode, choice: usize) -> (u32, Handle) {
        let wrong = choice.is_multiple_of(16);
        let fitting = self.0.iter().rev().filter(|(other, ..)| wrong || *other == code);
        let nth = choice / 16 % 6;
        let picked = fitting.clone().nth(nth).or_else(|| fitting.clone().next());
        picked.map_or((7, Handle(9)), |(_, process, handle)| (*process, *handle))
    }

    /// Picks an object like [`Self::pick`], but of this process.
    pub(super) fn pick_of(&self, process: u32, code: RequestCode, choice: usize) -> Handle {
        let fitting = self.0.iter().rev().filter(|seen| seen.0 == code && seen.1 == process);
        let picked = fitting.clone().nth(choice % 4).or_else(|| fitting.clone().next());
        picked.map_or(Handle(9), |(.., handle)| *handle)
    }

    /// Adds the objects in a reply.
    pub(super) fn learn(&mut self, code: RequestCode, process: u32, body: &[u8]) {
        let word = |at: usize| {
            let bytes = body.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let Some(first) = word(0) else { return };
        match code {
            RequestCode::CREATE_PROCESS => self.0.push((code, first as u32, Handle(0))),
            RequestCode::CREATE_HW_QUEUE => {
                self.0.push((code, process, Handle(first)));
                let fence = RequestCode::CREATE_NATIVE_FENCE;
                self.0.extend(word(8).map(|second| (fence, process, Handle(second))));
            }
            RequestCode::CREATE_NODE_CONTEXT => {
                self.0.push((code, process, Handle(first)));
                // As a context, so that it is suspended and destroyed like others.
                self.0.push((RequestCode::CREATE_CONTEXT, process, Handle(first)));
                let fence = RequestCode::CREATE_NATIVE_FENCE;
                self.0.extend(word(8).map(|second| (fence, process, Handle(second))));
            }
            RequestCode::OPEN_SHARED_ALLOCATION => {
                // It is made resident, locked, mapped and destroyed like the process's own.
                self.0.push((RequestCode::CREATE_ALLOCATION, process, Handle(first)));
            }
            RequestCode::CREATE_MONITORED_FENCE => {
                // It is waited for, signaled and destroyed like native fences.
                self.0.push((RequestCode::CREATE_NATIVE_FENCE, process, Handle(first)));
            }
            _ => self.0.push((code, process, Handle(first))),
        }
    }
}
