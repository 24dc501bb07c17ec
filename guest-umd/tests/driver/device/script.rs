// SPDX-License-Identifier: MIT OR Apache-2.0

//! The requests that a script sees, and its answers.

use super::ScriptedDevice;
use bellhop_protocol::control::{ReplyHeader, Request, RequestCode, RequestHeader};
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A request.
#[derive(Debug, Clone)]
pub struct Sent {
    pub code: RequestCode,
    pub process: u32,
    /// Whether the driver posted it, and does not wait for the reply.
    pub is_posted: bool,
    pub(super) body: Vec<u8>,
}

impl Sent {
    pub(super) fn new(request: &[u8]) -> Self {
        let (header, body) = RequestHeader::read_from_prefix(request).unwrap();
        assert_eq!(header.length as usize, request.len(), "{} has another length", header.code);
        let (code, process) = (header.code, header.process);
        Self { code, process, is_posted: false, body: body.to_vec() }
    }

    /// The request's structure.
    pub fn read<T: Request>(&self) -> T {
        assert_eq!(self.code, T::CODE);
        T::read_from_prefix(&self.body).unwrap().0
    }

    /// The bytes behind its fixed structure.
    pub fn following<T: Request>(&self) -> &[u8] {
        assert_eq!(self.code, T::CODE);
        &self.body[size_of::<T>()..]
    }

    /// The first field of every request that names one object.
    pub(super) fn named(&self) -> u64 {
        u64::read_from_prefix(&self.body).unwrap().0
    }
}

/// Changes a reply, header included.
type Alteration = Box<dyn FnOnce(&mut Vec<u8>)>;

/// A script's answer to a request.
pub enum Answer {
    AsUsual,
    Refuse(Status, u64),
    /// This reply, header included.
    Reply(Vec<u8>),
    /// The usual reply, changed by this.
    Alter(Alteration),
    /// A reply that claims a length of its own.
    Length(usize),
    Disconnect,
}

impl Answer {
    /// The usual reply, but for a word of its body.
    pub fn with_word(offset: usize, word: u64) -> Self {
        let at = size_of::<ReplyHeader>() + offset;
        Self::Alter(Box::new(move |reply| reply[at..at + 8].copy_from_slice(&word.to_le_bytes())))
    }
}

/// A reply with a body.
pub fn success(body: &(impl IntoBytes + Immutable)) -> Vec<u8> {
    reply(Status::SUCCESS, 0, body.as_bytes())
}

pub fn reply(status: Status, detail: u64, body: &[u8]) -> Vec<u8> {
    let length = (size_of::<ReplyHeader>() + body.len()) as u32;
    [ReplyHeader { status, length, detail }.as_bytes(), body].concat()
}

pub(super) type Script = dyn Fn(&ScriptedDevice, &Sent) -> Answer + Send + Sync;
