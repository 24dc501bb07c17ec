// SPDX-License-Identifier: MIT OR Apache-2.0

//! The owner's side of a worker: starts it, sends requests, answers its faults and ends it.
//!
//! The owner trusts a worker no more than a guest. A packet that fits no request is an error, and the owner then ends
//! the worker.

pub mod conversation;
mod process;
mod said;

pub use crate::messages::{KernelDispatch, Role};
pub use process::Process;

use crate::caches;
use crate::messages::{self, MAX_EVENT, Malformed, Missing, Start};
use crate::socket::{pair, receive_until, send};
use crate::vulkan::THREADS;
use crate::waiting::Looking;
use conversation::Conversation;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
pub use said::{Said, sealed};
use std::ops::Range;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// How long a worker may take to start. A self-test takes a second at most, but the driver may be on a slow disk.
const START: Duration = Duration::from_secs(60);
/// For how long an owner looks for the end of a batch, as long as batches end so soon.
const LOOK: Duration = Duration::from_micros(100);

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
    /// The worker ended, or has closed its socket and was killed.
    #[error("the worker ended{}", in_words(.0.as_ref()))]
    Ended(Option<ExitStatus>),
    /// The worker did not do this in time.
    #[error("the worker did not {0}")]
    Late(&'static str),
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
    /// Number of descriptors: storage buffers with bindings from 0 in set 0.
    pub descriptors: u32,
    /// Number and value of each specialisation constant.
    pub constants: &'a [[u32; 2]],
}

/// Memory to map in the window.
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

impl From<Missing> for Fault {
    /// The fault that a checked message tells of.
    fn from(Missing { slot, store, address }: Missing) -> Self {
        Self { address, store: store == 1, slot }
    }
}

/// An event from a worker.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The worker passed its self-test and entered its sandbox: kernels can be loaded.
    Ready {
        /// Whether kernels reach memory by pointers: the capability `KERNEL_POINTERS`.
        pointers: bool,
    },
    /// The worker has no Vulkan, no window or no sandbox, and ends; why.
    Refused(String),
    /// A kernel was compiled.
    Loaded(u32),
    /// A kernel cannot be compiled, and why.
    NotLoaded(u32, String),
    /// A batch ran.
    Done,
    /// A batch did not run: the index of the dispatch that was invalid, and why. If a Vulkan call failed while the
    /// batch ran, the index is 0, and parts of it may have run.
    NotDone(u32, String),
    /// A kernel waits for memory.
    Fault(Fault),
    /// A kernel accessed an address outside the window, and the worker ends: the address, which is `None` if the
    /// processor does not report it, and whether the access was a store.
    Wild(Option<u64>, bool),
    /// A task is done, and what came of it.
    Answer(Box<[u8]>),
    /// No access reaches the former mapping of this range any more.
    Unmapped(Range<u64>),
}

/// A worker process. Dropping this kills it.
pub struct Worker {
    process: Process,
    conversation: Conversation,
    said: Said,
    pointers: bool,
    resident: bool,
    /// Processors that it uses at most; 0 for all.
    threads: u32,
    /// For the end of a batch.
    looking: Looking,
}

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the worker is for.
    pub role: Role,
    /// The GPU virtual addresses that the worker reserves.
    pub window: Range<u64>,
    /// Most bytes of the worker's own memory.
    pub memory: u64,
    /// The Vulkan device's index in the list; 0 for a role without Vulkan.
    pub device: u32,
    /// Most processors that it uses at once; 0 for all.
    pub threads: u32,
    /// For video, most samples of luma of a picture of a session that decodes; 0 if it encodes, and for other roles.
    pub samples: u32,
}

/// The processors that workers were given so far: the next worker uses the next ones.
static PROCESSORS: AtomicU32 = AtomicU32::new(0);

