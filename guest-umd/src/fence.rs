//! Fences, and waiting for them.

use crate::areas::{OUTSIDE, Word};
use crate::device::Device;
use crate::error::Error;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    CancelWait, CreateMonitoredFence, CreateNativeFence, DestroyNativeFence, FenceFlags,
    FenceValue, NOT_PUBLISHED, NativeFenceMapping, NativeFenceType, NtHandle, OpenNativeFence,
    OpenedFence, ShareNativeFence, SignalFences, SignalFromGpu, WaitFlags, WaitForFences,
    WaitFromGpu,
};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::features::Features;
use bellhop_protocol::polling::Yields;
use bellhop_protocol::status::Status;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Looks at the fence in a row, without a system call or a look at anything else.
const LOOKS_IN_A_SPELL: u32 = 32;
/// Spells between two looks at anything else, for a thread that has its processor to itself.
const SPELLS_PER_CLOCK: u32 = 8;
/// How long a fence is polled between two looks whether the device is still there.
const CHECK: Duration = Duration::from_millis(1);

/// Pauses at most between two looks at a fence that counts submissions: one for each that is missing.
const MOST_PAUSES: u64 = 64;

thread_local! {
    /// Whether the thread shares its processor with an engine that it polls for.
    static YIELDS: Cell<Yields> = const { Cell::new(Yields::new()) };
}

/// The fence did not move in a spell of looks: lets an engine run that shares this processor.
#[cold]
fn end_spell() -> bool {
    with_yields(|yields| {
        yields.spell(|| {
            let start = Instant::now();
            thread::yield_now();
            start.elapsed()
        })
    })
}

fn with_yields<R>(act: impl FnOnce(&mut Yields) -> R) -> R {
    let mut yields = YIELDS.get();
    let result = act(&mut yields);
    YIELDS.set(yields);
    result
}

/// A fence: a value that only grows, unless it is rewindable, which packets signal and which the driver polls
/// or waits for. Packets wait for it too if it is a native one; for a monitored one queues for kernel-mode
/// submission wait by request.
pub struct Fence {
    device: Device,
    handle: Handle,
    slot: u32,
    mapping: NativeFenceMapping,
    /// None where the driver does not reach the area that it would be in.
    published: Option<Word>,
    kind: Kind,
}

enum Kind {
    /// Created by itself, destroyed when dropped.
    Own,
    /// The progress fence of a HW queue, or of a context that has none: comes and goes with it. Once
    /// that is lost it never moves again, or is always signaled.
    Progress { queue: Handle, status: Option<Word> },
}

impl Fence {
    /// CurrentValue of a fence that is always signaled, since what it belongs to is lost. It tells
    /// nothing of what was executed.
    pub const ALWAYS_SIGNALED: u64 = u64::MAX;

    pub(crate) fn create(
        device: Device,
        initial_value: u64,
        fence_type: NativeFenceType,
        flags: FenceFlags,
    ) -> Result<Self, Error> {
        if !device.session().link.features.contains(Features::NATIVE_FENCES) {
            return Err(Error::NotAvailable("native fences"));
        }
        let request = CreateNativeFence {
            device: device.handle(),
            initial_value,
            fence_type,
            flags: flags.bits(),
        };
        let opened = device.session().call(&request)?;
        Ok(Self::new(device, opened, Kind::Own))
    }

    pub(crate) fn create_monitored(
        device: Device,
        initial_value: u64,
        flags: FenceFlags,
    ) -> Result<Self, Error> {
        let (device_handle, flags) = (device.handle(), flags.bits());
        let request =
            CreateMonitoredFence { device: device_handle, initial_value, flags, reserved: 0 };
        let opened = device.session().call(&request)?;
        Ok(Self::new(device, opened, Kind::Own))
    }

    pub(crate) fn open(device: Device, nt_handle: NtHandle) -> Result<Self, Error> {
        let request = OpenNativeFence { device: device.handle(), nt_handle };
        let opened = device.session().call(&request)?;
        Ok(Self::new(device, opened, Kind::Own))
    }

    /// The progress fence of a HW queue, or of a context that submits to its node.
    pub(crate) fn progress(device: Device, queue: Handle, opened: OpenedFence) -> Self {
        Self::new(device, opened, Kind::Progress { queue, status: None })
    }

    fn new(device: Device, opened: OpenedFence, kind: Kind) -> Self {
        let OpenedFence { fence, mapping, slot, .. } = opened;
        let published = published(&device, mapping.current_value_offset);
        Self { device, handle: fence, slot, mapping, published, kind }
    }

    /// The queue got a doorbell, whose status tells when the queue is lost.
    pub(crate) fn watch_status(&mut self, word: &Word) {
        if let Kind::Progress { status, .. } = &mut self.kind {
            *status = Some(word.clone());
        }
    }

    /// The fence's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The fence's slot, by which packets name it.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Where its values are in the process's GPU virtual addresses: packets may read both, and write
    /// CurrentValue.
    #[must_use]
    pub fn mapping(&self) -> NativeFenceMapping {
        self.mapping
    }

