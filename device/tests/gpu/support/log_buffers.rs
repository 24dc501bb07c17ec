// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues with fence logs, and the control plane's reads of them.

use super::rig::*;
use bellhop_device::gpu::Gpu;
use bellhop_host_kmd::hardware::{
    FENCE_LOGS_SIZE, FenceLogBuffer, FenceLogContents as _, FenceLogs as _, HwQueueId, QueueLog,
    Segment, fence_log_address,
};
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogType};
use bellhop_protocol::handoff::fence_log::LogReader;

/// The log of waits.
pub const WAITS: FenceLogType = FenceLogType::WAITS;
/// The log of signals.
pub const SIGNALS: FenceLogType = FenceLogType::SIGNALS;

/// The GPU virtual address of the logs of a guest's queue.
pub const LOGS: u64 = 0x3000_0000;

/// A queue with logs, which its packets find at [`LOGS`].
pub fn logged_queue(guest: &mut Guest, node: u32) -> Queue {
    let queue = guest.queue(node);
    for log_type in [WAITS, SIGNALS] {
        let storage = fence_log_address(LAYOUT.fence_count, queue.progress, log_type);
        guest.gpu.set_fence_log(queue.id, FenceLogBuffer { log_type, storage }).unwrap();
    }
    let waits = fence_log_address(LAYOUT.fence_count, queue.progress, WAITS);
    guest.map(LOGS, Segment::Fence, waits.address, FENCE_LOGS_SIZE, false);
    queue
}

/// The entries that the control plane reads of a new log, and the number of lost ones.
pub fn read(gpu: &Gpu, queue: HwQueueId, log_type: FenceLogType) -> (Vec<FenceLogEntry>, u64) {
    let (mut entries, mut lost) = (Vec::new(), 0);
    gpu.with_fence_log(QueueLog { queue, log_type }, &mut |log| {
        let position = log.position();
        gpu.flush_fence_logs(&[queue]);
        lost = LogReader::default().read_entries(&log, position, |entry| entries.push(entry));
    })
    .unwrap();
    (entries, lost)
}

/// The entries that the control plane reads of a log without losses.
pub fn entries(gpu: &Gpu, queue: HwQueueId, log_type: FenceLogType) -> Vec<FenceLogEntry> {
    let (entries, lost) = read(gpu, queue, log_type);
    assert_eq!(lost, 0);
    entries
}
