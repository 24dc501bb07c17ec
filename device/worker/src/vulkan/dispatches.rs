// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records dispatches.

use super::{Binding, Point, Recorder, VulkanError};

/// How many work groups run.
pub enum Groups<'a, 'd> {
    /// So many in each dimension, from the first in each dimension.
    Are {
        /// The first, by dimension.
        base: [u32; 3],
        /// Their number, by dimension.
        groups: [u32; 3],
    },
    /// As many as three words in memory say.
    In(&'a Binding<'d>),
}

impl<'d> Recorder<'d> {
    /// Records work groups of the bound pipeline.
    ///
    /// A shader that follows pointers reaches all of this process's memory. The process exists to run such shaders, and
    /// contains the damage.
    ///
    /// # Errors
    /// When there are too many.
    pub fn dispatch(&mut self, groups: &Groups<'_, 'd>) -> Result<(), VulkanError> {
        if self.bound(Point::Compute).is_none() {
            return Ok(());
        }
        if let Groups::In(words) = groups {
            self.keep(words)?;
        }
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        match groups {
            Groups::Are { base: [0, 0, 0], groups: [x, y, z] } => {
                // SAFETY: the command buffer is being recorded. A pipeline is bound, and `self` keeps it and the memory of
                // its sets.
                unsafe { raw.cmd_dispatch(commands, *x, *y, *z) };
                self.has_base = false;
            }
            Groups::Are { base: [from_x, from_y, from_z], groups: [x, y, z] } => {
                // SAFETY: as above. Every pipeline is made for a base.
                unsafe {
                    raw.cmd_dispatch_base(commands, *from_x, *from_y, *from_z, *x, *y, *z);
                }
                self.has_base = true;
            }
            Groups::In(words) => {
                // SAFETY: as above. The words are in the buffer, at a multiple of 4.
                unsafe {
                    if self.has_base {
                        // Lavapipe (25.0) has an indirect dispatch begin at the first work group of the dispatch before
                        // it. One of no work groups begins at 0.
                        raw.cmd_dispatch(commands, 0, 0, 0);
                        self.has_base = false;
                    }
                    raw.cmd_dispatch_indirect(commands, words.memory.buffer, words.offset);
                }
            }
        }
        Ok(())
    }
}
