// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Descriptor sets, from a pool that is emptied as a whole.

use super::{Binding, Called, Device, Pipeline, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::{self as protocol, DescriptorKind};

/// What is to be recorded needs at most so much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Descriptor sets.
    pub sets: u32,
    /// Descriptors of storage buffers in them.
    pub storage: u32,
    /// Descriptors of uniform buffers in them.
    pub uniform: u32,
    /// Timestamps.
    pub timestamps: u32,
}

impl Needs {
    /// Counts a set with these bindings.
    pub fn add_set(&mut self, bindings: &[protocol::Binding]) {
        self.sets += 1;
        for binding in bindings {
            if kind(binding.kind) == vk::DescriptorType::UNIFORM_BUFFER {
                self.uniform += binding.count;
            } else {
                self.storage += binding.count;
            }
        }
    }

    /// The more of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            sets: self.sets.max(other.sets),
            storage: self.storage.max(other.storage),
            uniform: self.uniform.max(other.uniform),
            timestamps: self.timestamps.max(other.timestamps),
        }
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
        _ => vk::DescriptorType::STORAGE_BUFFER,
    }
}

impl Device<'_> {
    /// The flags of every binding: not all of its descriptors need be written, if the device can.
    pub(super) fn binding_flags(&self) -> vk::DescriptorBindingFlags {
        if self.bounds.partially_bound {
            vk::DescriptorBindingFlags::PARTIALLY_BOUND
        } else {
            vk::DescriptorBindingFlags::empty()
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
        let sizes = [
            size(vk::DescriptorType::STORAGE_BUFFER, needs.storage),
            size(vk::DescriptorType::UNIFORM_BUFFER, needs.uniform),
        ];
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

    /// Makes a set of a pipeline's layout, with the bindings that the layout has there, and with their buffers one after
    /// the other; `None` for what no shader uses.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn set(
        &mut self,
        pipeline: &Pipeline<'_>,
        number: usize,
        bindings: &[protocol::Binding],
        buffers: &[Option<Binding<'_>>],
    ) -> Result<DescriptorSet, VulkanError> {
        let layout = pipeline.set_layouts.get(number).copied();
        let layouts = [layout.ok_or(VulkanError::Lacks("such descriptor set"))?];
        let information = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(self.raw)
            .set_layouts(&layouts);
        let infos: Vec<_> = buffers.iter().map(|buffer| information_of(buffer.as_ref())).collect();
        let can_be_null = self.device.bounds.null_descriptors;
        let is_written =
            |info: &vk::DescriptorBufferInfo| can_be_null || info.buffer != vk::Buffer::null();
        // SAFETY: the structures live until the call returns, and the layout as long as the pipeline.
        let set = unsafe { self.device.raw.allocate_descriptor_sets(&information) };
        let set = set.called("vkAllocateDescriptorSets")?[0];
        let mut writes = Vec::with_capacity(bindings.len());
        let mut rest = &infos[..];
        for binding in bindings {
            let (own, others) = rest.split_at(binding.count as usize);
            rest = others;
            let mut element = 0;
            for run in own.chunk_by(|one, next| is_written(one) == is_written(next)) {
                if is_written(&run[0]) {
                    writes.push(
                        vk::WriteDescriptorSet::default()
                            .dst_set(set)
                            .dst_binding(binding.binding)
                            .dst_array_element(element)
                            .descriptor_type(kind(binding.kind))
                            .buffer_info(run),
                    );
                }
                element += run.len() as u32;
            }
        }
        // SAFETY: the structures live until the call returns. The set is new, so no command buffer uses it, and the
        // layout has the bindings, as the caller says. The recorder keeps the buffers.
        unsafe { self.device.raw.update_descriptor_sets(&writes, &[]) };
        Ok(DescriptorSet(set))
    }
}

fn information_of(buffer: Option<&Binding<'_>>) -> vk::DescriptorBufferInfo {
    match buffer {
        Some(Binding { memory, offset, length }) => {
            let end = offset.checked_add(*length);
            assert!(end.is_some_and(|end| end <= memory.length), "outside the memory");
            vk::DescriptorBufferInfo::default().buffer(memory.buffer).offset(*offset).range(*length)
        }
        None => vk::DescriptorBufferInfo::default().range(vk::WHOLE_SIZE),
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing is pending that uses its sets: whoever runs commands waits until they are done.
        unsafe { self.device.raw.destroy_descriptor_pool(self.raw, None) };
    }
}
