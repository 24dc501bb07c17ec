// SPDX-License-Identifier: MIT OR Apache-2.0

//! A worker that was taken over by a guest's kernel, and sends its owner anything.

mod commands;

use crate::actions;
use arbitrary::Arbitrary;
use bellhop_worker::messages::video::VideoAnswer;
use bellhop_worker::messages::{
    Answer, Done, Event, KernelDispatch, Loaded, MAX_ANSWER, MAX_EVENT, Message, Missing, NotDone,
    NotLoaded, PAGE, Ready, Refused, SLOTS, Text, Unmapped, Wild,
};
use bellhop_worker::owner::conversation::Conversation;
use bellhop_worker::owner::{Fault, Memory, Module, WorkerError};
pub use commands::commands;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use zerocopy::IntoBytes;

/// Most actions of one input.
const MOST: usize = 64;
const WINDOW: Range<u64> = 0x10_0000..0x20_0000;

/// Pages of the window and around it.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Pages(u8, u8);

impl Pages {
    fn address(self) -> u64 {
        WINDOW.start - PAGE + u64::from(self.0) * PAGE * 5
    }

    fn length(self) -> u64 {
        u64::from(self.1 % 4) * PAGE
    }
}

/// A number that is often one in use, and sometimes none.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Small(u8);

impl From<Small> for u32 {
    fn from(Small(number): Small) -> Self {
        Self::from(number % 4)
    }
}

/// What the owner does: it never does what is impossible, but in any order.
#[derive(Debug, Arbitrary)]
enum Action {
    Load(Small),
    Unload(Small),
    Dispatch(u8),
    Map(Pages),
    /// Answers a fault, of those that wait.
    Answer(u8, Pages),
    Unmap(Pages),
    /// What the worker sends.
    Send(Said),
    /// Asks for a task of so many bytes.
    Task(u8),
}

/// What a worker sends.
#[derive(Debug, Arbitrary)]
enum Said {
    Ready(Small, Small),
    Refused,
    Loaded(Small),
    NotLoaded(Small),
    Done(Small),
    NotDone(Small),
    /// A slot, what a store is told as, and an offset.
    Missing(u8, Small, Pages, u16),
    Wild(Small, Small, u64),
    Unmapped(Pages),
    /// What the owner asked to be taken back first.
    UnmappedAsAsked,
    Raw(Vec<u8>),
    /// Another version or number in front of something, with these bytes more.
    Header(u8, u8, Vec<u8>),
    /// The answer to a task, of about this length and with this first byte.
    Answer(u16, u8),
}

fn packet<M: Message>(message: &M) -> Vec<u8> {
    [M::HEADER.as_bytes(), message.as_bytes()].concat()
}

/// What a worker may say, found out in another way than the owner does.
#[derive(Default)]
struct Model {
    started: bool,
    loading: Option<u32>,
    running: Option<u32>,
    /// Whether a task is being done.
    is_tasked: bool,
    waiting: BTreeSet<u32>,
    unmapping: VecDeque<(u64, u64)>,
}

impl Model {
    fn is_idle(&self) -> bool {
        self.started && self.loading.is_none() && self.running.is_none() && !self.is_tasked
    }

    /// Takes a message that the owner believed, which it must have been right to do.
    fn believe(&mut self, event: &Event) -> bool {
        let quiet = self.waiting.is_empty();
        match event {
            Event::Ready(ready) => {
                !std::mem::replace(&mut self.started, true)
                    && ready.pointers < 2
                    && ready.resident < 2
            }
            Event::Refused(_) => !self.started,
            Event::Loaded(loaded) => self.loading.take() == Some(loaded.kernel) && quiet,
            Event::NotLoaded(not) => self.loading.take() == Some(not.kernel) && quiet,
            Event::Done(done) => self.running.take() == Some(done.count) && quiet,
            Event::NotDone(not) => {
                self.running.take().is_some_and(|count| not.index < count) && quiet
            }
            Event::Missing(missing) => {
                (self.running.is_some() || self.is_tasked)
                    && WINDOW.contains(&missing.address)
                    && (missing.slot as usize) < SLOTS
                    && missing.store < 2
                    && self.waiting.insert(missing.slot)
            }
            Event::Wild(wild) => {
                !self.is_idle() && self.started && wild.known < 2 && wild.store < 2
            }
            Event::Answer(answer) => {
                answer.length as usize <= MAX_ANSWER && std::mem::take(&mut self.is_tasked) && quiet
            }
            Event::Unmapped(unmapped) => {
                self.unmapping.pop_front() == Some((unmapped.address, unmapped.length))
            }
        }
    }
}

