// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the GPUs of a queue wait for each other. Each has a fence of its own for that, which it signals when it is there; then it
//! waits for those of the others.

use crate::device::Device;
use bellhop_guest_umd::{Error, Fence};
use std::sync::atomic::{AtomicU64, Ordering};

/// The meetings of a queue.
#[derive(Default)]
pub(super) struct Meetings {
    /// By device index; none where there is one GPU.
    fences: Vec<Fence>,
    /// How many meetings there were.
    count: AtomicU64,
}

impl Meetings {
    /// Those of a queue of a device: none yet.
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        let count = device.gpus.count();
        let fences = (0..count).filter(|_| count > 1).map(|_| device.gpu.create_fence(0));
        Ok(Self { fences: fences.collect::<Result<_, _>>()?, count: AtomicU64::new(0) })
    }

    /// The value that the fences of those who come get at the next one. Vulkan has one thread submit at a time.
    pub(super) fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// The slots of the fences, by device index.
    pub(super) fn slots(&self) -> Vec<u32> {
        self.fences.iter().map(Fence::slot).collect()
    }
}
