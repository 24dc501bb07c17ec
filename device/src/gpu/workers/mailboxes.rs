// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the control plane, the manager of workers, and engines meet without a lock.
//!
//! Everything is handed over by a queue. The manager sleeps on an event, which each order signals; engines have their
//! attention raised after each note; the control plane has the interrupt line raised after each outcome.

use super::kernels::module::Module;
use super::kernels::table::KernelSpace;
use super::roster::Roster;
use super::tenant::{GuestWorkers, Tenant, TenantId};
use super::tenant_worker::TenantWorker;
use super::video::{SessionTable, VideoSession};
use crate::cgroup::Seen;
use crate::gpu::shared::chip::{Chip, attention};
use crate::gpu::shared::event::Event;
use arc_swap::ArcSwap;
use bellhop_host_kmd::hardware::{AddressSpaceId, GuestId, KernelOutcome};
use bellhop_protocol::control::gpu_va::{GPU_VA_END, GPU_VA_START};
use bellhop_protocol::control::kernel::KernelCaps;
use bellhop_worker::owner::Worker;
use crossbeam_queue::SegQueue;
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

/// No time.
const NEVER: u64 = u64::MAX;

/// Whether a killed worker is gone. The manager stores it before it raises the engine's attention, which hands it over.
#[derive(Debug, Default)]
pub struct ExitFlag(AtomicBool);

impl ExitFlag {
    /// Manager: no thread of the worker exists any more.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Engine: whether no thread of the worker exists any more.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A kernel to compile.
#[derive(Debug, Clone)]
pub struct Compile {
    /// Its address space.
    pub space: Arc<KernelSpace>,
    /// Its number there.
    pub number: u32,
}

/// An engine's request for a worker.
#[derive(Debug)]
pub struct Request {
    /// The engine.
    pub engine: u32,
    /// Whose worker it is to be.
    pub tenant: Arc<Tenant>,
    /// The modules of kernels that it must have loaded; other roles have none.
    pub modules: Vec<Arc<Module>>,
    /// How many pipelines it may make, at most, of those that a stream lacked, before the engine has it.
    pub makes: u32,
    /// The worker that the engine has for the tenant, in which no memory is mapped.
    pub held: Option<Box<TenantWorker>>,
}

impl Request {
    /// Whether the worker compiles before the engine has it.
    pub fn compiles(&self) -> bool {
        !self.modules.is_empty() || self.makes > 0
    }
}

/// What the manager is asked to do.
pub enum Order {
    /// Compile a kernel.
    Compile(Compile),
    /// Prepare a worker.
    Prepare(Request),
    /// Reap a worker that an engine has killed.
    Reap {
        /// The engine.
        engine: u32,
        /// Whose worker it was.
        tenant: TenantId,
        /// The worker.
        worker: Worker,
        /// Where the engine looks for its end.
        exit: Arc<ExitFlag>,
    },
    /// A tenant is destroyed.
    EndTenant(TenantId),
    /// A guest has other memory, of which its workers may reach more.
    Resize(Arc<GuestWorkers>),
    /// A guest is detached.
    EndGuest(GuestId),
    /// End all workers, and the thread.
    Stop,
}

/// Why an engine gets no worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No worker can be started, or it cannot load a kernel.
    Refused,
    /// The worker ended while it started, or while it loaded a kernel.
    Lost,
}

/// What an engine is told.
#[derive(Debug)]
pub enum Note {
    /// The worker that it asked for.
    Ready(Box<TenantWorker>),
    /// There is none for this tenant.
    Failed(TenantId, Failure),
    /// End the worker of this tenant, once it executes nothing: another one needs one, or the tenant is destroyed.
    GiveUp(TenantId),
}

/// What came of compiling a kernel.
#[derive(Debug)]
pub struct Outcome {
    /// Its address space.
    pub space: AddressSpaceId,
    /// Its number there.
    pub number: u32,
    /// What came of it.
    pub outcome: KernelOutcome,
}

