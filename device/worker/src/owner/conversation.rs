// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an owner asked a worker, and what the worker may answer.

use super::{Fault, Memory, Module, WorkerError};
use crate::messages::{
    BatchWriter, Event, KernelDispatch, Load, MAX_ANSWER, MAX_CONSTANTS, MAX_DESCRIPTORS,
    MAX_EVENT, MAX_NAME, MAX_PUSH_CONSTANTS, MAX_SPIRV, Map, NO_SLOT, PAGE, TaskWriter, Unload,
    Unmap,
};
use crate::socket::{receive, send_at_once, send_packet};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::collections::VecDeque;
use std::ops::Range;

/// A request that the worker has not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Start,
    Load(u32),
    /// So many dispatches.
    Dispatch(u32),
    Task,
}

/// The owner's record of what it asked a worker and what the worker may answer.
pub struct Conversation {
    /// For all requests but those for memory, and for all answers.
    socket: OwnedFd,
    /// For requests for memory, which the worker obeys while a kernel runs.
    for_memory: OwnedFd,
    window: Range<u64>,
    /// The request in flight: a worker starts, compiles or runs one thing at a time.
    asked: Option<Asked>,
    /// Whether a task follows the one in flight. The worker begins it by itself.
    is_followed: bool,
    /// Whether the worker said that it is ready.
    ready: bool,
    /// The ranges that are being taken back, oldest first.
    unmapping: VecDeque<Range<u64>>,
    /// A bit for each slot with a thread that waits.
    waiting: u64,
    /// The number of requests for memory so far, modulo 2^32.
    memory: u32,
    batch: BatchWriter,
    task: TaskWriter,
}

impl Conversation {
    /// Begins with a worker that was sent `Start`.
    #[must_use]
    pub fn new(socket: OwnedFd, for_memory: OwnedFd, window: Range<u64>) -> Self {
        Self {
            socket,
            for_memory,
            window,
            asked: Some(Asked::Start),
            is_followed: false,
            ready: false,
            unmapping: VecDeque::new(),
            waiting: 0,
            memory: 0,
            batch: BatchWriter::default(),
            task: TaskWriter::default(),
        }
    }

    /// The socket for all answers.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks for a kernel to be compiled.
    ///
    /// # Errors
    /// When the worker is at work or receives nothing, or the kernel is too large.
    pub fn load(&mut self, kernel: u32, module: &Module<'_>) -> Result<(), WorkerError> {
        let Module { spirv, length, entry_point, push_constants, descriptors, constants } = *module;
        let possible = entry_point.len() <= MAX_NAME
            && constants.len() <= MAX_CONSTANTS
            && push_constants as usize <= MAX_PUSH_CONSTANTS
            && descriptors as usize <= MAX_DESCRIPTORS
            && length <= MAX_SPIRV;
        if !possible {
            return Err(WorkerError::Impossible("the kernel is larger than a worker takes"));
        }
        self.ask(Asked::Load(kernel))?;
        let mut load = Load {
            kernel,
            push_constants,
            length,
            descriptors,
            constants: constants.len() as u32,
            name_length: entry_point.len() as u32,
            reserved: 0,
            constant: [[0; 2]; MAX_CONSTANTS],
            name: [0; MAX_NAME],
        };
        load.constant[..constants.len()].copy_from_slice(constants);
        load.name[..entry_point.len()].copy_from_slice(entry_point.as_bytes());
        Ok(send_at_once(&self.socket, load, Some(spirv))?)
    }

    /// Asks for a kernel to be forgotten.
    ///
    /// # Errors
    /// When the worker is not ready, or receives nothing.
    pub fn unload(&mut self, kernel: u32) -> Result<(), WorkerError> {
        self.must_be_ready()?;
        Ok(send_at_once(&self.socket, Unload { kernel, reserved: 0 }, None)?)
    }

