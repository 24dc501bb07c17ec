// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptor sets, layouts, pools and templates.

use crate::case::{Case, case};
use crate::lab::{
    Buffer, Failure, Gpu, Kernel, Lab, Outcome, Slot, module, part, require, same, whole,
};
use ash::vk;

mod nothing;

pub(super) use nothing::CASES as NOTHING;

pub(super) const CASES: &[Case] = &[
    case(
        "set.several",
        "a shader takes buffers from four sets, with gaps between their bindings",
        several,
    ),
    case("set.rebound", "a set that is bound later replaces that set alone", rebound),
    case(
        "set.dynamic-offsets",
        "dynamic offsets move descriptors, in the order of sets and bindings",
        dynamic_offsets,
    ),
    case("set.part-of-a-buffer", "a descriptor of a part begins and ends there", part_of_a_buffer),
    case("set.array", "a shader chooses from an array of descriptors", array),
    case(
        "set.array-across-bindings",
        "a write that is longer than a binding goes on in the next",
        across_bindings,
    ),
    case("set.copied", "descriptors are copied from set to set", copied),
    case("set.template", "a template writes a set from an array", template),
    case("set.pushed", "pushed descriptors are what they were when they were recorded", pushed),
    case("set.pushed-by-template", "a template pushes descriptors", pushed_by_template),
    case(
        "set.updated-between",
        "a set that is updated between two submissions is used as it is at each",
        updated_between,
    ),
    case(
        "set.updated-after-bind",
        "a set is updated after it was bound, and before it is submitted",
        updated_after_bind,
    ),
    case(
        "set.pool-exhausted",
        "a pool gives as many sets as it has, and all again once it is reset",
        pool_exhausted,
    ),
    case("set.many", "1,000 sets are alive at once, each with its own buffer", many),
];

const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;
const UNIFORM: vk::DescriptorType = vk::DescriptorType::UNIFORM_BUFFER;

/// The layouts of `several_sets`, with these types in place of plain ones.
fn of_several(
    gpu: &Gpu<'_>,
    storage: vk::DescriptorType,
    uniform: vk::DescriptorType,
) -> Outcome<Kernel> {
    let sets: [&[Slot]; 4] = [
        &[Slot(0, storage, 1)],
        &[Slot(0, uniform, 1), Slot(7, storage, 1)],
        &[Slot(3, uniform, 1)],
        &[Slot(1, storage, 1)],
    ];
    gpu.kernel(module!("several_sets"), &sets, 0, &[])
}

fn several(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = of_several(&gpu, STORAGE, UNIFORM)?;
    let (first, second) = (gpu.buffer_of(&[2; 32])?, gpu.buffer_of(&[3; 32])?);
    let (scale, offset) = (gpu.buffer_of(&[9, 10, 9, 100])?, gpu.buffer_of(&[9, 9, 5000, 9])?);
    let result = gpu.buffer(32)?;
    let sets =
        sets_of_several(&gpu, &kernel, [STORAGE, UNIFORM], [first, scale, second, offset, result])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &sets).dispatch(2, 1, 1).barrier();
    })?;
    same!(result.read(), vec![5320; 32]);
    Ok(())
}

