// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a device says of itself, and several of them.

use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, module, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("device.version", "the device has Vulkan 1.3, and says who wrote its driver", version),
    case(
        "device.families",
        "a family of queues computes and copies, and no family does nothing",
        families,
    ),
    case(
        "device.memory-types",
        "each type of memory names a heap, and one is visible and coherent",
        memory_types,
    ),
    case("device.limits", "no limit is below what Vulkan requires of every device", limits),
    case(
        "device.features",
        "what Vulkan 1.3 requires of every device for compute is offered",
        features,
    ),
    case(
        "device.same-each-time",
        "an instance lists the same devices each time, and another instance the same names",
        same_each_time,
    ),
    case(
        "device.two",
        "two devices of a process work side by side, each with its own memory",
        two_devices,
    ),
    case("device.again", "a device may be closed and opened again, many times", again),
    case("device.two-instances", "two instances of a process work side by side", two_instances),
];

fn version(lab: &Lab) -> Outcome {
    let said = lab.description();
    require!(
        said.properties.api_version >= vk::API_VERSION_1_3,
        "the version is {:#x}",
        said.properties.api_version
    );
    require!(
        said.since_1_2.driver_name_as_c_str().is_ok_and(|name| !name.is_empty()),
        "the driver has no name"
    );
    require!(!lab.name().starts_with(','), "the device has no name");
    Ok(())
}

fn families(lab: &Lab) -> Outcome {
    let families = lab.families();
    let both = vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER;
    require!(
        families.iter().any(|family| family.queue_flags.contains(both)),
        "none of {} computes and copies",
        families.len()
    );
    require!(
        families.iter().all(|family| family.queue_count > 0 && !family.queue_flags.is_empty()),
        "one of {} does nothing",
        families.len()
    );
    Ok(())
}

fn memory_types(lab: &Lab) -> Outcome {
    let memory = lab.memory();
    let (types, heaps) = (memory.memory_types_as_slice(), memory.memory_heaps_as_slice());
    require!(
        types.iter().all(|each| (each.heap_index as usize) < heaps.len()),
        "a type's heap is none of {}",
        heaps.len()
    );
    require!(heaps.iter().all(|heap| heap.size >= 1 << 20), "a heap is tiny");
    let visible = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let has = |flags| types.iter().any(|each| each.property_flags.contains(flags));
    require!(has(visible), "no type is visible and coherent");
    require!(has(vk::MemoryPropertyFlags::DEVICE_LOCAL), "no type is the device's own");
    Ok(())
}

fn limits(lab: &Lab) -> Outcome {
    let limits = lab.description().properties.limits;
    // Vulkan 1.3, "Required Limits".
    let least = [
        ("maxStorageBufferRange", limits.max_storage_buffer_range, 1 << 27),
        ("maxUniformBufferRange", limits.max_uniform_buffer_range, 16384),
        ("maxPushConstantsSize", limits.max_push_constants_size, 128),
        ("maxMemoryAllocationCount", limits.max_memory_allocation_count, 4096),
        ("maxBoundDescriptorSets", limits.max_bound_descriptor_sets, 4),
        ("maxPerStageDescriptorStorageBuffers", limits.max_per_stage_descriptor_storage_buffers, 4),
        (
            "maxPerStageDescriptorUniformBuffers",
            limits.max_per_stage_descriptor_uniform_buffers,
            12,
        ),
        ("maxDescriptorSetStorageBuffers", limits.max_descriptor_set_storage_buffers, 24),
        ("maxComputeSharedMemorySize", limits.max_compute_shared_memory_size, 16384),
        ("maxComputeWorkGroupInvocations", limits.max_compute_work_group_invocations, 128),
        ("maxComputeWorkGroupCount", limits.max_compute_work_group_count[0], 65535),
        ("maxComputeWorkGroupSize", limits.max_compute_work_group_size[0], 128),
    ];
    for (name, offered, least) in least {
        require!(offered >= least, "{name} is {offered}, below {least}");
    }
    let aligned =
        [limits.min_storage_buffer_offset_alignment, limits.min_uniform_buffer_offset_alignment];
    require!(
        aligned.iter().all(|to| to.is_power_of_two() && *to <= 256),
        "descriptors are aligned to {aligned:?}"
    );
    require!(limits.non_coherent_atom_size.is_power_of_two(), "nonCoherentAtomSize");
    require!(limits.min_memory_map_alignment >= 64, "minMemoryMapAlignment");
    Ok(())
}

fn features(lab: &Lab) -> Outcome {
    let features = lab.features();
    let required = [
        ("timelineSemaphore", features.since_1_2.timeline_semaphore),
        ("bufferDeviceAddress", features.since_1_2.buffer_device_address),
        ("hostQueryReset", features.since_1_2.host_query_reset),
        ("vulkanMemoryModel", features.since_1_2.vulkan_memory_model),
        ("synchronization2", features.since_1_3.synchronization2),
        ("maintenance4", features.since_1_3.maintenance4),
        ("privateData", features.since_1_3.private_data),
        ("subgroupSizeControl", features.since_1_3.subgroup_size_control),
        ("computeFullSubgroups", features.since_1_3.compute_full_subgroups),
        ("pipelineCreationCacheControl", features.since_1_3.pipeline_creation_cache_control),
        (
            "shaderZeroInitializeWorkgroupMemory",
            features.since_1_3.shader_zero_initialize_workgroup_memory,
        ),
        ("shaderIntegerDotProduct", features.since_1_3.shader_integer_dot_product),
    ];
    let missing: Vec<_> = required.iter().filter(|(_, has)| *has == vk::FALSE).collect();
    require!(missing.is_empty(), "these are missing: {missing:?}");
    Ok(())
}

fn same_each_time(lab: &Lab) -> Outcome {
    same!(lab.devices()?, lab.devices()?);
    same!(Lab::open(0)?.name(), lab.name());
    Ok(())
}

/// Adds on a device, and compares.
fn adds(gpu: &crate::lab::Gpu<'_>, summand: u32) -> Outcome {
    let first: Vec<u32> = (0..100).collect();
    let second = vec![summand; 100];
    let sum = gpu.buffer(100)?;
    let kernel = gpu.simple(module!("add"), 3, 4)?;
    let set = gpu.set(&kernel, &[gpu.buffer_of(&first)?, gpu.buffer_of(&second)?, sum])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[100]).dispatch(2, 1, 1);
        commands.barrier();
    })?;
    let expected: Vec<u32> = first.iter().map(|number| number + summand).collect();
    same!(sum.read(), expected);
    Ok(())
}

fn two_devices(lab: &Lab) -> Outcome {
    let (one, two) = (lab.gpu()?, lab.gpu()?);
    adds(&one, 7)?;
    adds(&two, 8)?;
    drop(one);
    adds(&two, 9)
}

fn again(lab: &Lab) -> Outcome {
    for round in 0..8 {
        adds(&lab.gpu()?, round)?;
    }
    Ok(())
}

fn two_instances(lab: &Lab) -> Outcome {
    let other = Lab::open(0)?;
    let (one, two) = (lab.gpu()?, other.gpu()?);
    adds(&one, 1)?;
    adds(&two, 2)?;
    drop(two);
    drop(other);
    adds(&one, 3)
}