    /// Asks for a batch to be run.
    ///
    /// # Errors
    /// When the worker is at work, has said something unasked or receives nothing, or the batch is too large.
    pub fn dispatch(&mut self, batch: &[KernelDispatch<'_>]) -> Result<(), WorkerError> {
        let count = batch.len() as u32;
        let packet = self.batch.write(self.memory, batch).map_err(WorkerError::Impossible)?;
        if self.asked.is_some() {
            return Err(BUSY);
        }
        must_be_silent(&self.socket, &self.unmapping)?;
        self.asked = Some(Asked::Dispatch(count));
        Ok(send_packet(&self.socket, packet)?)
    }

    /// Asks for a task to be done.
    ///
    /// # Errors
    /// When the worker is at work, has said something unasked or receives nothing, or the task is too long.
    pub fn task(&mut self, task: &[u8]) -> Result<(), WorkerError> {
        let packet = self.task.write(self.memory, task).map_err(WorkerError::Impossible)?;
        if self.asked.is_some() {
            return Err(BUSY);
        }
        must_be_silent(&self.socket, &self.unmapping)?;
        self.asked = Some(Asked::Task);
        Ok(send_packet(&self.socket, packet)?)
    }

    /// Asks for a task to be done when the one in flight is.
    ///
    /// # Errors
    /// When no task is in flight, or one follows it already; when the worker receives nothing, or the task is too long.
    pub fn follow(&mut self, task: &[u8]) -> Result<(), WorkerError> {
        let packet = self.task.write(self.memory, task).map_err(WorkerError::Impossible)?;
        if self.asked != Some(Asked::Task) || self.is_followed {
            return Err(BUSY);
        }
        send_packet(&self.socket, packet)?;
        self.is_followed = true;
        Ok(())
    }

    fn ask(&mut self, what: Asked) -> Result<(), WorkerError> {
        if self.asked.is_some() {
            return Err(BUSY);
        }
        self.asked = Some(what);
        Ok(())
    }

    /// Answers a fault with memory.
    ///
    /// # Errors
    /// When these are not pages of the window, or the worker receives nothing.
    pub fn answer(&mut self, fault: Fault, memory: &Memory<'_>) -> Result<(), WorkerError> {
        self.put(fault.slot, memory)?;
        self.waiting &= !(1 << fault.slot);
        Ok(())
    }

    /// Gives memory without a fault.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn map(&mut self, memory: &Memory<'_>) -> Result<(), WorkerError> {
        self.put(NO_SLOT, memory)
    }

    fn put(&mut self, slot: u32, memory: &Memory<'_>) -> Result<(), WorkerError> {
        let Memory { address, length, file, offset, writable } = *memory;
        self.must_be_ready()?;
        self.must_be_pages(address, length)?;
        let map = Map { slot, writable: writable.into(), address, length, offset };
        send_at_once(&self.for_memory, map, Some(file))?;
        self.memory = self.memory.wrapping_add(1);
        Ok(())
    }

