// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Descriptor sets, from a pool that is emptied as a whole.

use super::{Binding, Called, Device, Pipeline, Sampler, Texels, View, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::{self as protocol, DescriptorKind};
use std::rc::Rc;

/// Kinds of descriptors: Vulkan's numbers are less.
const KINDS: usize = 11;

/// What is to be recorded needs at most so much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Descriptor sets.
    pub sets: u32,
    /// Descriptors in them, by Vulkan's number of the kind.
    pub(super) descriptors: [u32; KINDS],
}

impl Needs {
    /// So many sets, and so many storage buffers in them.
    pub fn storage_buffers(sets: u32, buffers: u32) -> Self {
        let mut needs = Self { sets, ..Self::default() };
        needs.descriptors[vk::DescriptorType::STORAGE_BUFFER.as_raw() as usize] = buffers;
        needs
    }

    /// Counts a set with these bindings.
    pub fn add_set(&mut self, bindings: &[protocol::Binding]) {
        self.sets += 1;
        for binding in bindings {
            if let Some(count) = self.descriptors.get_mut(kind(binding.kind).as_raw() as usize) {
                *count += binding.count;
            }
        }
    }

    /// The more of each.
    pub(super) fn max(self, other: Self) -> Self {
        let mut descriptors = self.descriptors;
        for (one, other) in descriptors.iter_mut().zip(other.descriptors) {
            *one = (*one).max(other);
        }
        Self { sets: self.sets.max(other.sets), descriptors }
    }
}

/// A descriptor set of a recorder, until it begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorSet(pub(super) vk::DescriptorSet);

/// The kind of a descriptor that offsets were added to.
pub(super) fn kind(kind: DescriptorKind) -> vk::DescriptorType {
    match kind {
        DescriptorKind::UNIFORM_BUFFER | DescriptorKind::UNIFORM_BUFFER_DYNAMIC => {
            vk::DescriptorType::UNIFORM_BUFFER
        }
        DescriptorKind::STORAGE_BUFFER_DYNAMIC => vk::DescriptorType::STORAGE_BUFFER,
        DescriptorKind(other) => vk::DescriptorType::from_raw(other as i32),
    }
}

/// What a descriptor is of.
#[derive(Clone)]
pub enum Resource<'d> {
    /// Nothing: no shader uses it.
    Nothing,
    /// A buffer.
    Buffer(Binding<'d>),
    /// A buffer of texels.
    Texels(Rc<Texels<'d>>),
    /// A view of an image, a sampler, or both.
    Image {
        /// The view.
        view: Option<Rc<View<'d>>>,
        /// The sampler.
        sampler: Option<Rc<Sampler<'d>>>,
    },
}

impl Resource<'_> {
    /// Whether a descriptor of a kind can be written with this, on a device that has null descriptors or not. There is no
    /// null descriptor of a sampler.
    fn can_be(&self, of: DescriptorKind, null: bool) -> bool {
        match self {
            Self::Nothing => null && !of.has_sampler(),
            Self::Buffer(_) | Self::Texels(_) => true,
            Self::Image { view, sampler } => {
                (!of.has_view() || null || view.is_some())
                    && (!of.has_sampler() || sampler.is_some())
            }
        }
    }

    fn buffer(&self) -> vk::DescriptorBufferInfo {
        match self {
            Self::Buffer(Binding { memory, offset, length }) => {
                let end = offset.checked_add(*length);
                assert!(end.is_some_and(|end| end <= memory.length), "outside the memory");
                vk::DescriptorBufferInfo::default()
                    .buffer(memory.buffer)
                    .offset(*offset)
                    .range(*length)
            }
            Self::Nothing | Self::Texels(_) | Self::Image { .. } => {
                vk::DescriptorBufferInfo::default().range(vk::WHOLE_SIZE)
            }
        }
    }

    fn texels(&self) -> vk::BufferView {
        match self {
            Self::Texels(texels) => texels.raw,
            Self::Nothing | Self::Buffer(_) | Self::Image { .. } => vk::BufferView::null(),
        }
    }

    fn image(&self) -> vk::DescriptorImageInfo {
        let info = vk::DescriptorImageInfo::default().image_layout(vk::ImageLayout::GENERAL);
        match self {
            Self::Image { view, sampler } => info
                .image_view(view.as_ref().map_or(vk::ImageView::null(), |view| view.raw))
                .sampler(sampler.as_ref().map_or(vk::Sampler::null(), |sampler| sampler.raw)),
            Self::Nothing | Self::Buffer(_) | Self::Texels(_) => info,
        }
    }
}

