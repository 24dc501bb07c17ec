// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which devices of a group execute something.

use crate::lab::{Buffer, Gpu, Kernel, Module, Outcome, Recorder, compile_for_group};
use ash::vk;

/// Counts its invocations on each device of a group.
pub(super) struct Count<'g> {
    kernel: Kernel,
    set: vk::DescriptorSet,
    pub(super) counts: Buffer<'g>,
}

impl<'g> Count<'g> {
    pub(super) fn new(gpu: &'g Gpu<'_>) -> Outcome<Self> {
        let source = "@group(0) @binding(0) var<storage, read_write> counts: array<atomic<u32>>;
            @compute @workgroup_size(1)
            fn main(@builtin(local_invocation_index) device: u32) {
                atomicAdd(&counts[device], 1u);
            }";
        let kernel = gpu.simple(Module(&compile_for_group(source)?), 1, 0)?;
        let counts = gpu.buffer(32)?;
        let set = gpu.set(&kernel, &[counts])?;
        Ok(Self { kernel, set, counts })
    }

    /// Counts so many invocations.
    pub(super) fn dispatch(&self, commands: &Recorder<'_>, count: u32) {
        commands.bind(&self.kernel).sets(&self.kernel, &[self.set]);
        commands.dispatch(count, 1, 1).barrier();
    }

    /// What each of so many devices counted since the last call.
    pub(super) fn take(&self, devices: u32) -> Vec<u32> {
        let counted = self.counts.first(devices as usize);
        self.counts.write(&[0; 32]);
        counted
    }
}

/// A number for each of so many devices.
pub(super) fn each(devices: u32, of: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..devices).map(of).collect()
}

/// The mask of so many devices.
pub(super) const fn all(devices: u32) -> u32 {
    u32::MAX >> (32 - devices)
}
