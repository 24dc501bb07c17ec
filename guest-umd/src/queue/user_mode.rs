// SPDX-License-Identifier: MIT OR Apache-2.0

//! User-mode submission: a ring, its doorbell, and the progress fence.

use crate::commands::command_buffer::CommandBuffer;
use crate::context::hardware::Context;
use crate::error::Error;
use crate::fence::object::Fence;
use crate::queue::doorbell::{Doorbell, DoorbellCounters};
use crate::queue::hw_queue::{self, FenceLogs, HwQueue};
use crate::queue::ring::Ring;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData};
use bellhop_protocol::features::Features;
use bellhop_protocol::handoff::words::WORD;
use bellhop_protocol::packet::fence::{LogFence, LoggedSignal, SignalFence};
use bellhop_protocol::packet::flow::IndirectBuffer;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};
use zerocopy::{Immutable, IntoBytes, transmute};

/// How long a full ring may make no progress before that is an error.
const RING_TIMEOUT: Duration = Duration::from_secs(30);

impl Context {
    /// Describes a HW queue for user-mode submission, with a ring of `ring_size` bytes: a power of
    /// two from 4 KiB to 16 MiB.
    pub fn user_mode_queue(&self, ring_size: u64) -> UserModeQueueBuilder {
        UserModeQueueBuilder {
            context: self.clone(),
            ring_size,
            ring_kind: self.device().session().link.placements.rings,
            private_data: DoorbellPrivateData::default(),
            flags: HwQueueFlags::USER_MODE_SUBMISSION | HwQueueFlags::NATIVE_PROGRESS_FENCE,
        }
    }

    /// Creates a HW queue for user-mode submission:
    /// [`user_mode_queue(ring_size).create()`](UserModeQueueBuilder::create).
    ///
    /// # Errors
    /// As [`UserModeQueueBuilder::create`].
    pub fn create_user_mode_queue(&self, ring_size: u64) -> Result<UserModeQueue, Error> {
        self.user_mode_queue(ring_size).create()
    }
}

/// Describes a HW queue for user-mode submission. By default its ring is in the fastest memory, and it has the
/// GPU's time-out.
#[must_use = "`create` makes the queue"]
pub struct UserModeQueueBuilder {
    context: Context,
    ring_size: u64,
    ring_kind: AllocationKind,
    private_data: DoorbellPrivateData,
    flags: HwQueueFlags,
}

impl UserModeQueueBuilder {
    /// Puts the ring and its control into memory of this kind.
    pub fn ring_in(mut self, kind: AllocationKind) -> Self {
        self.ring_kind = kind;
        self
    }

    /// Passes the doorbell's private data to the host's kernel-mode driver.
    pub fn private_data(mut self, data: DoorbellPrivateData) -> Self {
        self.private_data = data;
        self
    }

    /// Lets the queue execute indefinitely without progress (`DisableGpuTimeout`). It keeps its share of the
    /// engine, is pre-empted like others, and ends when it is destroyed.
    pub fn without_timeout(mut self) -> Self {
        self.flags |= HwQueueFlags::DISABLE_GPU_TIMEOUT;
        self
    }

    /// Creates the queue (`D3DKMTCreateHwQueue`) with its ring and a doorbell (`D3DKMTCreateDoorbell`), not yet
    /// connected.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if user-mode submission was not negotiated, or the host does not allow this guest
    /// queues without a time-out; [`Error::BadPacket`] if the ring size is invalid; [`Error::Refused`] if the
    /// device has no room for the queue, or its driver rejects the private data.
    pub fn create(self) -> Result<UserModeQueue, Error> {
        let Self { context, ring_size, ring_kind, private_data, flags } = self;
        if !context.device().session().link.features.contains(Features::USER_MODE_SUBMISSION) {
            return Err(Error::NotAvailable("user-mode submission"));
        }
        hw_queue::check_flags(&context, flags)?;
        // Both allocations must be resident before the doorbell exists. Source: user-mode work submission,
        // "Residency model of doorbell memory and ring buffer allocations".
        let ring = Ring::create(context.device(), ring_kind, ring_size)?;
        let mut queue = HwQueue::create(context.clone(), flags)?;
        let doorbell = Doorbell::create(context, queue.handle, &ring, private_data)?;
        queue.progress.watch_status(doorbell.status_word());
        Ok(UserModeQueue { doorbell: Box::new(doorbell), queue, ring, not_rung: Vec::new() })
    }
}

