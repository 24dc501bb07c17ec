// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! A command buffer that is recorded, and then run as often as wanted, one run at a time.

use super::{Called, Device, VulkanError};
use ash::vk;

/// Vulkan's value for a wait without a time-out.
const FOREVER: u64 = u64::MAX;

/// A command buffer, and the fence that tells when it is done.
pub struct CommandBuffer<'d> {
    device: &'d Device<'d>,
    pub(super) raw: vk::CommandBuffer,
    done: vk::Fence,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Recording,
    /// Recorded to its end.
    Recorded,
}

impl<'d> CommandBuffer<'d> {
    /// Makes one.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn new(device: &'d Device<'d>) -> Result<Self, VulkanError> {
        let (raw, done) = (vk::CommandBuffer::null(), vk::Fence::null());
        let mut buffer = Self { device, raw, done, state: State::Empty };
        let commands = vk::CommandBufferAllocateInfo::default()
            .command_pool(device.commands)
            .command_buffer_count(1);
        let done = vk::FenceCreateInfo::default();
        let raw = &device.raw;
        // SAFETY: the structures live until each call returns, and name live objects of this device. If the second step
        // fails, dropping the buffer destroys what the first made.
        unsafe {
            buffer.raw =
                raw.allocate_command_buffers(&commands).called("vkAllocateCommandBuffers")?[0];
            buffer.done = raw.create_fence(&done, None).called("vkCreateFence")?;
        }
        Ok(buffer)
    }

    /// Forgets what was recorded, and begins anew. From now on it uses nothing.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn begin(&mut self) -> Result<(), VulkanError> {
        let (raw, begin) = (&self.device.raw, vk::CommandBufferBeginInfo::default());
        // SAFETY: the commands are not pending: each submission is waited for. Beginning resets what was recorded to its
        // end.
        unsafe {
            if self.state == State::Recording {
                let none = vk::CommandBufferResetFlags::empty();
                raw.reset_command_buffer(self.raw, none).called("vkResetCommandBuffer")?;
            }
            self.state = State::Empty;
            raw.begin_command_buffer(self.raw, &begin).called("vkBeginCommandBuffer")?;
        }
        self.state = State::Recording;
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn end(&mut self) -> Result<(), VulkanError> {
        // SAFETY: the command buffer is being recorded.
        unsafe { self.device.raw.end_command_buffer(self.raw) }.called("vkEndCommandBuffer")?;
        self.state = State::Recorded;
        Ok(())
    }

    /// Runs what was recorded, and waits until it is done.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device is lost.
    ///
    /// # Safety
    /// Everything that the recorded commands use lives until this returns.
    pub unsafe fn run(&mut self) -> Result<(), VulkanError> {
        assert!(self.state == State::Recorded, "nothing is recorded to its end");
        let (raw, buffers, fences) = (&self.device.raw, [self.raw], [self.done]);
        let submit = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: the commands are recorded, and what they use lives, as the caller says. They are not pending: each
        // earlier submission was waited for below. Only this thread uses device and queue.
        unsafe {
            raw.queue_submit(self.device.queue, &submit, self.done).called("vkQueueSubmit")?;
            raw.wait_for_fences(&fences, true, FOREVER).called("vkWaitForFences")?;
            raw.reset_fences(&fences).called("vkResetFences")
        }
    }
}

impl Drop for CommandBuffer<'_> {
    fn drop(&mut self) {
        let raw = &self.device.raw;
        // SAFETY: nothing is pending: `run` waits. Destroying a null handle does nothing.
        unsafe {
            raw.destroy_fence(self.done, None);
            if self.raw != vk::CommandBuffer::null() {
                raw.free_command_buffers(self.device.commands, &[self.raw]);
            }
        }
    }
}