/// Where the control plane, the manager and engines meet.
pub struct Mailboxes {
    /// The GPU.
    pub chip: Arc<Chip>,
    /// What kernels can be.
    pub caps: KernelCaps,
    /// The GPU virtual addresses that workers reach.
    pub window: Range<u64>,
    /// The address spaces with kernels. Replaced as a whole, by the control plane; `ArcSwap` hands the content over.
    pub spaces: ArcSwap<HashMap<AddressSpaceId, Arc<KernelSpace>>>,
    /// The video sessions. Replaced as a whole, by the control plane; `ArcSwap` hands the content over.
    pub sessions: ArcSwap<SessionTable>,
    orders: SegQueue<Order>,
    event: Event,
    notes: Box<[SegQueue<Note>]>,
    outcomes: SegQueue<Outcome>,
    /// The workers, for tools. Replaced as a whole, by the manager.
    pub roster: ArcSwap<Roster>,
    /// The cgroups of guests' workers, for tools. Replaced as a whole, by the manager.
    pub groups: ArcSwap<Vec<(GuestId, Seen)>>,
    /// When each engine is to be called, on the adapter's clock. Relaxed: the event, or the engine's attention, follows.
    alarms: Box<[AtomicU64]>,
}

impl fmt::Debug for Mailboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailboxes").finish_non_exhaustive()
    }
}

impl Mailboxes {
    /// Nothing is handed over yet.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new(chip: Arc<Chip>, caps: KernelCaps) -> io::Result<Self> {
        let notes = chip.engines.iter().map(|_| SegQueue::new()).collect();
        let alarms = chip.engines.iter().map(|_| AtomicU64::new(NEVER)).collect();
        let window = if caps.are_supported() {
            caps.window_start..caps.window_start.saturating_add(caps.window_length)
        } else {
            GPU_VA_START..GPU_VA_END
        };
        Ok(Self {
            chip,
            caps,
            window,
            spaces: ArcSwap::default(),
            sessions: ArcSwap::default(),
            orders: SegQueue::new(),
            event: Event::new()?,
            notes,
            outcomes: SegQueue::new(),
            roster: ArcSwap::default(),
            groups: ArcSwap::default(),
            alarms,
        })
    }

    /// Any thread: asks the manager.
    pub fn order(&self, order: Order) {
        self.orders.push(order);
        self.event.signal();
    }

    /// Manager: the descriptor that is readable while there may be orders.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Manager, before it takes orders: makes the descriptor unreadable.
    pub fn acknowledge(&self) {
        self.event.clear();
    }

    /// Manager: takes an order.
    pub fn take_order(&self) -> Option<Order> {
        self.orders.pop()
    }

    /// Manager: tells an engine.
    pub fn note(&self, engine: u32, note: Note) {
        if let Some(notes) = self.notes.get(engine as usize) {
            notes.push(note);
            self.call(engine);
        }
    }

    /// Makes an engine look at its notes, its workers and their exits.
    pub fn call(&self, engine: u32) {
        if let Some(port) = self.chip.engines.get(engine as usize) {
            port.raise(attention::WORKERS);
        }
    }

    /// Engine: has itself called at this time of the adapter's clock, or before. It sleeps meanwhile, or does other work.
    pub fn set_alarm(&self, engine: u32, at: u64) {
        let Some(alarm) = self.alarms.get(engine as usize) else { return };
        if alarm.fetch_min(at, Ordering::Relaxed) > at {
            self.event.signal();
        }
    }

    /// Manager: calls the engines whose time has come. Returns how long it is until the next one's.
    pub fn ring_alarms(&self) -> Option<Duration> {
        let now = self.chip.now();
        let mut next = NEVER;
        for (engine, alarm) in (0..).zip(&self.alarms) {
            let at = alarm.load(Ordering::Relaxed);
            if at > now {
                next = next.min(at);
                continue;
            }
            // The engine may have set an earlier one since, and looks now.
            alarm.store(NEVER, Ordering::Relaxed);
            self.call(engine);
        }
        (next != NEVER).then(|| Duration::from_nanos(next.saturating_sub(now)))
    }

    /// Engine: takes a note.
    pub fn take_note(&self, engine: u32) -> Option<Note> {
        self.notes.get(engine as usize)?.pop()
    }

    /// Manager or control plane: interrupts for what came of compiling a kernel.
    pub fn tell(&self, outcome: Outcome) {
        self.outcomes.push(outcome);
        self.chip.interrupts.raise_kernels();
    }

    /// Control plane: takes what came of compiling a kernel.
    pub fn take_outcome(&self) -> Option<Outcome> {
        self.outcomes.pop()
    }

    /// Engine: a video session of an address space, by its number.
    pub fn session(&self, space: AddressSpaceId, number: u32) -> Option<Arc<VideoSession>> {
        self.sessions.load().get(&(space, number)).cloned()
    }

    /// Engine: the kernels of an address space.
    pub fn space(&self, space: AddressSpaceId) -> Option<Arc<KernelSpace>> {
        self.spaces.load().get(&space).cloned()
    }
}
