// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shaders of a storage buffer, binding 0, and of storage images behind it.

use crate::lab::{Buffer, Gpu, Kernel, Module, Outcome, Recorder, Slot, compile, shown, whole};
use ash::vk;

/// A kernel and its set.
pub(super) struct Shader {
    kernel: Kernel,
    set: vk::DescriptorSet,
}

impl Shader {
    /// A shader in WGSL. `buffer` is what its `words` are.
    pub(super) fn wgsl(
        gpu: &Gpu<'_>,
        source: &str,
        buffer: &Buffer<'_>,
        views: &[vk::ImageView],
    ) -> Outcome<Self> {
        let source = format!(
            "@group(0) @binding(0) var<storage, read_write> words: array<u32>;
            {source}"
        );
        Self::new(gpu, Module(&compile(&source)?), (buffer, views), 0)
    }

    /// A shader with so many bytes of push constants.
    pub(super) fn new(
        gpu: &Gpu<'_>,
        module: Module<'_>,
        (buffer, views): (&Buffer<'_>, &[vk::ImageView]),
        push: u32,
    ) -> Outcome<Self> {
        let (stored, image) =
            (vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::STORAGE_IMAGE);
        let mut slots = vec![Slot(0, stored, 1)];
        slots.extend((1..).zip(views).map(|(binding, _)| Slot(binding, image, 1)));
        let kernel = gpu.kernel(module, &[&slots], push, &[])?;
        let set = gpu.empty_set(&kernel, 0)?;
        gpu.write(set, 0, stored, &[whole(buffer)]);
        for (binding, view) in (1..).zip(views) {
            gpu.write_images(set, binding, image, &[shown(*view)]);
        }
        Ok(Self { kernel, set })
    }

    /// Sets push constants.
    pub(super) fn push(&self, commands: &Recorder<'_>, words: &[u32]) {
        commands.push(&self.kernel, words);
    }

    /// Dispatches work groups behind what came before.
    pub(super) fn dispatch(&self, commands: &Recorder<'_>, [x, y, z]: [u32; 3]) {
        commands.bind(&self.kernel).sets(&self.kernel, &[self.set]).barrier();
        commands.dispatch(x, y, z).barrier();
    }

    /// Dispatches work groups, and waits for them.
    pub(super) fn run(&self, gpu: &Gpu<'_>, groups: [u32; 3]) -> Outcome {
        gpu.run(|commands| self.dispatch(commands, groups))
    }
}
