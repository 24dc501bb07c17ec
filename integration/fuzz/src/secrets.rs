// SPDX-License-Identifier: MIT OR Apache-2.0

//! A worker with keys that was taken over, and sends its owner anything.

#[cfg(test)]
mod seeds;

use crate::actions;
use arbitrary::Arbitrary;
use bellhop_worker::owner::WorkerError;
use bellhop_worker::security::owner::{Answer, Conversation, Job};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use std::collections::VecDeque;
use std::time::Instant;

/// Most actions of one input.
const MOST: usize = 64;
/// Most bytes of a packet: more than the owner has room for.
const LONGEST: usize = 2100;
/// Most bytes that are sealed, those that sealing adds, and those of a statement (docs/protocol.md, "Sealed bytes and
/// statements").
const MOST_SEALED: usize = 1 << 20;
const OVERHEAD: usize = 80;
const STATEMENT: usize = 280;
/// The numbers of messages, and their version.
const READY: u32 = 0x280;
const DONE: u32 = 0x281;
const REFUSED: u32 = 0x82;
const VERSION: u32 = 6;

/// Work of the owner's.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Work {
    /// So many bytes.
    Seal(u16),
    /// Likewise.
    Open(u16),
    Attest,
    /// More than fits.
    TooMuch,
}

#[derive(Debug, Arbitrary)]
enum Action {
    /// The owner waits for keys.
    AwaitKeys,
    /// The owner gives it work.
    Begin(Work),
    /// The worker sends something.
    Send(Said),
    /// The owner looks for an answer.
    Poll,
}

/// What a worker sends.
#[derive(Debug, Arbitrary)]
enum Said {
    /// The first byte of its key.
    Ready(u8),
    Refused,
    /// An answer: how far its number is behind that of the last work, its outcome, and how many bytes too long it is.
    Done(u8, u8, u8),
    /// The same with these bytes behind it.
    DoneWith(u8, Vec<u8>),
    Raw(Vec<u8>),
    /// Another number or version in front of something.
    Header(u8, u8, Vec<u8>),
}

/// What the answer to work may be.
#[derive(Debug, Clone, Copy)]
struct Due {
    length: usize,
    /// Whether bytes may be refused.
    may_fail: bool,
}

struct Play {
    owner: Conversation,
    theirs: OwnedFd,
    /// What was sent and is not received.
    sent: VecDeque<Vec<u8>>,
    works: u64,
    due: Option<Due>,
    believed: Vec<u32>,
}

/// Packets of a worker with keys, between any work of its owner, which ends the worker at its first wrong word. What it
/// believes until then is an answer that its work can have, and what it refuses is none.
///
/// # Panics
/// When the owner believes something that it must not, or refuses what it must believe.
pub fn secrets(data: &[u8]) {
    play(data);
}

/// Returns the numbers of the messages that the owner believed.
fn play(data: &[u8]) -> Vec<u32> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let mut play = Play {
        owner: Conversation::new(ours).unwrap(),
        theirs,
        sent: VecDeque::new(),
        works: 0,
        due: None,
        believed: Vec::new(),
    };
    for action in actions::<Action>(data, MOST) {
        if !play.act(action) {
            break;
        }
        play.receive();
    }
    play.believed
}

fn packet(kind: u32, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes(), &VERSION.to_le_bytes(), body].concat()
}

impl Play {
    /// Returns whether the worker still lives.
    fn act(&mut self, action: Action) -> bool {
        match action {
            Action::AwaitKeys => return self.await_keys(),
            Action::Begin(work) => self.begin(work),
            Action::Send(said) => self.send(said),
            Action::Poll => return self.poll(),
        }
        true
    }

    fn await_keys(&mut self) -> bool {
        let ready = self.owner.ready(Instant::now());
        let Some(next) = self.sent.pop_front() else {
            assert!(matches!(ready, Err(WorkerError::TooSlow)), "{ready:?}");
            return true;
        };
        let body = next.strip_prefix(&packet(READY, b"")[..]).filter(|body| body.len() == 32);
        match ready {
            Ok(key) => assert_eq!(body, Some(&key[..])),
            Err(WorkerError::Refused(_)) => assert!(next.starts_with(&packet(REFUSED, b""))),
            Err(ref error) => {
                assert_eq!(body, None, "it refused {next:?}");
                assert_is_wrong_word(error);
            }
        }
        self.believe(&next, ready.is_ok())
    }

