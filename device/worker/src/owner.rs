// SPDX-License-Identifier: MIT OR Apache-2.0

//! The owner's half of a worker: starts it, asks it, answers its faults, ends it.
//!
//! What a worker says is believed no more than what a guest says: a packet that does not fit what was asked is an
//! error, and the owner then ends the worker.

use crate::messages::{
    self, Dispatch, Load, MAX_CONSTANTS, MAX_NAME, MAX_PUSH_CONSTANTS, MAX_SPIRV, Malformed, Map,
    PAGE, Start, Unload, Unmap,
};
use crate::socket::{receive, send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, fcntl_add_seals, ftruncate, memfd_create, seek};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// What a compiler may say, in bytes.
const SAID: u64 = 1 << 16;

/// Why a worker is of no use any more, or was given something impossible.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// It cannot be started.
    #[error("cannot start a worker: {0}")]
    NotStarted(std::io::Error),
    /// It has no Vulkan, no window, or no sandbox.
    #[error("the worker refused to start: {0}")]
    Refused(String),
    /// It said something that no worker says: it is broken, or taken over.
    #[error("the worker sent {0}")]
    Nonsense(#[from] Malformed),
    /// It said something at a time when no worker says it.
    #[error("the worker sent {0} when it could not")]
    OutOfTurn(&'static str),
    /// It ended.
    #[error("the worker ended ({0})")]
    Ended(ExitStatus),
    /// What was asked cannot be.
    #[error("{0}")]
    Impossible(&'static str),
    /// The kernel refused something.
    #[error("cannot speak with a worker: {0}")]
    Kernel(#[from] Errno),
}

/// A kernel, to be compiled.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// A file with the SPIR-V from its beginning. The worker reads it.
    pub spirv: BorrowedFd<'a>,
    /// Bytes of SPIR-V.
    pub length: u64,
    /// The entry point's name.
    pub entry_point: &'a str,
    /// Bytes of push constants.
    pub push_constants: u32,
    /// Number and value of each specialisation constant.
    pub constants: &'a [[u32; 2]],
}

/// Memory that the answer to a fault maps.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    /// Its first address in the window.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Its file, open for what is allowed.
    pub file: BorrowedFd<'a>,
    /// Where it begins in the file.
    pub offset: u64,
    /// Whether kernels may store there.
    pub writable: bool,
}

/// A thread of a kernel that waits for memory. It is answered, or its worker is ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address.
    pub address: u64,
    /// Whether it stores there.
    pub store: bool,
    slot: u32,
}

/// What a worker says.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A kernel was compiled.
    Loaded(u32),
    /// A kernel cannot be compiled: why.
    NotLoaded(u32, String),
    /// A kernel ran.
    Done(u32),
    /// A kernel did not run: why.
    NotDone(u32, String),
    /// A kernel waits for memory.
    Fault(Fault),
    /// A kernel used an address outside of the window, and the worker ends. `None` where the processor does not
    /// tell the address.
    Wild(Option<u64>, bool),
    /// No access of a kernel reaches this range any more.
    Unmapped(Range<u64>),
}

/// What the worker has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Load(u32),
    Dispatch(u32),
}

/// A worker's end of the conversation, as its owner keeps it.
struct Conversation {
    socket: OwnedFd,
    window: Range<u64>,
    /// A worker compiles or runs one kernel at a time.
    asked: Option<Asked>,
    /// The ranges that are being taken back, in order.
    unmapping: Vec<Range<u64>>,
    /// A bit for each slot that waits.
    waiting: u64,
}

impl Conversation {
    fn load(&mut self, kernel: u32, module: &Module<'_>) -> Result<(), WorkerError> {
        let Module { spirv, length, entry_point, push_constants, constants } = *module;
        let possible = entry_point.len() <= MAX_NAME
            && constants.len() <= MAX_CONSTANTS
            && push_constants as usize <= MAX_PUSH_CONSTANTS
            && length <= MAX_SPIRV;
        if !possible {
            return Err(WorkerError::Impossible("the kernel is larger than a worker takes"));
        }
        self.ask(Asked::Load(kernel))?;
        let mut load = Load {
            kernel,
            push_constants,
            length,
            constants: constants.len() as u32,
            name_length: entry_point.len() as u32,
            constant: [[0; 2]; MAX_CONSTANTS],
            name: [0; MAX_NAME],
        };
        load.constant[..constants.len()].copy_from_slice(constants);
        load.name[..entry_point.len()].copy_from_slice(entry_point.as_bytes());
        Ok(send(&self.socket, load, Some(spirv))?)
    }

