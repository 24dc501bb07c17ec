// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pipelines: specialisation, push constants, caches.

use crate::case::{Case, case};
use crate::lab::{Kernel, Lab, Outcome, Slot, module, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "pipeline.constants",
        "specialisation constants of each type have their values, and one is a work group's size",
        constants,
    ),
    case(
        "pipeline.constants-by-default",
        "constants that are not specialised have the module's values",
        constants_by_default,
    ),
    case(
        "pipeline.several-in-one",
        "one command buffer dispatches several pipelines in turns",
        several_in_one,
    ),
    case(
        "pipeline.push-constants",
        "push constants of 128 bytes arrive, and a later part replaces that part alone",
        push_constants,
    ),
    case(
        "pipeline.push-constants-stay",
        "push constants stay for later dispatches of pipelines with the same layout",
        push_constants_stay,
    ),
    case("pipeline.cache", "a cache gives its content, takes it back, and merges", cache),
    case(
        "pipeline.cache-of-nonsense",
        "content that is no cache's is passed over",
        cache_of_nonsense,
    ),
    case(
        "pipeline.required-early",
        "a pipeline that may not be compiled is made or refused, and not delayed",
        required_early,
    ),
    case(
        "pipeline.shared-memory",
        "invocations of a work group share memory and meet at barriers",
        shared_memory,
    ),
    case(
        "pipeline.ten-thousand",
        "10,000 pipelines are there at once, and each is its own",
        ten_thousand,
    ),
    case(
        "pipeline.gone-once-recorded",
        "many pipelines are made and used one after the other",
        many,
    ),
];

const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;

fn constants(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let values: &[(u32, &[u8])] = &[
        (0, &24u32.to_le_bytes()),
        (10, &0xdead_beef_u32.to_le_bytes()),
        (20, &(-77i32).to_le_bytes()),
        (30, &2.5f32.to_le_bytes()),
        (40, &1u32.to_le_bytes()),
    ];
    let kernel = gpu.kernel(module!("constants"), &[&[Slot(0, STORAGE, 1)]], 0, values)?;
    let result = gpu.buffer(5)?;
    let set = gpu.set(&kernel, &[result])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    let expected = [24, 0xdead_beef, (-77i32).cast_unsigned(), 2.5f32.to_bits(), 1];
    same!(result.read(), expected.to_vec());
    Ok(())
}

fn constants_by_default(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let values: &[(u32, &[u8])] = &[(0, &3u32.to_le_bytes()), (20, &9i32.to_le_bytes())];
    let kernel = gpu.kernel(module!("constants"), &[&[Slot(0, STORAGE, 1)]], 0, values)?;
    let result = gpu.buffer(5)?;
    let set = gpu.set(&kernel, &[result])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    same!(result.read(), vec![3, 1, 9, 0.5f32.to_bits(), 0]);
    Ok(())
}

fn several_in_one(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let add = gpu.simple(module!("add"), 3, 4)?;
    let step = gpu.simple(module!("accumulate"), 1, 8)?;
    let (one, two, sum) = (gpu.buffer_of(&[5])?, gpu.buffer_of(&[6])?, gpu.buffer(1)?);
    let (of_add, of_step) = (gpu.set(&add, &[one, two, sum])?, gpu.set(&step, &[two])?);
    gpu.run(|commands| {
        for _ in 0..3 {
            commands.bind(&add).sets(&add, &[of_add]).push(&add, &[1]).dispatch(1, 1, 1);
            commands.barrier().copy(&sum, &two, &[(0, 0, 1)]).barrier();
            commands.bind(&step).sets(&step, &[of_step]).push(&step, &[2, 1]);
            commands.dispatch(1, 1, 1).barrier();
        }
    })?;
    // ((6 + 5) * 2 + 1 + 5) * 2 + 1 ...
    let expected = (0..3).fold(6, |value, _| (value + 5) * 2 + 1);
    same!(two.word(0), expected);
    Ok(())
}

fn push_constants(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("long_push"), 1, 128)?;
    let (first, second) = (gpu.buffer(32)?, gpu.buffer(32)?);
    let sets = [gpu.set(&kernel, &[first])?, gpu.set(&kernel, &[second])?];
    let words: Vec<u32> = (0..32).map(|word| word + 1000).collect();
    gpu.run(|commands| {
        commands.bind(&kernel).push(&kernel, &words);
        commands.sets(&kernel, &sets[..1]).dispatch(1, 1, 1);
        commands.push_at(&kernel, 64, &[1, 2]).sets(&kernel, &sets[1..]).dispatch(1, 1, 1);
        commands.barrier();
    })?;
    same!(first.read(), words);
    let mut expected = words;
    expected.splice(16..18, [1, 2]);
    same!(second.read(), expected);
    Ok(())
}

