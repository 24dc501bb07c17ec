// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Compute pipelines, and descriptor sets for them.

use super::{Buffer, Gpu, Outcome};
use ash::vk;

/// A module in SPIR-V.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module<'m>(pub(crate) &'m [u8]);

/// A module of this crate's by its name.
macro_rules! module {
    ($name:literal) => {
        $crate::lab::Module(include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/kernels/",
            $name,
            ".spv"
        )))
    };
}
pub(crate) use module;

impl Module<'_> {
    /// Its words.
    pub(crate) fn words(self) -> Vec<u32> {
        self.0.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }
}

/// A binding of a set: its number, what its descriptors are, and how many there are.
#[derive(Clone, Copy)]
pub(crate) struct Slot(pub(crate) u32, pub(crate) vk::DescriptorType, pub(crate) u32);

/// Values of specialisation constants: number, bytes.
pub(crate) type Constants<'a> = &'a [(u32, &'a [u8])];

/// A pipeline and its layout.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) pipeline: vk::Pipeline,
    pub(crate) layout: vk::PipelineLayout,
    pub(crate) sets: Vec<vk::DescriptorSetLayout>,
}

impl Gpu<'_> {
    /// A pipeline of a module whose storage buffers are the first bindings of set 0.
    pub(crate) fn simple(&self, module: Module<'_>, buffers: u32, push: u32) -> Outcome<Kernel> {
        let slots: Vec<_> =
            (0..buffers).map(|slot| Slot(slot, vk::DescriptorType::STORAGE_BUFFER, 1)).collect();
        self.kernel(module, &[&slots], push, &[])
    }

    /// A pipeline.
    pub(crate) fn kernel(
        &self,
        module: Module<'_>,
        sets: &[&[Slot]],
        push: u32,
        constants: Constants<'_>,
    ) -> Outcome<Kernel> {
        let flags = vk::DescriptorSetLayoutCreateFlags::empty();
        let layouts: Result<Vec<_>, _> =
            sets.iter().map(|slots| self.set_layout(slots, flags)).collect();
        let (layouts, cache) = (layouts?, vk::PipelineCache::null());
        self.kernel_of(module, layouts, push, constants, (cache, vk::PipelineCreateFlags::empty()))
    }

    /// A pipeline with these layouts of sets, in a cache, with these flags.
    pub(crate) fn kernel_of(
        &self,
        module: Module<'_>,
        sets: Vec<vk::DescriptorSetLayout>,
        push: u32,
        constants: Constants<'_>,
        (cache, flags): (vk::PipelineCache, vk::PipelineCreateFlags),
    ) -> Outcome<Kernel> {
        let layout = self.layout(&sets, push)?;
        let words = module.words();
        let information = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the device is open. The structures live until the call returns, and the module is valid SPIR-V.
        let shader = unsafe { self.raw.create_shader_module(&information, None) }?;
        let mut values = Vec::new();
        let entries: Vec<_> = constants
            .iter()
            .map(|(id, bytes)| {
                let entry = vk::SpecializationMapEntry::default()
                    .constant_id(*id)
                    .offset(values.len() as u32)
                    .size(bytes.len());
                values.extend_from_slice(bytes);
                entry
            })
            .collect();
        let specialisation = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(shader)
            .name(c"main")
            .specialization_info(&specialisation);
        let information =
            [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout)];
        // SAFETY: the device is open, the objects are its own, and the structures live until the call returns.
        let made = unsafe { self.raw.create_compute_pipelines(cache, &information, None) };
        // SAFETY: a pipeline needs its module no more than its creation.
        unsafe { self.raw.destroy_shader_module(shader, None) };
        let made = made.map_err(|(_, result)| result)?;
        let pipeline = made.first().copied().unwrap_or_default();
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_pipeline(pipeline, None) });
        Ok(Kernel { pipeline, layout, sets })
    }

    /// A pipeline layout.
    pub(crate) fn layout(
        &self,
        sets: &[vk::DescriptorSetLayout],
        push: u32,
    ) -> Outcome<vk::PipelineLayout> {
        let compute = vk::ShaderStageFlags::COMPUTE;
        let pushed = [vk::PushConstantRange::default().stage_flags(compute).size(push)];
        let pushed: &[_] = if push == 0 { &[] } else { &pushed };
        let information =
            vk::PipelineLayoutCreateInfo::default().set_layouts(sets).push_constant_ranges(pushed);
        // SAFETY: the device is open, the layouts are its own, and the structures live until the call returns.
        let layout = unsafe { self.raw.create_pipeline_layout(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_pipeline_layout(layout, None) });
        Ok(layout)
    }

    /// A layout of sets.
    pub(crate) fn set_layout(
        &self,
        slots: &[Slot],
        flags: vk::DescriptorSetLayoutCreateFlags,
    ) -> Outcome<vk::DescriptorSetLayout> {
        self.set_layout_with(slots, &[], flags)
    }

    /// A layout of sets, whose first bindings have these samplers for ever.
    pub(crate) fn set_layout_with(
        &self,
        slots: &[Slot],
        samplers: &[&[vk::Sampler]],
        flags: vk::DescriptorSetLayoutCreateFlags,
    ) -> Outcome<vk::DescriptorSetLayout> {
        let mut samplers = samplers.iter();
        let bindings: Vec<_> = slots
            .iter()
            .map(|Slot(number, kind, count)| {
                let binding = vk::DescriptorSetLayoutBinding::default()
                    .binding(*number)
                    .descriptor_type(*kind)
                    .descriptor_count(*count)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE);
                match samplers.next() {
                    Some(samplers) => binding.immutable_samplers(samplers),
                    None => binding,
                }
            })
            .collect();
        let late = flags.contains(vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL);
        let each = if late {
            vk::DescriptorBindingFlags::UPDATE_AFTER_BIND
                | vk::DescriptorBindingFlags::PARTIALLY_BOUND
        } else {
            vk::DescriptorBindingFlags::empty()
        };
        let each = vec![each; bindings.len()];
        let mut each =
            vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&each);
        let information = vk::DescriptorSetLayoutCreateInfo::default()
            .flags(flags)
            .bindings(&bindings)
            .push_next(&mut each);
        // SAFETY: the device is open. The structures live until the call returns.
        let layout = unsafe { self.raw.create_descriptor_set_layout(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_descriptor_set_layout(layout, None) });
        Ok(layout)
    }

    /// A pool for so many sets, and so many descriptors of each type.
    pub(crate) fn pool(
        &self,
        sets: u32,
        descriptors: u32,
        flags: vk::DescriptorPoolCreateFlags,
    ) -> Outcome<vk::DescriptorPool> {
        let kinds = [
            vk::DescriptorType::STORAGE_BUFFER,
            vk::DescriptorType::UNIFORM_BUFFER,
            vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
            vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC,
            vk::DescriptorType::SAMPLER,
            vk::DescriptorType::COMBINED_IMAGE_SAMPLER,
            vk::DescriptorType::SAMPLED_IMAGE,
            vk::DescriptorType::STORAGE_IMAGE,
            vk::DescriptorType::UNIFORM_TEXEL_BUFFER,
            vk::DescriptorType::STORAGE_TEXEL_BUFFER,
        ];
        let inputs = self.draws().then_some(vk::DescriptorType::INPUT_ATTACHMENT);
        let size = |ty| vk::DescriptorPoolSize { ty, descriptor_count: descriptors };
        let sizes: Vec<_> = kinds.into_iter().chain(inputs).map(size).collect();
        let information =
            vk::DescriptorPoolCreateInfo::default().flags(flags).max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the device is open. The structures live until the call returns.
        let pool = unsafe { self.raw.create_descriptor_pool(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_descriptor_pool(pool, None) });
        Ok(pool)
    }

    /// Sets of a pool.
    pub(crate) fn sets_of(
        &self,
        pool: vk::DescriptorPool,
        layouts: &[vk::DescriptorSetLayout],
    ) -> Result<Vec<vk::DescriptorSet>, vk::Result> {
        let information =
            vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(layouts);
        // SAFETY: pool and layouts are the device's, and this thread alone uses the pool.
        unsafe { self.raw.allocate_descriptor_sets(&information) }
    }

    /// Gives all sets of a pool back, which nothing that executes uses.
    pub(crate) fn reset_pool(&self, pool: vk::DescriptorPool) -> Outcome {
        let flags = vk::DescriptorPoolResetFlags::empty();
        self.wait_idle()?;
        // SAFETY: the device was waited for, and this thread alone uses the pool.
        Ok(unsafe { self.raw.reset_descriptor_pool(pool, flags) }?)
    }

    /// A set of a kernel's, in a pool of its own, with these buffers from binding 0 on.
    pub(crate) fn set(
        &self,
        kernel: &Kernel,
        buffers: &[Buffer<'_>],
    ) -> Outcome<vk::DescriptorSet> {
        let set = self.empty_set(kernel, 0)?;
        for (number, buffer) in (0..).zip(buffers) {
            self.write(set, number, vk::DescriptorType::STORAGE_BUFFER, &[whole(buffer)]);
        }
        Ok(set)
    }

    /// A set of a kernel's, in a pool of its own.
    pub(crate) fn empty_set(&self, kernel: &Kernel, number: usize) -> Outcome<vk::DescriptorSet> {
        let pool = self.pool(1, 16, vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND)?;
        let layout = kernel.sets.get(number).copied().unwrap_or_default();
        Ok(self.sets_of(pool, &[layout])?.first().copied().unwrap_or_default())
    }

    /// Stores descriptors, from a binding's first on.
    pub(crate) fn write(
        &self,
        set: vk::DescriptorSet,
        binding: u32,
        kind: vk::DescriptorType,
        buffers: &[vk::DescriptorBufferInfo],
    ) {
        let writes = [vk::WriteDescriptorSet::default()
            .dst_set(set)
            .dst_binding(binding)
            .descriptor_type(kind)
            .buffer_info(buffers)];
        // SAFETY: set and buffers are the device's. A set that executes is written only if its layout allows it.
        unsafe { self.raw.update_descriptor_sets(&writes, &[]) };
    }

    /// Copies so many descriptors from one binding to another.
    pub(crate) fn copy_descriptors(
        &self,
        (from, from_binding): (vk::DescriptorSet, u32),
        (to, to_binding): (vk::DescriptorSet, u32),
        count: u32,
    ) {
        let copies = [vk::CopyDescriptorSet::default()
            .src_set(from)
            .src_binding(from_binding)
            .dst_set(to)
            .dst_binding(to_binding)
            .descriptor_count(count)];
        // SAFETY: the sets are the device's, and do not execute.
        unsafe { self.raw.update_descriptor_sets(&[], &copies) };
    }

    /// A template for so many storage buffers from binding 0 on, one after the other in an array.
    pub(crate) fn template(
        &self,
        kernel: &Kernel,
        buffers: u32,
        kind: vk::DescriptorUpdateTemplateType,
    ) -> Outcome<vk::DescriptorUpdateTemplate> {
        let stride = size_of::<vk::DescriptorBufferInfo>();
        let entries: Vec<_> = (0..buffers)
            .map(|number| {
                vk::DescriptorUpdateTemplateEntry::default()
                    .dst_binding(number)
                    .descriptor_count(1)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .offset(number as usize * stride)
                    .stride(stride)
            })
            .collect();
        self.template_with(kernel, &entries, kind)
    }

    /// A template of these entries.
    pub(super) fn template_with(
        &self,
        kernel: &Kernel,
        entries: &[vk::DescriptorUpdateTemplateEntry],
        kind: vk::DescriptorUpdateTemplateType,
    ) -> Outcome<vk::DescriptorUpdateTemplate> {
        let information = vk::DescriptorUpdateTemplateCreateInfo::default()
            .descriptor_update_entries(entries)
            .template_type(kind)
            .descriptor_set_layout(kernel.sets.first().copied().unwrap_or_default())
            .pipeline_bind_point(vk::PipelineBindPoint::COMPUTE)
            .pipeline_layout(kernel.layout);
        // SAFETY: the device is open, the layouts are its own, and the structures live until the call returns.
        let template = unsafe { self.raw.create_descriptor_update_template(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe {
            device.destroy_descriptor_update_template(template, None);
        });
        Ok(template)
    }

    /// Writes a set by a template that was made for as many buffers.
    pub(crate) fn write_by<const N: usize>(
        &self,
        set: vk::DescriptorSet,
        template: vk::DescriptorUpdateTemplate,
        buffers: &[vk::DescriptorBufferInfo; N],
    ) {
        let data = std::ptr::from_ref(buffers).cast();
        // SAFETY: the template reads the array, which lives until the call returns. The set does not execute.
        unsafe { self.raw.update_descriptor_set_with_template(set, template, data) };
    }

    /// A cache of pipelines with this content.
    pub(crate) fn cache(&self, content: &[u8]) -> Outcome<vk::PipelineCache> {
        let information = vk::PipelineCacheCreateInfo::default().initial_data(content);
        // SAFETY: the device is open. The structure lives until the call returns.
        let cache = unsafe { self.raw.create_pipeline_cache(&information, None) }?;
        // SAFETY: nobody uses it when this is called.
        self.later(move |device| unsafe { device.destroy_pipeline_cache(cache, None) });
        Ok(cache)
    }

    /// The content of a cache.
    pub(crate) fn content(&self, cache: vk::PipelineCache) -> Result<Vec<u8>, vk::Result> {
        // SAFETY: the cache is the device's.
        unsafe { self.raw.get_pipeline_cache_data(cache) }
    }

    /// Adds what caches have to another.
    pub(crate) fn merge(&self, into: vk::PipelineCache, from: &[vk::PipelineCache]) -> Outcome {
        // SAFETY: the caches are the device's, and this thread alone uses them.
        Ok(unsafe { self.raw.merge_pipeline_caches(into, from) }?)
    }
}

/// A descriptor of all of a buffer.
pub(crate) fn whole(buffer: &Buffer<'_>) -> vk::DescriptorBufferInfo {
    part(buffer, 0, vk::WHOLE_SIZE)
}

/// A descriptor of a part of a buffer, in bytes.
pub(crate) fn part(buffer: &Buffer<'_>, offset: u64, range: u64) -> vk::DescriptorBufferInfo {
    vk::DescriptorBufferInfo { buffer: buffer.raw, offset, range }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_module_was_compiled_from_the_source_beside_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let sources: Vec<_> =
            files.filter(|path| path.extension() == Some("comp".as_ref())).collect();
        assert!(!sources.is_empty());
        for source in sources {
            // The compiler adds its source to a module, whole where it is short.
            let module = fs::read(source.with_extension("spv")).unwrap();
            let text = fs::read(&source).unwrap();
            let carries = module.windows(text.len()).any(|part| part == text);
            assert!(carries, "{}: run cargo xtask kernels", source.display());
        }
    }
}