    fn begin(&mut self, work: Work) {
        static BYTES: [u8; MOST_SEALED + 1] = [7; MOST_SEALED + 1];
        let bytes = &BYTES;
        let (job, due) = match work {
            Work::Seal(length) => {
                let data = &bytes[..length.into()];
                let length = data.len() + OVERHEAD;
                (Job::Seal { data, protected: false, associated: &bytes[..9] }, (length, false))
            }
            Work::Open(length) => {
                let data = &bytes[..length.into()];
                let length = data.len().saturating_sub(OVERHEAD);
                (Job::Open { data, associated: b"" }, (length, true))
            }
            Work::Attest => (Job::Attest { nonce: [1; 32] }, (STATEMENT, false)),
            Work::TooMuch => {
                (Job::Seal { data: bytes, protected: true, associated: b"" }, (0, false))
            }
        };
        let possible = self.due.is_none() && !matches!(work, Work::TooMuch);
        match self.owner.begin(&[5; 32], &job) {
            Ok(()) => {
                assert!(possible, "{work:?} was begun");
                self.works += 1;
                self.due = Some(Due { length: due.0, may_fail: due.1 });
            }
            Err(WorkerError::Impossible(why)) => assert!(!possible, "{why}"),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(self.owner.is_busy(), self.due.is_some());
    }

    fn send(&mut self, said: Said) {
        let mut bytes = match said {
            Said::Ready(first) => packet(READY, &[[first; 1].as_slice(), &[9; 31]].concat()),
            Said::Refused => packet(REFUSED, &[0; 4]),
            Said::Done(behind, outcome, longer) => self.answer(behind, outcome, longer),
            Said::DoneWith(outcome, more) => [self.answer(0, outcome, 0), more].concat(),
            Said::Raw(bytes) => bytes,
            Said::Header(kind, version, more) => {
                let kind = 0x200 | u32::from(kind);
                [&kind.to_le_bytes(), &u32::from(version).to_le_bytes(), &more[..]].concat()
            }
        };
        bytes.truncate(LONGEST);
        match send(&self.theirs, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => self.sent.push_back(bytes),
            // The owner has not received what came before.
            Err(Errno::AGAIN) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn answer(&self, behind: u8, outcome: u8, longer: u8) -> Vec<u8> {
        let length = match (outcome, self.due) {
            (1, Some(due)) => due.length,
            _ => 0,
        };
        let body = [
            &self.works.wrapping_sub(behind.into()).to_le_bytes()[..],
            &u32::from(outcome).to_le_bytes(),
            &(length as u32 + u32::from(longer)).to_le_bytes(),
        ];
        packet(DONE, &body.concat())
    }

    fn poll(&mut self) -> bool {
        let polled = self.owner.poll(Instant::now());
        let Some(due) = self.due else {
            // It looks for nothing that it has not asked for.
            assert!(matches!(polled, Ok(None)), "{polled:?}");
            return true;
        };
        let Some(next) = self.sent.pop_front() else {
            assert!(matches!(polled, Ok(None)), "{polled:?}");
            return true;
        };
        let right = [(1, due.length), (2, 0), (3, 0)].into_iter().find(|(outcome, length)| {
            let body = [
                &self.works.to_le_bytes()[..],
                &u32::to_le_bytes(*outcome),
                &(*length as u32).to_le_bytes(),
            ];
            (*outcome == 1 || due.may_fail) && next == packet(DONE, &body.concat())
        });
        match polled {
            Ok(Some(Answer { outcome, length })) => {
                assert_eq!(Some((outcome.0, length)), right, "it believed {next:?}");
                self.due = None;
                self.owner.take(&mut vec![0; length]).unwrap();
            }
            Ok(None) => panic!("it did not receive {next:?}"),
            Err(ref error) => {
                assert_eq!(right, None, "it refused {next:?}");
                assert_is_wrong_word(error);
            }
        }
        self.believe(&next, right.is_some())
    }

    fn believe(&mut self, packet: &[u8], is_believed: bool) -> bool {
        if is_believed {
            self.believed.push(u32::from_le_bytes(*packet.first_chunk().unwrap()));
        }
        is_believed
    }

    /// Receives what the owner sent, as a worker does: an owner does not wait for one that does not.
    fn receive(&self) {
        let mut buffer = [0; 1024];
        while recv(&self.theirs, &mut buffer[..], RecvFlags::DONTWAIT).is_ok() {}
    }
}

#[track_caller]
fn assert_is_wrong_word(error: &WorkerError) {
    let is_wrong = match error {
        WorkerError::Nonsense(_) | WorkerError::OutOfTurn(_) => true,
        // It has no room for so long a packet.
        WorkerError::Kernel(error) => *error == Errno::MSGSIZE,
        _ => false,
    };
    assert!(is_wrong, "{error}");
}
