// SPDX-License-Identifier: MIT OR Apache-2.0

//! Copies between buffers and images, in both directions.

use super::model::{Model, part, pattern};
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, bytes_of, same};
use ash::vk;

const WORD: vk::Format = vk::Format::R32_UINT;

type Regions = Vec<vk::BufferImageCopy>;

/// Declares two cases for each: a name, what of an image is copied, and the image with the regions.
macro_rules! cases {
    ($($name:literal, $what:literal, $of:expr;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            case(
                concat!("image.copy-in.", $name),
                concat!("a copy from a buffer writes ", $what, ", and nothing else"),
                |lab| copied_in(lab, $of, false),
            ),
            case(
                concat!("image.copy-out.", $name),
                concat!("a copy to a buffer reads ", $what, ", and writes nothing else"),
                |lab| copied_out(lab, $of, false),
            ),
        )*
            case(
                "image.copy-in.newer-form",
                "a copy from a buffer, as Vulkan 1.3 says it, is the same",
                |lab| copied_in(lab, padded(), true),
            ),
            case(
                "image.copy-out.newer-form",
                "a copy to a buffer, as Vulkan 1.3 says it, is the same",
                |lab| copied_out(lab, padded(), true),
            ),
        ];
    };
}

cases! {
    "whole", "all of a flat image", {
        let form = Form::flat(WORD, 37, 19);
        (form, vec![form.whole(0)])
    };
    "part", "a part of a flat image", {
        (Form::flat(WORD, 40, 20), vec![part(0, [0, 1], [5, 3, 0], [17, 9, 1])])
    };
    "row", "a part of a row", {
        (Form::row(WORD, 100), vec![part(0, [0, 1], [33, 0, 0], [50, 1, 1]).buffer_offset(12)])
    };
    "row-layers", "layers of rows", {
        (Form::row(WORD, 30).layers(5), vec![part(0, [1, 3], [4, 0, 0], [20, 1, 1])])
    };
    "long-rows", "rows that lie further apart in the buffer", padded();
    "layers", "several layers at once", {
        (Form::flat(WORD, 9, 7).layers(6), vec![part(0, [2, 3], [1, 1, 0], [7, 5, 1])])
    };
    "layers-apart", "layers that lie further apart in the buffer", {
        let region = part(0, [0, 3], [0, 0, 0], [8, 4, 1]);
        (Form::flat(WORD, 8, 4).layers(4), vec![region.buffer_row_length(11).buffer_image_height(7)])
    };
    "levels", "each level, in one copy", {
        let form = Form::flat(WORD, 24, 10).levels(4);
        let region = |level: u32| form.whole(level).buffer_offset(u64::from(level) * 1024);
        (form, (0..4).map(region).collect())
    };
    "level-of-a-layer", "a part of one level of one layer", {
        let form = Form::flat(WORD, 32, 32).levels(3).layers(4);
        (form, vec![part(1, [2, 1], [3, 5, 0], [10, 11, 1]).buffer_offset(64)])
    };
    "solid", "all of an image with planes", {
        let form = Form::solid(WORD, [9, 6, 5]);
        (form, vec![form.whole(0)])
    };
    "solid-part", "a part of several planes, which lie further apart in the buffer", {
        let region = part(0, [0, 1], [2, 1, 3], [5, 4, 3]);
        (Form::solid(WORD, [9, 6, 8]), vec![region.buffer_row_length(8).buffer_image_height(5)])
    };
    "solid-level", "the planes of a smaller level", {
        let form = Form::solid(WORD, [16, 12, 10]).levels(3);
        (form, vec![form.whole(1)])
    };
    "many-regions", "64 regions, each of its own size", {
        let region = |number: u32| {
            let (x, y) = (number as i32 % 8 * 8, number as i32 / 8 * 8);
            let extent = [number % 7 + 1, number % 5 + 1, 1];
            part(0, [0, 1], [x, y, 0], extent).buffer_offset(u64::from(number) * 256)
        };
        (Form::flat(WORD, 64, 64), (0..64).map(region).collect())
    };
    "one-byte", "texels of one byte, with odd widths and offsets", {
        let region = part(0, [0, 1], [3, 1, 0], [11, 5, 1]);
        (Form::flat(vk::Format::R8_UNORM, 17, 9), vec![region.buffer_offset(4).buffer_row_length(13)])
    };
    "two-bytes", "texels of two bytes", {
        (Form::flat(vk::Format::R8G8_UNORM, 15, 9), vec![part(0, [0, 1], [3, 1, 0], [11, 5, 1])])
    };
    "eight-bytes", "texels of eight bytes", {
        let format = vk::Format::R16G16B16A16_SFLOAT;
        (Form::flat(format, 15, 9), vec![part(0, [0, 1], [3, 1, 0], [11, 5, 1]).buffer_offset(8)])
    };
    "sixteen-bytes", "texels of sixteen bytes", {
        let format = vk::Format::R32G32B32A32_UINT;
        (Form::flat(format, 15, 9), vec![part(0, [0, 1], [3, 1, 0], [11, 5, 1]).buffer_offset(16)])
    };
    "large", "more than 4 MiB", {
        let form = Form::flat(WORD, 1200, 1000);
        (form, vec![form.whole(0)])
    };
}

fn padded() -> (Form, Regions) {
    let region = part(0, [0, 1], [2, 2, 0], [10, 6, 1]).buffer_offset(20).buffer_row_length(16);
    (Form::flat(WORD, 20, 10), vec![region])
}

fn copied_in(lab: &Lab, (form, regions): (Form, Regions), is_newer: bool) -> Outcome {
    let gpu = lab.gpu()?;
    let mut model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    let bytes = pattern(100, model.outside(&regions));
    let buffer = gpu.buffer_of_bytes(&bytes)?;
    gpu.run(|commands| {
        match is_newer {
            true => commands.to_image_2(&buffer, image, regions[0]),
            false => commands.to_image(&buffer, image, &regions),
        };
        commands.barrier();
    })?;
    regions.iter().for_each(|region| model.put(region, &bytes));
    for (level, expected) in (0..).zip(&model.levels) {
        same!(gpu.level_bytes(image, level)?, *expected);
    }
    Ok(())
}

fn copied_out(lab: &Lab, (form, regions): (Form, Regions), is_newer: bool) -> Outcome {
    let gpu = lab.gpu()?;
    let model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    // Some bytes more, which stay.
    let mut bytes = pattern(100, model.outside(&regions).next_multiple_of(4) + 16);
    let buffer = gpu.buffer_of_bytes(&bytes)?;
    gpu.run(|commands| {
        match is_newer {
            true => commands.out_of_image_2(image, &buffer, regions[0]),
            false => commands.out_of_image(image, &buffer, &regions),
        };
        commands.barrier();
    })?;
    regions.iter().for_each(|region| model.take(region, &mut bytes));
    same!(bytes_of(&buffer.read()), bytes);
    Ok(())
}
