// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's side of a doorbell.

use crate::context::hardware::Context;
use crate::error::Error;
use crate::link::areas::Areas;
use crate::link::session::{self, Link};
use crate::link::words::Word;
use crate::queue::line::Line;
use crate::queue::ring::Ring;
use crate::transport::Gone;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::{ClockCalibration, QueryClockCalibration};
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, CreateDoorbell, CreateDoorbellReply, DestroyDoorbell, NotifyWorkSubmission,
};
use bellhop_protocol::doorbell::{
    ConnectionStatus, DoorbellPrivateData, LoggingLevel, NOTIFY_EACH_SUBMISSION, RingTag,
};
use bellhop_protocol::features::Features;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
#[cfg(feature = "raw")]
use bellhop_protocol::handoff::doorbell_line::COPY_WORDS;
use bellhop_protocol::handoff::doorbell_line::LINE_WORDS;
use bellhop_protocol::handoff::hint::HintWord;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::handoff::words::WORD;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

/// A queue's counts of rings, and of the actions that the doorbell's status then required.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DoorbellCounters {
    /// Stores to the doorbell.
    pub rings: u64,
    /// Notifications, after rings that found the device asleep.
    pub notifies: u64,
    /// Those of them that were a kick of the event queue, and no `NOTIFY_WORK_SUBMISSION` request.
    pub kicks: u64,
    /// `CONNECT_DOORBELL` requests, after rings that found the doorbell disconnected.
    pub connects: u64,
}

/// The words of a doorbell that driver and device share.
struct Words {
    doorbell: Word,
    status: Word,
    last_queued: Word,
}

impl Words {
    fn find(areas: &Areas, reply: &CreateDoorbellReply) -> Result<Self, Error> {
        Ok(Self {
            doorbell: areas.word(reply.doorbell_offset)?,
            status: areas.word(reply.status_offset)?,
            last_queued: areas.word(reply.last_queued_offset)?,
        })
    }
}

/// The values that rings of a global doorbell store.
struct GlobalRings {
    tag: RingTag,
    /// The number of the last ring.
    sequence: u32,
}

/// An estimate of the adapter's clock, never ahead of it.
struct GpuClock {
    since: Instant,
    counter: u64,
    frequency: u64,
}

impl GpuClock {
    #[cold]
    fn calibrate(link: &Link) -> Result<Self, Error> {
        let request = QueryClockCalibration { reserved: 0 };
        let reply = session::call(&*link.transport, 0, &request, &[])?;
        let ClockCalibration { gpu_frequency: frequency, gpu_clock_counter: counter } = reply;
        Ok(Self { since: Instant::now(), counter, frequency })
    }

    fn now(&self) -> u64 {
        // A device that claims an absurd frequency gets an absurd time.
        let ticks = self.since.elapsed().as_nanos().wrapping_mul(self.frequency.into());
        self.counter.wrapping_add((ticks / 1_000_000_000) as u64)
    }
}

/// A doorbell. Destroyed with its HW queue.
pub(crate) struct Doorbell {
    context: Context,
    hw_queue: Handle,
    doorbell: Handle,
    words: Words,
    /// Whether the device is gone: the status word is then meaningless.
    gone: Gone,
    store_fence: bool,
    /// Whether a kick notifies the device.
    by_kick: bool,
    /// `Some` if all queues ring one doorbell word.
    global: Option<GlobalRings>,
    /// `Some` if the doorbell's line takes packets to the engine.
    line: Option<Line>,
    /// `Some` if the last connect asked for verbose fence logs.
    clock: Option<Box<GpuClock>>,
    pub(crate) counters: DoorbellCounters,
}

