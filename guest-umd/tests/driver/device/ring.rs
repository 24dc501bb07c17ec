// SPDX-License-Identifier: MIT OR Apache-2.0

//! A ring, from the device's side.

use super::ScriptedDevice;
use bellhop_protocol::handoff::doorbell::RingPointers;
use bellhop_protocol::ring::{READ_POINTER_OFFSET, WRITE_POINTER_OFFSET};
use std::sync::atomic::Ordering;

/// A ring as the device sees it.
pub struct DeviceRing<'a> {
    pub(super) device: &'a ScriptedDevice,
    pub(super) buffer: u64,
    pub size: u64,
    pub(super) control: u64,
}

impl DeviceRing<'_> {
    pub fn pointers(&self) -> RingPointers<'_> {
        RingPointers::new(
            self.device.word(self.control + WRITE_POINTER_OFFSET),
            self.device.word(self.control + READ_POINTER_OFFSET),
        )
    }

    /// Bytes from `position` on, around the ring's end.
    pub fn read(&self, position: u64, length: usize) -> Vec<u8> {
        let place = |unit: usize| self.buffer + (position + unit as u64 * 8) % self.size;
        let units = 0..length.div_ceil(8);
        let unit = |unit| self.device.word(place(unit)).load(Ordering::Relaxed).to_le_bytes();
        units.flat_map(unit).take(length).collect()
    }
}