struct Play {
    owner: Conversation,
    theirs: [OwnedFd; 2],
    model: Model,
    faults: Vec<(u32, Fault)>,
    believed: Vec<u32>,
    file: OwnedFd,
}

/// Bytes from a worker, between any requests of its owner. The owner ends a worker at its first wrong word, so what it
/// believes until then must have been possible.
///
/// # Panics
/// When the owner believes something that it must not, or refuses what it must believe.
pub fn worker(data: &[u8]) {
    play(data);
}

/// Returns the numbers of the messages that the owner believed.
fn play(data: &[u8]) -> Vec<u32> {
    let pair = || {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    };
    let ((socket, theirs), (for_memory, theirs_for_memory)) = (pair(), pair());
    let mut play = Play {
        owner: Conversation::new(socket, for_memory, WINDOW),
        theirs: [theirs, theirs_for_memory],
        model: Model::default(),
        faults: Vec::new(),
        believed: Vec::new(),
        file: memfd_create("pages", MemfdFlags::CLOEXEC).unwrap(),
    };
    for action in actions::<Action>(data, MOST) {
        if !play.act(action) {
            break;
        }
        play.receive();
    }
    play.believed
}

impl Play {
    /// Returns whether the worker still lives.
    fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Load(kernel) => {
                let module = Module {
                    spirv: self.file.as_fd(),
                    length: 20,
                    entry_point: "main",
                    push_constants: 0,
                    descriptors: 0,
                    constants: &[],
                };
                let idle = self.model.is_idle();
                let asked = self.owner.load(kernel.into(), &module);
                asked_as_expected(&asked, idle);
                if idle {
                    self.model.loading = Some(kernel.into());
                }
            }
            Action::Unload(kernel) => {
                asked_as_expected(&self.owner.unload(kernel.into()), self.model.started);
            }
            Action::Dispatch(count) => {
                let batch = vec![KernelDispatch::default(); usize::from(count % 4) + 1];
                let idle = self.model.is_idle();
                asked_as_expected(&self.owner.dispatch(&batch), idle);
                if idle {
                    self.model.running = Some(batch.len() as u32);
                }
            }
            Action::Task(length) => {
                let idle = self.model.is_idle();
                let task = vec![7; usize::from(length)];
                asked_as_expected(&self.owner.task(&task), idle && length > 0);
                self.model.is_tasked |= idle && length > 0;
            }
            Action::Map(pages) => {
                let possible = self.model.started && are_pages(pages);
                asked_as_expected(&self.owner.map(&memory(&self.file, pages)), possible);
            }
            Action::Answer(which, pages) => {
                if self.faults.is_empty() {
                    return true;
                }
                let (slot, fault) = self.faults.swap_remove(usize::from(which) % self.faults.len());
                let answered = self.owner.answer(fault, &memory(&self.file, pages));
                asked_as_expected(&answered, are_pages(pages));
                if answered.is_ok() {
                    self.model.waiting.remove(&slot);
                }
            }
            Action::Unmap(pages) => {
                let possible = self.model.started && are_pages(pages);
                asked_as_expected(&self.owner.unmap(pages.address(), pages.length()), possible);
                if possible {
                    self.model.unmapping.push_back((pages.address(), pages.length()));
                }
            }
            Action::Send(said) => return self.hear(&self.packet(said)),
        }
        true
    }

    fn hear(&mut self, packet: &[u8]) -> bool {
        match self.owner.take(packet) {
            Ok(event) => {
                assert!(self.model.believe(&event), "it believed {packet:?}");
                self.believed.push(packet[0].into());
                if let Event::Answer(answer) = event {
                    let length = answer.length as usize;
                    // What the role of video makes of it.
                    if let Ok(said) = VideoAnswer::read(&answer.bytes[..length]) {
                        assert!((1..=8).contains(&said.result) && said.is_key < 2);
                    }
                }
                if let Event::Missing(missing) = event {
                    self.faults.push((missing.slot, missing.into()));
                }
                // Workers end after these.
                !matches!(event, Event::Refused(_) | Event::Wild(_))
            }
            Err(WorkerError::Nonsense(_) | WorkerError::OutOfTurn(_)) => {
                if let Ok(event) = Event::read(packet) {
                    assert!(!self.model.believe(&event), "it refused {packet:?}");
                }
                false
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn packet(&self, said: Said) -> Vec<u8> {
        match said {
            Said::Ready(pointers, resident) => {
                packet(&Ready { pointers: pointers.into(), resident: resident.into() })
            }
            Said::Refused => packet(&Refused { why: Text::new("no") }),
            Said::Loaded(kernel) => packet(&Loaded { kernel: kernel.into() }),
            Said::NotLoaded(kernel) => {
                packet(&NotLoaded { kernel: kernel.into(), why: Text::new("no") })
            }
            Said::Done(count) => packet(&Done { count: count.into() }),
            Said::NotDone(index) => packet(&NotDone { index: index.into(), why: Text::new("no") }),
            Said::Missing(slot, store, pages, offset) => packet(&Missing {
                slot: u32::from(slot % 80),
                store: store.into(),
                address: pages.address() + u64::from(offset),
            }),
            Said::Wild(store, known, address) => {
                packet(&Wild { store: store.into(), known: known.into(), address })
            }
            Said::Unmapped(pages) => {
                packet(&Unmapped { address: pages.address(), length: pages.length() })
            }
            Said::Answer(length, first) => {
                let length = u32::from(length % (MAX_ANSWER as u16 + 2));
                let mut bytes = [0; MAX_ANSWER];
                bytes[0] = first;
                packet(&Answer { length, bytes })
            }
            Said::UnmappedAsAsked => {
                let (address, length) = self.model.unmapping.front().copied().unwrap_or_default();
                packet(&Unmapped { address, length })
            }
            Said::Raw(mut bytes) => {
                bytes.truncate(MAX_EVENT);
                bytes
            }
            Said::Header(kind, version, bytes) => {
                let header = [0x80 | u32::from(kind % 16), version.into()];
                [header.as_bytes(), &bytes].concat()
            }
        }
    }

    /// Receives what the owner sent, as a worker does: an owner does not wait for one that does not.
    fn receive(&self) {
        let mut buffer = [0; 1 << 16];
        for socket in &self.theirs {
            loop {
                match recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok(_) => {}
                    Err(Errno::AGAIN) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

fn are_pages(pages: Pages) -> bool {
    let (start, length) = (pages.address(), pages.length());
    length > 0 && start >= WINDOW.start && start + length <= WINDOW.end
}

fn memory(file: &OwnedFd, pages: Pages) -> Memory<'_> {
    let (address, length) = (pages.address(), pages.length());
    Memory { address, length, file: file.as_fd(), offset: 0, writable: true }
}

#[track_caller]
fn asked_as_expected(result: &Result<(), WorkerError>, possible: bool) {
    match result {
        Ok(()) => assert!(possible, "what is impossible was asked"),
        Err(WorkerError::Impossible(why)) => assert!(!possible, "{why}"),
        Err(other) => panic!("{other}"),
    }
}

#[cfg(test)]
mod seeds;
