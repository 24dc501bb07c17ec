// SPDX-License-Identifier: MIT OR Apache-2.0

//! The owner's side of a worker: starts it, sends requests, answers its faults and ends it.
//!
//! The owner trusts a worker no more than a guest. A packet that fits no request is an error, and the owner then ends
//! the worker.

use crate::messages::{
    self, Dispatch, Load, MAX_CONSTANTS, MAX_NAME, MAX_PUSH_CONSTANTS, MAX_SPIRV, Malformed, Map,
    PAGE, Start, Unload, Unmap,
};
use crate::socket::{receive, send};
use crate::waiting::is_readable;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, fcntl_add_seals, ftruncate, memfd_create, seek};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a worker may take to start. A self-test takes a second at most, but the driver may be on a slow disk.
const START: Duration = Duration::from_secs(60);
/// Size of the file for a worker's standard error, in bytes.
const SAID: u64 = 1 << 16;

/// Why a worker failed, or a request to it is impossible.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The worker cannot be started.
    #[error("cannot start a worker: {0}")]
    NotStarted(std::io::Error),
    /// The worker was not ready in time.
    #[error("a worker did not pass its self-test within {} s", START.as_secs())]
    TooSlow,
    /// The worker has no Vulkan, no window or no sandbox.
    #[error("the worker refused to start: {0}")]
    Refused(String),
    /// The worker sent something that is no message: it is broken or taken over.
    #[error("the worker sent {0}")]
    Nonsense(#[from] Malformed),
    /// The worker sent a message that fits no request.
    #[error("the worker sent {0} when it could not")]
    OutOfTurn(&'static str),
    /// The worker ended.
    #[error("the worker ended ({0})")]
    Ended(ExitStatus),
    /// The caller asked for something impossible.
    #[error("{0}")]
    Impossible(&'static str),
    /// A system call failed.
    #[error("cannot speak with a worker: {0}")]
    Kernel(#[from] Errno),
}

/// A kernel, to be compiled.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// A file that begins with the SPIR-V. The worker reads it.
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
    /// Its file, opened only for the access allowed here. A worker that is taken over may use the whole file.
    pub file: BorrowedFd<'a>,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// Whether kernels may store there.
    pub writable: bool,
}

/// A kernel's thread that waits for memory. The owner answers it or ends the worker.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address.
    pub address: u64,
    /// Whether the access is a store.
    pub store: bool,
    slot: u32,
}

/// An event from a worker.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A kernel was compiled.
    Loaded(u32),
    /// A kernel cannot be compiled, and why.
    NotLoaded(u32, String),
    /// A kernel ran.
    Done(u32),
    /// A kernel did not run to its end, and why.
    NotDone(u32, String),
    /// A kernel waits for memory.
    Fault(Fault),
    /// A kernel accessed an address outside the window, and the worker ends: the address, which is `None` if the
    /// processor does not report it, and whether the access was a store.
    Wild(Option<u64>, bool),
    /// No access reaches the former mapping of this range any more.
    Unmapped(Range<u64>),
}

/// A request that the worker has not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Load(u32),
    Dispatch(u32),
}

/// The owner's record of what it asked a worker and what the worker may answer.
struct Conversation {
    socket: OwnedFd,
    window: Range<u64>,
    /// The one request in flight: a worker compiles or runs one kernel at a time.
    asked: Option<Asked>,
    /// The ranges that are being taken back, oldest first.
    unmapping: Vec<Range<u64>>,
    /// A bit for each slot with a thread that waits.
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

    /// Checks a packet from the worker against what is in flight, and returns its event.
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
        // A finished kernel has no thread that waits.
        if self.asked != Some(asked) || self.waiting != 0 {
            return Err(WorkerError::OutOfTurn(what));
        }
        self.asked = None;
        Ok(())
    }
}

/// A worker process. Dropping this kills it.
pub struct Worker {
    child: Child,
    conversation: Conversation,
    /// The worker's standard error: a file of fixed length.
    said: File,
    pointers: bool,
}

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct Options {
    /// The GPU virtual addresses that the worker reserves.
    pub window: Range<u64>,
    /// Most bytes of the worker's own memory.
    pub memory: u64,
    /// The Vulkan device's index in the list.
    pub device: u32,
}

