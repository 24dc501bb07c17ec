//! What is recorded for a tool that traces: fences from the logs, power and doorbells as they change.
//!
//! Nothing is recorded, and no log is read for it, while nobody traces. One tool does at a time.

use super::doorbell::DoorbellState;
use super::inspect::state_name;
use super::kernel::Kernel;
use crate::hardware::{Hardware, HwQueueId};
use crate::port::{CommandToken, Effect, TraceAction, TraceError, TracePage};
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogType};
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

    /// An entry of a queue's log.
    pub(super) fn entry(&self, queue: HwQueueId, log_type: FenceLogType, entry: FenceLogEntry) {
        let FenceLogEntry { fence, fence_value: value, end_timestamp, .. } = entry;
        let queue = queue.0;
        let what = match log_type {
            FenceLogType::SIGNALS => {
                What::Signal { queue, fence, value, queued: entry.queued_timestamp }
            }
            _ => What::Wait { queue, fence, value, held: entry.observed_timestamp },
        };
        self.note_at(end_timestamp, what);
    }

    /// Entries of a queue's log were overwritten.
    pub(super) fn lost(&self, queue: HwQueueId, entries: u64) {
        self.note(|| What::Lost { queue: queue.0, entries });
    }

    /// The oldest records, as many as fit into a reply.
    fn take(&self) -> TracePage {
        let now = self.hardware.gpu_clock();
        self.with(|recording| {
            let Some(Recording { records, dropped }) = recording else {
                return TracePage::default();
            };
            let count = records.len().min(MAX_TRACE_RECORDS - 1);
            let mut taken: Vec<_> = records.drain(..count).collect();
            let more = !records.is_empty();
            if !more && *dropped > 0 {
                let what = What::Dropped { records: std::mem::take(dropped) };
                taken.push(Record { time: now, what });
            }
            TracePage { records: taken, more }
        })
    }
}

impl Kernel {
    /// Begins, goes on or ends to record, for the one who traces.
    pub(super) fn trace(
        &mut self,
        token: CommandToken,
        action: TraceAction,
        effects: &mut Vec<Effect>,
    ) {
        if action == TraceAction::Begin {
            if self.recorder.is_recording() {
                effects.push(Effect::Traced { token, result: Err(TraceError::Busy) });
                return;
            }
            let recording = Recording { records: VecDeque::new(), dropped: 0 };
            self.recorder.with(|place| *place = Some(recording));
            self.note_what_there_is();
            self.set_logging_level(LoggingLevel::VERBOSE, effects);
        }
        self.drain_logs(effects);
        let mut page = self.recorder.take();
        if action == TraceAction::End {
            let left = self.recorder.with(Option::take).map_or(0, |left| left.records.len());
            if left > 0 {
                let what = What::Dropped { records: left as u64 };
                page.records.push(Record { time: self.hardware.gpu_clock(), what });
                page.more = false;
            }
            self.set_logging_level(LoggingLevel::DEFAULT, effects);
        }
        effects.push(Effect::Traced { token, result: Ok(page) });
    }

    /// Notes the states that nothing has changed yet.
    fn note_what_there_is(&self) {
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

    /// Reads what is new in the logs of all queues. Whom that shows to be satisfied is told where interrupts
    /// rely on it.
    fn drain_logs(&mut self, effects: &mut Vec<Effect>) {
        if !self.recorder.is_recording() {
            return;
        }
        for node in 0..self.miniport.node_count() {
            self.fences_logged(node, None, effects);
        }
    }
}
