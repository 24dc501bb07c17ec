// SPDX-License-Identifier: MIT OR Apache-2.0

//! Texels of buffers that shaders read.

use crate::case::{Case, case};
use crate::lab::{Code, Gpu, Kind, Lab, Outcome, Slot, bytes_of, module, require, same, whole};
use ash::vk;
use ash::vk::Format as F;

/// Declares a case for each format: its name, its number, its components, and how they are stored.
macro_rules! cases {
    ($($name:literal, $format:ident, $components:literal, $kind:ident;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            case(
                concat!("texels.fetch.", $name),
                concat!("a shader reads a buffer's texels of the format ", $name),
                |lab| fetched(lab, Code::new(F::$format, "", $components, Kind::$kind)),
            ),
        )*
            case("texels.fetch.part", "a view of a part begins and ends there", part),
            case("texels.fetch.rest", "a view of what remains has whole texels alone", rest),
            case("texels.fetch.several-views", "views of one buffer read its bytes as texels of their own", several),
            case("texels.fetch.largest", "a view has as many texels as every device allows", largest),
            case("texels.fetch.array", "a shader chooses from an array of buffers with texels", array),
        ];
    };
}

cases! {
    "r8", R8_UNORM, 1, Unorm;
    "rgba8", R8G8B8A8_UNORM, 4, Unorm;
    "rgba8-snorm", R8G8B8A8_SNORM, 4, Snorm;
    "rgba8ui", R8G8B8A8_UINT, 4, Uint;
    "r16f", R16_SFLOAT, 1, Float;
    "rgba16f", R16G16B16A16_SFLOAT, 4, Float;
    "rgba16i", R16G16B16A16_SINT, 4, Sint;
    "r32ui", R32_UINT, 1, Uint;
    "r32i", R32_SINT, 1, Sint;
    "rgba32f", R32G32B32A32_SFLOAT, 4, Float;
}

const TEXELS: vk::DescriptorType = vk::DescriptorType::UNIFORM_TEXEL_BUFFER;
const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;

/// What a shader reads of a view, whose texels shaders have as `number`, and how many there are.
fn read(gpu: &Gpu<'_>, view: vk::BufferView, number: &str, count: u32) -> Outcome<(Vec<u32>, u32)> {
    let slots = [Slot(0, STORAGE, 1), Slot(1, TEXELS, 1), Slot(2, TEXELS, 1), Slot(3, TEXELS, 1)];
    let kernel = gpu.kernel(module!("texels"), &[&slots], 8, &[])?;
    let set = gpu.empty_set(&kernel, 0)?;
    let (seen, unused) = (gpu.buffer(4 * count as usize + 4)?, gpu.buffer(4)?);
    let kinds = [("f32", F::R32_SFLOAT), ("u32", F::R32_UINT), ("i32", F::R32_SINT)];
    gpu.write(set, 0, STORAGE, &[whole(&seen)]);
    let mut chosen = 0;
    for (place, (kind, format)) in (0..).zip(kinds) {
        // The shader names all three, so each is there.
        let view = if kind == number {
            chosen = place;
            view
        } else {
            gpu.texels(&unused, format, [0, vk::WHOLE_SIZE])?
        };
        gpu.write_texels(set, 1 + place, TEXELS, &[view]);
    }
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[chosen, count]);
        commands.dispatch(count + 1, 1, 1).barrier();
    })?;
    let size = seen.word(4 * count as usize);
    Ok((seen.first(4 * count as usize), size))
}

fn fetched(lab: &Lab, code: Code) -> Outcome {
    const COUNT: u32 = 200;
    let gpu = lab.gpu()?;
    let buffer = gpu.buffer_of_bytes(&code.bytes(COUNT))?;
    let view = gpu.texels(&buffer, code.format, [0, vk::WHOLE_SIZE])?;
    let (seen, size) = read(&gpu, view, code.number(), COUNT)?;
    same!(size, COUNT);
    let expected = code.words(COUNT);
    require!(code.are_near(&seen, &expected), "{seen:x?}, not {expected:x?}");
    Ok(())
}