/// A HW queue that takes work through a ring and a doorbell. One thread submits.
///
/// The ring holds packets; its write pointer, in the ring buffer control, tells how far it is written. A store to
/// the doorbell tells the engine to look.
///
/// Source: user-mode work submission, "HW queue progress fence changes" and "Work submission
/// pseudocode in UMD".
pub struct UserModeQueue {
    // Dropped in this order. Destroying the queue waits for its submissions and destroys the doorbell; afterwards
    // the ring is unused.
    queue: HwQueue,
    pub(crate) doorbell: Box<Doorbell>,
    pub(crate) ring: Ring,
    /// What [`Error::NotRung`] was returned for since a ring last succeeded.
    not_rung: Vec<NotRung>,
}

/// The packets of a submission. The progress fence's signal is beside the packet that executes the command buffer,
/// not in the buffer, so that a resubmitted buffer stays in both processors' caches.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Submission {
    execute: IndirectBuffer,
    signal: SignalFence,
}

/// A [`Submission`] for verbose logs.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct LoggedSubmission {
    execute: IndirectBuffer,
    signal: LoggedSignal,
}

/// A submission in the ring of which the program knows that no ring of the doorbell has announced it.
#[derive(Debug, Clone, Copy)]
struct NotRung {
    value: u64,
    /// What its command buffer held.
    content: Content,
}

/// Tells a command buffer that is submitted again from one that was recorded anew, or longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    recording: NonZeroU64,
    length: usize,
}

impl Content {
    fn of(commands: &mut CommandBuffer) -> Self {
        Self { recording: commands.recording(), length: commands.len() }
    }
}

// A submission is one call: the functions inside are always inlined. An `Error` is returned in memory, which each
// call would write and its caller read.
impl UserModeQueue {
    /// Bytes of the ring that a submission takes, unless logs are verbose.
    pub const SUBMISSION_SIZE: u64 = size_of::<Submission>() as u64;

