// SPDX-License-Identifier: MIT OR Apache-2.0

//! An image that is looked at, with all that a shader needs for it.

use super::model::{Edge, FORM, levels};
use super::probe::{EXACT, LOD, Place, SLOTS, colours, near, plain, words};
use crate::lab::{Buffer, Bundle, Gpu, Kernel, Outcome, Recorder, module, sampled, whole};
use ash::vk;
use ash::vk::DescriptorSetLayoutCreateFlags as Flags;

const EDGE: Edge = Edge { mode: vk::SamplerAddressMode::CLAMP_TO_EDGE, border: [0.0; 4] };
const PLACES: [Place; 2] = [[0.3, 0.7, 0.0, 0.0], [0.9, 0.1, 1.0, 0.0]];

/// A kernel, and all that it takes.
pub(super) struct Scene<'g> {
    pub(super) kernel: Kernel,
    pub(super) result: Buffer<'g>,
    pub(super) bundle: Bundle,
}

impl<'g> Scene<'g> {
    pub(super) fn new(
        gpu: &'g Gpu<'_>,
        flags: Flags,
        immutable: &[&[vk::Sampler]],
    ) -> Outcome<Self> {
        let layout = gpu.set_layout_with(&SLOTS, immutable, flags)?;
        let none = (vk::PipelineCache::null(), vk::PipelineCreateFlags::empty());
        let kernel = gpu.kernel_of(module!("sample"), vec![layout], 4, &[], none)?;
        let view = gpu.view(gpu.image_of(FORM, &levels())?.look(vk::ImageViewType::TYPE_2D))?;
        let (from, result) = (gpu.buffer_of(&words(&PLACES))?, gpu.buffer(8)?);
        let buffers = [whole(&from), whole(&result)];
        let bundle = Bundle { image: sampled(view, gpu.sampler(plain())?), buffers };
        Ok(Self { kernel, result, bundle })
    }

    pub(super) fn dispatch(&self, commands: &Recorder<'_>) {
        commands.bind(&self.kernel).push(&self.kernel, &[LOD]).dispatch(2, 1, 1).barrier();
    }

    pub(super) fn is_right(&self) -> Outcome {
        let expected = PLACES.map(|[u, v, lod, _]| EDGE.nearest(lod as u32, [u, v]));
        near(&colours(&self.result.read()), &expected, EXACT)
    }
}