impl Doorbell {
    pub(crate) fn create(
        context: Context,
        hw_queue: Handle,
        ring: &Ring,
        private_data: DoorbellPrivateData,
    ) -> Result<Self, Error> {
        let request = CreateDoorbell {
            private_data,
            ..CreateDoorbell::new(hw_queue, ring.buffer().handle(), ring.control().handle())
        };
        let session = context.device().session();
        let areas = session.areas()?;
        let reply = session.call(&request)?;
        let doorbell = reply.doorbell;
        let words = match Words::find(areas, &reply) {
            Ok(words) => words,
            Err(error) => {
                session.call(&DestroyDoorbell { doorbell })?;
                return Err(error);
            }
        };
        let store_fence = areas.needs_store_fence();
        // A line that does not lie in one page of the area is none.
        let line = areas.words(reply.doorbell_offset, LINE_WORDS * WORD).ok().and_then(Line::new);
        // The engine leaves a doorbell alone that is to notify of each ring, and watches it asleep or not.
        let by_kick = session.link.features.contains(Features::NOTIFY_BY_KICK)
            && private_data.flags & NOTIFY_EACH_SUBMISSION == 0;
        let global = GlobalRings { tag: reply.ring_tag, sequence: 0 };
        let global = session.link.global_doorbell.then_some(global);
        let line = match &global {
            None if session.link.features.contains(Features::DOORBELL_LINES) => line,
            _ => None,
        };
        let counters = DoorbellCounters::default();
        let gone = session.link.gone.clone();
        Ok(Self {
            context,
            hw_queue,
            doorbell,
            words,
            gone,
            store_fence,
            by_kick,
            global,
            line,
            clock: None,
            counters,
        })
    }

    /// The adapter's clock now, if fence logs are verbose.
    #[inline]
    pub(crate) fn queued_now(&self) -> Option<u64> {
        self.clock.as_deref().map(GpuClock::now)
    }

    pub(crate) fn status_word(&self) -> &Word {
        &self.words.status
    }