    /// Takes memory back.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn unmap(&mut self, address: u64, length: u64) -> Result<(), WorkerError> {
        self.must_be_ready()?;
        self.must_be_pages(address, length)?;
        send_at_once(&self.for_memory, Unmap { address, length }, None)?;
        self.memory = self.memory.wrapping_add(1);
        self.unmapping.push_back(address..address + length);
        Ok(())
    }

    fn must_be_ready(&self) -> Result<(), WorkerError> {
        if self.ready { Ok(()) } else { Err(WorkerError::Impossible("the worker is not ready")) }
    }

    fn must_be_pages(&self, address: u64, length: u64) -> Result<(), WorkerError> {
        let end = address.checked_add(length).filter(|end| *end <= self.window.end);
        let whole = address.is_multiple_of(PAGE) && length.is_multiple_of(PAGE) && length > 0;
        if end.is_some() && whole && address >= self.window.start {
            Ok(())
        } else {
            Err(WorkerError::Impossible("these are not pages of the window"))
        }
    }

    /// Checks a packet from the worker against what is in flight, and returns its message.
    ///
    /// # Errors
    /// When it is no message, or fits nothing in flight. The owner then ends the worker.
    pub fn take(&mut self, packet: &[u8]) -> Result<Event, WorkerError> {
        let said = Event::read(packet)?;
        match &said {
            Event::Ready(ready) => {
                if ready.pointers > 1 || ready.resident > 1 {
                    return Err(WorkerError::OutOfTurn("Ready"));
                }
                self.answered("Ready", Asked::Start)?;
                self.ready = true;
            }
            Event::Refused(_) => self.answered("Refused", Asked::Start)?,
            Event::Loaded(loaded) => self.answered("Loaded", Asked::Load(loaded.kernel))?,
            Event::NotLoaded(not) => self.answered("NotLoaded", Asked::Load(not.kernel))?,
            Event::Done(done) => self.answered("Done", Asked::Dispatch(done.count))?,
            Event::NotDone(not) => {
                let Some(asked @ Asked::Dispatch(count)) = self.asked else {
                    return Err(WorkerError::OutOfTurn("NotDone"));
                };
                if not.index >= count {
                    return Err(WorkerError::OutOfTurn("NotDone"));
                }
                self.answered("NotDone", asked)?;
            }
            Event::Missing(missing) => {
                let bit = 1_u64.checked_shl(missing.slot).unwrap_or(0);
                let runs = matches!(self.asked, Some(Asked::Dispatch(_) | Asked::Task));
                let inside = self.window.contains(&missing.address);
                if !runs || !inside || bit == 0 || self.waiting & bit != 0 || missing.store > 1 {
                    return Err(WorkerError::OutOfTurn("Missing"));
                }
                self.waiting |= bit;
            }
            Event::Wild(wild) => {
                if !self.ready || self.asked.is_none() || wild.known > 1 || wild.store > 1 {
                    return Err(WorkerError::OutOfTurn("Wild"));
                }
            }
            Event::Answer(answer) => {
                if answer.length as usize > MAX_ANSWER {
                    return Err(WorkerError::OutOfTurn("Answer"));
                }
                self.answered("Answer", Asked::Task)?;
            }
            Event::Unmapped(unmapped) => {
                let range = unmapped.address..unmapped.address.wrapping_add(unmapped.length);
                if self.unmapping.front() != Some(&range) {
                    return Err(WorkerError::OutOfTurn("Unmapped"));
                }
                self.unmapping.pop_front();
            }
        }
        Ok(said)
    }

    fn answered(&mut self, what: &'static str, asked: Asked) -> Result<(), WorkerError> {
        // A finished kernel has no thread that waits.
        if self.asked != Some(asked) || self.waiting != 0 {
            return Err(WorkerError::OutOfTurn(what));
        }
        if !std::mem::take(&mut self.is_followed) {
            self.asked = None;
        }
        Ok(())
    }
}

