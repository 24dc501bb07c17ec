// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host reads of copies and clears of images.

use super::*;
use bellhop_protocol::vulkan::{Command, Encoded, ImageKind, Layers, Range, Tiling, commands};

const COLOR: vk::ImageAspectFlags = vk::ImageAspectFlags::COLOR;

fn image(address: u64, kind: ImageKind, extent: [u32; 3], layers: u32) -> Description {
    Description {
        address,
        size: 1 << 20,
        format: 37,
        kind,
        tiling: Tiling::OPTIMAL,
        usage: 3,
        flags: 0,
        samples: 1,
        extent,
        levels: 4,
        layers,
        reserved: 0,
    }
}

/// An image of 64x32 with 6 layers.
fn array() -> Description {
    image(0x10_0000, ImageKind::TWO, [64, 32, 1], 6)
}

fn part(level: u32, first: u32, count: u32) -> vk::ImageSubresourceLayers {
    vk::ImageSubresourceLayers {
        aspect_mask: COLOR,
        mip_level: level,
        base_array_layer: first,
        layer_count: count,
    }
}

fn layers(level: u32, first: u32, count: u32) -> Layers {
    Layers { aspect: 1, level, first, count }
}

/// Runs a check over a command as the host decodes it.
fn decoded(command: impl Encoded, check: impl FnOnce(Command<'_>)) {
    let bytes = command.with_header(0, 0).as_bytes().to_vec();
    let all: Vec<_> = commands(&bytes).map(|command| command.unwrap().1).collect();
    assert_eq!(all.len(), 1);
    check(all[0]);
}

#[test]
fn a_copy_from_slices_to_layers_has_the_counts_of_both() {
    let volume = image(0x20_0000, ImageKind::THREE, [64, 32, 8], 1);
    let region = vk::ImageCopy {
        src_subresource: part(0, 0, 1),
        src_offset: vk::Offset3D { x: 1, y: 2, z: 3 },
        dst_subresource: part(1, 2, 4),
        dst_offset: vk::Offset3D { x: 5, y: 6, z: 0 },
        extent: vk::Extent3D { width: 8, height: 9, depth: 4 },
    };
    decoded(copy_image(volume, array(), &region), |command| {
        let Command::CopyImage(copy, _) = command else { panic!("{command:?}") };
        assert_eq!((copy.source, copy.destination), (volume, array()));
        assert_eq!((copy.from, copy.to), (layers(0, 0, 1), layers(1, 2, 4)));
        assert_eq!((copy.from_offset, copy.to_offset), ([1, 2, 3], [5, 6, 0]));
        assert_eq!(copy.extent, [8, 9, 4]);
    });
}

#[test]
fn copies_to_and_from_memory_are_each_other_s() {
    let region = vk::BufferImageCopy {
        buffer_offset: 0x40,
        buffer_row_length: 100,
        buffer_image_height: 50,
        image_subresource: part(2, 1, vk::REMAINING_ARRAY_LAYERS),
        image_offset: vk::Offset3D { x: 4, y: 2, z: 0 },
        image_extent: vk::Extent3D { width: 12, height: 6, depth: 1 },
    };
    decoded(copy_to_image(0x5000, array(), &region), |command| {
        let Command::CopyMemoryToImage(copy, _) = command else { panic!("{command:?}") };
        assert_eq!((copy.address, copy.image), (0x5040, array()));
        assert_eq!(
            (copy.layers, copy.offset, copy.extent),
            (layers(2, 1, 5), [4, 2, 0], [12, 6, 1])
        );
        assert_eq!((copy.row_length, copy.height), (100, 50));
    });
    decoded(copy_from_image(0x5000, array(), &region), |command| {
        let Command::CopyImageToMemory(copy, _) = command else { panic!("{command:?}") };
        assert_eq!((copy.address, copy.image), (0x5040, array()));
        assert_eq!(
            (copy.layers, copy.offset, copy.extent),
            (layers(2, 1, 5), [4, 2, 0], [12, 6, 1])
        );
        assert_eq!((copy.row_length, copy.height), (100, 50));
    });
}

#[test]
fn a_clear_reaches_the_rest_of_an_image() {
    let range = vk::ImageSubresourceRange {
        aspect_mask: COLOR,
        base_mip_level: 1,
        level_count: vk::REMAINING_MIP_LEVELS,
        base_array_layer: 2,
        layer_count: vk::REMAINING_ARRAY_LAYERS,
    };
    let color = [0.5, 0.25, 0.0, 1.0].map(f32::to_bits);
    decoded(clear(array(), color, &range), |command| {
        let Command::ClearImage(clear, _) = command else { panic!("{command:?}") };
        assert_eq!((clear.image, clear.color), (array(), color));
        let expected = Range { aspect: 1, level: 1, levels: 3, layer: 2, layers: 4, reserved: 0 };
        assert_eq!(clear.range, expected);
    });
}

#[test]
fn newer_regions_say_the_same_as_older_ones() {
    let extent = vk::Extent3D { width: 1, height: 2, depth: 3 };
    let offset = vk::Offset3D { x: 4, y: 5, z: 6 };
    let newer = vk::ImageCopy2::default()
        .src_subresource(part(1, 0, 1))
        .src_offset(offset)
        .dst_subresource(part(2, 0, 1))
        .extent(extent);
    let older = image_region(&newer);
    assert_eq!((first(older.src_offset), first(older.dst_offset)), ([4, 5, 6], [0; 3]));
    assert_eq!((older.src_subresource.mip_level, older.dst_subresource.mip_level), (1, 2));
    assert_eq!(size(older.extent), [1, 2, 3]);
    let newer = vk::BufferImageCopy2::default()
        .buffer_offset(7)
        .buffer_row_length(8)
        .buffer_image_height(9)
        .image_subresource(part(3, 0, 1))
        .image_offset(offset)
        .image_extent(extent);
    let older = buffer_region(&newer);
    assert_eq!(
        (older.buffer_offset, older.buffer_row_length, older.buffer_image_height),
        (7, 8, 9)
    );
    assert_eq!((older.image_subresource.mip_level, first(older.image_offset)), (3, [4, 5, 6]));
    assert_eq!(size(older.image_extent), [1, 2, 3]);
}
