// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images that are scaled ("Image Copies With Scaling").

use crate::case::{Case, case};
use crate::lab::{Form, Gpu, Image, Lab, Outcome, bytes_of, pictured_nearly, require, same};
use ash::vk::{self, Filter, Format as F, ImageLayout as L};

pub(super) const CASES: &[Case] = &[
    case("blit.same", "an image of the same size is as it was", |lab| {
        nearest(lab, [[0, 0, 16, 16], [0, 0, 16, 16]], false, |x, y| Some([x, y]))
    }),
    case("blit.larger", "each texel becomes two by two", |lab| {
        nearest(lab, [[4, 2, 12, 10], [0, 0, 16, 16]], false, |x, y| Some([4 + x / 2, 2 + y / 2]))
    }),
    case("blit.smaller", "every third texel is taken, from the middle of three", |lab| {
        nearest(lab, [[0, 0, 15, 15], [0, 0, 5, 5]], false, |x, y| {
            (x < 5 && y < 5).then_some([3 * x + 1, 3 * y + 1])
        })
    }),
    case("blit.part", "a part is put at another place, and what is beside it stays", |lab| {
        nearest(lab, [[1, 2, 7, 10], [5, 3, 11, 11]], false, |x, y| {
            ((5..11).contains(&x) && (3..11).contains(&y)).then(|| [x - 4, y - 1])
        })
    }),
    case("blit.newer", "a command of Vulkan 1.3 scales a part", |lab| {
        nearest(lab, [[1, 2, 5, 6], [4, 4, 12, 12]], true, |x, y| {
            ((4..12).contains(&x) && (4..12).contains(&y))
                .then(|| [1 + (x - 4) / 2, 2 + (y - 4) / 2])
        })
    }),
    case("blit.mirrored", "an image is mirrored where its ends are exchanged", |lab| {
        nearest(lab, [[16, 0, 0, 16], [0, 0, 16, 16]], false, |x, y| Some([15 - x, y]))
    }),
    case(
        "blit.upside-down",
        "an image is upside down where the ends of its target are exchanged",
        |lab| nearest(lab, [[0, 0, 16, 16], [0, 16, 16, 0]], false, |x, y| Some([x, 15 - y])),
    ),
    case("blit.turned", "an image is turned where both ends are exchanged", |lab| {
        nearest(lab, [[16, 16, 0, 0], [0, 0, 16, 16]], false, |x, y| Some([15 - x, 15 - y]))
    }),
    case("blit.linear", "texels between others are mixed of these", linear),
    case("blit.format", "colours become those of another format", |lab| {
        converted(lab, [F::R8G8B8A8_UNORM, F::B8G8R8A8_UNORM], &[0x3319_80ff], &[0x33ff_8019])
    }),
    case("blit.to-float", "numbers from 0 to 1 become those of floating point", |lab| {
        converted(
            lab,
            [F::R8G8B8A8_UNORM, F::R16G16B16A16_SFLOAT],
            &[0x00ff_00ff],
            &[0x0000_3c00, 0x0000_3c00],
        )
    }),
    case("blit.integers", "whole numbers become those of another format", |lab| {
        converted(
            lab,
            [F::R8G8B8A8_UINT, F::R16G16B16A16_UINT],
            &[0x0403_ff01],
            &[0x00ff_0001, 0x0004_0003],
        )
    }),
    case("blit.signed", "whole numbers keep their signs in another format", |lab| {
        converted(
            lab,
            [F::R8G8B8A8_SINT, F::R16G16B16A16_SINT],
            &[0x04ff_8001],
            &[0xff80_0001, 0x0004_ffff],
        )
    }),
    case("blit.levels", "each level of an image is made of the one before", levels),
    case("blit.layers", "layers are scaled, each by itself", layers),
];

/// An image as texels, in a form.
fn filled(gpu: &Gpu<'_>, form: Form, word: impl Fn(u32) -> u32) -> Outcome<Image> {
    let count = form.bytes(0) as u32 / 4;
    let image = gpu.image_of(form, &[bytes_of(&(0..count).map(word).collect::<Vec<_>>())])?;
    Ok(image)
}

fn corners([left, top, right, bottom]: [i32; 4]) -> [vk::Offset3D; 2] {
    [vk::Offset3D { x: left, y: top, z: 0 }, vk::Offset3D { x: right, y: bottom, z: 1 }]
}

fn region(form: Form, [from, to]: [[i32; 4]; 2]) -> vk::ImageBlit {
    let layers = form.layers_of(0, 0, form.layers);
    vk::ImageBlit::default()
        .src_subresource(layers)
        .src_offsets(corners(from))
        .dst_subresource(layers)
        .dst_offsets(corners(to))
}

/// Scales between images that are in the layout for everything.
fn scaled(
    gpu: &Gpu<'_>,
    from: Image,
    to: Image,
    region: vk::ImageBlit,
    filter: Filter,
    newer: bool,
) -> Outcome {
    gpu.run(|commands| {
        commands.change(from, [L::GENERAL, L::TRANSFER_SRC_OPTIMAL]);
        commands.change(to, [L::GENERAL, L::TRANSFER_DST_OPTIMAL]);
        match newer {
            true => commands.blit_2(from, to, region, filter),
            false => commands.blit(from, to, &[region], filter),
        };
        commands.change(from, [L::TRANSFER_SRC_OPTIMAL, L::GENERAL]);
        commands.change(to, [L::TRANSFER_DST_OPTIMAL, L::GENERAL]);
    })
}