    fn dispatch(&mut self, kernel: u32, groups: [u32; 3], with: &[u8]) -> Result<(), WorkerError> {
        if with.len() > MAX_PUSH_CONSTANTS {
            return Err(WorkerError::Impossible("more push constants than a worker takes"));
        }
        self.ask(Asked::Dispatch(kernel))?;
        let mut push_constants = [0; MAX_PUSH_CONSTANTS];
        push_constants[..with.len()].copy_from_slice(with);
        let length = with.len() as u32;
        let dispatch = Dispatch { kernel, groups, length, reserved: 0, push_constants };
        Ok(send(&self.socket, dispatch, None)?)
    }

    fn ask(&mut self, what: Asked) -> Result<(), WorkerError> {
        if self.asked.is_some() {
            return Err(WorkerError::Impossible("the worker is at work"));
        }
        self.asked = Some(what);
        Ok(())
    }

    fn answer(&mut self, fault: Fault, memory: &Memory<'_>) -> Result<(), WorkerError> {
        let Memory { address, length, file, offset, writable } = *memory;
        self.must_be_pages(address, length)?;
        self.waiting &= !(1 << fault.slot);
        let map = Map { slot: fault.slot, writable: writable.into(), address, length, offset };
        Ok(send(&self.socket, map, Some(file))?)
    }

    fn unmap(&mut self, address: u64, length: u64) -> Result<(), WorkerError> {
        self.must_be_pages(address, length)?;
        self.unmapping.push(address..address + length);
        Ok(send(&self.socket, Unmap { address, length }, None)?)
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

    /// What a packet of the worker's means now.
    fn take(&mut self, packet: &[u8]) -> Result<Event, WorkerError> {
        use messages::Event as Said;
        match Said::read(packet)? {
            Said::Loaded(loaded) => {
                self.answered("Loaded", Asked::Load(loaded.kernel))?;
                Ok(Event::Loaded(loaded.kernel))
            }
            Said::NotLoaded(not) => {
                self.answered("NotLoaded", Asked::Load(not.kernel))?;
                Ok(Event::NotLoaded(not.kernel, not.why.read()))
            }
            Said::Done(done) => {
                self.answered("Done", Asked::Dispatch(done.kernel))?;
                Ok(Event::Done(done.kernel))
            }
            Said::NotDone(not) => {
                self.answered("NotDone", Asked::Dispatch(not.kernel))?;
                Ok(Event::NotDone(not.kernel, not.why.read()))
            }
            Said::Missing(missing) => {
                let bit = 1_u64.checked_shl(missing.slot).unwrap_or(0);
                let runs = matches!(self.asked, Some(Asked::Dispatch(_)));
                let inside = self.window.contains(&missing.address);
                if !runs || !inside || bit == 0 || self.waiting & bit != 0 || missing.store > 1 {
                    return Err(WorkerError::OutOfTurn("Missing"));
                }
                self.waiting |= bit;
                let (address, store) = (missing.address, missing.store == 1);
                Ok(Event::Fault(Fault { address, store, slot: missing.slot }))
            }
            Said::Wild(wild) => {
                if self.asked.is_none() || wild.known > 1 || wild.store > 1 {
                    return Err(WorkerError::OutOfTurn("Wild"));
                }
                Ok(Event::Wild((wild.known == 1).then_some(wild.address), wild.store == 1))
            }
            Said::Unmapped(unmapped) => {
                let range = unmapped.address..unmapped.address.wrapping_add(unmapped.length);
                if self.unmapping.first() != Some(&range) {
                    return Err(WorkerError::OutOfTurn("Unmapped"));
                }
                self.unmapping.remove(0);
                Ok(Event::Unmapped(range))
            }
            Said::Ready(_) => Err(WorkerError::OutOfTurn("Ready")),
            Said::Refused(_) => Err(WorkerError::OutOfTurn("Refused")),
        }
    }

    fn answered(&mut self, what: &'static str, asked: Asked) -> Result<(), WorkerError> {
        // A kernel that is done has no thread that waits.
        if self.asked != Some(asked) || self.waiting != 0 {
            return Err(WorkerError::OutOfTurn(what));
        }
        self.asked = None;
        Ok(())
    }
}

/// A worker process. It is killed when this is dropped.
pub struct Worker {
    child: Child,
    conversation: Conversation,
    /// Its standard error, of a fixed length.
    said: File,
    pointers: bool,
}

/// What a worker gets.
#[derive(Debug, Clone)]
pub struct Options {
    /// The GPU virtual addresses, which are reserved in the worker.
    pub window: Range<u64>,
    /// Most bytes of memory of the worker's own.
    pub memory: u64,
    /// The Vulkan device: its place in the list.
    pub device: u32,
}

impl Worker {
    /// Starts one with a command that runs `bellhop-worker`, and waits until it has passed its self-test and entered
    /// its sandbox. It ends with the thread that calls this, if that should end first.
    ///
    /// # Errors
    /// When it cannot be started, or refuses.
    pub fn start(mut command: Command, options: &Options) -> Result<Self, WorkerError> {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let said = sealed(SAID)?;
        let copy = said.try_clone().map_err(WorkerError::NotStarted)?;
        // Mesa would keep compiled kernels in the user's home.
        command.arg("serve").env("MESA_SHADER_CACHE_DISABLE", "true");
        command.stdin(theirs).stdout(Stdio::null()).stderr(copy);
        let child = command.spawn().map_err(WorkerError::NotStarted)?;
        // The worker's end must be the only one.
        drop(command);
        let window = options.window.clone();
        let (asked, unmapping, waiting) = (None, Vec::new(), 0);
        let conversation =
            Conversation { socket, window: window.clone(), asked, unmapping, waiting };
        let mut worker = Self { child, conversation, said, pointers: false };
        let start = Start {
            start: window.start,
            length: window.end.saturating_sub(window.start),
            memory: options.memory,
            device: options.device,
            reserved: 0,
        };
        // A worker that has ended says so below.
        let _ = send(&worker.conversation.socket, start, None);
        let Some(received) = receive(&worker.conversation.socket)? else {
            return Err(worker.ended());
        };
        match messages::Event::read(received.bytes())? {
            messages::Event::Ready(ready) => worker.pointers = ready.pointers == 1,
            messages::Event::Refused(refused) => {
                return Err(WorkerError::Refused(refused.why.read()));
            }
            _ => return Err(WorkerError::OutOfTurn("a first packet")),
        }
        Ok(worker)
    }