/// Texels of one word, as shaders see them.
fn texels(words: impl Iterator<Item = u32>) -> Vec<u32> {
    words.flat_map(|word| [word, 0, 0, 1]).collect()
}

fn part(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let buffer = gpu.buffer_of(&(0..1024).collect::<Vec<_>>())?;
    // Offsets that are aligned on every device.
    for (offset, count) in [(0u32, 3u32), (256, 64), (512, 100), (3840, 64)] {
        let range = [u64::from(offset), u64::from(4 * count)];
        let view = gpu.texels(&buffer, F::R32_UINT, range)?;
        let (seen, size) = read(&gpu, view, "u32", count)?;
        same!(size, count);
        same!(seen, texels(offset / 4..offset / 4 + count));
    }
    Ok(())
}

fn rest(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    // 1,004 bytes behind the offset: 62 texels of 16 bytes, and 12 bytes.
    let buffer = gpu.buffer_of(&(0..315).collect::<Vec<_>>())?;
    let view = gpu.texels(&buffer, F::R32G32B32A32_UINT, [256, vk::WHOLE_SIZE])?;
    let (seen, size) = read(&gpu, view, "u32", 62)?;
    same!(size, 62);
    same!(seen, (64..64 + 4 * 62).collect::<Vec<_>>());
    Ok(())
}

fn several(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let words = [0x8040_2010, 0xffff_ffff, 0x0000_0001, 0x7fff_8000];
    let buffer = gpu.buffer_of(&words)?;
    let look = |format, number, count| {
        let view = gpu.texels(&buffer, format, [0, 16])?;
        Ok::<_, crate::lab::Failure>(read(&gpu, view, number, count)?.0)
    };
    same!(look(F::R32_UINT, "u32", 4)?, texels(words.into_iter()));
    same!(look(F::R32G32B32A32_SINT, "i32", 1)?, words);
    let bytes = bytes_of(&words).into_iter().map(u32::from);
    same!(look(F::R8G8B8A8_UINT, "u32", 4)?, bytes.clone().collect::<Vec<_>>());
    same!(look(F::R8_UINT, "u32", 16)?, texels(bytes));
    Ok(())
}

fn largest(lab: &Lab) -> Outcome {
    const COUNT: u32 = 65536;
    let most = lab.description().properties.limits.max_texel_buffer_elements;
    require!(most >= COUNT, "at most {most} texels");
    let gpu = lab.gpu()?;
    let words = || (0..COUNT).map(|word| word.wrapping_mul(0x9e37_79b9));
    let buffer = gpu.buffer_of(&words().collect::<Vec<_>>())?;
    let view = gpu.texels(&buffer, F::R32_UINT, [0, 4 * u64::from(COUNT)])?;
    // As many work groups as every device has.
    let (seen, _) = read(&gpu, view, "u32", COUNT - 2)?;
    require!(seen == texels(words().take(COUNT as usize - 2)), "a texel is wrong");
    Ok(())
}

fn array(lab: &Lab) -> Outcome {
    let can = lab.features().since_1_2.shader_uniform_texel_buffer_array_dynamic_indexing;
    lab.needs("shaderUniformTexelBufferArrayDynamicIndexing", can)?;
    let gpu = lab.gpu()?;
    let slots = [Slot(0, STORAGE, 1), Slot(1, TEXELS, 3)];
    let kernel = gpu.kernel(module!("texels_array"), &[&slots], 16, &[])?;
    let set = gpu.empty_set(&kernel, 0)?;
    let mut views = Vec::new();
    for number in 1..4 {
        let buffer = gpu.buffer_of(&vec![1000 * number; 10 * number as usize])?;
        views.push(gpu.texels(&buffer, F::R32_UINT, [0, vk::WHOLE_SIZE])?);
    }
    let seen = gpu.buffer(3)?;
    gpu.write(set, 0, STORAGE, &[whole(&seen)]);
    gpu.write_texels(set, 1, TEXELS, &views);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[2, 0, 1]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(seen.read(), [3030, 1010, 2020]);
    Ok(())
}