    /// A name by which other processes of the guest, and other devices of this one, can open the fence
    /// ([`Device::open_fence`]) as long as there is one that has it (`D3DKMTShareObjects`).
    ///
    /// # Errors
    /// When it was not created to be shared.
    pub fn share(&self) -> Result<NtHandle, Error> {
        self.device.session().call(&ShareNativeFence { fence: self.handle })
    }

    /// The published CurrentValue.
    ///
    /// # Errors
    /// When the driver does not reach it.
    #[inline]
    pub fn current_value(&self) -> Result<u64, Error> {
        Ok(self.word()?.load(Ordering::Acquire))
    }

    #[inline]
    fn word(&self) -> Result<&AtomicU64, Error> {
        match &self.published {
            Some(word) => word.get(),
            None if self.mapping.current_value_offset == NOT_PUBLISHED
                && self.queue().is_none() =>
            {
                Err(Error::NotAvailable("a CPU's view of an intra-GPU fence"))
            }
            // Where the driver reaches areas at all, the device gave an offset that is in none.
            None => self.device.session().areas().and(Err(OUTSIDE)),
        }
    }

    /// Looks at the fence until it reaches `value`: the fastest way, which burns a core. After some
    /// microseconds it gives the processor away, when that lets an engine run that shares it.
    ///
    /// # Errors
    /// When the time is over or the queue is lost whose fence it is.
    #[inline]
    pub fn poll(&self, value: u64, timeout: Duration) -> Result<(), Error> {
        let word = self.word()?;
        let counts_submissions = self.queue().is_some();
        let (mut deadline, mut next_check, mut gave_away) = (None, None, false);
        let mut spells = 0u32;
        loop {
            for _ in 0..LOOKS_IN_A_SPELL {
                let current = word.load(Ordering::Acquire);
                if current >= value {
                    if gave_away {
                        with_yields(Yields::progress);
                    }
                    return self.reached(current);
                }
                // Each look takes the cache line from the engine, which wants it for the next signal.
                let before = if counts_submissions { value - current } else { 1 };
                for _ in 0..before.min(MOST_PAUSES) {
                    std::hint::spin_loop();
                }
            }
            spells = spells.wrapping_add(1);
            if !spells.is_multiple_of(SPELLS_PER_CLOCK) && !YIELDS.get().shares_processor() {
                continue;
            }
            self.check_queue()?;
            let now = Instant::now();
            let check = next_check.get_or_insert(now + CHECK);
            if now >= *check {
                *check = now + CHECK;
                self.check_device()?;
            }
            if now >= *deadline.get_or_insert(now + timeout) {
                let current = word.load(Ordering::Acquire);
                return Err(Error::Timeout { value, current });
            }
            gave_away = end_spell();
        }
    }

    /// Waits until the fence reaches `value`, blocked: the device interrupts. Needs no published
    /// value.
    ///
    /// # Errors
    /// When the time is over or the queue is lost whose fence it is.
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<(), Error> {
        wait(&self.device, &[(self, value)], WaitFlags::empty(), timeout)
    }

    /// Makes `value` the CurrentValue (`D3DKMTSignalSynchronizationObjectFromCpu`), and releases whoever
    /// waits for it, on a CPU or on the GPU.
    ///
    /// # Errors
    /// When the fence is further already, or is the progress fence of a queue.
    pub fn signal(&self, value: u64) -> Result<(), Error> {
        self.device.signal_fences(&[(self, value)])
    }

    fn has_reached(&self, value: u64) -> bool {
        self.current_value().is_ok_and(|current| current >= value)
    }

    /// The value was reached, though perhaps only because the fence is always signaled: the queue is lost
    /// then whose progress fence it is.
    #[inline]
    fn reached(&self, current: u64) -> Result<(), Error> {
        match (current, &self.kind) {
            (Self::ALWAYS_SIGNALED, Kind::Progress { queue, .. }) => self.lost(*queue),
            _ => Ok(()),
        }
    }

    /// The queue whose progress fence this is.
    fn queue(&self) -> Option<Handle> {
        match &self.kind {
            Kind::Progress { queue, .. } => Some(*queue),
            Kind::Own => None,
        }
    }

    /// The same where it is not known what CurrentValue is.
    fn check_executed(&self) -> Result<(), Error> {
        let Kind::Progress { queue, .. } = &self.kind else { return Ok(()) };
        match self.current_value() {
            Ok(current) => self.reached(current),
            // The driver does not reach it: what it was told by then must do.
            Err(_) => {
                let session = self.device.session();
                match session.link.events.known_fault(session.process(), *queue) {
                    Some(fault) => Err(Error::QueueLost { queue: *queue, fault: Some(fault) }),
                    None => Ok(()),
                }
            }
        }
    }

    #[cold]
    fn lost(&self, queue: Handle) -> Result<(), Error> {
        let session = self.device.session();
        Err(session.link.queue_lost(session.process(), queue))
    }

