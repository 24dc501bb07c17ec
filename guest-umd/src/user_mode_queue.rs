//! HW queues for user-mode submission.

use crate::command_buffer::CommandBuffer;
use crate::context::Context;
use crate::doorbell::{Doorbell, DoorbellCounters};
use crate::error::Error;
use crate::fence::Fence;
use crate::hw_queue::{self, FenceLogs, HwQueue};
use crate::ring::Ring;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData};
use bellhop_protocol::features::Features;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// How long a full ring may stand still before that is an error.
const RING_TIMEOUT: Duration = Duration::from_secs(30);

/// A HW queue that takes work through a doorbell. One thread submits.
///
/// Source: user-mode work submission, "HW queue progress fence changes" and "Work submission
/// pseudocode in UMD".
pub struct UserModeQueue {
    // Dropped in this order. The doorbell goes with the queue, which waits for what it was given;
    // the ring is free after that.
    queue: HwQueue,
    doorbell: Doorbell,
    ring: Ring,
    /// What was accepted and could not be rung for.
    not_rung: Option<Box<NotRung>>,
}

/// A submission that the ring holds and that no ring of the doorbell has announced.
#[derive(Debug, Clone, Copy)]
struct NotRung {
    value: u64,
    /// GPU virtual address of its command buffer.
    gpu_va: u64,
}

impl UserModeQueue {
    pub(crate) fn create(
        context: Context,
        ring_kind: AllocationKind,
        ring_size: u64,
        private_data: DoorbellPrivateData,
        more: HwQueueFlags,
    ) -> Result<Self, Error> {
        if !context.device().session().link.features.contains(Features::USER_MODE_SUBMISSION) {
            return Err(Error::NotAvailable("user-mode submission"));
        }
        hw_queue::check_flags(&context, more)?;
        // The residency of both is the driver's to see to, before there is a doorbell.
        let ring = Ring::create(context.device(), ring_kind, ring_size)?;
        let flags = HwQueueFlags::USER_MODE_SUBMISSION | HwQueueFlags::NATIVE_PROGRESS_FENCE;
        let mut queue = HwQueue::create(context.clone(), flags | more)?;
        let doorbell = Doorbell::create(context, queue.handle, &ring, private_data)?;
        queue.progress.watch_status(doorbell.status_word());
        Ok(Self { doorbell, queue, ring, not_rung: None })
    }

