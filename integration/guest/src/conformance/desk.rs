// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process without a queue, for behaviours that make their own.

use super::behaviour::{Mismatch, require};
use super::scene::{MEMORY, Scene};
use bellhop_guest_umd::{Adapter, Allocation, Device, GpuMapping};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;

/// A process with a device and some memory, without a queue.
pub(super) struct Desk {
    // Dropped in this order.
    mapping: GpuMapping,
    pub(super) memory: Arc<Allocation>,
    pub(super) device: Device,
    pub(super) process: Adapter,
}

impl Desk {
    pub(super) fn new(scene: &Scene) -> Result<Self, Mismatch> {
        let process = scene.adapter().open_process()?;
        let device = process.create_device()?;
        let memory = device.create_allocation(AllocationKind::SYSTEM, MEMORY)?;
        let mapping = memory.map(Protection::WRITE)?;
        Ok(Self { mapping, memory, device, process })
    }

    pub(super) fn word(&self, offset: usize) -> Result<u64, Mismatch> {
        let mut bytes = [0; 8];
        self.memory.read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn va(&self, offset: u64) -> u64 {
        self.mapping.gpu_va() + offset
    }

    pub(super) fn expect_word(&self, offset: usize, expected: u64) -> Result<(), Mismatch> {
        let word = self.word(offset)?;
        require!(word == expected, "{word:#x} at {offset:#x}, not {expected:#x}");
        Ok(())
    }
}
