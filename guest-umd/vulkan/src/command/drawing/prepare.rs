// SPDX-License-Identifier: MIT OR Apache-2.0

//! Draws: each is preceded by what the host was not told yet.

use super::super::drawn::stale;
use super::super::recording::Recording;
use crate::device::DeviceMask;
use bellhop_protocol::vulkan::Encoded;
use std::mem;

impl Recording {
    /// Draws.
    #[inline]
    pub(super) fn draw<C: Encoded + Copy>(&mut self, argument: u32, command: C) {
        if (self.stale != 0 || self.stream.is_full()) && !self.prepare(argument, command) {
            return;
        }
        self.push(argument, command, []);
    }

    /// Tells the host what it was not told. Returns whether the draw is still to be recorded.
    #[cold]
    #[inline(never)]
    fn prepare<C: Encoded + Copy>(&mut self, argument: u32, command: C) -> bool {
        if self.stream.is_full() {
            self.make_room();
        }
        if self.stale & stale::APART != 0 {
            self.draw_apart(argument, command);
            return false;
        }
        let outcome = self.tell();
        let is_told = outcome.is_ok();
        self.note(outcome);
        is_told
    }

    /// Draws with a pipeline that is another one on each GPU.
    fn draw_apart<C: Encoded + Copy>(&mut self, argument: u32, command: C) {
        let Some(program) = self.drawing().program.as_mut() else { return };
        let (first, others) = (program.address, mem::take(&mut program.others));
        let devices = self.stream.devices();
        for (device, address) in (0..DeviceMask::BITS).zip([&[first], &others[..]].concat()) {
            let device = devices & 1 << device;
            if device == 0 {
                continue;
            }
            self.set_devices(device);
            // For these GPUs it is the only one.
            if let Some(program) = &mut self.drawing().program {
                program.address = address;
            }
            self.stale = self.stale & !stale::APART | stale::BOUND;
            self.draw(argument, command);
        }
        self.set_devices(devices);
        if let Some(program) = &mut self.drawing().program {
            (program.address, program.others) = (first, others);
        }
        self.stale |= stale::APART | stale::BOUND;
    }
}
