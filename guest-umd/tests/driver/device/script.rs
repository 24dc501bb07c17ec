//! What a script sees, and what it makes of it.

use super::ScriptedDevice;
use bellhop_protocol::control::{ReplyHeader, Request, RequestCode, RequestHeader};
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Sent {
    pub code: RequestCode,
    pub process: u32,
    /// Nobody waits for the reply.
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

    /// What follows its fixed structure.
    pub fn following<T: Request>(&self) -> &[u8] {
        assert_eq!(self.code, T::CODE);
        &self.body[size_of::<T>()..]
    }

    /// The first field of every request that names one object.
    pub(super) fn named(&self) -> u64 {
        u64::read_from_prefix(&self.body).unwrap().0
    }
}

/// What becomes of a reply, header and all.
type Alteration = Box<dyn FnOnce(&mut Vec<u8>)>;

/// What a script makes of a request.
pub enum Answer {
    AsUsual,
    Refuse(Status, u64),
    /// Header and all.
    Reply(Vec<u8>),
    /// As usual, but for what this makes of the reply.
    Alter(Alteration),
    /// A reply that claims a length of its own.
    Length(usize),
    Disconnect,
}

impl Answer {
    /// As usual, but for a word of the reply's body.
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
