//! What is recorded for a tool that traces: what engines note in their trace logs; power, doorbells and what
//! CPUs do with fences as it happens.
//!
//! "When tracing is enabled, OS will first increase the size of the log buffer to prevent overruns": a queue's
//! two logs are pages that the driver knows, so that each engine gets a trace log beside them, of the size that
//! the tool wants. It holds what the logs of all its queues get.
//!
//! Nothing is recorded, and there are no trace logs, while nobody traces. One tool does at a time.
//!
//! Source: native GPU fence object, "Log buffer overrun is permitted".

use super::doorbell::DoorbellState;
use super::inspect::state_name;
use super::kernel::Kernel;
use super::waits::Needed;
use crate::hardware::{BusyOf, EXECUTED, GuestId, Hardware, HostClocks, HwQueueId};
use crate::port::{CommandToken, Effect, TraceAction, TraceError, TracePage};
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogOperation};
use bellhop_protocol::handoff::fence_log::LogReader;
use bellhop_protocol::trace::{MAX_TRACE_RECORDS, Record, What};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Records that are kept for a tool that does not fetch them. Later ones are dropped, and counted.
const KEPT: usize = 1 << 16;

/// What was recorded and not fetched.
#[derive(Debug)]
struct Recording {
    records: VecDeque<Record>,
    dropped: u64,
    /// How far each engine's trace log was read.
    readers: Vec<LogReader>,
}

/// Where the parts of the control plane note what they change. All of it is one thread.
#[derive(Clone)]
pub(super) struct Recorder {
    hardware: Arc<dyn Hardware>,
    recording: Arc<Mutex<Option<Recording>>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("recording", &self.recording).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Records nothing yet.
    pub(super) fn new(hardware: Arc<dyn Hardware>) -> Self {
        Self { hardware, recording: Arc::default() }
    }

    fn with<R>(&self, act: impl FnOnce(&mut Option<Recording>) -> R) -> R {
        act(&mut self.recording.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether somebody traces.
    pub(super) fn is_recording(&self) -> bool {
        self.with(|recording| recording.is_some())
    }

    /// Notes something that happened at a time.
    pub(super) fn note_at(&self, time: u64, what: What) {
        self.with(|recording| match recording {
            Some(Recording { records, .. }) if records.len() < KEPT => {
                records.push_back(Record { time, what });
            }
            Some(Recording { dropped, .. }) => *dropped += 1,
            None => {}
        });
    }

    /// Notes something that happens now, if anybody wants to know.
    pub(super) fn note(&self, what: impl FnOnce() -> What) {
        if self.is_recording() {
            self.note_at(self.hardware.gpu_clock(), what());
        }
    }

    /// A doorbell's state has changed.
    pub(super) fn doorbell(&self, queue: HwQueueId, state: DoorbellState) {
        self.note(|| What::Doorbell { queue: queue.0, state: state_name(state).into() });
    }

    /// An engine's state has changed.
    pub(super) fn engine(&self, node: u32, state: EnginePowerState) {
        self.note(|| What::Engine { node, state: state.to_string() });
    }

    /// The device's state has changed.
    pub(super) fn device(&self, state: &str) {
        self.note(|| What::Device { state: state.into() });
    }

    /// A CPU's signal of a fence.
    pub(super) fn cpu_signal(&self, guest: GuestId, process: u32, slot: u32, signal: Needed) {
        let Needed { handle, value } = signal;
        let (fence, object) = (handle.into(), object(guest, slot));
        self.note(|| What::CpuSignal { guest: guest.0, process, fence, value, object });
    }

    /// A fence ended a CPU's wait.
    pub(super) fn cpu_wait(
        &self,
        (guest, process): (GuestId, u32),
        slot: u32,
        needed: Needed,
        since: u64,
    ) {
        let Needed { handle, value } = needed;
        let (fence, object) = (handle.into(), object(guest, slot));
        self.note(|| What::CpuWait { guest: guest.0, process, fence, value, since, object });
    }

    /// A signal in a software queue.
    pub(super) fn software_signal(
        &self,
        queue: HwQueueId,
        (guest, slot): (GuestId, u32),
        value: u64,
        queued: u64,
    ) {
        let (queue, object) = (queue.0, object(guest, slot));
        self.note(|| What::Signal { queue, fence: slot, value, queued, object });
    }

    /// A wait in a software queue is over.
    pub(super) fn software_wait(
        &self,
        queue: HwQueueId,
        (guest, slot): (GuestId, u32),
        value: u64,
        since: u64,
    ) {
        let (queue, object) = (queue.0, object(guest, slot));
        let (queued, held) = (since, since);
        self.note(|| What::Wait { queue, fence: slot, value, queued, held, object });
    }

    /// The time, if somebody traces.
    pub(super) fn now(&self) -> u64 {
        if self.is_recording() { self.hardware.gpu_clock() } else { 0 }
    }
}

/// Which fence a guest's global fence is among all, in a trace. Never 0.
fn object(guest: GuestId, slot: u32) -> u64 {
    guest.0 << 32 | (u64::from(slot) + 1)
}

impl Kernel {
    /// Begins, goes on or ends to record, for the one who traces.
    pub(super) fn trace(
        &mut self,
        token: CommandToken,
        action: TraceAction,
        effects: &mut Vec<Effect>,
    ) {
        if let TraceAction::Begin { entries } = action
            && let Err(refused) = self.begin_trace(entries, effects)
        {
            effects.push(Effect::Traced { token, result: Err(refused) });
            return;
        }
        let mut page = self.take_records();
        if action == TraceAction::End {
            let left = self.recorder.with(Option::take).map_or(0, |left| self.count(left));
            if left > 0 {
                let what = What::Dropped { records: left };
                page.records.push(Record { time: self.hardware.gpu_clock(), what });
            }
            page.more = false;
            self.hardware.end_trace();
            self.set_logging_level(LoggingLevel::DEFAULT, effects);
        }
        effects.push(Effect::Traced { token, result: Ok(page) });
    }

    /// How much there is that was not fetched.
    fn count(&self, recording: Recording) -> u64 {
        let mut left = recording.records.len() as u64 + recording.dropped;
        for (mut reader, node) in recording.readers.into_iter().zip(0..) {
            self.hardware.with_trace_log(node, &mut |log| {
                let position = log.position();
                let mut read = 0;
                left += reader.read_entries(&log, position, |_| read += 1);
                left += read;
            });
        }
        left
    }

    fn begin_trace(&mut self, entries: u32, effects: &mut Vec<Effect>) -> Result<(), TraceError> {
        if self.recorder.is_recording() {
            return Err(TraceError::Busy);
        }
        self.hardware.begin_trace(entries).map_err(|full| TraceError::Full(full.0))?;
        let readers = vec![LogReader::default(); self.miniport.node_count() as usize];
        let recording = Recording { records: VecDeque::new(), dropped: 0, readers };
        self.recorder.with(|place| *place = Some(recording));
        self.note_what_there_is();
        self.set_logging_level(LoggingLevel::VERBOSE, effects);
        Ok(())
    }

    /// How busy engines are, and the oldest records, as many as fit into a reply: first what was noted here, which names the queues
    /// that entries of trace logs are of.
    fn take_records(&self) -> TracePage {
        let now = self.hardware.gpu_clock();
        self.recorder.with(|recording| {
            let Some(recording) = recording else { return TracePage::default() };
            // For what is lost, what is dropped, and how busy each engine is.
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
                    more = self.read_trace_log(node, reader, room, now, &mut records);
                }
                let busy_time = self.hardware.busy_time(BusyOf::Engine(node));
                let time = self.hardware.gpu_clock();
                records.push(Record { time, what: What::Busy { node, busy_time } });
            }
            TracePage { records, more }
        })
    }