fn push_constants_stay(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let slots = [Slot(0, STORAGE, 1)];
    let flags = vk::DescriptorSetLayoutCreateFlags::empty();
    let layout = gpu.set_layout(&slots, flags)?;
    let none = (vk::PipelineCache::null(), vk::PipelineCreateFlags::empty());
    let kernel = |module| gpu.kernel_of(module, vec![layout], 8, &[], none);
    let (step, again) = (kernel(module!("accumulate"))?, kernel(module!("accumulate"))?);
    let state = gpu.buffer_of(&[1])?;
    let set = gpu.set(&step, &[state])?;
    gpu.run(|commands| {
        commands.sets(&step, &[set]).push(&step, &[10, 3]);
        for kernel in [&step, &again, &step] {
            commands.bind(kernel).dispatch(1, 1, 1).barrier();
        }
    })?;
    same!(state.word(0), 1333);
    Ok(())
}

/// A kernel in a cache.
fn cached(
    gpu: &crate::lab::Gpu<'_>,
    cache: vk::PipelineCache,
    flags: vk::PipelineCreateFlags,
) -> Outcome<Kernel> {
    let empty = vk::DescriptorSetLayoutCreateFlags::empty();
    let layout = gpu.set_layout(&[Slot(0, STORAGE, 1)], empty)?;
    gpu.kernel_of(module!("accumulate"), vec![layout], 8, &[], (cache, flags))
}

fn cache(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let none = vk::PipelineCreateFlags::empty();
    let first = gpu.cache(&[])?;
    cached(&gpu, first, none)?;
    let content = gpu.content(first)?;
    // "Pipeline Cache Header": its length, its version, the vendor's and the device's numbers, and a UUID.
    let word = |at: usize| {
        let bytes = content.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    };
    let said = lab.description().properties;
    same!([word(0), word(4)], [32, 1]);
    same!([word(8), word(12)], [said.vendor_id, said.device_id]);
    same!(content.get(16..32).unwrap_or_default(), said.pipeline_cache_uuid);
    let second = gpu.cache(&content)?;
    gpu.merge(second, &[first])?;
    let kernel = cached(&gpu, second, none)?;
    let state = gpu.buffer_of(&[4])?;
    let set = gpu.set(&kernel, &[state])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[5, 6]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(state.word(0), 26);
    Ok(())
}

fn cache_of_nonsense(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    for content in [&[1u8, 2, 3][..], &[0xff; 32], &[0; 4096]] {
        cached(&gpu, gpu.cache(content)?, vk::PipelineCreateFlags::empty())?;
    }
    Ok(())
}

fn required_early(lab: &Lab) -> Outcome {
    if lab.features().since_1_3.pipeline_creation_cache_control == vk::FALSE {
        return Err(crate::lab::Failure::not_offered("pipelineCreationCacheControl"));
    }
    let gpu = lab.gpu()?;
    let flags = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    match cached(&gpu, vk::PipelineCache::null(), flags) {
        Ok(_) => Ok(()),
        Err(error) => {
            let said = error.to_string();
            require!(said.contains("PIPELINE_COMPILE_REQUIRED"), "{said}");
            error.forgive();
            Ok(())
        }
    }
}

fn shared_memory(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(module!("shared"), 2, 0)?;
    let numbers: Vec<u32> = (0..128 * 20).collect();
    let (from, sums) = (gpu.buffer_of(&numbers)?, gpu.buffer(20)?);
    let set = gpu.set(&kernel, &[from, sums])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(20, 1, 1).barrier();
    })?;
    same!(sums.read(), numbers.chunks(128).map(|part| part.iter().sum()).collect::<Vec<u32>>());
    Ok(())
}

fn ten_thousand(lab: &Lab) -> Outcome {
    const COUNT: u32 = 10_000;
    let gpu = lab.gpu()?;
    let mut kernels = Vec::new();
    for number in 0..COUNT {
        let values: &[(u32, &[u8])] = &[(0, &1u32.to_le_bytes()), (10, &number.to_le_bytes())];
        kernels.push(gpu.kernel(module!("constants"), &[&[Slot(0, STORAGE, 1)]], 0, values)?);
    }
    for number in (0..COUNT).step_by(1111) {
        let (kernel, result) = (&kernels[number as usize], gpu.buffer(5)?);
        let set = gpu.set(kernel, &[result])?;
        gpu.run(|commands| {
            commands.bind(kernel).sets(kernel, &[set]).dispatch(1, 1, 1).barrier();
        })?;
        same!(result.word(1), number);
    }
    Ok(())
}

fn many(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    for number in 0..20u32 {
        let values: &[(u32, &[u8])] = &[(0, &1u32.to_le_bytes()), (10, &number.to_le_bytes())];
        let kernel = gpu.kernel(module!("constants"), &[&[Slot(0, STORAGE, 1)]], 0, values)?;
        let result = gpu.buffer(5)?;
        let set = gpu.set(&kernel, &[result])?;
        gpu.run(|commands| {
            commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
        })?;
        same!(result.word(1), number);
    }
    Ok(())
}
