// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records what the control plane changes, for a tool that traces.

use crate::hardware::{BusyOf, GuestId, HwQueueId, Platform, Reported as _};
use crate::port::TracePage;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::fence_log::FenceLogEntry;
use bellhop_protocol::handoff::fence_log::{FenceLog, LogReader};
use bellhop_protocol::trace::{MAX_TRACE_RECORDS, Record, What};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum records kept for a tool that does not fetch them. The recorder drops and counts later ones.
const KEPT: usize = 1 << 16;

/// Records that the tool has not fetched.
#[derive(Debug)]
struct Recording {
    records: VecDeque<Record>,
    dropped: u64,
    /// Read position in each engine's trace log.
    readers: Vec<LogReader>,
}

/// Records what the control plane changes. Only the control-plane thread uses it.
#[derive(Clone)]
pub(crate) struct Recorder {
    platform: Arc<dyn Platform>,
    recording: Arc<Mutex<Option<Recording>>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("recording", &self.recording).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Creates a recorder that records nothing yet.
    pub(crate) fn new(platform: Arc<dyn Platform>) -> Self {
        Self { platform, recording: Arc::default() }
    }

    #[expect(clippy::disallowed_methods, reason = "a lock that the control plane alone takes")]
    fn with<R>(&self, act: impl FnOnce(&mut Option<Recording>) -> R) -> R {
        act(&mut self.recording.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a tool traces.
    pub(crate) fn is_recording(&self) -> bool {
        self.with(|recording| recording.is_some())
    }

    /// Begins to record, for this number of engines.
    pub(crate) fn begin(&self, engines: u32) {
        let readers = vec![LogReader::default(); engines as usize];
        let recording = Recording { records: VecDeque::new(), dropped: 0, readers };
        self.with(|place| *place = Some(recording));
    }

    /// Stops recording. Returns the number of records that were not fetched.
    pub(crate) fn end(&self) -> u64 {
        let Some(recording) = self.with(Option::take) else { return 0 };
        let mut left = recording.records.len() as u64 + recording.dropped;
        for (mut reader, node) in recording.readers.into_iter().zip(0..) {
            self.platform.with_trace_log(node, &mut |log| {
                let position = log.position();
                let mut read = 0;
                left += reader.read_entries(&log, position, |_| read += 1);
                left += read;
            });
        }
        left
    }

    /// Takes as many of the oldest records as fit into a reply, and how busy engines are. Records noted here come
    /// first: they name the queues of the trace logs' entries. `describe` converts an entry to a record.
    pub(crate) fn take(&self, describe: impl Fn(u32, FenceLogEntry) -> Record) -> TracePage {
        let now = self.platform.gpu_clock();
        self.with(|recording| {
            let Some(recording) = recording else { return TracePage::default() };
            // Room for lost entries, dropped records, and how busy each engine is.
            let room = MAX_TRACE_RECORDS - 2 * recording.readers.len() - 1;
            let count = recording.records.len().min(room);
            let mut records: Vec<_> = recording.records.drain(..count).collect();
            let dropped = std::mem::take(&mut recording.dropped);
            if dropped > 0 {
                records.push(Record { time: now, what: What::Dropped { records: dropped } });
            }
            let mut more = !recording.records.is_empty();
            for (reader, node) in recording.readers.iter_mut().zip(0..) {
                if !more {
                    let describe = |entry| describe(node, entry);
                    more = self.read_trace_log((node, reader), (room, now), &mut records, describe);
                }
                let busy_time = self.platform.busy_time(BusyOf::Engine(node)).reported();
                let time = self.platform.gpu_clock();
                records.push(Record { time, what: What::Busy { node, busy_time } });
            }
            TracePage { records, more }
        })
    }

    /// Reads new entries of an engine's trace log, until there are `room` records. Returns whether more are left. The
    /// order is that of protocol::handoff::fence_log, as for the logs of queues.
    fn read_trace_log(
        &self,
        (node, reader): (u32, &mut LogReader),
        (room, now): (usize, u64),
        records: &mut Vec<Record>,
        describe: impl Fn(FenceLogEntry) -> Record,
    ) -> bool {
        let mut more = false;
        self.platform.with_trace_log(node, &mut |log| {
            let position = log.position();
            if !reader.is_behind(position) {
                return;
            }
            FenceLog::<0>::flush();
            let most = room.saturating_sub(records.len()) as u64;
            let until = reader.at_most(&log, position, most);
            let entries = reader.read_entries(&log, until, |entry| records.push(describe(entry)));
            if entries > 0 {
                records.push(Record { time: now, what: What::Lost { node, entries } });
            }
            more = reader.is_behind(position);
        });
        more
    }

    /// Records an event at a time.
    pub(crate) fn note_at(&self, time: u64, what: What) {
        self.with(|recording| match recording {
            Some(Recording { records, .. }) if records.len() < KEPT => {
                records.push_back(Record { time, what });
            }
            Some(Recording { dropped, .. }) => *dropped += 1,
            None => {}
        });
    }

    /// Records an event now, if a tool traces.
    pub(crate) fn note(&self, what: impl FnOnce() -> What) {
        if self.is_recording() {
            self.note_at(self.platform.gpu_clock(), what());
        }
    }

    /// A doorbell's state has changed.
    pub(crate) fn doorbell(&self, queue: HwQueueId, state: &str) {
        self.note(|| What::Doorbell { queue: queue.0, state: state.into() });
    }

    /// An engine's state has changed.
    pub(crate) fn engine(&self, node: u32, state: EnginePowerState) {
        self.note(|| What::Engine { node, state: state.to_string() });
    }

    /// The device's state has changed.
    pub(crate) fn device(&self, state: &str) {
        self.note(|| What::Device { state: state.into() });
    }

    /// A process calls an object something from now on, or has none of this handle any more. `slot` is that of a fence.
    pub(crate) fn called(
        &self,
        (guest, process): (GuestId, u32),
        (handle, slot): (Handle, Option<u32>),
        name: Option<&str>,
    ) {
        let (handle, object) = (handle.into(), slot.map_or(0, |slot| object_of(guest, slot)));
        let name = || name.map(Into::into);
        self.note(|| What::Called { guest: guest.0, process, handle, object, name: name() });
    }

    /// A CPU signaled a fence.
    pub(crate) fn cpu_signal(
        &self,
        (guest, process): (GuestId, u32),
        slot: u32,
        (handle, value): (Handle, u64),
    ) {
        let (fence, object) = (handle.into(), object_of(guest, slot));
        self.note(|| What::CpuSignal { guest: guest.0, process, fence, value, object });
    }

    /// A fence ended a CPU's wait.
    pub(crate) fn cpu_wait(
        &self,
        (guest, process): (GuestId, u32),
        slot: u32,
        (handle, value): (Handle, u64),
        since: u64,
    ) {
        let (fence, object) = (handle.into(), object_of(guest, slot));
        self.note(|| What::CpuWait { guest: guest.0, process, fence, value, since, object });
    }

    /// A signal in a software queue took effect.
    pub(crate) fn software_signal(
        &self,
        queue: HwQueueId,
        (guest, slot): (GuestId, u32),
        value: u64,
        queued: u64,
    ) {
        let (queue, object) = (queue.0, object_of(guest, slot));
        self.note(|| What::Signal { queue, fence: slot, value, queued, object });
    }

    /// A wait in a software queue ended.
    pub(crate) fn software_wait(
        &self,
        queue: HwQueueId,
        (guest, slot): (GuestId, u32),
        value: u64,
        since: u64,
    ) {
        let (queue, object) = (queue.0, object_of(guest, slot));
        let (queued, held) = (since, since);
        self.note(|| What::Wait { queue, fence: slot, value, queued, held, object });
    }

    /// The time, or 0 if no tool traces.
    pub(crate) fn now(&self) -> u64 {
        if self.is_recording() { self.platform.gpu_clock() } else { 0 }
    }
}

/// The number of a guest's global fence in a trace, unique among all guests. Never 0.
pub(crate) fn object_of(guest: GuestId, slot: u32) -> u64 {
    guest.0 << 32 | (u64::from(slot) + 1)
}
