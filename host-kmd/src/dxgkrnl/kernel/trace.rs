// SPDX-License-Identifier: MIT OR Apache-2.0

//! Recordings for a tool that traces: the trace logs of engines, power, doorbells, and what CPUs do with fences.
//!
//! "When tracing is enabled, OS will first increase the size of the log buffer to prevent overruns": a queue's two
//! logs have a fixed size, so each engine gets a trace log beside them, of the size that the tool requests. It holds
//! the entries of all logs of the engine's queues.
//!
//! While no tool traces, nothing is recorded and there are no trace logs. One tool can trace at a time.
//!
//! Source: native GPU fence object, "Log buffer overrun is permitted".

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::objects::KernelObject;
use crate::dxgkrnl::object::recorder::object_of;
use crate::hardware::{EXECUTED, HostClocks, HwQueueId};
use crate::port::{CommandToken, Effect, TraceAction, TraceError};
use bellhop_protocol::control::Handle;
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogOperation};
use bellhop_protocol::trace::{Record, What};

impl Kernel {
    /// Begins, continues or ends a recording for a tool.
    pub(crate) fn trace(&mut self, token: CommandToken, action: TraceAction) {
        if let TraceAction::Begin { entries } = action
            && let Err(refused) = self.begin_trace(entries)
        {
            self.outbox.tell(Effect::Traced { token, result: Err(refused) });
            return;
        }
        let mut page = self.recorder.take(|node, entry| self.record(node, entry));
        if action == TraceAction::End {
            let left = self.recorder.end();
            if left > 0 {
                let what = What::Dropped { records: left };
                page.records.push(Record { time: self.platform.gpu_clock(), what });
            }
            page.more = false;
            self.platform.end_trace();
            self.set_logging_level(LoggingLevel::DEFAULT);
        }
        self.outbox.tell(Effect::Traced { token, result: Ok(page) });
    }

    fn begin_trace(&mut self, entries: u32) -> Result<(), TraceError> {
        if self.recorder.is_recording() {
            return Err(TraceError::Busy);
        }
        self.platform.begin_trace(entries).map_err(|full| TraceError::Full(full.0))?;
        self.recorder.begin(self.miniport.node_count());
        self.note_what_there_is();
        self.set_logging_level(LoggingLevel::VERBOSE);
        Ok(())
    }

    /// Converts an entry of a trace log to a record.
    fn record(&self, node: u32, entry: FenceLogEntry) -> Record {
        let FenceLogEntry { fence, fence_value: value, observed_timestamp: since, .. } = entry;
        let FenceLogEntry { queued_timestamp: queued, reserved: queue, .. } = entry;
        let object = || {
            let owner = self.queues.get(&HwQueueId(queue))?;
            let slot = self.guests.get(&owner.guest)?.fences.named_by(fence)?;
            Some(object_of(owner.guest, slot))
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

    /// Records all states at the beginning of a recording.
    fn note_what_there_is(&self) {
        self.recorder.note(|| {
            let HostClocks { monotonic, boottime, realtime } = self.platform.host_clocks();
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
            if let Some(guest) = self.guests.get(&owner.guest) {
                let is_named =
                    |handle: &Handle| guest.handles.name(owner.process, *handle).is_some();
                let objects = [owner.device, owner.context, owner.handle].into_iter();
                for handle in objects.filter(is_named) {
                    guest.record_name(owner.process, handle, &self.recorder);
                }
            }
            owner.note(*id, &self.recorder);
            if let Some(state) = self.callbacks.doorbells.state(*id) {
                self.recorder.doorbell(*id, state.name());
            }
        }
        // Behind the queues: however many fences a guest names, none is missing.
        for guest in self.guests.values() {
            for (process, handle, object, _) in guest.handles.named() {
                if matches!(object, KernelObject::NativeFence(_)) {
                    guest.record_name(process, handle, &self.recorder);
                }
            }
        }
    }
}