const FORM: Form = Form::flat(F::R8G8B8A8_UNORM, 16, 16);

/// Scales a part of an image to a part of another, and requires that each texel is the one at a place, or was not changed.
fn nearest(
    lab: &Lab,
    parts: [[i32; 4]; 2],
    newer: bool,
    place: impl Fn(u32, u32) -> Option<[u32; 2]>,
) -> Outcome {
    let gpu = lab.graphics()?;
    let colour = |place: u32| place.wrapping_mul(0x9e37_79b9);
    let (from, to) = (filled(&gpu, FORM, colour)?, filled(&gpu, FORM, |_| 0x0102_0304)?);
    scaled(&gpu, from, to, region(FORM, parts), Filter::NEAREST, newer)?;
    let right =
        (0..256).map(|at| place(at % 16, at / 16).map_or(0x0102_0304, |[x, y]| colour(y * 16 + x)));
    same!(gpu.level_words(to, 0)?, right.collect::<Vec<_>>());
    Ok(())
}

fn linear(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let form = Form::flat(F::R8G8B8A8_UNORM, 4, 1);
    let from = filled(&gpu, form, |x| [0, 80, 160, 40][x as usize])?;
    let to = filled(&gpu, FORM, |_| 0)?;
    let region = region(form, [[0, 0, 4, 1], [0, 0, 16, 16]]);
    scaled(&gpu, from, to, region, Filter::LINEAR, false)?;
    pictured_nearly(&gpu.level_words(to, 0)?, 1, |x, _| {
        let all = [0.0f32, 80.0, 160.0, 40.0];
        let place = x / 4.0 - 0.5;
        let texel = |at: f32| all[at.clamp(0.0, 3.0) as usize];
        let part = place - place.floor();
        (texel(place.floor()) * (1.0 - part) + texel(place.floor() + 1.0) * part).round() as u32
    })
}

/// Has texels of one format become those of another.
fn converted(lab: &Lab, [of, to]: [F; 2], texel: &[u32], right: &[u32]) -> Outcome {
    let gpu = lab.graphics()?;
    lab.needs_feature(of, vk::FormatFeatureFlags::BLIT_SRC)?;
    lab.needs_feature(to, vk::FormatFeatureFlags::BLIT_DST)?;
    let [first, second] = [of, to].map(|format| Form { format, ..FORM });
    let word = |texel: &[u32], at: u32| texel[at as usize % texel.len()];
    let (from, to) = (filled(&gpu, first, |at| word(texel, at))?, filled(&gpu, second, |_| 0)?);
    let all = [0, 0, 16, 16];
    scaled(&gpu, from, to, region(FORM, [all, all]), Filter::NEAREST, false)?;
    same!(gpu.level_words(to, 0)?, right.repeat(256));
    Ok(())
}

fn levels(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let form = FORM.levels(5);
    let image = filled(&gpu, form, |place| if place % 2 == 0 { 0xff00_0000 } else { 0xff00_00ff })?;
    let level = |level: u32| vk::ImageSubresourceRange {
        base_mip_level: level,
        level_count: 1,
        ..form.range()
    };
    gpu.run(|commands| {
        commands.change(image, [L::GENERAL, L::TRANSFER_DST_OPTIMAL]);
        for next in 1..5 {
            let before = [L::TRANSFER_DST_OPTIMAL, L::TRANSFER_SRC_OPTIMAL];
            commands.change_part(image, level(next - 1), before);
            let size = |level: u32| 16 >> level;
            let mut region = region(
                form,
                [[0, 0, size(next - 1), size(next - 1)], [0, 0, size(next), size(next)]],
            );
            region.src_subresource.mip_level = next - 1;
            region.dst_subresource.mip_level = next;
            commands.blit(image, image, &[region], Filter::LINEAR);
        }
        commands.change_part(image, level(4), [L::TRANSFER_DST_OPTIMAL, L::TRANSFER_SRC_OPTIMAL]);
        commands.change(image, [L::TRANSFER_SRC_OPTIMAL, L::GENERAL]);
    })?;
    for number in 1..5 {
        let words = gpu.level_words(image, number)?;
        let near =
            |word: &u32| word & 0xffff_ff00 == 0xff00_0000 && (126..=129).contains(&(word & 0xff));
        require!(words.iter().all(near), "level {number} is {:x?}", words.first());
    }
    Ok(())
}

fn layers(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let form = FORM.layers(3);
    let from = filled(&gpu, form, |place| place / 256 + 1)?;
    let to = filled(&gpu, form, |_| 0)?;
    scaled(&gpu, from, to, region(form, [[0, 0, 4, 4], [0, 0, 16, 16]]), Filter::NEAREST, false)?;
    let right: Vec<_> = (0..768).map(|place| place / 256 + 1).collect();
    same!(gpu.level_words(to, 0)?, right);
    Ok(())
}