    /// Whether kernels reach memory by pointers: the capability `KERNEL_POINTERS`.
    #[must_use]
    pub fn has_pointers(&self) -> bool {
        self.pointers
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to compile a kernel: `Loaded` or `NotLoaded` is the answer.
    ///
    /// # Errors
    /// When it is at work, or cannot take such a kernel.
    pub fn load(&mut self, kernel: u32, module: &Module<'_>) -> Result<(), WorkerError> {
        seek(&self.said, SeekFrom::Start(0))?;
        self.conversation.load(kernel, module)
    }

    /// Asks it to forget a kernel.
    ///
    /// # Errors
    /// When it has gone.
    pub fn unload(&mut self, kernel: u32) -> Result<(), WorkerError> {
        Ok(send(&self.conversation.socket, Unload { kernel, reserved: 0 }, None)?)
    }

    /// Asks it to run so many work groups of a kernel: `Done` or `NotDone` is the answer, after any faults.
    ///
    /// # Errors
    /// When it is at work, or has gone.
    pub fn dispatch(
        &mut self,
        kernel: u32,
        groups: [u32; 3],
        push_constants: &[u8],
    ) -> Result<(), WorkerError> {
        self.conversation.dispatch(kernel, groups, push_constants)
    }

    /// Answers a fault: the thread tries its access again. Memory that does not have the address is no mistake, but
    /// the thread will fault again.
    ///
    /// # Errors
    /// When these are not pages of the window, or the worker has gone.
    pub fn answer(&mut self, fault: Fault, memory: &Memory<'_>) -> Result<(), WorkerError> {
        self.conversation.answer(fault, memory)
    }

    /// Takes memory back, also while a kernel runs: `Unmapped` is the answer.
    ///
    /// # Errors
    /// When these are not pages of the window, or the worker has gone.
    pub fn unmap(&mut self, range: Range<u64>) -> Result<(), WorkerError> {
        self.conversation.unmap(range.start, range.end.saturating_sub(range.start))
    }

    /// Waits for what it says, at most so long; `None` when it said nothing.
    ///
    /// # Errors
    /// When it ended, or said what no worker says: it is to be dropped then.
    pub fn next(&mut self, patience: Option<Duration>) -> Result<Option<Event>, WorkerError> {
        if let Some(patience) = patience {
            let patience = Timespec::try_from(patience)
                .map_err(|_| WorkerError::Impossible("nothing waits so long"))?;
            match poll(
                &mut [PollFd::new(&self.conversation.socket, PollFlags::IN)],
                Some(&patience),
            ) {
                Ok(0) | Err(Errno::INTR) => return Ok(None),
                result => result?,
            };
        }
        let Some(received) = receive(&self.conversation.socket)? else {
            return Err(self.ended());
        };
        match self.conversation.take(received.bytes())? {
            Event::NotLoaded(kernel, why) => {
                Ok(Some(Event::NotLoaded(kernel, format!("{why}\n{}", self.said()).trim().into())))
            }
            event => Ok(Some(event)),
        }
    }

    /// What to wait for: it becomes readable when `next` has something to return.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.conversation.socket.as_fd()
    }

