// SPDX-License-Identifier: MIT OR Apache-2.0

//! Texels of buffers that shaders store.

use crate::case::{Case, case};
use crate::lab::{Gpu, Kernel, Lab, Outcome, Slot, bytes_of, module, same, whole};
use ash::vk;
use ash::vk::Format as F;

pub(super) const CASES: &[Case] = &[
    case(
        "texels.store.words-and-bytes",
        "a shader loads and stores words, and colours of bytes",
        stored,
    ),
    case("texels.store.part", "a store beside a view's part stays within it", part),
    case(
        "texels.store.wide",
        "a shader loads and stores floating-point numbers of two sizes",
        wide,
    ),
    case("texels.store.atomic", "atomic operations on texels of buffers are complete", atomic),
    case(
        "texels.store.then-fetched",
        "a dispatch reads what the one before stored in texels",
        chain,
    ),
];

const TEXELS: vk::DescriptorType = vk::DescriptorType::STORAGE_TEXEL_BUFFER;
const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;

/// A kernel with so many views from a binding on.
fn kernel<const N: u32>(
    gpu: &Gpu<'_>,
    module: crate::lab::Module<'_>,
    first: u32,
) -> Outcome<Kernel> {
    let mut slots: Vec<_> = (first..first + N).map(|number| Slot(number, TEXELS, 1)).collect();
    if first > 0 {
        slots.push(Slot(0, STORAGE, 1));
    }
    gpu.kernel(module, &[&slots], 0, &[])
}

/// A set with views from a binding on.
fn set(
    gpu: &Gpu<'_>,
    kernel: &Kernel,
    first: u32,
    views: &[vk::BufferView],
) -> Outcome<vk::DescriptorSet> {
    let set = gpu.empty_set(kernel, 0)?;
    for (binding, view) in (first..).zip(views) {
        gpu.write_texels(set, binding, TEXELS, &[*view]);
    }
    Ok(set)
}

/// Has `texels_stored` work on so many texels of four buffers, of which it reads and writes these bytes.
fn run_stored(gpu: &Gpu<'_>, range: [u64; 2], count: u32) -> Outcome<[Vec<u32>; 3]> {
    let words: Vec<u32> = (0..256).map(|word: u32| word.wrapping_mul(0x0101_0107)).collect();
    let from = gpu.buffer_of(&words)?;
    let (to_words, to_reals, sizes) = (gpu.buffer(256)?, gpu.buffer(256)?, gpu.buffer(4)?);
    let views = [
        gpu.texels(&from, F::R32_UINT, range)?,
        gpu.texels(&to_words, F::R32_UINT, range)?,
        gpu.texels(&from, F::R8G8B8A8_UNORM, range)?,
        gpu.texels(&to_reals, F::R8G8B8A8_UNORM, range)?,
    ];
    let kernel = kernel::<4>(gpu, module!("texels_stored"), 1)?;
    let set = set(gpu, &kernel, 1, &views)?;
    gpu.write(set, 0, STORAGE, &[whole(&sizes)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(count, 1, 1).barrier();
    })?;
    Ok([to_words.read(), to_reals.read(), sizes.read()])
}

/// What is in both buffers when this part was worked on.
fn expected(part: std::ops::Range<u32>) -> [Vec<u32>; 2] {
    let of = |act: fn(u32) -> u32| {
        let word = |at| if part.contains(&at) { act(at.wrapping_mul(0x0101_0107)) } else { 0 };
        (0..256).map(word).collect()
    };
    [of(|word| word.wrapping_add(1000)), of(u32::swap_bytes)]
}

fn stored(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let [words, reals, sizes] = run_stored(&gpu, [0, vk::WHOLE_SIZE], 256)?;
    same!([words, reals], expected(0..256));
    same!(sizes, [256; 4]);
    Ok(())
}

fn part(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let [words, reals, sizes] = run_stored(&gpu, [256, 160], 40)?;
    same!([words, reals], expected(64..104));
    same!(sizes, [40; 4]);
    Ok(())
}