    /// Reads what is new in an engine's trace log, until there are `room` records. True when there is more.
    /// The order is protocol::handoff::fence_log's, as for the logs of queues.
    fn read_trace_log(
        &self,
        node: u32,
        reader: &mut LogReader,
        room: usize,
        now: u64,
        records: &mut Vec<Record>,
    ) -> bool {
        let mut more = false;
        self.hardware.with_trace_log(node, &mut |log| {
            let position = log.position();
            if !reader.is_behind(position) {
                return;
            }
            self.hardware.flush_fence_logs(&[]);
            let most = room.saturating_sub(records.len()) as u64;
            let until = reader.at_most(&log, position, most);
            let entries = reader.read_entries(&log, until, |entry| {
                records.push(self.record(node, entry));
            });
            if entries > 0 {
                records.push(Record { time: now, what: What::Lost { node, entries } });
            }
            more = reader.is_behind(position);
        });
        more
    }

    /// What an entry of a trace log says.
    fn record(&self, node: u32, entry: FenceLogEntry) -> Record {
        let FenceLogEntry { fence, fence_value: value, observed_timestamp: since, .. } = entry;
        let FenceLogEntry { queued_timestamp: queued, reserved: queue, .. } = entry;
        let object = || {
            let owner = self.queues.get(&HwQueueId(queue))?;
            let slot = self.guests.get(&owner.guest)?.fences.named_by(fence)?;
            Some(object(owner.guest, slot))
        };
        let what = match FenceLogOperation(entry.operation) {
            FenceLogOperation(EXECUTED) => What::Executed { node, queue, since, turns: value },
            FenceLogOperation::SIGNAL_EXECUTED => {
                What::Signal { queue, fence, value, queued, object: object().unwrap_or(0) }
            }
            _ => {
                let object = object().unwrap_or(0);
                What::Wait { queue, fence, value, queued, held: since, object }
            }
        };
        Record { time: entry.end_timestamp, what }
    }

    /// Notes the states that nothing has changed yet.
    fn note_what_there_is(&self) {
        self.recorder.note(|| {
            let HostClocks { monotonic, boottime, realtime } = self.hardware.host_clocks();
            What::Clock { monotonic, boottime, realtime }
        });
        let (device, _) = self.power.describe_device();
        self.recorder.device(device);
        for node in 0..self.miniport.node_count() {
            if let Some((state, _)) = self.power.describe_engine(node) {
                self.recorder.engine(node, state);
            }
        }
        for (id, owner) in &self.queues {
            owner.note(*id, &self.recorder);
            if let Some(state) = self.callbacks.state(*id) {
                self.recorder.doorbell(*id, state);
            }
        }
    }
}