    /// The queue's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.queue.handle
    }

    /// The fence that gets a submission's value when it is done.
    #[must_use]
    pub fn progress_fence(&self) -> &Fence {
        &self.queue.progress
    }

    /// Where the queue's logs are: what its engine notes of the fences that its packets signal and wait for.
    #[must_use]
    pub fn fence_logs(&self) -> FenceLogs {
        self.queue.logs
    }

    /// The value of the last submission.
    #[must_use]
    pub fn last_value(&self) -> u64 {
        self.queue.last_value
    }

    /// What happened to the doorbell so far.
    #[must_use]
    pub fn counters(&self) -> DoorbellCounters {
        self.doorbell.counters
    }

    /// The doorbell's status, as the device publishes it.
    ///
    /// # Errors
    /// None for a queue that was created.
    pub fn status(&self) -> Result<ConnectionStatus, Error> {
        self.doorbell.status()
    }

    /// Submits a command buffer; returns the value that the progress fence gets when it is done.
    ///
    /// A submission that fails was not submitted, but for one error: [`Error::NotRung`] says that it
    /// was. Submitting the same command buffer again then rings for it, and does not submit it twice.
    /// When the queue is lost after it was submitted, the progress fence tells.
    ///
    /// # Errors
    /// When the queue is lost, the ring is full and stays so, or the device cannot be reached to
    /// connect or notify.
    #[inline]
    pub fn submit(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        if let Some(NotRung { value, gpu_va }) = self.not_rung.as_deref().copied()
            && gpu_va == commands.gpu_va()
        {
            return self.announce(value, gpu_va);
        }
        self.doorbell.prepare()?;
        let value = self.queue(commands)?;
        self.announce(value, commands.gpu_va())
    }

    /// Rings for a submission that is in the ring.
    #[inline]
    fn announce(&mut self, value: u64, gpu_va: u64) -> Result<u64, Error> {
        match self.ring() {
            Ok(()) => Ok(value),
            Err(error) => self.keep(NotRung { value, gpu_va }, error),
        }
    }

    /// What becomes of a submission that is in the ring and could not be rung for.
    #[cold]
    fn keep(&mut self, submission: NotRung, reason: Error) -> Result<u64, Error> {
        let value = submission.value;
        // It went with the queue: its fence tells what became of it, as it does of those before it.
        if self.doorbell.status()? == ConnectionStatus::DISCONNECTED_ABORT {
            return Ok(value);
        }
        self.not_rung = Some(Box::new(submission));
        Err(Error::NotRung { value, reason: Box::new(reason) })
    }

    /// Puts a command buffer into the ring and does not ring: [`Self::ring`] does, for all at
    /// once. The device may see it earlier.
    ///
    /// # Errors
    /// When the ring is full and stays so, or the queue is lost.
    #[inline]
    pub fn queue(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        let value = self.queue.last_value + 1;
        let queued = self.doorbell.queued_now();
        let packet = commands.finish(self.queue.progress.slot(), value, queued)?;
        self.queue_raw_as(packet.as_bytes(), value)?;
        Ok(value)
    }

    /// Puts bytes into the ring as they are, whether they are packets or not.
    ///
    /// # Errors
    /// When the ring is full and stays so, or the queue is lost.
    pub fn queue_raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.queue_raw_as(bytes, self.queue.last_value)
    }

    #[inline]
    fn queue_raw_as(&mut self, bytes: &[u8], value: u64) -> Result<(), Error> {
        if !self.ring.has_room(bytes.len())? {
            self.wait_for_room(bytes.len())?;
        }
        // Before the work is visible, so that the host never takes a busy queue for an idle one.
        self.doorbell.set_last_queued(value)?;
        self.queue.last_value = value;
        self.ring.push(bytes)
    }

    /// Rings the doorbell for everything in the ring.
    ///
    /// # Errors
    /// When the queue is lost, or the device cannot be reached to connect or notify.
    #[inline]
    pub fn ring(&mut self) -> Result<(), Error> {
        self.doorbell.ring(self.ring.write_pointer())?;
        self.not_rung = None;
        Ok(())
    }

    /// Rings the doorbell once and returns its status, without doing what that asks for: neither
    /// notifying nor connecting.
    ///
    /// # Errors
    /// None for a queue that was created.
    pub fn ring_once(&mut self) -> Result<ConnectionStatus, Error> {
        self.doorbell.ring_once(self.ring.write_pointer())
    }

    /// Rings with a write pointer that may not be the ring's, here and in the ring buffer control.
    ///
    /// # Errors
    /// As [`Self::ring`].
    pub fn ring_with(&mut self, write_pointer: u64) -> Result<(), Error> {
        self.ring.claim_written(write_pointer)?;
        self.doorbell.ring(write_pointer)
    }

    #[cold]
    fn wait_for_room(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes as u64 > self.ring.buffer().size() {
            return Err(Error::BadPacket("a packet that is larger than the ring"));
        }
        let start = Instant::now();
        while !self.ring.has_room(bytes)? {
            // What was queued without ringing would wait for ever, and so would what was rung
            // for before the doorbell was disconnected; the loss of the queue is seen here too.
            self.ring()?;
            let next = self.queue.progress.current_value()? + 1;
            if next <= self.queue.last_value {
                self.queue.progress.wait(next, RING_TIMEOUT)?;
            } else if start.elapsed() > RING_TIMEOUT {
                // Packets of the caller's own, that no progress value follows.
                return Err(Error::RingFull { waited: RING_TIMEOUT });
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// The error of a queue that is lost, with what the device told of it.
    #[must_use]
    pub fn lost(&self) -> Error {
        self.doorbell.lost()
    }
}
