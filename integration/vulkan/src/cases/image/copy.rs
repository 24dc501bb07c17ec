// SPDX-License-Identifier: MIT OR Apache-2.0

//! Copies between images.

use super::model::{Model, extent_of};
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, layers, same};
use ash::vk;

const WORD: vk::Format = vk::Format::R32_UINT;

/// Declares cases: a name, what it shows, the images and the regions.
macro_rules! cases {
    ($($name:literal, $shows:literal, $from:expr, $to:expr, $regions:expr;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            case(concat!("image.copy.", $name), $shows, |lab| {
                copied(lab, [$from, $to], &$regions, false)
            }),
        )*
            case("image.copy.newer-form", "a copy as Vulkan 1.3 says it is the same", |lab| {
                copied(lab, [Form::flat(WORD, 20, 20); 2], &[moved()], true)
            }),
            case("image.copy.within", "a copy within an image moves what does not overlap", within),
            case("image.copy.chain", "40 copies, each of what the one before made, arrive in order", chain),
        ];
    };
}

/// A region: level, first layer and count of layers, and offset, of each end; and the extent.
fn region(
    (level, [first, count], [x, y, z]): (u32, [u32; 2], [i32; 3]),
    (to_level, [to_first, to_count], [to_x, to_y, to_z]): (u32, [u32; 2], [i32; 3]),
    extent: [u32; 3],
) -> vk::ImageCopy {
    vk::ImageCopy::default()
        .src_subresource(layers(level, first, count))
        .src_offset(vk::Offset3D { x, y, z })
        .dst_subresource(layers(to_level, to_first, to_count))
        .dst_offset(vk::Offset3D { x: to_x, y: to_y, z: to_z })
        .extent(extent_of(extent))
}

fn moved() -> vk::ImageCopy {
    region((0, [0, 1], [3, 4, 0]), (0, [0, 1], [7, 1, 0]), [9, 12, 1])
}

cases! {
    "whole", "all of an image is copied to another", Form::flat(WORD, 31, 17), Form::flat(WORD, 31, 17),
        [region((0, [0, 1], [0; 3]), (0, [0, 1], [0; 3]), [31, 17, 1])];
    "part", "a part is copied to another place", Form::flat(WORD, 20, 20), Form::flat(WORD, 20, 20), [moved()];
    "level-to-level", "a level is copied to another one", Form::flat(WORD, 32, 16).levels(3),
        Form::flat(WORD, 16, 16).levels(2), [region((1, [0, 1], [0; 3]), (0, [0, 1], [0, 8, 0]), [16, 8, 1])];
    "layers", "layers are copied to other layers", Form::flat(WORD, 8, 8).layers(5),
        Form::flat(WORD, 8, 8).layers(4), [region((0, [2, 3], [1, 1, 0]), (0, [1, 3], [2, 0, 0]), [6, 7, 1])];
    "regions", "one copy moves several regions", Form::flat(WORD, 16, 16), Form::flat(WORD, 16, 16), {
        let quarter = |x, y| region((0, [0, 1], [x, y, 0]), (0, [0, 1], [8 - x, 8 - y, 0]), [8, 8, 1]);
        [quarter(0, 0), quarter(8, 0), quarter(0, 8), quarter(8, 8)]
    };
    "rows", "rows are copied between images of one dimension", Form::row(WORD, 64), Form::row(WORD, 40),
        [region((0, [0, 1], [20, 0, 0]), (0, [0, 1], [5, 0, 0]), [33, 1, 1])];
    "solid", "a box is copied between images of three dimensions", Form::solid(WORD, [8, 8, 8]),
        Form::solid(WORD, [10, 6, 7]), [region((0, [0, 1], [1, 2, 3]), (0, [0, 1], [4, 0, 2]), [5, 5, 4])];
    "layers-to-planes", "layers of one image become planes of another", Form::flat(WORD, 8, 8).layers(4), Form::solid(WORD, [8, 8, 6]),
        [region((0, [1, 3], [0; 3]), (0, [0, 1], [0, 0, 2]), [8, 8, 3])];
    "planes-to-layers", "planes of one image become layers of another", Form::solid(WORD, [8, 8, 6]), Form::flat(WORD, 8, 8).layers(4),
        [region((0, [0, 1], [0, 0, 1]), (0, [0, 3], [0; 3]), [8, 8, 3])];
    "other-format", "texels keep their bits in an image of another format of their size", Form::flat(WORD, 12, 12),
        Form::flat(vk::Format::R8G8B8A8_UNORM, 12, 12), [region((0, [0, 1], [0; 3]), (0, [0, 1], [0; 3]), [12, 12, 1])];
    "wide-texels", "texels of sixteen bytes are copied", Form::flat(vk::Format::R32G32B32A32_UINT, 9, 9),
        Form::flat(vk::Format::R32G32B32A32_SFLOAT, 9, 9),
        [region((0, [0, 1], [2, 1, 0]), (0, [0, 1], [0, 3, 0]), [5, 6, 1])];
    "small-texels", "texels of one byte are copied, at odd offsets", Form::flat(vk::Format::R8_UNORM, 15, 15),
        Form::flat(vk::Format::R8_UINT, 15, 15), [region((0, [0, 1], [3, 1, 0]), (0, [0, 1], [5, 7, 0]), [9, 7, 1])];
}

fn copied(lab: &Lab, [from, to]: [Form; 2], regions: &[vk::ImageCopy], is_newer: bool) -> Outcome {
    let gpu = lab.gpu()?;
    let (source, mut model) = (Model::new(from, 1), Model::new(to, 50));
    let (from, to) = (gpu.image_of(from, &source.levels)?, gpu.image_of(to, &model.levels)?);
    gpu.run(|commands| {
        match is_newer {
            true => commands.copy_image_2(from, to, regions[0]),
            false => commands.copy_image(from, to, regions),
        };
        commands.barrier();
    })?;
    regions.iter().for_each(|region| model.copy(&source, region));
    for (level, expected) in (0..).zip(&model.levels) {
        same!(gpu.level_bytes(to, level)?, *expected);
    }
    for (level, expected) in (0..).zip(&source.levels) {
        same!(gpu.level_bytes(from, level)?, *expected);
    }
    Ok(())
}

fn within(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let form = Form::flat(WORD, 16, 16).layers(2);
    let mut model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    let regions = [
        region((0, [0, 1], [0; 3]), (0, [0, 1], [8, 0, 0]), [8, 8, 1]),
        region((0, [0, 1], [0, 8, 0]), (0, [1, 1], [3, 5, 0]), [12, 8, 1]),
    ];
    gpu.run(|commands| {
        commands.copy_image(image, image, &regions).barrier();
    })?;
    let before = model.clone();
    regions.iter().for_each(|region| model.copy(&before, region));
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    Ok(())
}

fn chain(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let form = Form::flat(WORD, 41, 4);
    let mut model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    let column = |x| region((0, [0, 1], [x, 0, 0]), (0, [0, 1], [x + 1, 0, 0]), [1, 4, 1]);
    gpu.run(|commands| {
        for x in 0..40 {
            commands.copy_image(image, image, &[column(x)]).barrier();
        }
    })?;
    for x in 0..40 {
        let before = model.clone();
        model.copy(&before, &column(x));
    }
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    Ok(())
}
