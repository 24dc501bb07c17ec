// SPDX-License-Identifier: MIT OR Apache-2.0

//! User-mode submission: a ring, its doorbell, and the progress fence.

use crate::commands::command_buffer::{CommandBuffer, SMALL_WORDS};
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
use zerocopy::{IntoBytes, transmute};

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
        let (is_plain, doorbell) = (doorbell.is_plain(), Box::new(doorbell));
        Ok(UserModeQueue { is_plain, doorbell, queue, ring, not_rung: Vec::new() })
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
    /// Whether a submission takes the short way, as most do: nothing is to be retried, logged or fenced.
    pub(crate) is_plain: bool,
    // Dropped in this order. Destroying the queue waits for its submissions and destroys the doorbell; afterwards
    // the ring is unused.
    pub(super) queue: HwQueue,
    pub(crate) doorbell: Box<Doorbell>,
    pub(crate) ring: Ring,
    /// What [`Error::NotRung`] was returned for since a ring last succeeded.
    not_rung: Vec<NotRung>,
}

/// Words of the progress fence's signal. It is beside the packet that executes the command buffer, not in the buffer,
/// so that a resubmitted buffer stays in both processors' caches.
const SIGNAL_WORDS: usize = size_of::<SignalFence>() / WORD;

/// Words of the packet that executes a command buffer.
const EXECUTE_WORDS: usize = size_of::<IndirectBuffer>() / WORD;

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
    /// Most bytes of the ring that a submission takes, unless logs are verbose.
    pub const SUBMISSION_SIZE: u64 = ((SMALL_WORDS + SIGNAL_WORDS) * WORD) as u64;

    /// The queue's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.queue.handle
    }

    /// Names the queue for people, as [`Device::set_name`](crate::Device::set_name) names a device.
    ///
    /// # Errors
    /// As [`Device::set_name`](crate::Device::set_name).
    pub fn set_name(&self, name: &str) -> Result<(), Error> {
        self.queue.context().device().session().set_name(self.handle(), name)
    }

    /// The fence that gets each submission's value when the submission is done.
    #[must_use]
    pub fn progress_fence(&self) -> &Fence {
        &self.queue.progress
    }

    /// Another view of the progress fence, for threads that wait while one submits. It knows of the queue's loss, and says nothing
    /// more once the queue is dropped.
    #[must_use]
    pub fn shared_progress_fence(&self) -> Fence {
        self.queue.progress.another(self.queue.handle, self.doorbell.status_word())
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
        if !self.is_plain || !self.doorbell.is_connected() {
            return self.submit_otherwise(commands);
        }
        let value = self.queue.last_value + 1;
        self.put(commands, value, true)?;
        self.doorbell.set_last_queued(value);
        let write_pointer = self.ring.write_pointer();
        self.ring.pointers().publish(write_pointer);
        match self.doorbell.ring_line(write_pointer) {
            ConnectionStatus::CONNECTED => Ok(value),
            status => self.ring_on(commands, value, status),
        }
    }

    /// The status after the ring for this submission requires something.
    #[cold]
    fn ring_on(
        &mut self,
        commands: &mut CommandBuffer,
        value: u64,
        status: ConnectionStatus,
    ) -> Result<u64, Error> {
        let rung = self.doorbell.ring_on(status, self.ring.write_pointer());
        self.end(commands, value, rung)
    }

    /// As [`Self::submit`], where it does not take the short way.
    #[inline(never)]
    fn submit_otherwise(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        if !self.not_rung.is_empty() {
            return self.submit_after(commands);
        }
        self.doorbell.prepare()?;
        let value = self.queue_anyhow(commands, true)?;
        self.publish();
        // `prepare` has seen the device. If it goes away now, the progress fence tells.
        let rung = self.doorbell.ring(self.ring.write_pointer());
        self.end(commands, value, rung)
    }

    /// Returns the value of a submission that is in the ring, after its ring. A connect may have changed the way of
    /// the next one.
    fn end(
        &mut self,
        commands: &mut CommandBuffer,
        value: u64,
        rung: Result<(), Error>,
    ) -> Result<u64, Error> {
        self.is_plain = self.doorbell.is_plain();
        rung.map_or_else(|error| self.keep(value, commands, error), |()| Ok(value))
    }

    /// As [`Self::submit`], after submissions that are in the ring without their ring: this may be a retry of one.
    #[cold]
    fn submit_after(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        let content = Content::of(commands);
        let value = match self.not_rung.iter().find(|entry| entry.content == content) {
            Some(entry) => entry.value,
            None => {
                self.doorbell.prepare()?;
                self.queue_anyhow(commands, true)?
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
        self.is_plain = false;
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
        self.queue_anyhow(commands, false)
    }

    /// As [`Self::queue`], and for a doorbell that `rings` next.
    #[inline(always)]
    fn queue_anyhow(&mut self, commands: &mut CommandBuffer, rings: bool) -> Result<u64, Error> {
        let value = self.queue.last_value + 1;
        match self.doorbell.queued_now() {
            Some(queued) => self.queue_logged(commands, value, queued)?,
            None => self.put(commands, value, rings)?,
        }
        Ok(value)
    }

    /// Puts a command buffer into the ring. If the doorbell `rings` next, its line takes it to the engine.
    ///
    /// The packets of a small buffer are the submission: the engine then reads no buffer.
    #[inline(always)]
    fn put(&mut self, commands: &mut CommandBuffer, value: u64, rings: bool) -> Result<(), Error> {
        self.put_small(commands.small(), || commands.execute(), value, rings)
    }

    /// Puts so many words of packets into the ring as they are, or, if they are more than the array has, the packet that
    /// executes them. If the doorbell `rings` next, its line takes them to the engine.
    #[inline(always)]
    pub(super) fn put_small(
        &mut self,
        words: (u8, &[u64; SMALL_WORDS]),
        execute: impl FnOnce() -> IndirectBuffer,
        value: u64,
        rings: bool,
    ) -> Result<(), Error> {
        let [header, new] = transmute!(SignalFence::new(self.queue.progress.slot(), value));
        match words {
            (0, _) => self.push([header, new], value, rings),
            (1, [a, ..]) => self.push([*a, header, new], value, rings),
            (2, [a, b, ..]) => self.push([*a, *b, header, new], value, rings),
            (3, [a, b, c, ..]) => self.push([*a, *b, *c, header, new], value, rings),
            (4, [a, b, c, d, _]) => self.push([*a, *b, *c, *d, header, new], value, rings),
            (5, [a, b, c, d, e]) => self.push([*a, *b, *c, *d, *e, header, new], value, rings),
            _ => {
                let [execute, gpu_va] = transmute!(execute());
                self.push([execute, gpu_va, header, new], value, rings)
            }
        }
    }

    /// Puts words of packets into the ring, a signal of the progress fence, and an entry in the signal log that holds the time of
    /// queuing.
    #[cold]
    pub(super) fn put_logged(
        &mut self,
        words: &[u64],
        value: u64,
        queued_timestamp: u64,
    ) -> Result<(), Error> {
        let signal = LoggedSignal::new(self.queue.progress.slot(), value);
        let signal = LoggedSignal { log: LogFence { queued_timestamp, ..signal.log }, ..signal };
        let size = size_of_val(words) + size_of_val(&signal);
        if !self.ring.has_room(size) {
            self.wait_for_room(size)?;
        }
        // There is room for both.
        self.push_bytes(words.as_bytes())?;
        self.push::<{ size_of::<LoggedSignal>() / WORD }>(transmute!(signal), value, false)
    }

    /// As [`Self::queue`], with an entry in the signal log that holds the time of queuing.
    #[cold]
    fn queue_logged(
        &mut self,
        commands: &mut CommandBuffer,
        value: u64,
        queued_timestamp: u64,
    ) -> Result<(), Error> {
        commands.stamp_logs(queued_timestamp)?;
        let execute: [u64; EXECUTE_WORDS] = transmute!(commands.execute());
        self.put_logged(&execute, value, queued_timestamp)
    }

    /// Puts packets into the ring, after which the progress fence will have `value`.
    #[inline(always)]
    fn push<const N: usize>(
        &mut self,
        packets: [u64; N],
        value: u64,
        rings: bool,
    ) -> Result<(), Error> {
        let position = self.ring.write_pointer();
        if !self.ring.push(packets) {
            self.push_bytes(packets.as_bytes())?;
        }
        self.doorbell.put(position, packets, rings);
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
        self.is_plain = self.doorbell.is_plain();
        Ok(())
    }

    /// As [`Self::ring`], of which the program does not learn: what it knows to be without a ring stays so.
    #[inline(always)]
    fn announce(&mut self) -> Result<(), Error> {
        self.publish();
        self.doorbell.check_device()?;
        let rung = self.doorbell.ring(self.ring.write_pointer());
        // A connect may have changed the way of the next submission.
        self.is_plain &= self.doorbell.is_plain();
        rung
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
        // After the end of the process, the ring and the doorbell may be another process's.
        if !self.queue.context().device().session().has_ended() {
            // Destroying the queue waits for visible work, and so for work that was queued but not rung for.
            self.publish();
        }
    }
}
