// SPDX-License-Identifier: MIT OR Apache-2.0

//! Signaling fences from the CPU.

use crate::device::Device;
use crate::error::Error;
use crate::fence::list::entries;
use crate::fence::object::Fence;
use bellhop_protocol::control::fence::SignalFences;
use zerocopy::IntoBytes;

impl Device {
    /// Signals fences of this process from the CPU, all or none (`D3DKMTSignalSynchronizationObjectFromCpu`). Takes
    /// as many as [`Self::wait_for_fences`].
    ///
    /// # Errors
    /// [`Error::Refused`] if a fence already has a greater value, or is a progress fence.
    pub fn signal_fences(&self, fences: &[(&Fence, u64)]) -> Result<(), Error> {
        let list = entries(fences);
        let request = SignalFences { count: list.len() as u32, reserved: 0 };
        self.session().call_with_list(&request, list.as_bytes())
    }
}

impl Fence {
    /// Sets CurrentValue to `value` (`D3DKMTSignalSynchronizationObjectFromCpu`), and releases the CPUs and queues
    /// that wait for it.
    ///
    /// # Errors
    /// As [`Device::signal_fences`].
    pub fn signal(&self, value: u64) -> Result<(), Error> {
        self.device().signal_fences(&[(self, value)])
    }
}
