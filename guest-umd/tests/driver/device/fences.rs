// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device's fences, and the waits for them.

use super::LAYOUT;
use super::script::Sent;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::fence::{
    FenceValue, NativeFenceMapping, OpenedFence, SignalFences, WaitFlags, WaitForFences,
};
use bellhop_protocol::control::{Handle, RequestCode};
use std::collections::BTreeMap;
use zerocopy::FromBytes;

/// Where a process finds the values of its fences on the GPU.
const FENCE_VALUES: u64 = 1 << 41;

/// A wait that is pending.
pub(super) struct Wait {
    pub(super) process: u32,
    pub(super) cookie: u64,
    any: bool,
    fences: Vec<FenceValue>,
}

impl Wait {
    pub(super) fn of(sent: &Sent) -> Self {
        let WaitForFences { cookie, flags, .. } = sent.read();
        let any = flags == WaitFlags::WAIT_ANY.bits();
        Self { process: sent.process, cookie, any, fences: sent.fences() }
    }

    /// Whether the fences that have their values, by slot and value, satisfy the wait.
    pub(super) fn is_satisfied(&self, fences: &BTreeMap<Handle, (u32, u64)>) -> bool {
        let mut reached = self.fences.iter().map(|needed| fences[&needed.fence].1 >= needed.value);
        if self.any { reached.any(|reached| reached) } else { reached.all(|reached| reached) }
    }
}

impl Sent {
    /// The fences that the request waits for or signals.
    pub fn fences(&self) -> Vec<FenceValue> {
        let list = match self.code {
            RequestCode::SIGNAL_FENCES => self.following::<SignalFences>(),
            _ => self.following::<WaitForFences>(),
        };
        let entries = list.chunks_exact(size_of::<FenceValue>());
        entries.map(|entry| FenceValue::read_from_bytes(entry).unwrap()).collect()
    }
}

/// What a driver learns about a fence.
pub(super) fn opened(fence: Handle, slot: u32) -> OpenedFence {
    let current_value_gpu_va = FENCE_VALUES + u64::from(slot) * 64;
    let mapping = NativeFenceMapping {
        current_value_offset: LAYOUT.fence(slot),
        current_value_gpu_va,
        monitored_value_gpu_va: current_value_gpu_va + PAGE_SIZE,
    };
    OpenedFence { fence, mapping, slot, reserved: 0 }
}