impl Worker {
    /// Starts a worker with a command that runs `bellhop-worker`, and does not wait. The worker says `Ready` or
    /// `Refused`, or ends. It also ends when the calling thread does.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(mut command: Command, options: &Options) -> Result<Self, WorkerError> {
        let Options { role, ref window, memory, device, threads, samples } = *options;
        let (socket, theirs) = pair()?;
        let (for_memory, theirs_for_memory) = pair()?;
        let said = Said::new()?;
        caches::forbid(&mut command);
        command.arg("serve");
        if threads > 0 {
            // The threads with which Mesa's lavapipe runs kernels. The worker confines all to as many processors.
            // For one, no thread but the one that submits: another would have to be woken for each dispatch.
            let started = if threads == 1 { 0 } else { threads };
            command.env(THREADS, started.to_string());
        }
        command
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(said.stdio().map_err(WorkerError::NotStarted)?);
        let process = Process::spawn(&mut command)?;
        // Closes this process's copy of the worker's end, so that the socket closes when the worker ends.
        drop(command);
        let conversation = Conversation::new(socket, for_memory, window.clone());
        let looking = Looking::new(LOOK);
        let (pointers, resident) = (false, false);
        let worker = Self { process, conversation, said, pointers, resident, threads, looking };
        let start = Start {
            start: window.start,
            length: window.end.saturating_sub(window.start),
            memory,
            device,
            processors: threads,
            first_processor: PROCESSORS.fetch_add(threads, Ordering::Relaxed),
            role: role.number(),
            samples,
            reserved: 0,
        };
        // If the worker has ended, `next` reports it.
        let _ = send(worker.socket(), start, Some(theirs_for_memory.as_fd()));
        Ok(worker)
    }

    /// Starts a worker as [`Self::spawn`] does, and waits until it is ready.
    ///
    /// # Errors
    /// When the worker cannot be started, refuses, takes too long, or ends.
    pub fn start(command: Command, options: &Options) -> Result<Self, WorkerError> {
        let mut worker = Self::spawn(command, options)?;
        match worker.next(Some(START))? {
            Some(Event::Refused(why)) => Err(WorkerError::Refused(why)),
            Some(_) => Ok(worker),
            None => Err(WorkerError::TooSlow),
        }
    }

    /// Returns whether kernels reach memory by pointers: the capability `KERNEL_POINTERS`. Known when it is ready.
    #[must_use]
    pub fn has_pointers(&self) -> bool {
        self.pointers
    }

    /// Returns whether its device cannot fault: the memory of descriptors must be mapped before a dispatch, and a
    /// request to take memory back waits until the dispatch is done. Known when it is ready.
    #[must_use]
    pub fn needs_memory_first(&self) -> bool {
        self.resident
    }

    /// Returns its process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the ID of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns how many processors it uses at most.
    #[must_use]
    pub fn processors(&self) -> u32 {
        let all = || available_parallelism().map_or(1, |all| u32::try_from(all.get()).unwrap_or(1));
        if self.threads > 0 { self.threads } else { all() }
    }

    /// Asks the worker to compile a kernel. It answers `Loaded` or `NotLoaded`.
    ///
    /// # Errors
    /// When the worker is busy or has ended, or the kernel exceeds a limit.
    pub fn load(&mut self, kernel: u32, module: &Module<'_>) -> Result<(), WorkerError> {
        self.said.begin()?;
        self.conversation.load(kernel, module)
    }

    /// Asks the worker to forget a kernel.
    ///
    /// # Errors
    /// When the worker is not ready or has ended.
    pub fn unload(&mut self, kernel: u32) -> Result<(), WorkerError> {
        self.conversation.unload(kernel)
    }

    /// Asks the worker to run up to 64 dispatches in a row. It answers `Done` or `NotDone`, after any faults. Requests
    /// for memory that were sent before take effect before.
    ///
    /// # Errors
    /// When the worker is busy or has ended, or there are too many dispatches or arguments.
    pub fn dispatch(&mut self, batch: &[KernelDispatch<'_>]) -> Result<(), WorkerError> {
        self.conversation.dispatch(batch)?;
        self.looking.begin();
        Ok(())
    }

    /// Asks the worker to do a task. It answers `Answer`, after any faults. Requests for memory that were sent before take
    /// effect before.
    ///
    /// # Errors
    /// When the worker is busy or has ended, or the task is too long.
    pub fn task(&mut self, task: &[u8]) -> Result<(), WorkerError> {
        self.conversation.task(task)?;
        self.looking.begin();
        Ok(())
    }

    /// Asks for a task of the role's that follows the one in flight: [`Event::Answer`] comes once for each.
    ///
    /// # Errors
    /// When no task is in flight, or one follows it already; when the worker has ended, or the task is too long.
    pub fn follow(&mut self, task: &[u8]) -> Result<(), WorkerError> {
        self.conversation.follow(task)
    }

    /// Answers a fault: the worker maps `memory`, and the thread retries its access. The memory need not cover the
    /// fault's address, but then the thread faults again.
    ///
    /// # Errors
    /// When these are not pages of the window, or the worker has ended.
    pub fn answer(&mut self, fault: Fault, memory: &Memory<'_>) -> Result<(), WorkerError> {
        self.conversation.answer(fault, memory)
    }

    /// Maps memory that no kernel has asked for.
    ///
    /// # Errors
    /// When these are not pages of the window, or the worker is not ready or has ended.
    pub fn map(&mut self, memory: &Memory<'_>) -> Result<(), WorkerError> {
        self.conversation.map(memory)
    }

    /// Takes memory back, even while a kernel runs: any pages of the window, mapped or not. The worker answers
    /// `Unmapped`.
    ///
    /// # Errors
    /// When these are not pages of the window, or the worker is not ready or has ended.
    pub fn unmap(&mut self, range: Range<u64>) -> Result<(), WorkerError> {
        self.conversation.unmap(range.start, range.end.saturating_sub(range.start))
    }

    /// Waits for the worker's next event, at most for `patience` if given. Returns `None` if there was none.
    ///
    /// # Errors
    /// When the worker ended, or sent something that fits no request; drop it then.
    pub fn next(&mut self, patience: Option<Duration>) -> Result<Option<Event>, WorkerError> {
        let mut buffer = [0; MAX_EVENT];
        let deadline = match patience {
            Some(patience) => {
                let deadline = Instant::now().checked_add(patience);
                Some(deadline.ok_or(WorkerError::Impossible("nothing waits so long"))?)
            }
            None => None,
        };
        let socket = self.conversation.socket();
        let received = match receive_until(socket, &mut buffer, deadline, &self.looking) {
            Err(Errno::AGAIN) => return Ok(None),
            received => received?,
        };
        let Some(received) = received else { return Err(self.ended()) };
        let said = self.conversation.take(received.alone()?)?;
        use messages::Event::{Answer, Done, NotDone};
        if matches!(said, Done(_) | NotDone(_) | Answer(_)) {
            self.looking.end();
        }
        Ok(Some(self.event(said)))
    }

    /// Returns the event that a checked message tells of.
    fn event(&mut self, said: messages::Event) -> Event {
        match said {
            messages::Event::Ready(ready) => {
                (self.pointers, self.resident) = (ready.pointers == 1, ready.resident == 1);
                Event::Ready { pointers: self.pointers }
            }
            messages::Event::Refused(refused) => Event::Refused(refused.why.read()),
            messages::Event::Loaded(loaded) => Event::Loaded(loaded.kernel),
            messages::Event::NotLoaded(not) => {
                let why = format!("{}\n{}", not.why.read(), self.said.text());
                Event::NotLoaded(not.kernel, why.trim().into())
            }
            messages::Event::Done(_) => Event::Done,
            messages::Event::NotDone(not) => Event::NotDone(not.index, not.why.read()),
            messages::Event::Missing(missing) => Event::Fault(missing.into()),
            messages::Event::Wild(wild) => {
                Event::Wild((wild.known == 1).then_some(wild.address), wild.store == 1)
            }
            messages::Event::Answer(answer) => {
                let length = answer.length as usize;
                Event::Answer(answer.bytes.get(..length).unwrap_or_default().into())
            }
            messages::Event::Unmapped(unmapped) => {
                Event::Unmapped(unmapped.address..unmapped.address.wrapping_add(unmapped.length))
            }
        }
    }

    /// Returns the socket to poll: it is readable when `next` has an event or an error.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.conversation.socket()
    }

    /// Returns how the worker ended, after its end of the socket was closed. It may have closed the socket without
    /// ending, and may take long to end.
    fn ended(&mut self) -> WorkerError {
        WorkerError::Ended(self.process.end())
    }
}

/// How a process has ended, if that is known.
fn in_words(status: Option<&ExitStatus>) -> String {
    status.map(|status| format!(" ({status})")).unwrap_or_default()
}