    /// The queue's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.queue.handle
    }

    /// The fence that gets each submission's value when the submission is done.
    #[must_use]
    pub fn progress_fence(&self) -> &Fence {
        &self.queue.progress
    }

    /// The queue's fence logs, in which its engine records waits and signals.
    #[must_use]
    pub fn fence_logs(&self) -> FenceLogs {
        self.queue.logs
    }

    /// The value of the last submission.
    #[must_use]
    pub fn last_value(&self) -> u64 {
        self.queue.last_value
    }

    /// The counts of rings, connects and notifications.
    #[must_use]
    pub fn counters(&self) -> DoorbellCounters {
        self.doorbell.counters
    }

    /// The doorbell's status, as the device publishes it.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        self.doorbell.status()
    }

    /// Submits a command buffer. Returns the value that the progress fence gets when it is done.
    ///
    /// After [`Error::NotRung`] the command buffer is in the ring: submitting it again rings for it without
    /// submitting it twice, however many others were submitted meanwhile, and [`Self::ring`] rings for it as well. As
    /// soon as one of both succeeds, for whichever buffer, all that is in the ring has been rung for: a buffer that is
    /// submitted then, or after it was [reset](CommandBuffer::reset), is a new submission. After any other error it was
    /// not submitted. If the queue is lost later, the progress fence tells.
    ///
    /// # Errors
    /// [`Error::QueueLost`] if the queue is lost, [`Error::RingFull`] if the ring stays full, [`Error::NotRung`] if
    /// connecting or notifying failed.
    #[inline]
    pub fn submit(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        if !self.not_rung.is_empty() {
            return self.submit_after(commands);
        }
        self.doorbell.prepare()?;
        let value = self.queue(commands)?;
        self.publish();
        // `prepare` has seen the device. If it goes away now, the progress fence tells.
        match self.doorbell.ring(self.ring.write_pointer()) {
            Ok(()) => Ok(value),
            Err(error) => self.keep(value, commands, error),
        }
    }

    /// As [`Self::submit`], after submissions that are in the ring without their ring: this may be a retry of one.
    #[cold]
    fn submit_after(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        let content = Content::of(commands);
        let value = match self.not_rung.iter().find(|entry| entry.content == content) {
            Some(entry) => entry.value,
            None => {
                self.doorbell.prepare()?;
                self.queue(commands)?
            }
        };
        match self.ring() {
            Ok(()) => Ok(value),
            Err(error) => self.keep(value, commands, error),
        }
    }

    /// Records a submission that is in the ring without its ring, once.
    #[cold]
    fn keep(
        &mut self,
        value: u64,
        commands: &mut CommandBuffer,
        reason: Error,
    ) -> Result<u64, Error> {
        self.not_rung.retain(|entry| entry.value != value);
        // The queue is lost: the progress fence tells, as it does for earlier submissions.
        if self.doorbell.status() == ConnectionStatus::DISCONNECTED_ABORT {
            return Ok(value);
        }
        self.not_rung.push(NotRung { value, content: Content::of(commands) });
        Err(Error::NotRung { value, reason: Box::new(reason) })
    }

    /// Puts a command buffer into the ring without ringing; [`Self::ring`] then rings for several at once. The
    /// engine sees none of them earlier, except when the queue is dropped.
    ///
    /// # Errors
    /// [`Error::RingFull`] if the ring stays full, [`Error::QueueLost`] if the queue is lost.
    #[inline(always)]
    pub fn queue(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        let (slot, value) = (self.queue.progress.slot(), self.queue.last_value + 1);
        if let Some(queued) = self.doorbell.queued_now() {
            return self.queue_logged(commands, value, queued);
        }
        let signal = SignalFence::new(slot, value);
        let submission = Submission { execute: commands.execute(), signal };
        self.push::<{ size_of::<Submission>() / WORD }>(transmute!(submission), value)?;
        Ok(value)
    }

    /// As [`Self::queue`], with an entry in the signal log that holds the time of queuing.
    #[cold]
    fn queue_logged(
        &mut self,
        commands: &mut CommandBuffer,
        value: u64,
        queued_timestamp: u64,
    ) -> Result<u64, Error> {
        commands.stamp_logs(queued_timestamp)?;
        let signal = LoggedSignal::new(self.queue.progress.slot(), value);
        let signal = LoggedSignal { log: LogFence { queued_timestamp, ..signal.log }, ..signal };
        let submission = LoggedSubmission { execute: commands.execute(), signal };
        self.push::<{ size_of::<LoggedSubmission>() / WORD }>(transmute!(submission), value)?;
        Ok(value)
    }

    /// Puts packets into the ring, after which the progress fence will have `value`.
    #[inline(always)]
    fn push<const N: usize>(&mut self, packets: [u64; N], value: u64) -> Result<(), Error> {
        if !self.ring.push(packets) {
            self.push_bytes(packets.as_bytes())?;
        }
        self.queue.last_value = value;
        Ok(())
    }

    /// Puts bytes into the ring as soon as it has room.
    #[cold]
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !self.ring.has_room(bytes.len()) {
            self.wait_for_room(bytes.len())?;
        }
        self.ring.push_bytes(bytes)
    }

    /// Makes the ring's content visible to the engine.
    #[inline]
    pub(crate) fn publish(&mut self) {
        // Stored before the work is visible, so that the host never takes a busy queue for an idle one.
        self.doorbell.set_last_queued(self.queue.last_value);
        self.ring.publish();
    }

    /// Rings the doorbell for everything in the ring.
    ///
    /// # Errors
    /// [`Error::QueueLost`] if the queue is lost; [`Error::Refused`] if the doorbell cannot be connected.
    #[inline(always)]
    pub fn ring(&mut self) -> Result<(), Error> {
        self.announce()?;
        self.not_rung.clear();
        Ok(())
    }

    /// As [`Self::ring`], of which the program does not learn: what it knows to be without a ring stays so.
    #[inline(always)]
    fn announce(&mut self) -> Result<(), Error> {
        self.publish();
        self.doorbell.check_device()?;
        self.doorbell.ring(self.ring.write_pointer())
    }

    #[cold]
    fn wait_for_room(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes as u64 > self.ring.buffer().size() {
            return Err(Error::BadPacket("a packet that is larger than the ring"));
        }
        let start = Instant::now();
        while !self.ring.has_room(bytes) {
            // The engine may not know of work that was queued without ringing, or rung for before the doorbell was
            // disconnected. Ringing also reveals a lost queue.
            self.announce()?;
            let next = self.queue.progress.current_value()? + 1;
            if next <= self.queue.last_value {
                self.queue.progress.wait(next, RING_TIMEOUT)?;
            } else if start.elapsed() > RING_TIMEOUT {
                // Only a tester's own packets are in the ring, and no progress value follows those.
                return Err(Error::RingFull { waited: RING_TIMEOUT });
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// The error for a lost queue, with the device's reason.
    #[must_use]
    pub fn lost(&self) -> Error {
        self.doorbell.lost()
    }
}

impl Drop for UserModeQueue {
    fn drop(&mut self) {
        // Destroying the queue waits for visible work, and so for work that was queued but not rung for.
        self.publish();
    }
}