fn wide(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let numbers: Vec<u32> = (0..64).map(|at| (at as f32 - 20.5).to_bits()).collect();
    // Halves of 1, 1.25, -2 and 1,024.
    let halves = gpu.buffer_of(&[0x3d00_3c00, 0x6400_c000].repeat(16))?;
    let from = gpu.buffer_of(&numbers)?;
    let (to_wide, to_half) = (gpu.buffer(64)?, gpu.buffer(32)?);
    let all = [0, vk::WHOLE_SIZE];
    let views = [
        gpu.texels(&from, F::R32G32B32A32_SFLOAT, all)?,
        gpu.texels(&to_wide, F::R32G32B32A32_SFLOAT, all)?,
        gpu.texels(&halves, F::R16G16B16A16_SFLOAT, all)?,
        gpu.texels(&to_half, F::R16G16B16A16_SFLOAT, all)?,
    ];
    let kernel = kernel::<4>(&gpu, module!("texels_wide"), 0)?;
    let set = set(&gpu, &kernel, 0, &views)?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(16, 1, 1).barrier();
    })?;
    let doubled = (0..64).map(|at| (2.0 * (at as f32 - 20.5)).to_bits());
    same!(to_wide.read(), doubled.collect::<Vec<_>>());
    same!(to_half.read(), [0x3900_3800, 0x6000_bc00].repeat(16));
    Ok(())
}

fn atomic(lab: &Lab) -> Outcome {
    for format in [F::R32_UINT, F::R32_SINT] {
        lab.needs_feature(format, vk::FormatFeatureFlags::STORAGE_TEXEL_BUFFER_ATOMIC)?;
    }
    let gpu = lab.gpu()?;
    let (words, integers) = (gpu.buffer_of(&[7, 7, 7, 0])?, gpu.buffer_of(&[7, 7, u32::MAX - 99])?);
    let views = [
        gpu.texels(&words, F::R32_UINT, [0, vk::WHOLE_SIZE])?,
        gpu.texels(&integers, F::R32_SINT, [0, vk::WHOLE_SIZE])?,
    ];
    let kernel = kernel::<2>(&gpu, module!("texels_atomic"), 0)?;
    let set = set(&gpu, &kernel, 0, &views)?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(2, 1, 1).barrier();
    })?;
    // Of the numbers from 1 to 32.
    let sum = 32 * 33 / 2;
    same!(words.read(), [7 + sum, 32, (1..=32).fold(7, |all, each| all ^ each), u32::MAX]);
    let integers: Vec<i32> = integers.read().into_iter().map(u32::cast_signed).collect();
    same!(integers, [7 - 528, -32, -1]);
    Ok(())
}

fn chain(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let buffers = [gpu.buffer_of(&[0x0403_0201; 8])?, gpu.buffer(8)?];
    let all = [0, vk::WHOLE_SIZE];
    let view = |place: usize, format| gpu.texels(&buffers[place], format, all);
    let kernel = kernel::<4>(&gpu, module!("texels_stored"), 1)?;
    let (unused, sizes) = (gpu.buffer(8)?, gpu.buffer(4)?);
    let aside = gpu.texels(&unused, F::R8G8B8A8_UNORM, all)?;
    let mut sets = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        let views = [
            view(from, F::R32_UINT)?,
            view(to, F::R32_UINT)?,
            view(from, F::R8G8B8A8_UNORM)?,
            aside,
        ];
        let set = set(&gpu, &kernel, 1, &views)?;
        gpu.write(set, 0, STORAGE, &[whole(&sizes)]);
        sets.push(set);
    }
    gpu.run(|commands| {
        commands.bind(&kernel);
        for turn in 0..20 {
            commands.sets(&kernel, &[sets[turn % 2]]).dispatch(8, 1, 1).barrier();
        }
    })?;
    same!(buffers[0].read(), [0x0403_0201 + 20 * 1000; 8]);
    // The last turn read what the one before stored, as bytes in the other order.
    same!(bytes_of(&unused.first(1)), (0x0403_0201u32 + 19 * 1000).to_be_bytes());
    Ok(())
}