/// Refuses a worker that said something while it was asked nothing: otherwise that would pass for the answer to what it
/// is asked next. What it has yet to say of memory that is taken back is read later, in its turn.
fn must_be_silent(socket: &OwnedFd, unmapping: &VecDeque<Range<u64>>) -> Result<(), WorkerError> {
    if !unmapping.is_empty() {
        return Ok(());
    }
    match receive(socket, &mut [0; MAX_EVENT], RecvFlags::DONTWAIT) {
        Ok(Some(_)) => Err(WorkerError::OutOfTurn("something")),
        // Whoever sends to a worker that has ended learns of it.
        Ok(None) | Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

const BUSY: WorkerError = WorkerError::Impossible("the worker is at work");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{
        self, Done, Loaded, Message, Missing, NotDone, NotLoaded, Ready, Refused, Text, Unmapped,
        Wild,
    };
    use crate::socket::pair;

    const WINDOW: Range<u64> = 0x10_0000..0x20_0000;

    /// A conversation with a worker that is ready, and the worker's ends of the sockets.
    fn conversation() -> (Conversation, [OwnedFd; 2]) {
        let ((socket, theirs), (for_memory, theirs_for_memory)) =
            (pair().unwrap(), pair().unwrap());
        let mut owner = Conversation::new(socket, for_memory, WINDOW);
        said(&mut owner, Ready { pointers: 1, resident: 0 }).unwrap();
        (owner, [theirs, theirs_for_memory])
    }

    /// Dispatches one kernel.
    fn dispatch(owner: &mut Conversation) {
        owner.dispatch(&[KernelDispatch::default()]).unwrap();
    }

    fn said(to: &mut Conversation, message: impl Message) -> Result<Event, WorkerError> {
        to.take(&messages::packet(&message))
    }

    #[track_caller]
    fn refused(to: &mut Conversation, message: impl Message) {
        assert!(matches!(said(to, message), Err(WorkerError::OutOfTurn(_))));
    }

    fn answers(owner: &mut Conversation) -> Result<Event, WorkerError> {
        said(owner, messages::Answer::new(b"done"))
    }

    #[test]
    fn one_task_may_follow_another_and_each_is_answered_once() {
        let (mut owner, _theirs) = conversation();
        assert!(owner.follow(b"first").is_err(), "it follows nothing");
        owner.task(b"first").unwrap();
        owner.follow(b"second").unwrap();
        assert!(owner.follow(b"third").is_err(), "one follows already");
        answers(&mut owner).unwrap();
        // The second is in flight now, and a third may follow it.
        assert!(owner.task(b"other").is_err());
        owner.follow(b"third").unwrap();
        answers(&mut owner).unwrap();
        answers(&mut owner).unwrap();
        assert!(matches!(answers(&mut owner), Err(WorkerError::OutOfTurn("Answer"))));
        owner.task(b"other").unwrap();
    }

    #[test]
    fn no_task_follows_a_batch() {
        let (mut owner, _theirs) = conversation();
        dispatch(&mut owner);
        assert!(owner.follow(b"task").is_err());
        refused(&mut owner, NotDone { index: 1, why: Text::new("") });
        said(&mut owner, Done { count: 1 }).unwrap();
    }

    /// A worker that was taken over may receive nothing. Its owner also executes for others.
    #[test]
    fn a_worker_that_receives_nothing_does_not_hold_its_owner_up() {
        let (mut owner, _theirs) = conversation();
        let refused = (0..1_000_000).find_map(|_| owner.unmap(WINDOW.start, PAGE).err());
        assert!(matches!(refused, Some(WorkerError::Kernel(rustix::io::Errno::AGAIN))));
    }

    #[test]
    fn a_worker_that_answers_what_was_not_asked_is_not_believed() {
        let (mut owner, _theirs) = conversation();
        refused(&mut owner, Done { count: 1 });
        refused(&mut owner, Ready { pointers: 1, resident: 0 });
        refused(&mut owner, Refused { why: Text::new("") });
        refused(&mut owner, Loaded { kernel: 1 });
        refused(&mut owner, Wild { store: 0, known: 1, address: 0 });
        dispatch(&mut owner);
        refused(&mut owner, Done { count: 2 });
        refused(&mut owner, NotDone { index: 1, why: Text::new("") });
        refused(&mut owner, NotLoaded { kernel: 1, why: Text::new("") });
        assert!(matches!(said(&mut owner, Done { count: 1 }), Ok(Event::Done(_))));
        refused(&mut owner, Done { count: 1 });
        refused(&mut owner, NotDone { index: 0, why: Text::new("") });
    }

    #[test]
    fn a_worker_that_starts_is_asked_nothing_and_says_only_that_it_is_ready() {
        let ((socket, _theirs), (for_memory, _memory)) = (pair().unwrap(), pair().unwrap());
        let mut owner = Conversation::new(socket, for_memory, WINDOW);
        assert!(owner.dispatch(&[KernelDispatch::default()]).is_err());
        assert!(owner.unmap(WINDOW.start, PAGE).is_err() && owner.unload(1).is_err());
        refused(&mut owner, Wild { store: 0, known: 1, address: 0 });
        refused(&mut owner, Loaded { kernel: 1 });
        refused(&mut owner, Ready { pointers: 2, resident: 0 });
        said(&mut owner, Ready { pointers: 1, resident: 0 }).unwrap();
        owner.unmap(WINDOW.start, WINDOW.end - WINDOW.start).unwrap();
        dispatch(&mut owner);
    }

    #[test]
    fn a_task_is_answered_once_and_by_nothing_else() {
        let (mut owner, _theirs) = conversation();
        let answer = |length| messages::Answer { length, bytes: [0; MAX_ANSWER] };
        refused(&mut owner, answer(1));
        owner.task(b"task").unwrap();
        assert!(owner.task(b"task").is_err());
        refused(&mut owner, Done { count: 1 });
        refused(&mut owner, answer(MAX_ANSWER as u32 + 1));
        said(&mut owner, Missing { slot: 1, store: 0, address: WINDOW.start }).unwrap();
        // It cannot be done while a thread waits.
        refused(&mut owner, answer(1));
        owner.waiting = 0;
        said(&mut owner, answer(MAX_ANSWER as u32)).unwrap();
        refused(&mut owner, answer(1));
    }

    /// As `Done` comes before the batch, its owner cannot tell it from the batch's end.
    #[test]
    fn what_a_worker_said_before_it_was_asked_is_no_answer() {
        let done = messages::packet(&Done { count: 1 });
        let (mut owner, [theirs, _memory]) = conversation();
        send_packet(&theirs, &done).unwrap();
        let refused = owner.dispatch(&[KernelDispatch::default()]);
        assert!(matches!(refused, Err(WorkerError::OutOfTurn(_))), "{refused:?}");

        let (mut owner, [theirs, _memory]) = conversation();
        send_packet(&theirs, b"nonsense").unwrap();
        let refused = owner.task(b"task");
        assert!(matches!(refused, Err(WorkerError::OutOfTurn(_))), "{refused:?}");

        // What it says of memory is no answer to anything else.
        let (mut owner, [theirs, _memory]) = conversation();
        owner.unmap(WINDOW.start, PAGE).unwrap();
        let unmapped = Unmapped { address: WINDOW.start, length: PAGE };
        send_packet(&theirs, &messages::packet(&unmapped)).unwrap();
        dispatch(&mut owner);
    }

    #[test]
    fn a_fault_is_one_of_a_kernel_that_runs_inside_the_window_and_waits_once() {
        let (mut owner, _theirs) = conversation();
        let missing = |slot, address| Missing { slot, store: 1, address };
        refused(&mut owner, missing(0, WINDOW.start));
        dispatch(&mut owner);
        refused(&mut owner, missing(0, WINDOW.start - 1));
        refused(&mut owner, missing(0, WINDOW.end));
        refused(&mut owner, missing(messages::SLOTS as u32, WINDOW.start));
        refused(&mut owner, Missing { slot: 0, store: 2, address: WINDOW.start });
        said(&mut owner, missing(63, WINDOW.start + 8)).unwrap();
        let fault = Fault { address: WINDOW.start + 8, store: true, slot: 63 };
        refused(&mut owner, missing(63, WINDOW.start));
        // A kernel cannot be done while its thread waits.
        refused(&mut owner, Done { count: 1 });
        let file = rustix::fs::memfd_create("pages", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let memory = |address| Memory {
            address,
            length: PAGE,
            file: file.as_fd(),
            offset: 0,
            writable: true,
        };
        owner.answer(fault, &memory(WINDOW.start)).unwrap();
        assert!(matches!(said(&mut owner, Done { count: 1 }), Ok(Event::Done(_))));
    }

    #[test]
    fn memory_counts_as_taken_back_only_as_it_was_asked() {
        let (mut owner, _theirs) = conversation();
        let start = WINDOW.start;
        owner.unmap(start, PAGE).unwrap();
        owner.unmap(start + PAGE, PAGE).unwrap();
        refused(&mut owner, Unmapped { address: start + PAGE, length: PAGE });
        refused(&mut owner, Unmapped { address: start, length: 2 * PAGE });
        said(&mut owner, Unmapped { address: start, length: PAGE }).unwrap();
        refused(&mut owner, Unmapped { address: start, length: PAGE });
        assert!(owner.unmap(start - PAGE, PAGE).is_err());
        assert!(owner.unmap(start, WINDOW.end).is_err());
    }

    /// Arbitrary bytes are an error and never a panic.
    #[test]
    fn any_bytes_are_an_error() {
        let (mut owner, _theirs) = conversation();
        dispatch(&mut owner);
        let mut word = 1_u32;
        for length in 0..2000 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (word >> 24) as u8
                })
                .collect();
            assert!(matches!(owner.take(&bytes), Err(WorkerError::Nonsense(_))));
        }
    }
}
