// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fence logs of a HW queue, shared by its engine and the control plane.

use crate::gpu::memory::region::Region;
use crate::gpu::memory::words::Words;
use bellhop_protocol::fence_log::{FENCE_LOG_SIZE, FenceLogType};
use bellhop_protocol::handoff::fence_log::FenceLog;
use std::sync::OnceLock;

/// The logs of a HW queue. A queue of a system context has none, because it has no fences.
#[derive(Debug, Default)]
pub struct FenceLogs {
    waits: OnceLock<Words>,
    signals: OnceLock<Words>,
}

impl FenceLogs {
    fn place(&self, log_type: FenceLogType) -> &OnceLock<Words> {
        if log_type == FenceLogType::WAITS { &self.waits } else { &self.signals }
    }

    /// Control plane: gives the queue a log at this offset of a mapping, once. Returns false if the queue has one,
    /// or if it exceeds the mapping.
    pub fn set(&self, log_type: FenceLogType, region: Region, offset: u64) -> bool {
        let count = FENCE_LOG_SIZE as usize / size_of::<u64>();
        let Some(words) = Words::new(region, offset, count) else { return false };
        if let Some(log) = FenceLog::new(words.get()) {
            let log: FenceLog<'_> = log;
            log.reset(log_type);
        }
        // Releases the empty log to `get`.
        self.place(log_type).set(words).is_ok()
    }

    /// One of the logs.
    #[inline]
    pub fn get(&self, log_type: FenceLogType) -> Option<FenceLog<'_>> {
        FenceLog::new(self.place(log_type).get()?.get())
    }
}
