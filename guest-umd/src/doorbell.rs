//! The driver's side of a doorbell.

use crate::areas::{Areas, Word};
use crate::context::Context;
use crate::error::Error;
use crate::ring::Ring;
use crate::session::{self, Link};
use crate::transport::Gone;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::{ClockCalibration, QueryClockCalibration};
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, CreateDoorbell, CreateDoorbellReply, DestroyDoorbell, NotifyWorkSubmission,
};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData, LoggingLevel, RingTag};
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::hint::HintWord;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

/// What a queue did to its doorbell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DoorbellCounters {
    /// Stores to the doorbell.
    pub rings: u64,
    /// `NOTIFY_WORK_SUBMISSION` requests, after rings that found the device asleep.
    pub notifies: u64,
    /// `CONNECT_DOORBELL` requests, after rings that found the doorbell disconnected.
    pub connects: u64,
}

/// What the driver and the device share of a doorbell.
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

/// What the rings of a global doorbell store.
struct GlobalRings {
    tag: RingTag,
    /// The last ring's number.
    sequence: u32,
}

/// The adapter's clock, as far as this driver knows it: it never says more than that does.
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
        // A device that claims a frequency without bounds gets a time that makes no sense.
        let ticks = self.since.elapsed().as_nanos().wrapping_mul(self.frequency.into());
        self.counter.wrapping_add((ticks / 1_000_000_000) as u64)
    }
}

/// A doorbell. It goes with its HW queue.
pub(crate) struct Doorbell {
    context: Context,
    hw_queue: Handle,
    doorbell: Handle,
    words: Words,
    /// Once the device is gone, what its status word says means nothing.
    gone: Gone,
    store_fence: bool,
    /// There where all queues ring one doorbell.
    global: Option<GlobalRings>,
    /// There while everything is to be logged, as of the last connect.
    clock: Option<GpuClock>,
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
            hw_queue,
            ring_buffer: ring.buffer().handle(),
            ring_control: ring.control().handle(),
            flags: 0,
            private_data,
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
        let global = GlobalRings { tag: reply.ring_tag, sequence: 0 };
        let global = session.link.global_doorbell.then_some(global);
        let counters = DoorbellCounters::default();
        let gone = session.link.gone.clone();
        Ok(Self {
            context,
            hw_queue,
            doorbell,
            words,
            gone,
            store_fence,
            global,
            clock: None,
            counters,
        })
    }

    /// When something is queued now, on the adapter's clock, if everything is to be logged.
    #[inline]
    pub(crate) fn queued_now(&self) -> Option<u64> {
        self.clock.as_ref().map(GpuClock::now)
    }

    pub(crate) fn status_word(&self) -> &Word {
        &self.words.status
    }

    #[inline]
    fn words(&self) -> Result<DoorbellWords<'_>, Error> {
        Ok(DoorbellWords::new(self.words.doorbell.get()?, self.words.status.get()?))
    }

    pub(crate) fn status(&self) -> Result<ConnectionStatus, Error> {
        match self.gone.is_known() {
            true => Ok(ConnectionStatus::DISCONNECTED_ABORT),
            false => Ok(self.words()?.status()),
        }
    }

    /// Connects the doorbell where it is disconnected, before anything is submitted: what this
    /// refuses was not submitted.
    ///
    /// Source: user-mode work submission, "Work submission pseudocode in UMD", which connects first.
    #[inline]
    pub(crate) fn prepare(&mut self) -> Result<(), Error> {
        match self.status()? {
            ConnectionStatus::CONNECTED | ConnectionStatus::CONNECTED_NOTIFY => Ok(()),
            ConnectionStatus::DISCONNECTED_RETRY => self.connect(),
            // A status that this driver does not know is no promise that work will run.
            _ => Err(self.lost()),
        }
    }

    /// Tells the host which value the progress fence will get: before the work is visible.
    #[inline]
    pub(crate) fn set_last_queued(&self, value: u64) -> Result<(), Error> {
        self.words.last_queued.get()?.store(value, Ordering::Release);
        Ok(())
    }

    /// Rings until the ring was noticed, or will be: the loop of the reference's pseudocode.
    #[inline]
    pub(crate) fn ring(&mut self, write_pointer: u64) -> Result<(), Error> {
        // The ring before the doorbell that announces it.
        if self.store_fence {
            fence(Ordering::SeqCst);
        }
        loop {
            match self.ring_once(write_pointer)? {
                ConnectionStatus::CONNECTED => return Ok(()),
                ConnectionStatus::CONNECTED_NOTIFY => return self.notify(),
                ConnectionStatus::DISCONNECTED_RETRY => self.connect()?,
                // A status that this driver does not know is no promise that work will run.
                _ => return Err(self.lost()),
            }
        }
    }

    /// Rings, and does nothing about the status that it returns.
    #[inline]
    pub(crate) fn ring_once(&mut self, write_pointer: u64) -> Result<ConnectionStatus, Error> {
        self.counters.rings += 1;
        let status = match self.global {
            None => self.words()?.ring(write_pointer),
            Some(_) => self.ring_global()?,
        };
        match self.gone.is_known() {
            true => Ok(ConnectionStatus::DISCONNECTED_ABORT),
            false => Ok(status),
        }
    }

    /// Rings the doorbell that all queues share: a value of its own each time, since the device
    /// must see that it changed. The write pointer it finds in the ring buffer control.
    #[inline]
    fn ring_global(&mut self) -> Result<ConnectionStatus, Error> {
        let value = self.global.as_mut().map_or(0, |global| {
            global.sequence = global.sequence.wrapping_add(1);
            global.tag.value(global.sequence)
        });
        let status = HintWord::new(self.words.doorbell.get()?).ring(value, &self.words()?);
        // A store that is still being combined with others is not seen by anybody.
        if self.store_fence {
            fence(Ordering::SeqCst);
        }
        Ok(status)
    }

    #[cold]
    fn notify(&mut self) -> Result<(), Error> {
        self.counters.notifies += 1;
        // Nobody waits for the reply: what was rung for is told by its fence, and the loss of the queue by
        // the doorbell's status.
        let request = NotifyWorkSubmission { doorbell: self.doorbell };
        match self.context.device().session().post(&request) {
            Err(_) if self.status()? == ConnectionStatus::DISCONNECTED_ABORT => Err(self.lost()),
            result => result,
        }
    }

    #[cold]
    pub(crate) fn connect(&mut self) -> Result<(), Error> {
        self.counters.connects += 1;
        let request = ConnectDoorbell { hw_queue: self.hw_queue };
        match self.context.device().session().call(&request) {
            Ok(_) => {
                let is_verbose = self.words()?.logging_level() == LoggingLevel::VERBOSE;
                let link = &self.context.device().session().link;
                self.clock = if is_verbose { Some(GpuClock::calibrate(link)?) } else { None };
                Ok(())
            }
            // The queue may have been lost since the status was read.
            Err(_) if self.status()? == ConnectionStatus::DISCONNECTED_ABORT => Err(self.lost()),
            Err(error) => Err(error),
        }
    }

    /// The error of a doorbell that is disconnected for good.
    #[cold]
    pub(crate) fn lost(&self) -> Error {
        let session = self.context.device().session();
        session.link.queue_lost(session.process(), self.hw_queue)
    }
}
