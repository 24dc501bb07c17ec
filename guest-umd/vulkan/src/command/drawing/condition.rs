// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Conditions of what is drawn.

use super::super::buffer::CommandBuffer;
use super::super::drawn::{Condition, Scene};
use super::super::recording::Recording;
use super::super::stream::HEADER;
use super::draws::address;
use ash::vk;
use bellhop_protocol::vulkan::EndConditional;

impl Recording {
    pub(super) fn begin_condition(&mut self, address: u64, is_inverted: bool) {
        let is_inside = self.views().is_some();
        if !is_inside {
            // It is in the chunk in which it ends.
            self.hold();
        }
        let condition = Condition { address, is_inverted, is_inside };
        self.drawing().condition = Some(condition);
        self.begin_conditional(condition);
    }

    pub(super) fn end_condition(&mut self) {
        if self.drawing().condition.take().is_some() {
            self.push(0, EndConditional { header: HEADER }, []);
            if matches!(self.scene(), Scene::Outside) {
                self.let_go();
            }
        }
    }
}

unsafe extern "system" fn begin(
    buffer: vk::CommandBuffer,
    information: *const vk::ConditionalRenderingBeginInfoEXT<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let information = &*information;
        let inverted = vk::ConditionalRenderingFlagsEXT::INVERTED;
        let address = address(information.buffer, information.offset);
        let recording = CommandBuffer::record(buffer);
        recording.begin_condition(address, information.flags.contains(inverted));
    }
}

unsafe extern "system" fn end(buffer: vk::CommandBuffer) {
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.end_condition();
}

crate::entry::entry_points! {
    vkCmdBeginConditionalRenderingEXT = begin,
    vkCmdEndConditionalRenderingEXT = end,
}