/// Sets for `several_sets`, with all of each buffer.
fn sets_of_several(
    gpu: &Gpu<'_>,
    kernel: &Kernel,
    [storage, uniform]: [vk::DescriptorType; 2],
    [first, scale, second, offset, result]: [Buffer<'_>; 5],
) -> Outcome<Vec<vk::DescriptorSet>> {
    let sets: Outcome<Vec<_>> = (0..4).map(|number| gpu.empty_set(kernel, number)).collect();
    let sets = sets?;
    let places = [
        (0, 0, storage, first),
        (1, 0, uniform, scale),
        (1, 7, storage, second),
        (2, 3, uniform, offset),
        (3, 1, storage, result),
    ];
    for (set, binding, kind, buffer) in places {
        // What is moved has an end of its own.
        let range = if kind == vk::DescriptorType::STORAGE_BUFFER_DYNAMIC
            || kind == vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC
        {
            part(&buffer, 0, 64)
        } else {
            whole(&buffer)
        };
        if let Some(set) = sets.get(set) {
            gpu.write(*set, binding, kind, &[range]);
        }
    }
    Ok(sets)
}

fn rebound(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = of_several(&gpu, STORAGE, UNIFORM)?;
    let (ones, twos) = (gpu.buffer_of(&[1; 16])?, gpu.buffer_of(&[2; 16])?);
    let (scale, offset) = (gpu.buffer_of(&[0, 10, 0, 100])?, gpu.buffer_of(&[0; 4])?);
    let (before, after) = (gpu.buffer(16)?, gpu.buffer(16)?);
    let kinds = [STORAGE, UNIFORM];
    let sets = sets_of_several(&gpu, &kernel, kinds, [ones, scale, twos, offset, before])?;
    let others = sets_of_several(&gpu, &kernel, kinds, [twos, scale, ones, offset, after])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &sets).dispatch(1, 1, 1);
        // The first and the last are replaced.
        commands.sets_from(&kernel, 0, others.get(..1).unwrap_or_default(), &[]);
        commands.sets_from(&kernel, 3, others.get(3..).unwrap_or_default(), &[]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!([before.word(5), after.word(5)], [210, 220]);
    Ok(())
}

fn dynamic_offsets(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (storage, uniform) =
        (vk::DescriptorType::STORAGE_BUFFER_DYNAMIC, vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC);
    let kernel = of_several(&gpu, storage, uniform)?;
    // Each part of 256 bytes has its own number, and offsets of that are aligned on every device.
    let parts =
        |numbers: [u32; 4]| numbers.iter().flat_map(|number| [*number; 64]).collect::<Vec<_>>();
    let first = gpu.buffer_of(&parts([1, 2, 3, 4]))?;
    let scale = gpu.buffer_of(&parts([10, 20, 30, 40]))?;
    let second = gpu.buffer_of(&parts([5, 6, 7, 8]))?;
    let offset = gpu.buffer_of(&parts([100, 200, 300, 400]))?;
    let result = gpu.buffer(256)?;
    let buffers = [first, scale, second, offset, result];
    let sets = sets_of_several(&gpu, &kernel, [storage, uniform], buffers)?;
    gpu.run(|commands| {
        commands.bind(&kernel);
        commands.sets_from(&kernel, 0, &sets, &[256, 512, 768, 0, 0]).dispatch(1, 1, 1);
        commands.sets_from(&kernel, 0, &sets, &[0, 0, 256, 768, 512]).dispatch(1, 1, 1);
        commands.barrier();
    })?;
    let seen = result.read();
    let of_part =
        |number: usize| seen.get(number * 64..number * 64 + 16).unwrap_or_default().to_vec();
    same!(of_part(0), vec![2 * 30 + 8 * 30 + 100; 16]);
    same!(of_part(2), vec![10 + 6 * 10 + 400; 16]);
    same!([of_part(1), of_part(3)], [vec![0; 16], vec![0; 16]]);
    Ok(())
}

fn part_of_a_buffer(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel =
        gpu.kernel(module!("array"), &[&[Slot(0, STORAGE, 4), Slot(1, STORAGE, 1)]], 16, &[])?;
    let numbers = gpu.buffer_of(&(0..512).collect::<Vec<_>>())?;
    let result = gpu.buffer(4)?;
    let set = gpu.empty_set(&kernel, 0)?;
    let parts = [(0, 4), (256, 40), (512, 256), (1024, vk::WHOLE_SIZE)];
    let parts = parts.map(|(offset, range)| part(&numbers, offset, range));
    gpu.write(set, 0, STORAGE, &parts);
    gpu.write(set, 1, STORAGE, &[whole(&result)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[0, 1, 2, 3]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    // A part's first number, and how many there are.
    same!(result.read(), vec![1, 64 + 10, 128 + 64, 256 + 256]);
    Ok(())
}

/// The kernel that chooses from an array, and four buffers of one number.
fn choosing<'g>(gpu: &'g Gpu<'_>) -> Outcome<(Kernel, Vec<Buffer<'g>>, Buffer<'g>)> {
    let slots = [Slot(0, STORAGE, 4), Slot(1, STORAGE, 1)];
    let kernel = gpu.kernel(module!("array"), &[&slots], 16, &[])?;
    let parts: Outcome<Vec<_>> = (1..5).map(|number| gpu.buffer_of(&[number * 10])).collect();
    Ok((kernel, parts?, gpu.buffer(4)?))
}

fn array(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (kernel, parts, result) = choosing(&gpu)?;
    let set = gpu.empty_set(&kernel, 0)?;
    gpu.write(set, 0, STORAGE, &parts.iter().map(whole).collect::<Vec<_>>());
    gpu.write(set, 1, STORAGE, &[whole(&result)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[3, 0, 2, 0]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(result.read(), vec![41, 11, 31, 11]);
    Ok(())
}

fn across_bindings(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (kernel, parts, result) = choosing(&gpu)?;
    let set = gpu.empty_set(&kernel, 0)?;
    let all: Vec<_> = parts.iter().chain([&result]).map(whole).collect();
    gpu.write(set, 0, STORAGE, &all);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[0, 1, 2, 3]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(result.read(), vec![11, 21, 31, 41]);
    Ok(())
}

fn copied(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (kernel, parts, result) = choosing(&gpu)?;
    let (set, copy) = (gpu.empty_set(&kernel, 0)?, gpu.empty_set(&kernel, 0)?);
    gpu.write(set, 0, STORAGE, &parts.iter().map(whole).collect::<Vec<_>>());
    gpu.write(set, 1, STORAGE, &[whole(&result)]);
    gpu.copy_descriptors((set, 0), (copy, 0), 4);
    gpu.copy_descriptors((set, 1), (copy, 1), 1);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[copy]).push(&kernel, &[1, 1, 3, 0]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(result.read(), vec![21, 21, 41, 11]);
    Ok(())
}

/// Three buffers for `add`: 30 numbers, what is added to each, and where the sums go.
fn to_add<'g>(gpu: &'g Gpu<'_>, summand: u32) -> Outcome<[Buffer<'g>; 3]> {
    let numbers: Vec<u32> = (0..30).collect();
    Ok([gpu.buffer_of(&numbers)?, gpu.buffer_of(&[summand; 30])?, gpu.buffer(30)?])
}

fn added(summand: u32) -> Vec<u32> {
    (0..30).map(|number| number + summand).collect()
}

fn template(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("add"), 3, 4)?;
    let kind = vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET;
    let template = gpu.template(&kernel, 3, kind)?;
    let buffers = to_add(&gpu, 50)?;
    let set = gpu.empty_set(&kernel, 0)?;
    gpu.write_by(set, template, &buffers.map(|buffer| whole(&buffer)));
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[30]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(buffers[2].read(), added(50));
    Ok(())
}

/// `add` with pushed descriptors.
fn pushing(lab: &Lab, gpu: &Gpu<'_>) -> Outcome<Kernel> {
    if !lab.has(ash::khr::push_descriptor::NAME)? {
        return Err(Failure::not_offered("VK_KHR_push_descriptor"));
    }
    let slots = [0, 1, 2].map(|number| Slot(number, STORAGE, 1));
    let layout = gpu.set_layout(&slots, vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR)?;
    let none = (vk::PipelineCache::null(), vk::PipelineCreateFlags::empty());
    gpu.kernel_of(module!("add"), vec![layout], 4, &[], none)
}

fn pushed(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = pushing(lab, &gpu)?;
    let all = [to_add(&gpu, 1)?, to_add(&gpu, 2)?, to_add(&gpu, 3)?];
    gpu.run(|commands| {
        commands.bind(&kernel).push(&kernel, &[30]);
        for buffers in &all {
            commands.push_buffers(&kernel, &buffers.map(|buffer| whole(&buffer)));
            commands.dispatch(1, 1, 1);
        }
        // The others stay.
        commands.barrier().push_buffers(&kernel, &[whole(&all[0][2])]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(all[0][2].read(), added(1));
    same!(all[1][2].read(), added(2));
    require!(all[2][2].read().len() == 30, "a buffer is short");
    Ok(())
}

fn pushed_by_template(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = pushing(lab, &gpu)?;
    let kind = vk::DescriptorUpdateTemplateType::PUSH_DESCRIPTORS_KHR;
    let template = gpu.template(&kernel, 3, kind)?;
    let (one, two) = (to_add(&gpu, 11)?, to_add(&gpu, 12)?);
    gpu.run(|commands| {
        commands.bind(&kernel).push(&kernel, &[30]);
        for buffers in [&one, &two] {
            commands.push_by(&kernel, template, &buffers.map(|buffer| whole(&buffer)));
            commands.dispatch(1, 1, 1);
        }
        commands.barrier();
    })?;
    same!(one[2].read(), added(11));
    same!(two[2].read(), added(12));
    Ok(())
}

fn updated_between(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let kernel = gpu.simple(module!("add"), 3, 4)?;
    let (one, two) = (to_add(&gpu, 3)?, to_add(&gpu, 4)?);
    let set = gpu.set(&kernel, &one)?;
    let submit = |buffers: &[Buffer<'_>; 3]| -> Outcome {
        for (number, buffer) in (0..).zip(buffers) {
            gpu.write(set, number, STORAGE, &[whole(buffer)]);
        }
        let commands = gpu.record(queue, |commands| {
            commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[30]);
            commands.dispatch(1, 1, 1).barrier();
        })?;
        Ok(gpu.finish(queue, &[commands])?)
    };
    submit(&one)?;
    submit(&two)?;
    same!(one[2].read(), added(3));
    same!(two[2].read(), added(4));
    Ok(())
}

fn updated_after_bind(lab: &Lab) -> Outcome {
    let features = lab.features().since_1_2;
    if features.descriptor_binding_storage_buffer_update_after_bind == vk::FALSE
        || features.descriptor_binding_partially_bound == vk::FALSE
    {
        return Err(Failure::not_offered("descriptorBindingStorageBufferUpdateAfterBind"));
    }
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let slots = [0, 1, 2].map(|number| Slot(number, STORAGE, 1));
    let layout =
        gpu.set_layout(&slots, vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL)?;
    let none = (vk::PipelineCache::null(), vk::PipelineCreateFlags::empty());
    let kernel = gpu.kernel_of(module!("add"), vec![layout], 4, &[], none)?;
    let buffers = to_add(&gpu, 8)?;
    let set = gpu.empty_set(&kernel, 0)?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[30]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    for (number, buffer) in (0..).zip(&buffers) {
        gpu.write(set, number, STORAGE, &[whole(buffer)]);
    }
    gpu.finish(queue, &[commands])?;
    same!(buffers[2].read(), added(8));
    Ok(())
}

fn pool_exhausted(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("add"), 3, 4)?;
    let pool = gpu.pool(4, 12, vk::DescriptorPoolCreateFlags::empty())?;
    let layouts = vec![kernel.sets.first().copied().unwrap_or_default(); 4];
    for _ in 0..3 {
        let sets = gpu.sets_of(pool, &layouts)?;
        same!(sets.len(), 4);
        match gpu.sets_of(pool, layouts.get(..1).unwrap_or_default()) {
            Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL) => {}
            // Vulkan lets a pool give more than it promised.
            Ok(_) => {}
            Err(other) => return Err(Failure::seen(format!("a fifth set: {other:?}"))),
        }
        gpu.reset_pool(pool)?;
    }
    Ok(())
}

fn many(lab: &Lab) -> Outcome {
    const COUNT: u32 = 1000;
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let pool = gpu.pool(COUNT, COUNT, vk::DescriptorPoolCreateFlags::empty())?;
    let layouts = vec![kernel.sets.first().copied().unwrap_or_default(); COUNT as usize];
    let sets = gpu.sets_of(pool, &layouts)?;
    let states = gpu.buffer(COUNT as usize * 64)?;
    for (number, set) in (0..).zip(&sets) {
        gpu.write(*set, 0, STORAGE, &[part(&states, number * 256, 4)]);
    }
    gpu.run(|commands| {
        commands.bind(&kernel);
        for (number, set) in (0..).zip(&sets) {
            commands.sets(&kernel, &[*set]).push(&kernel, &[1, number]).dispatch(1, 1, 1);
        }
        commands.barrier();
    })?;
    let seen: Vec<u32> = states.read().iter().copied().step_by(64).collect();
    same!(seen, (0..COUNT).collect::<Vec<_>>());
    Ok(())
}