    #[inline]
    fn words(&self) -> DoorbellWords<'_> {
        DoorbellWords::new(self.words.doorbell.get(), self.words.status.get())
    }

    #[inline]
    pub(crate) fn status(&self) -> ConnectionStatus {
        if self.gone.is_known() {
            ConnectionStatus::DISCONNECTED_ABORT
        } else {
            self.words().status()
        }
    }

    /// Connects a disconnected doorbell. Called before anything is put into the ring, so that a failed connect
    /// leaves nothing submitted.
    ///
    /// Source: user-mode work submission, "Work submission pseudocode in UMD", which connects first.
    #[inline]
    pub(crate) fn prepare(&mut self) -> Result<(), Error> {
        match self.status() {
            ConnectionStatus::CONNECTED | ConnectionStatus::CONNECTED_NOTIFY => Ok(()),
            ConnectionStatus::DISCONNECTED_RETRY => self.connect(),
            // An unknown status does not promise that work will run.
            _ => Err(self.lost()),
        }
    }

    /// Tells the host the value that the progress fence will get. Called before the work is visible.
    #[inline]
    pub(crate) fn set_last_queued(&self, value: u64) {
        publication::publish(self.words.last_queued.get(), value);
    }

    /// Rings until an engine has seen the ring or will see it. A caller that has not just called [`Self::prepare`]
    /// also calls [`Self::check_device`]: a device that is gone sees nothing.
    ///
    /// Source: user-mode work submission, "Work submission pseudocode in UMD".
    #[inline(always)]
    pub(crate) fn ring(&mut self, write_pointer: u64) -> Result<(), Error> {
        // The ring's bytes must be visible before the doorbell that announces them.
        if self.store_fence {
            fence(Ordering::SeqCst);
        }
        match self.ring_word(write_pointer) {
            ConnectionStatus::CONNECTED => Ok(()),
            status => self.ring_on(status, write_pointer),
        }
    }

    /// Does what the status after a ring requires, and rings again if necessary.
    #[cold]
    pub(crate) fn ring_on(
        &mut self,
        mut status: ConnectionStatus,
        write_pointer: u64,
    ) -> Result<(), Error> {
        loop {
            match status {
                ConnectionStatus::CONNECTED => return Ok(()),
                ConnectionStatus::CONNECTED_NOTIFY => return self.notify(),
                ConnectionStatus::DISCONNECTED_RETRY => self.connect()?,
                // An unknown status does not promise that work will run.
                _ => return Err(self.lost()),
            }
            status = self.ring_once(write_pointer);
        }
    }

    /// Fails if the device is known to be gone.
    #[inline]
    pub(crate) fn check_device(&self) -> Result<(), Error> {
        if self.gone.is_known() { Err(self.lost()) } else { Ok(()) }
    }

    /// Whether a submission may take the short way: [`Self::ring_line`] after [`Self::is_connected`]. The doorbell has
    /// a line, the ring's memory needs no fence, and nothing is logged. A connect may change that.
    pub(crate) fn is_plain(&self) -> bool {
        self.line.is_some() && !self.store_fence && self.clock.is_none()
    }

    /// Whether an engine sees the next ring, as far as is known.
    #[inline(always)]
    pub(crate) fn is_connected(&self) -> bool {
        let connected = ConnectionStatus::CONNECTED..=ConnectionStatus::CONNECTED_NOTIFY;
        !self.gone.is_known() && connected.contains(&self.words().status())
    }

    /// Rings once with the write pointer behind what [`Self::put`] has copied, and returns the status word.
    #[inline(always)]
    pub(crate) fn ring_line(&mut self, write_pointer: u64) -> ConnectionStatus {
        self.counters.rings += 1;
        self.words().ring(write_pointer)
    }

    /// Packets were put into the ring at `position`. If the doorbell `rings` next, its line takes them.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, position: u64, packets: [u64; N], rings: bool) {
        if let Some(line) = &mut self.line {
            if rings { line.copy(position, packets) } else { line.close() }
        }
    }

    /// The doorbell is about to ring with a write pointer that its line knows nothing of.
    #[cfg(feature = "raw")]
    pub(crate) fn close_line(&mut self, write_pointer: u64) {
        if let Some(line) = &mut self.line {
            line.close_at(write_pointer);
        }
    }

    /// Rings once and returns the status word. The word is meaningless if the device is gone: see [`Self::status`].
    #[inline]
    fn ring_word(&mut self, write_pointer: u64) -> ConnectionStatus {
        if let Some(line) = &mut self.line {
            line.ring(write_pointer);
        }
        self.counters.rings += 1;
        match self.global {
            None => self.words().ring(write_pointer),
            Some(_) => self.ring_global(),
        }
    }

    /// Rings once and returns the status.
    pub(crate) fn ring_once(&mut self, write_pointer: u64) -> ConnectionStatus {
        let status = self.ring_word(write_pointer);
        if self.gone.is_known() { ConnectionStatus::DISCONNECTED_ABORT } else { status }
    }

    /// Rings once with a write pointer and whatever the tester wants behind it in the line; `None` without a line.
    #[cfg(feature = "raw")]
    pub(crate) fn ring_with_line(
        &mut self,
        write_pointer: u64,
        start: u64,
        copy: [u64; COPY_WORDS],
    ) -> Option<ConnectionStatus> {
        self.line.as_mut()?.overwrite(start, copy);
        Some(self.ring_line(write_pointer))
    }

    /// Rings the doorbell word that all queues share. Each ring stores a new value, so that the device sees a
    /// change; the device finds the write pointer in the ring buffer control.
    #[inline(never)]
    fn ring_global(&mut self) -> ConnectionStatus {
        let value = self.global.as_mut().map_or(0, |global| {
            global.sequence = global.sequence.wrapping_add(1);
            global.tag.value(global.sequence)
        });
        let status = HintWord::new(self.words.doorbell.get()).ring(value, &self.words());
        // A write-combining buffer may hold the store back until a fence.
        if self.store_fence {
            fence(Ordering::SeqCst);
        }
        status
    }

    #[cold]
    fn notify(&mut self) -> Result<(), Error> {
        self.counters.notifies += 1;
        if self.by_kick {
            self.counters.kicks += 1;
            return Ok(self.context.device().session().link.transport.kick()?);
        }
        // The driver does not wait for the reply: the progress fence tells of completion, and the doorbell's status
        // of a lost queue.
        let request = NotifyWorkSubmission { doorbell: self.doorbell };
        match self.context.device().session().post(&request) {
            Err(_) if self.status() == ConnectionStatus::DISCONNECTED_ABORT => Err(self.lost()),
            result => result,
        }
    }

    #[cold]
    pub(crate) fn connect(&mut self) -> Result<(), Error> {
        self.counters.connects += 1;
        let request = ConnectDoorbell { hw_queue: self.hw_queue };
        match self.context.device().session().call(&request) {
            Ok(_) => {
                let is_verbose = self.words().logging_level() == LoggingLevel::VERBOSE;
                let link = &self.context.device().session().link;
                self.clock =
                    if is_verbose { Some(Box::new(GpuClock::calibrate(link)?)) } else { None };
                Ok(())
            }
            // The queue was lost after the driver read the status.
            Err(_) if self.status() == ConnectionStatus::DISCONNECTED_ABORT => Err(self.lost()),
            Err(error) => Err(error),
        }
    }

    /// The error for a permanently disconnected doorbell.
    #[cold]
    pub(crate) fn lost(&self) -> Error {
        let session = self.context.device().session();
        session.link.queue_lost(session.process(), self.hw_queue)
    }
}
