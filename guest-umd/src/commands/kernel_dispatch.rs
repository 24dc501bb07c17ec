// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dispatches of kernels in a command buffer. Their arguments stand at the end of the buffer's memory and grow towards
//! the packets, so that both are written, submitted and submitted again together.

use super::command_buffer::CommandBuffer;
use crate::error::Error;
use crate::kernel::arguments::Arguments;
use crate::kernel::object::Kernel;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::commands::ExecuteCommands;
use bellhop_protocol::packet::dispatch::{DispatchFlags, DispatchKernel};
use zerocopy::IntoBytes;

/// What belongs to the dispatches of a command buffer.
#[derive(Default)]
pub(super) struct Dispatches {
    /// Bytes of arguments.
    arguments: usize,
    /// The kernels, which must live until the last submission is done.
    kernels: Vec<Kernel>,
    /// Whether the next dispatch waits for those before it.
    barrier: bool,
}

impl Dispatches {
    /// Bytes of arguments at the end of the memory.
    pub(super) fn arguments(&self) -> usize {
        self.arguments
    }

    pub(super) fn clear(&mut self) {
        self.arguments = 0;
        self.kernels.clear();
        self.barrier = false;
    }
}

impl CommandBuffer {
    /// Runs a kernel of the program's own: `groups` work groups in each dimension. The arguments are copied into the
    /// buffer. It may overlap with the dispatches of kernels right before it, unless there is a [`Self::barrier`]
    /// between them; every other packet waits for it. The buffer keeps the kernel until it is reset.
    ///
    /// # Errors
    /// [`Error::KernelArguments`] if they are not those that the kernel takes; if there is no room.
    pub fn dispatch_kernel(
        &mut self,
        kernel: &Kernel,
        groups: [u32; 3],
        arguments: &Arguments,
    ) -> Result<&mut Self, Error> {
        check(kernel, arguments)?;
        let bytes = arguments.to_bytes();
        self.check_room(size_of::<DispatchKernel>() + bytes.len())?;
        let gpu_va = if bytes.is_empty() { 0 } else { self.write_behind(&bytes)? };
        self.dispatches.arguments += bytes.len();
        self.dispatch_kernel_at(kernel, groups, gpu_va)
    }

    /// As [`Self::dispatch_kernel`], with arguments that stand in memory of the program, at a GPU virtual address that
    /// is a multiple of 8: [`Arguments::to_bytes`], or what another kernel wrote there. The engine reads them before it
    /// runs the dispatches right before this one; a [`Self::nop`] between has it run those first.
    ///
    /// # Errors
    /// If there is no room.
    pub fn dispatch_kernel_at(
        &mut self,
        kernel: &Kernel,
        groups: [u32; 3],
        arguments: u64,
    ) -> Result<&mut Self, Error> {
        let flags =
            if self.dispatches.barrier { DispatchFlags::BARRIER } else { DispatchFlags::empty() };
        let packet = DispatchKernel::new(kernel.number(), groups, flags).with_arguments(
            arguments,
            kernel.push_constants(),
            kernel.descriptors(),
        );
        self.raw(packet.as_bytes())?;
        self.dispatches.barrier = false;
        let is_kept = |kept: &Kernel| kept.number() == kernel.number();
        if !self.dispatches.kernels.iter().any(is_kept) {
            self.dispatches.kernels.push(kernel.clone());
        }
        Ok(self)
    }

    /// Has the host's Vulkan execute `length` bytes of [commands](bellhop_protocol::vulkan) at `gpu_va`, both multiples of 8. Every
    /// other packet waits for it.
    ///
    /// # Errors
    /// If there is no room.
    pub fn execute_commands(&mut self, gpu_va: u64, length: u32) -> Result<&mut Self, Error> {
        self.raw(ExecuteCommands::new(gpu_va, length).as_bytes())
    }

    /// Has the next dispatch of a kernel wait until those before it are done, and see what they wrote.
    pub fn barrier(&mut self) -> &mut Self {
        self.dispatches.barrier = true;
        self
    }

    /// Names the kernels of this buffer in the error of a queue that was lost while it executed the buffer. Returns
    /// other errors as they are.
    #[must_use]
    pub fn blame(&self, error: Error) -> Error {
        let kernels = self.dispatches.kernels.iter().map(|kernel| kernel.name().to_owned());
        match error {
            Error::QueueLost { queue, fault: Some(fault) }
                if fault.opcode == Opcode::DISPATCH_KERNEL && kernels.len() > 0 =>
            {
                Error::KernelFault { queue, kernels: kernels.collect(), fault }
            }
            error => error,
        }
    }
}

/// Fails unless these are the arguments that the kernel takes.
fn check(kernel: &Kernel, arguments: &Arguments) -> Result<(), Error> {
    let takes = (kernel.push_constants() as usize, kernel.descriptors() as usize);
    let passed = (arguments.push_constants().len(), arguments.descriptors().len());
    if takes == passed {
        return Ok(());
    }
    let told = |(bytes, descriptors)| {
        format!("{bytes} bytes of push constants and {descriptors} descriptors")
    };
    let kernel = kernel.name().to_owned();
    Err(Error::KernelArguments { kernel, takes: told(takes), passed: told(passed) })
}