    /// An error when the device is gone, or is another.
    #[cold]
    fn check_device(&self) -> Result<(), Error> {
        Ok(self.device.session().link.transport.check()?)
    }

    /// An error when the queue is lost whose progress fence this is.
    fn check_queue(&self) -> Result<(), Error> {
        let Kind::Progress { queue, status: Some(word) } = &self.kind else {
            return Ok(());
        };
        let status = DoorbellStatus(word.get()?.load(Ordering::Acquire));
        if status.connection() != ConnectionStatus::DISCONNECTED_ABORT {
            return Ok(());
        }
        self.lost(*queue)
    }
}

/// Waits for fences of the device's process, blocked.
pub(crate) fn wait(
    device: &Device,
    fences: &[(&Fence, u64)],
    flags: WaitFlags,
    timeout: Duration,
) -> Result<(), Error> {
    let mut reached = fences.iter().map(|(fence, value)| fence.has_reached(*value));
    let is_satisfied = match flags.contains(WaitFlags::WAIT_ANY) {
        true => reached.any(|reached| reached),
        false => reached.all(|reached| reached),
    };
    if !is_satisfied {
        block(device, fences, flags, timeout)?;
    }
    // A fence that is always signaled tells nothing of what was executed.
    fences.iter().try_for_each(|(fence, _)| fence.check_executed())
}

/// Has the device tell when the fences are there, and waits for that.
fn block(
    device: &Device,
    fences: &[(&Fence, u64)],
    flags: WaitFlags,
    timeout: Duration,
) -> Result<(), Error> {
    let session = device.session();
    let wait = session.link.events.begin_wait();
    let list = entries(fences);
    let (cookie, count) = (wait.cookie(), list.len() as u32);
    let request = WaitForFences { cookie, flags: flags.bits(), count };
    if session.start_with_list(&request, list.as_bytes())? == Status::SUCCESS {
        return Ok(());
    }
    let queues = fences.iter().filter_map(|(fence, _)| fence.queue());
    let queues: Vec<_> = queues.map(|queue| (session.process(), queue)).collect();
    let Err(error) = wait.finish(&queues, timeout) else { return Ok(()) };
    match (error, session.call(&CancelWait { cookie })) {
        // There is nothing to cancel: it was satisfied, and its event is on its way. No fence went, since
        // they are borrowed here.
        (Error::Timeout { .. }, Err(Error::Refused { status: Status::INVALID_PARAMETER, .. })) => {
            Ok(())
        }
        // The process went meanwhile.
        (Error::Timeout { .. }, Err(gone @ Error::Refused { .. })) => Err(gone),
        (Error::Timeout { .. }, _) => Err(timed_out(fences)),
        (error, _) => Err(error),
    }
}

/// Holds what a queue for kernel-mode submission is given from now on until fences have these values.
pub(crate) fn wait_from_gpu(
    device: &Device,
    queue: Handle,
    fences: &[(&Fence, u64)],
) -> Result<(), Error> {
    let list = entries(fences);
    let request = WaitFromGpu { queue, count: list.len() as u32, reserved: 0 };
    device.session().call_with_list(&request, list.as_bytes())
}

/// Signals fences when everything is done that such a queue was given until now.
pub(crate) fn signal_from_gpu(
    device: &Device,
    queue: Handle,
    fences: &[(&Fence, u64)],
) -> Result<(), Error> {
    let list = entries(fences);
    let request = SignalFromGpu { queue, count: list.len() as u32, reserved: 0 };
    device.session().call_with_list(&request, list.as_bytes())
}

/// Signals fences of the device's process from the CPU.
pub(crate) fn signal(device: &Device, fences: &[(&Fence, u64)]) -> Result<(), Error> {
    let list = entries(fences);
    let request = SignalFences { count: list.len() as u32, reserved: 0 };
    device.session().call_with_list(&request, list.as_bytes())
}

fn entries(fences: &[(&Fence, u64)]) -> Vec<FenceValue> {
    fences.iter().map(|(fence, value)| FenceValue { fence: fence.handle, value: *value }).collect()
}

/// The time is over: tells of the first fence that is not there.
fn timed_out(fences: &[(&Fence, u64)]) -> Error {
    let missing = fences.iter().find(|(fence, value)| !fence.has_reached(*value));
    let Some((fence, value)) = missing.or(fences.first()) else {
        return Error::Timeout { value: 0, current: 0 };
    };
    Error::Timeout { value: *value, current: fence.current_value().unwrap_or_default() }
}

/// The word at the offset that the device gave for a fence's published value.
fn published(device: &Device, offset: u64) -> Option<Word> {
    device.session().areas().ok()?.word(offset).ok()
}

impl Drop for Fence {
    fn drop(&mut self) {
        if let Kind::Own = self.kind {
            // A device that cannot be reached has forgotten it already.
            let _ = self.device.session().call(&DestroyNativeFence { fence: self.handle });
        }
    }
}