impl Worker {
    /// Starts a worker with a command that runs `bellhop-worker`. Waits until the worker has passed its self-test and
    /// entered its sandbox. The worker ends when the calling thread ends.
    ///
    /// # Errors
    /// When the worker cannot be started, refuses, takes too long, or ends.
    pub fn start(mut command: Command, options: &Options) -> Result<Self, WorkerError> {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let said = sealed(SAID)?;
        let copy = said.try_clone().map_err(WorkerError::NotStarted)?;
        // Otherwise Mesa caches compiled kernels in the user's home.
        command.arg("serve").env("MESA_SHADER_CACHE_DISABLE", "true");
        command.stdin(theirs).stdout(Stdio::null()).stderr(copy);
        let child = command.spawn().map_err(WorkerError::NotStarted)?;
        // Closes this process's copy of the worker's end, so that the socket closes when the worker ends.
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
        // If the worker has ended, the receive below reports it.
        let _ = send(&worker.conversation.socket, start, None);
        if !is_readable(worker.socket(), Instant::now() + START)? {
            return Err(WorkerError::TooSlow);
        }
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

    /// Returns whether kernels reach memory by pointers: the capability `KERNEL_POINTERS`.
    #[must_use]
    pub fn has_pointers(&self) -> bool {
        self.pointers
    }

    /// Returns the ID of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the worker to compile a kernel. It answers `Loaded` or `NotLoaded`.
    ///
    /// # Errors
    /// When the worker is busy or has ended, or the kernel exceeds a limit.
    pub fn load(&mut self, kernel: u32, module: &Module<'_>) -> Result<(), WorkerError> {
        seek(&self.said, SeekFrom::Start(0))?;
        self.conversation.load(kernel, module)
    }

    /// Asks the worker to forget a kernel.
    ///
    /// # Errors
    /// When the worker has ended.
    pub fn unload(&mut self, kernel: u32) -> Result<(), WorkerError> {
        Ok(send(&self.conversation.socket, Unload { kernel, reserved: 0 }, None)?)
    }

    /// Asks the worker to run `groups` work groups of a kernel. It answers `Done` or `NotDone`, after any faults.
    ///
    /// # Errors
    /// When the worker is busy or has ended, or there are too many push constants.
    pub fn dispatch(
        &mut self,
        kernel: u32,
        groups: [u32; 3],
        push_constants: &[u8],
    ) -> Result<(), WorkerError> {
        self.conversation.dispatch(kernel, groups, push_constants)
    }

    /// Answers a fault: the worker maps `memory`, and the thread retries its access. The memory need not cover the
    /// fault's address, but then the thread faults again.
    ///
    /// # Errors
    /// When these are not pages of the window, or the worker has ended.
    pub fn answer(&mut self, fault: Fault, memory: &Memory<'_>) -> Result<(), WorkerError> {
        self.conversation.answer(fault, memory)
    }

    /// Takes memory back, even while a kernel runs. The worker answers `Unmapped`.
    ///
    /// # Errors
    /// When these are not pages of the window, or the worker has ended.
    pub fn unmap(&mut self, range: Range<u64>) -> Result<(), WorkerError> {
        self.conversation.unmap(range.start, range.end.saturating_sub(range.start))
    }

    /// Waits for the worker's next event, at most for `patience` if given. Returns `None` if there was none.
    ///
    /// # Errors
    /// When the worker ended, or sent something that fits no request; drop it then.
    pub fn next(&mut self, patience: Option<Duration>) -> Result<Option<Event>, WorkerError> {
        if let Some(patience) = patience {
            let deadline = Instant::now().checked_add(patience);
            let deadline = deadline.ok_or(WorkerError::Impossible("nothing waits so long"))?;
            if !is_readable(self.socket(), deadline)? {
                return Ok(None);
            }
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

    /// Returns the socket to poll: it is readable when `next` has an event or an error.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.conversation.socket.as_fd()
    }

    /// Returns the first `MAX_TEXT` bytes that the worker wrote to standard error since the last `load`.
    fn said(&self) -> String {
        let length =
            seek(&self.said, SeekFrom::Current(0)).unwrap_or(0).min(messages::MAX_TEXT as u64);
        let mut said = vec![0; length as usize];
        let read = self.said.read_at(&mut said, 0).unwrap_or(0);
        String::from_utf8_lossy(&said[..read]).into_owned()
    }

    /// Returns how the worker ended, after its end of the socket was closed.
    fn ended(&mut self) -> WorkerError {
        // The worker may have closed the socket without ending.
        let _ = self.child.kill();
        self.child.wait().map_or_else(WorkerError::NotStarted, WorkerError::Ended)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The worker may have ended by itself. Waiting reaps it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates a file in memory with a fixed length.
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
        // A kernel cannot be done while its thread waits.
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

    /// Arbitrary bytes are an error and never a panic.
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
