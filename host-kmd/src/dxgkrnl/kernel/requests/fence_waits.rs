// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests with which CPUs wait for fences and signal them.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object",
//! "Synchronization issues", "DdiUpdateMonitoredValues" and "DdiUpdateCurrentValuesFromCpu".

use crate::ddi::CurrentValuesFlags;
use crate::dxgkrnl::fence::waits::{Needed, Owner, Wait};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::fences::values::check_count;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::fence::{
    CancelWait, FenceValue, SignalFences, WaitFlags, WaitForFences,
};
use std::collections::BTreeMap;

impl ProcessAccess<'_> {
    /// `D3DKMTWaitForSynchronizationObjectFromCpu`.
    pub(crate) fn wait_for_fences(
        &mut self,
        request: WaitForFences,
        list: Vec<FenceValue>,
    ) -> Handled<()> {
        check_count(request.count)?;
        let flags = WaitFlags::from_bits(request.flags)
            .ok_or(RequestError::parameter("flags", request.flags.into()))?;
        let any = flags.contains(WaitFlags::WAIT_ANY);
        let mut wait = Wait::new(self.process_id, Owner::Cpu(request.cookie), any);
        for FenceValue { fence: handle, value } in list {
            wait.add(self.cpu_fence(handle)?, Needed { handle, value });
        }
        Ok(match self.begin_wait(wait)? {
            None => Answer::Done(()),
            Some(_) => Answer::Pending,
        })
    }

    /// Cancels the oldest wait with a cookie.
    pub(crate) fn cancel_wait(&mut self, request: CancelWait) -> Handled<()> {
        let (process, cookie) = (self.process_id, request.cookie);
        if !self.with_signals(|signals| signals.cancel_wait(process, cookie))? {
            return Err(RequestError::parameter("cookie", cookie));
        }
        Ok(Answer::Done(()))
    }

    /// `D3DKMTSignalSynchronizationObjectFromCpu`: all or none.
    pub(crate) fn signal_fences(
        &mut self,
        request: SignalFences,
        list: Vec<FenceValue>,
    ) -> Handled<()> {
        check_count(request.count)?;
        zero("reserved", request.reserved)?;
        let mut values = BTreeMap::new();
        let mut signals = Vec::with_capacity(list.len());
        for FenceValue { fence: handle, value } in list {
            let slot = self.cpu_fence(handle)?;
            let fence = self.global_mut(slot)?;
            if fence.is_progress() {
                return Err(RequestError::NotSupported("signaling a progress fence from the CPU"));
            }
            if fence.is_always_signaled() {
                continue;
            }
            // "The OS synchronizes CPU side updates": the kernel makes one after the other. If an engine signals a
            // higher value meanwhile, this signal has no effect.
            let current = *values.entry(slot).or_insert(self.current_value(slot));
            if value < self.global_mut(slot)?.least(current) {
                return Err(RequestError::parameter("value", value));
            }
            values.insert(slot, value);
            signals.push((slot, (handle, value)));
        }
        for (slot, signal) in signals {
            self.recorder.cpu_signal((self.guest_id, self.process_id), slot, signal);
        }
        let flags = CurrentValuesFlags::default();
        self.with_signals(|signals| signals.update_current_values(values, flags))?;
        Ok(Answer::Done(()))
    }
}