/// A pool with room for some needs.
pub(super) struct Pool<'d> {
    device: &'d Device<'d>,
    raw: vk::DescriptorPool,
}

impl<'d> Pool<'d> {
    /// Makes a pool.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn new(device: &'d Device<'d>, needs: Needs) -> Result<Self, VulkanError> {
        let size = |kind, count: u32| {
            vk::DescriptorPoolSize::default().ty(kind).descriptor_count(count.max(1))
        };
        let kinds = (0..).map(DescriptorKind).zip(needs.descriptors);
        // Offsets are added before there is a descriptor.
        let sizes = kinds.filter(|(kind, _)| !kind.is_dynamic());
        let sizes = sizes.map(|(DescriptorKind(kind), count)| {
            (vk::DescriptorType::from_raw(kind as i32), count)
        });
        let sizes: Vec<_> = sizes.map(|(kind, count)| size(kind, count)).collect();
        let pool =
            vk::DescriptorPoolCreateInfo::default().max_sets(needs.sets.max(1)).pool_sizes(&sizes);
        // SAFETY: the structures live until the call returns.
        let raw = unsafe { device.raw.create_descriptor_pool(&pool, None) };
        Ok(Self { device, raw: raw.called("vkCreateDescriptorPool")? })
    }

    /// Takes all sets back.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    ///
    /// # Safety
    /// No command buffer uses them.
    pub unsafe fn reset(&mut self) -> Result<(), VulkanError> {
        let none = vk::DescriptorPoolResetFlags::empty();
        // SAFETY: nothing uses the sets, as the caller says.
        unsafe { self.device.raw.reset_descriptor_pool(self.raw, none) }
            .called("vkResetDescriptorPool")
    }

    /// Makes a set of a pipeline's layout, with the bindings that the layout has there, and with their resources one after
    /// the other, each of its binding's kind.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn set(
        &mut self,
        pipeline: &Pipeline<'_>,
        number: usize,
        bindings: &[protocol::Binding],
        resources: &[Resource<'_>],
    ) -> Result<DescriptorSet, VulkanError> {
        let layout = pipeline.set_layouts.get(number).copied();
        let layouts = [layout.ok_or(VulkanError::Lacks("such descriptor set"))?];
        let information = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(self.raw)
            .set_layouts(&layouts);
        // SAFETY: the structures live until the call returns, and the layout as long as the pipeline.
        let set = unsafe { self.device.raw.allocate_descriptor_sets(&information) };
        let set = DescriptorSet(set.called("vkAllocateDescriptorSets")?[0]);
        let mut rest = resources;
        for binding in bindings {
            let (own, others) = rest.split_at(binding.count as usize);
            rest = others;
            self.write(set, binding, own);
        }
        Ok(set)
    }

    /// Writes the descriptors of a binding of a new set, as far as there is something to write.
    fn write(
        &self,
        DescriptorSet(set): DescriptorSet,
        binding: &protocol::Binding,
        resources: &[Resource<'_>],
    ) {
        let null = self.device.bounds.null_descriptors;
        let is_written = |resource: &Resource<'_>| resource.can_be(binding.kind, null);
        let mut element = 0;
        for run in resources.chunk_by(|one, next| is_written(one) == is_written(next)) {
            let (mut buffers, mut texels, mut images) = (Vec::new(), Vec::new(), Vec::new());
            let write = vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(binding.binding)
                .dst_array_element(element)
                .descriptor_type(kind(binding.kind));
            let write = if binding.kind.has_view() || binding.kind.has_sampler() {
                images.extend(run.iter().map(Resource::image));
                write.image_info(&images)
            } else if binding.kind.has_texels() {
                texels.extend(run.iter().map(Resource::texels));
                write.texel_buffer_view(&texels)
            } else {
                buffers.extend(run.iter().map(Resource::buffer));
                write.buffer_info(&buffers)
            };
            if run.first().is_some_and(is_written) {
                // SAFETY: the structures live until the call returns. The set is new, so no command buffer uses it, and
                // the layout has the binding, as the caller of `set` says. The recorder keeps the resources.
                unsafe { self.device.raw.update_descriptor_sets(&[write], &[]) };
            }
            element += run.len() as u32;
        }
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing is pending that uses its sets: whoever runs commands waits until they are done.
        unsafe { self.device.raw.destroy_descriptor_pool(self.raw, None) };
    }
}