    /// What it wrote to standard error since the last `load`.
    fn said(&self) -> String {
        let length =
            seek(&self.said, SeekFrom::Current(0)).unwrap_or(0).min(messages::MAX_TEXT as u64);
        let mut said = vec![0; length as usize];
        let read = self.said.read_at(&mut said, 0).unwrap_or(0);
        String::from_utf8_lossy(&said[..read]).into_owned()
    }

    /// How it ended, now that its end of the socket is closed.
    fn ended(&mut self) -> WorkerError {
        // It may have closed the socket without ending.
        let _ = self.child.kill();
        self.child.wait().map_or_else(WorkerError::NotStarted, WorkerError::Ended)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Nothing of it is left after this; it may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file in memory whose length stays.
fn sealed(length: u64) -> Result<File, WorkerError> {
    let file = memfd_create("said", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, length)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Done, Loaded, Message, Missing, NotLoaded, Ready, Text, Unmapped, Wild};

    const WINDOW: Range<u64> = 0x10_0000..0x20_0000;

    fn conversation() -> (Conversation, OwnedFd) {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let (asked, unmapping, waiting) = (None, Vec::new(), 0);
        (Conversation { socket, window: WINDOW, asked, unmapping, waiting }, theirs)
    }

    fn said(to: &mut Conversation, message: impl Message) -> Result<Event, WorkerError> {
        to.take(&messages::packet(&message))
    }

    #[track_caller]
    fn refused(to: &mut Conversation, message: impl Message) {
        assert!(matches!(said(to, message), Err(WorkerError::OutOfTurn(_))));
    }

    #[test]
    fn a_worker_that_answers_what_was_not_asked_is_not_believed() {
        let (mut owner, _theirs) = conversation();
        refused(&mut owner, Done { kernel: 1 });
        refused(&mut owner, Ready { pointers: 1, reserved: 0 });
        refused(&mut owner, Loaded { kernel: 1 });
        refused(&mut owner, Wild { store: 0, known: 1, address: 0 });
        owner.dispatch(1, [1; 3], &[]).unwrap();
        refused(&mut owner, Done { kernel: 2 });
        refused(&mut owner, NotLoaded { kernel: 1, why: Text::new("") });
        assert_eq!(said(&mut owner, Done { kernel: 1 }).unwrap(), Event::Done(1));
        refused(&mut owner, Done { kernel: 1 });
    }

    #[test]
    fn a_fault_is_one_of_a_kernel_that_runs_inside_the_window_and_waits_once() {
        let (mut owner, _theirs) = conversation();
        let missing = |slot, address| Missing { slot, store: 1, address };
        refused(&mut owner, missing(0, WINDOW.start));
        owner.dispatch(1, [1; 3], &[]).unwrap();
        refused(&mut owner, missing(0, WINDOW.start - 1));
        refused(&mut owner, missing(0, WINDOW.end));
        refused(&mut owner, missing(messages::SLOTS as u32, WINDOW.start));
        refused(&mut owner, Missing { slot: 0, store: 2, address: WINDOW.start });
        let Event::Fault(fault) = said(&mut owner, missing(63, WINDOW.start + 8)).unwrap() else {
            panic!("no fault");
        };
        assert_eq!((fault.address, fault.store), (WINDOW.start + 8, true));
        refused(&mut owner, missing(63, WINDOW.start));
        // It cannot be done while it waits.
        refused(&mut owner, Done { kernel: 1 });
        let file = sealed(PAGE).unwrap();
        let memory = |address| Memory {
            address,
            length: PAGE,
            file: file.as_fd(),
            offset: 0,
            writable: true,
        };
        owner.answer(fault, &memory(WINDOW.start)).unwrap();
        assert_eq!(said(&mut owner, Done { kernel: 1 }).unwrap(), Event::Done(1));
    }

    #[test]
    fn memory_counts_as_taken_back_only_as_it_was_asked() {
        let (mut owner, _theirs) = conversation();
        let start = WINDOW.start;
        owner.unmap(start, PAGE).unwrap();
        owner.unmap(start + PAGE, PAGE).unwrap();
        refused(&mut owner, Unmapped { address: start + PAGE, length: PAGE });
        refused(&mut owner, Unmapped { address: start, length: 2 * PAGE });
        let first = said(&mut owner, Unmapped { address: start, length: PAGE }).unwrap();
        assert_eq!(first, Event::Unmapped(start..start + PAGE));
        refused(&mut owner, Unmapped { address: start, length: PAGE });
        assert!(owner.unmap(start - PAGE, PAGE).is_err());
        assert!(owner.unmap(start, WINDOW.end).is_err());
    }

    /// Whatever bytes come, it is an error or something that was asked for; nothing panics.
    #[test]
    fn any_bytes_are_an_error() {
        let (mut owner, _theirs) = conversation();
        owner.dispatch(7, [1; 3], &[]).unwrap();
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
