// SPDX-License-Identifier: MIT OR Apache-2.0

//! Atomic operations of many invocations on one texel.

use super::shader::Shader;
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, module, require, same};
use ash::vk;

/// Invocations: the first has the number 1 for its operand.
const COUNT: u32 = 64;

/// Declares cases: a name, what it shows, the operation's number, what is there before, and what afterwards.
macro_rules! cases {
    ($($name:literal, $shows:literal, $operation:literal, $before:expr, $after:expr;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            case(concat!("storage-image.atomic.", $name), $shows, |lab| {
                contested(lab, $operation, $before, |after| after == $after).map(drop)
            }),
        )*
            case("storage-image.atomic.exchange", "each exchange returns what another stored", exchange),
            case("storage-image.atomic.each-sum-once", "no two invocations that add see the same", sums),
        ];
    };
}

cases! {
    "add", "sums of many invocations are complete", 0, 5, 5 + COUNT * (COUNT + 1) / 2;
    "min", "the least number of many stays", 1, 9, 1;
    "max", "the greatest number of many stays", 2, 9, COUNT;
    "and", "bits that any invocation takes away are gone", 3, u32::MAX, u32::MAX << 7;
    "or", "bits that any invocation sets are set", 4, 0x100, 0x17f;
    "xor", "bits are turned as often as invocations do it", 5, 3, (1..=COUNT).fold(3, |all, each| all ^ each);
    "signed-add", "sums with a sign are complete", 8, 5, (5 - (COUNT * (COUNT + 1) / 2).cast_signed()).cast_unsigned();
    "signed-min", "the least of numbers with signs stays", 9, 9, (-COUNT.cast_signed()).cast_unsigned();
    "signed-max", "the greatest of numbers with signs stays", 10, (-50i32).cast_unsigned(), u32::MAX;
}

/// Does an operation in each invocation. Returns what each found, if what is there afterwards is right.
fn contested(
    lab: &Lab,
    operation: u32,
    before: u32,
    is_right: impl Fn(u32) -> bool,
) -> Outcome<Vec<u32>> {
    let gpu = lab.gpu()?;
    let mut views = Vec::new();
    let mut images = Vec::new();
    for format in [vk::Format::R32_UINT, vk::Format::R32_SINT] {
        lab.needs_feature(format, vk::FormatFeatureFlags::STORAGE_IMAGE_ATOMIC)?;
        let bytes = crate::lab::bytes_of(&[before; 16]);
        let image = gpu.image_of(Form::flat(format, 4, 4).storage(), &[bytes])?;
        views.push(gpu.view(image.look(vk::ImageViewType::TYPE_2D))?);
        images.push(image);
    }
    let found = gpu.buffer(COUNT as usize)?;
    let shader = Shader::new(&gpu, module!("image_atomic"), (&found, &views), 4)?;
    gpu.run(|commands| {
        shader.push(commands, &[operation]);
        shader.dispatch(commands, [COUNT / 16, 1, 1]);
    })?;
    let used = images[if operation < 8 { 0 } else { 1 }];
    let mut texels = gpu.level_words(used, 0)?;
    let after = texels.remove(1 + 4 * 2);
    require!(is_right(after), "{after:#x} is there afterwards");
    same!(texels, [before; 15]);
    Ok(found.read())
}

fn exchange(lab: &Lab) -> Outcome {
    let last = std::cell::Cell::new(0);
    let mut found = contested(lab, 6, 1000, |after| {
        last.set(after);
        (1..=COUNT).contains(&after)
    })?;
    found.push(last.get());
    found.sort_unstable();
    same!(found, (1..=COUNT).chain([1000]).collect::<Vec<_>>());
    Ok(())
}

fn sums(lab: &Lab) -> Outcome {
    let mut found = contested(lab, 0, 0, |after| after == COUNT * (COUNT + 1) / 2)?;
    found.sort_unstable();
    let all = found.len();
    found.dedup();
    same!(found.len(), all);
    same!(found.first().copied(), Some(0));
    Ok(())
}
