// SPDX-License-Identifier: MIT OR Apache-2.0

//! What Vulkan's specification forbids of images, copies, views, samplers and buffers of texels.

use super::{BOUNDS, DATA, Fake, PIPELINE, SET, assert_malformed, binding, one, put};
use crate::serve::commands::stream::Stream;
use crate::serve::commands::wrong::Wrong;
use crate::vulkan::{Bounds, Formats};
use bellhop_protocol::vulkan::{
    Barrier, ClearImage, CopyImage, CopyImageToMemory, CopyMemoryToImage, Descriptor,
    DescriptorKind, Dispatch, Encoded, FORMATS, Image, ImageKind, ImageView, Layers, QueryImage,
    QueryImageFormat, Range, Sampler, Tiling,
};
use zerocopy::{FromZeros, IntoBytes};

// Numbers of Vulkan's header: formats, usages and flags.
const R8_UNORM: u32 = 9;
pub(super) const RGBA8: u32 = 37;
const RGBA8_SRGB: u32 = 43;
const R32_UINT: u32 = 98;
const RGB32_UINT: u32 = 104;
const RG32_UINT: u32 = 101;
const D16: u32 = 124;
const BC1: u32 = 131;
const BC1_SRGB: u32 = 132;
const BC4: u32 = 139;
const TRANSFERS: u32 = 0b11;
const SAMPLED: u32 = 4;
const STORAGE: u32 = 8;
const MUTABLE: u32 = 8;
const CUBE: u32 = 0x10;
const PLANES: u32 = 0x20;
const BLOCKS: u32 = 0x80;
/// The sizes and addresses of a test's objects.
const VIEW: u64 = 12_288;
const SAMPLER: u64 = 12_544;

const ONE: Layers = Layers { aspect: 1, level: 0, first: 0, count: 1 };
const WHOLE: Range = Range { aspect: 1, level: 0, levels: 1, layer: 0, layers: 1, reserved: 0 };

/// A device that has images: every feature of every format, but none of buffers for the first.
pub(super) fn bounds() -> Bounds {
    let mut features = Box::new([[u32::MAX; 3]; FORMATS]);
    features[R8_UNORM as usize] = [0; 3];
    Bounds { formats: Formats::new(features), ..BOUNDS }
}

/// An image of two dimensions with mip levels, for everything.
pub(super) fn image(fake: &Fake) -> Image {
    Image {
        address: fake.start + DATA,
        size: 4096,
        format: RGBA8,
        kind: ImageKind::TWO,
        usage: TRANSFERS | SAMPLED | STORAGE,
        samples: 1,
        extent: [16, 8, 1],
        levels: 3,
        layers: 4,
        ..Image::new_zeroed()
    }
}

fn read<C: Encoded>(fake: &Fake, command: C) -> Result<(), Wrong> {
    let bytes = [one(Barrier::new_zeroed(), 0, &[]), one(command, 0, &[])].concat();
    Stream::read(&bytes, &fake.memory).map(drop)
}

#[test]
fn an_image_that_vulkan_does_not_allow_is_malformed() {
    let fake = Fake::new();
    let good = image(&fake);
    let clear = |image| read(&fake, ClearImage { image, range: WHOLE, ..ClearImage::new_zeroed() });
    let cube = Image { flags: CUBE, extent: [8, 8, 1], layers: 6, ..good };
    let three = Image { kind: ImageKind::THREE, extent: [8, 8, 8], layers: 1, ..good };
    let samples = Image { samples: 4, levels: 1, ..good };
    for image in [good, cube, Image { flags: PLANES, ..three }, samples] {
        clear(image).unwrap();
    }
    for (what, image) in [
        ("format", Image { format: 0, ..good }),
        ("format", Image { format: D16, ..good }),
        ("format", Image { format: 1000, ..good }),
        ("kind", Image { kind: ImageKind(3), ..good }),
        ("tiling", Image { tiling: Tiling(2), ..good }),
        ("use", Image { usage: 0, ..good }),
        ("use", Image { usage: 0x102, ..good }),
        ("something else", Image { usage: 0x42, ..good }),
        ("something else", Image { usage: 0x40, ..good }),
        ("something else", Image { usage: 0x44, ..good }),
        ("flag", Image { flags: 1, ..good }),
        ("flag", Image { flags: 1 << 31, ..good }),
        ("samples", Image { samples: 0, ..good }),
        ("samples", Image { samples: 3, ..good }),
        ("samples", Image { samples: 128, ..good }),
        ("samples", Image { levels: 2, ..samples }),
        ("samples", Image { tiling: Tiling::LINEAR, ..samples }),
        ("samples", Image { samples: 4, levels: 1, ..cube }),
        ("samples", Image { samples: 4, levels: 1, ..three }),
        ("without a texel", Image { extent: [0, 8, 1], ..good }),
        ("without a texel", Image { extent: [16, 8, 0], ..good }),
        ("without a texel", Image { levels: 0, ..good }),
        ("without a texel", Image { layers: 0, ..good }),
        ("dimensions", Image { kind: ImageKind::ONE, ..good }),
        ("dimensions", Image { extent: [16, 8, 2], ..good }),
        ("layers", Image { layers: 2, ..three }),
        ("levels", Image { levels: 6, ..good }),
        ("levels", Image { levels: u32::MAX, ..good }),
        ("cubes", Image { kind: ImageKind::THREE, layers: 1, ..cube }),
        ("cubes", Image { layers: 5, ..cube }),
        ("cubes", Image { extent: [8, 4, 1], ..cube }),
        ("planes", Image { flags: PLANES, ..good }),
        ("blocks", Image { flags: BLOCKS | MUTABLE, ..good }),
        ("blocks", Image { flags: BLOCKS, format: BC1, ..good }),
        ("reserved", Image { reserved: 1, ..good }),
        ("not in the window", Image { address: fake.end() - 4095, ..good }),
        ("not in the window", Image { size: u64::MAX, ..good }),
    ] {
        assert_malformed(clear(image), what);
    }
}

#[test]
fn a_clear_of_what_an_image_does_not_have_is_malformed() {
    let fake = Fake::new();
    let clear = |range, image| read(&fake, ClearImage { image, range, ..ClearImage::new_zeroed() });
    let good = image(&fake);
    clear(Range { level: 2, layer: 3, ..WHOLE }, good).unwrap();
    for (what, range) in [
        ("level", Range { level: 3, ..WHOLE }),
        ("level", Range { level: 1, levels: 3, ..WHOLE }),
        ("level", Range { level: 1, levels: u32::MAX, ..WHOLE }),
        ("level", Range { levels: 0, ..WHOLE }),
        ("layer", Range { layer: 4, ..WHOLE }),
        ("layer", Range { layer: u32::MAX, layers: 2, ..WHOLE }),
        ("layer", Range { layers: 0, ..WHOLE }),
        ("aspect", Range { aspect: 2, ..WHOLE }),
        ("reserved", Range { reserved: 1, ..WHOLE }),
    ] {
        assert_malformed(clear(range, good), what);
    }
    assert_malformed(clear(WHOLE, Image { format: BC1, ..good }), "compressed");
    assert_malformed(clear(WHOLE, Image { usage: 1, ..good }), "not for it");
}

#[test]
fn a_copy_between_images_that_vulkan_does_not_allow_is_malformed() {
    let fake = Fake::new();
    let source = image(&fake);
    let destination = Image { address: source.address + 4096, ..source };
    let good = CopyImage {
        source,
        destination,
        from: ONE,
        to: ONE,
        extent: [16, 8, 1],
        ..CopyImage::new_zeroed()
    };
    let three = Image { kind: ImageKind::THREE, extent: [8, 8, 4], layers: 1, ..destination };
    let into_planes = CopyImage {
        destination: three,
        from: Layers { first: 1, count: 3, ..ONE },
        to_offset: [0, 0, 1],
        extent: [8, 8, 3],
        ..good
    };
    let inside = CopyImage { destination: source, to: Layers { first: 1, ..ONE }, ..good };
    let beside = CopyImage { to: ONE, to_offset: [8, 0, 0], extent: [8, 8, 1], ..inside };
    let blocks = CopyImage {
        source: Image { format: RG32_UINT, ..source },
        destination: Image { format: BC1, ..destination },
        extent: [4, 2, 1],
        ..good
    };
    // The last level of 4x2 texels has one block.
    let edge = CopyImage { to: Layers { level: 2, ..ONE }, extent: [1, 1, 1], ..blocks };
    for copy in [good, into_planes, inside, beside, blocks, edge] {
        read(&fake, copy).unwrap();
    }
    let one_d = Image { kind: ImageKind::ONE, extent: [16, 1, 1], ..destination };
    for (what, copy) in [
        ("not for copies", CopyImage { source: Image { usage: 2, ..source }, ..good }),
        ("not for copies", CopyImage { destination: Image { usage: 1, ..destination }, ..good }),
        ("sizes", CopyImage { destination: Image { format: R8_UNORM, ..destination }, ..good }),
        (
            "samples",
            CopyImage { destination: Image { samples: 4, levels: 1, ..destination }, ..good },
        ),
        ("dimensions", CopyImage { destination: one_d, extent: [16, 1, 1], ..good }),
        ("reserved", CopyImage { reserved: 1, ..good }),
        ("number", CopyImage { to: Layers { count: 2, ..ONE }, ..good }),
        ("number", CopyImage { extent: [8, 8, 2], ..into_planes }),
        ("aspect", CopyImage { from: Layers { aspect: 4, ..ONE }, ..good }),
        ("level", CopyImage { to: Layers { level: 3, ..ONE }, ..good }),
        ("level", CopyImage { from: Layers { level: u32::MAX, ..ONE }, ..good }),
        ("layer", CopyImage { from: Layers { first: 4, ..ONE }, ..good }),
        ("does not have", CopyImage { extent: [17, 8, 1], ..good }),
        ("does not have", CopyImage { extent: [16, 0, 1], ..good }),
        ("does not have", CopyImage { extent: [16, 8, 2], ..good }),
        ("does not have", CopyImage { from_offset: [1, 0, 0], ..good }),
        ("does not have", CopyImage { to_offset: [0, u32::MAX, 0], ..good }),
        ("does not have", CopyImage { to: Layers { level: 1, ..ONE }, ..good }),
        ("does not have", CopyImage { to_offset: [0, 0, 2], ..into_planes }),
        ("does not have", CopyImage { extent: [5, 2, 1], ..blocks }),
        ("part of a block", CopyImage { to_offset: [2, 0, 0], extent: [1, 1, 1], ..blocks }),
        ("overlap", CopyImage { to: ONE, ..inside }),
        ("overlap", CopyImage { to_offset: [7, 0, 0], ..beside }),
        (
            "overlap",
            CopyImage {
                from: Layers { count: 2, ..ONE },
                to: Layers { first: 1, count: 2, ..ONE },
                ..inside
            },
        ),
    ] {
        assert_malformed(read(&fake, copy), what);
    }
}

#[test]
fn a_copy_between_memory_and_an_image_stays_in_both() {
    let fake = Fake::new();
    let image = image(&fake);
    let layers = Layers { count: 2, ..ONE };
    let (extent, address) = ([16, 8, 1], fake.end() - 1024);
    let good =
        CopyMemoryToImage { address, image, layers, extent, ..CopyMemoryToImage::new_zeroed() };
    let back =
        CopyImageToMemory { address, image, layers, extent, ..CopyImageToMemory::new_zeroed() };
    let blocks = Image { format: BC1, ..image };
    // Two layers of 2 rows of 4 blocks of 8 bytes, whose last row is not as long as the others.
    let compressed = CopyMemoryToImage { address: fake.end() - 128, image: blocks, ..good };
    let longer = CopyMemoryToImage { row_length: 20, address: fake.end() - 152, ..compressed };
    // A texel of 12 bytes needs what one of its numbers needs.
    let three = Image { format: RGB32_UINT, ..image };
    let odd = CopyMemoryToImage { image: three, address: fake.end() - 3076, ..good };
    for copy in [good, compressed, longer, odd] {
        read(&fake, copy).unwrap();
    }
    read(&fake, back).unwrap();
    let far = u32::MAX - 3;
    for (what, copy) in [
        ("not in the window", CopyMemoryToImage { address: address + 4, ..good }),
        ("not in the window", CopyMemoryToImage { height: 9, ..good }),
        ("not in the window", CopyMemoryToImage { row_length: 17, ..good }),
        ("not in the window", CopyMemoryToImage { address: longer.address + 8, ..longer }),
        ("not in the window", CopyMemoryToImage { address: fake.start - 4, ..good }),
        ("not in the window", CopyMemoryToImage { height: far, row_length: 1 << 20, ..good }),
        ("too long", CopyMemoryToImage { row_length: 1 << 29, ..good }),
        ("too short", CopyMemoryToImage { row_length: 15, ..good }),
        ("too short", CopyMemoryToImage { height: 7, ..good }),
        ("parts of blocks", CopyMemoryToImage { row_length: 18, ..compressed }),
        ("parts of blocks", CopyMemoryToImage { height: 10, ..compressed }),
        ("part of a block", CopyMemoryToImage { offset: [1, 0, 0], ..compressed }),
        ("part of a block", CopyMemoryToImage { extent: [15, 8, 1], ..compressed }),
        ("aligned", CopyMemoryToImage { address: address - 1022, ..good }),
        ("aligned", CopyMemoryToImage { address: fake.end() - 3074, ..odd }),
        ("does not have", CopyMemoryToImage { offset: [0, 1, 0], ..good }),
        ("layer", CopyMemoryToImage { layers: Layers { count: 5, ..ONE }, ..good }),
        ("samples", CopyMemoryToImage { image: Image { samples: 4, levels: 1, ..image }, ..good }),
        ("not for copies", CopyMemoryToImage { image: Image { usage: 1, ..image }, ..good }),
    ] {
        assert_malformed(read(&fake, copy), what);
    }
    let unreadable = CopyImageToMemory { image: Image { usage: 2, ..image }, ..back };
    assert_malformed(read(&fake, unreadable), "not for copies");
}

#[test]
fn a_question_about_an_image_has_a_place_for_its_answer_and_none_for_the_image() {
    let fake = Fake::new();
    let shape = Image { address: 0, size: 0, ..image(&fake) };
    let ask = |destination, image| {
        read(&fake, QueryImage { destination, image, ..QueryImage::new_zeroed() })
    };
    let kind = |destination, image| {
        read(&fake, QueryImageFormat { destination, image, ..QueryImageFormat::new_zeroed() })
    };
    let nothing = Image { samples: 0, extent: [0; 3], levels: 0, layers: 0, ..shape };
    ask(fake.end() - 64, shape).unwrap();
    kind(fake.end() - 40, nothing).unwrap();
    // What there cannot be is said in the answer.
    ask(fake.start, Image { format: D16, ..shape }).unwrap();
    kind(fake.start, Image { usage: u32::MAX, ..nothing }).unwrap();
    for (what, asked) in [
        ("not in the window", ask(fake.end() - 56, shape)),
        ("no multiple of 8", ask(fake.start + 4, shape)),
        ("question", ask(fake.start, Image { address: 8, ..shape })),
        ("question", ask(fake.start, Image { size: 8, ..shape })),
        ("question", ask(fake.start, Image { reserved: 1, ..shape })),
        ("not in the window", kind(fake.end() - 32, nothing)),
        ("no multiple of 8", kind(fake.start + 4, nothing)),
        ("question", kind(fake.start, Image { samples: 1, ..nothing })),
        ("question", kind(fake.start, Image { extent: [0, 0, 1], ..nothing })),
        ("question", kind(fake.start, Image { levels: 1, ..nothing })),
        ("question", kind(fake.start, Image { layers: 1, ..nothing })),
        ("question", kind(fake.start, Image { size: 1, ..nothing })),
        ("question", kind(fake.start, Image { reserved: 1, ..nothing })),
    ] {
        assert_malformed(asked, what);
    }
}

#[test]
fn a_device_that_makes_no_images_takes_none() {
    let fake = Fake::new();
    let clear = ClearImage { image: image(&fake), range: WHOLE, ..ClearImage::new_zeroed() };
    let bytes = [one(Barrier::new_zeroed(), 0, &[]), one(clear, 0, &[])].concat();
    assert_malformed(fake.plan(&bytes), "makes none");
    let plan = fake.plan_for(&bounds(), &bytes).unwrap();
    assert_eq!(plan.images.all().len(), 1);
    for kind in 0..6 {
        fake.put_pipeline(1, &[binding(0, 0, DescriptorKind(kind), 1, 0)]);
        let bytes = [one(Barrier::new_zeroed(), 0, &[]), one(fake.dispatch(0), 0, &[])].concat();
        assert_malformed(fake.plan(&bytes), "makes none");
        assert!(fake.plan_for(&bounds(), &bytes).is_ok());
    }
}

/// Plans a dispatch with one descriptor of a kind, and returns the descriptor as the plan has it, and what tells it apart.
fn planned(
    fake: &Fake,
    kind: DescriptorKind,
    descriptor: Descriptor,
    bounds: &Bounds,
) -> Result<(Descriptor, Vec<u8>), Wrong> {
    fake.put_pipeline(1, &[binding(0, 0, kind, 1, 0)]);
    fake.put(SET, descriptor.as_bytes());
    let mut bytes = one(Barrier::new_zeroed(), 0, &[]);
    let set = (fake.start + SET).to_le_bytes();
    put(&mut bytes, Dispatch { pipeline: fake.start + PIPELINE, ..fake.dispatch(0) }, 1, &set);
    let plan = fake.plan_for(bounds, &bytes)?;
    let mut key = Vec::new();
    plan.tell(&mut key);
    Ok((plan.descriptors.all()[0], key))
}

fn of_view(fake: &Fake, serial: u64) -> Descriptor {
    Descriptor { address: fake.start + VIEW, length: serial, ..Descriptor::default() }
}

fn view(image: Image) -> ImageView {
    ImageView {
        serial: 7,
        image,
        kind: 1,
        format: image.format,
        components: [0; 4],
        range: WHOLE,
        usage: SAMPLED | STORAGE,
        reserved: 0,
    }
}

#[test]
fn a_view_that_vulkan_does_not_allow_is_malformed() {
    let fake = Fake::new();
    let sees = |view: ImageView, kind| {
        fake.put(VIEW, view.as_bytes());
        planned(&fake, kind, of_view(&fake, 7), &Bounds { cube_arrays: true, ..bounds() })
    };
    let flat = image(&fake);
    let row = Image { kind: ImageKind::ONE, extent: [16, 1, 1], ..flat };
    let cube = Image { flags: CUBE, extent: [8, 8, 1], layers: 13, ..flat };
    let three = Image { kind: ImageKind::THREE, extent: [8, 8, 8], layers: 1, ..flat };
    let planes = Image { flags: PLANES, ..three };
    let any = Image { flags: MUTABLE, ..flat };
    let blocks = Image { flags: MUTABLE | BLOCKS, format: BC1, ..flat };
    let of = |image: Image, kind, layer, layers| ImageView {
        kind,
        range: Range { layer, layers, ..WHOLE },
        ..view(image)
    };
    for good in [
        of(row, 0, 3, 1),
        of(row, 4, 1, 3),
        of(flat, 1, 3, 1),
        of(flat, 5, 0, 4),
        of(cube, 3, 7, 6),
        of(cube, 6, 1, 12),
        of(three, 2, 0, 1),
        of(planes, 1, 7, 1),
        of(planes, 5, 4, 4),
        ImageView { format: R32_UINT, ..view(any) },
        ImageView { format: BC1_SRGB, ..view(blocks) },
        ImageView { format: RG32_UINT, ..view(blocks) },
        ImageView { components: [3, 0, 5, 6], ..view(flat) },
    ] {
        sees(good, DescriptorKind::STORAGE_IMAGE).unwrap();
    }
    let swapped = ImageView { components: [5, 4, 3, 1], usage: SAMPLED, ..view(flat) };
    sees(swapped, DescriptorKind::SAMPLED_IMAGE).unwrap();
    let both = view(flat);
    for (what, bad) in [
        ("reserved", ImageView { reserved: 1, ..both }),
        ("unknown kind", of(flat, 7, 0, 1)),
        ("kind that its image", of(row, 1, 0, 1)),
        ("kind that its image", of(flat, 0, 0, 1)),
        ("kind that its image", of(flat, 2, 0, 1)),
        ("kind that its image", of(Image { flags: 0, ..cube }, 3, 0, 6)),
        ("kind that its image", of(three, 1, 0, 1)),
        ("kind that its image", of(planes, 3, 0, 6)),
        ("number of layers", of(flat, 1, 0, 2)),
        ("number of layers", of(cube, 3, 0, 7)),
        ("number of layers", of(cube, 6, 0, 7)),
        ("levels", ImageView { range: Range { levels: 2, ..WHOLE }, ..of(planes, 1, 0, 1) }),
        ("level or layer", of(flat, 5, 1, 4)),
        ("level or layer", of(planes, 5, 4, 5)),
        // A level has fewer planes.
        (
            "level or layer",
            ImageView { range: Range { level: 1, layer: 4, ..WHOLE }, ..of(planes, 1, 0, 1) },
        ),
        ("level or layer", ImageView { range: Range { levels: 4, ..WHOLE }, ..both }),
        ("aspect", ImageView { range: Range { aspect: 3, ..WHOLE }, ..both }),
        ("reserved", ImageView { range: Range { reserved: 3, ..WHOLE }, ..both }),
        ("which stays", ImageView { format: RGBA8_SRGB, ..both }),
        ("format that is not like", ImageView { format: RG32_UINT, ..view(any) }),
        ("format that is no colour's", ImageView { format: D16, ..view(any) }),
        ("format that is not like", ImageView { format: BC4, ..view(blocks) }),
        ("format that is not like", ImageView { format: R32_UINT, ..view(blocks) }),
        (
            "format that is not like",
            ImageView { format: RG32_UINT, ..view(Image { flags: MUTABLE, ..blocks }) },
        ),
        ("format that is not like", ImageView { format: RG32_UINT, ..of(blocks, 5, 0, 2) }),
        ("unknown component", ImageView { components: [0, 0, 0, 7], ..both }),
        ("not for", ImageView { usage: 0, ..both }),
        ("not for", ImageView { usage: TRANSFERS, ..both }),
        ("not for", ImageView { usage: SAMPLED | 0x10, ..both }),
        ("not for", ImageView { usage: STORAGE, ..view(Image { usage: SAMPLED, ..flat }) }),
        ("device does not do", view(Image { format: R8_UNORM, ..flat })),
        ("not for storage", ImageView { usage: SAMPLED, ..both }),
        ("another order", ImageView { components: [5, 4, 3, 6], ..both }),
        ("without a texel", view(Image { levels: 0, ..flat })),
        ("not in the window", view(Image { address: 8, ..flat })),
    ] {
        assert_malformed(sees(bad, DescriptorKind::STORAGE_IMAGE), what);
    }
    let storage = ImageView { usage: STORAGE, ..both };
    for kind in [DescriptorKind::SAMPLED_IMAGE, DescriptorKind::COMBINED_IMAGE_SAMPLER] {
        assert_malformed(sees(storage, kind), "not for samplers");
    }
    fake.put(VIEW, of(cube, 6, 0, 6).as_bytes());
    let without = planned(&fake, DescriptorKind::SAMPLED_IMAGE, of_view(&fake, 7), &bounds());
    assert_malformed(without, "kind that its image");
}

#[test]
fn a_sampler_that_vulkan_or_the_device_does_not_allow_is_malformed() {
    let fake = Fake::new();
    let with = |sampler: Sampler, bounds: &Bounds| {
        fake.put(SAMPLER, sampler.as_bytes());
        let descriptor =
            Descriptor { sampler: fake.start + SAMPLER, about: 7, ..Descriptor::default() };
        planned(&fake, DescriptorKind::SAMPLER, descriptor, bounds)
    };
    let plain = Sampler { serial: 7, ..Sampler::new_zeroed() };
    let linear = Sampler { mag_filter: 1, min_filter: 1, mipmap_mode: 1, max_lod: 1000.0, ..plain };
    let anisotropic = Sampler { is_anisotropic: 1, most_anisotropy: 2.0, ..linear };
    let mirroring = Sampler { address_modes: [0, 0, 4], ..linear };
    let reducing = Sampler { reduction: 2, ..linear };
    let comparing = Sampler { compares: 1, compare_op: 7, ..linear };
    let by_number = Sampler { is_unnormalised: 1, address_modes: [2, 3, 0], ..plain };
    let mut more = bounds();
    more.samplers.most_anisotropy = Some(2.0);
    more.samplers.mirror_once = true;
    more.samplers.reduce = true;
    for (what, sampler) in
        [("anisotropy", anisotropic), ("mirrors", mirroring), ("reduces", reducing)]
    {
        with(sampler, &more).unwrap();
        assert_malformed(with(sampler, &bounds()), what);
    }
    for sampler in [plain, linear, comparing, by_number, Sampler { border_color: 5, ..plain }] {
        with(sampler, &bounds()).unwrap();
    }
    for (what, sampler) in [
        ("unknown", Sampler { mag_filter: 2, ..plain }),
        ("unknown", Sampler { min_filter: 2, ..plain }),
        ("unknown", Sampler { mipmap_mode: 2, ..plain }),
        ("unknown", Sampler { address_modes: [0, 5, 0], ..plain }),
        ("unknown", Sampler { compare_op: 8, ..plain }),
        ("unknown", Sampler { border_color: 6, ..plain }),
        ("unknown", Sampler { reduction: 3, ..plain }),
        ("unknown", Sampler { is_anisotropic: 2, ..plain }),
        ("unknown", Sampler { compares: 2, ..plain }),
        ("unknown", Sampler { is_unnormalised: u32::MAX, ..plain }),
        ("finite", Sampler { lod_bias: f32::NAN, ..plain }),
        ("finite", Sampler { most_anisotropy: f32::INFINITY, ..plain }),
        ("finite", Sampler { min_lod: f32::NEG_INFINITY, ..plain }),
        ("finite", Sampler { max_lod: f32::NAN, ..plain }),
        ("levels", Sampler { lod_bias: -4.5, ..plain }),
        ("levels", Sampler { min_lod: 1.0, ..plain }),
        ("anisotropy", Sampler { most_anisotropy: 2.5, ..anisotropic }),
        ("anisotropy", Sampler { most_anisotropy: 0.5, ..anisotropic }),
        ("compares", Sampler { reduction: 1, ..comparing }),
        ("numbers", Sampler { mag_filter: 1, ..by_number }),
        ("numbers", Sampler { mipmap_mode: 1, ..by_number }),
        ("numbers", Sampler { max_lod: 1.0, ..by_number }),
        ("numbers", Sampler { address_modes: [2, 0, 2], ..by_number }),
        ("numbers", Sampler { compares: 1, ..by_number }),
        ("numbers", Sampler { is_anisotropic: 1, most_anisotropy: 1.0, ..by_number }),
    ] {
        assert_malformed(with(sampler, &more), what);
    }
}

#[test]
fn a_buffer_of_texels_that_the_device_does_not_take_is_malformed() {
    let fake = Fake::new();
    let start = (fake.start + DATA).next_multiple_of(16);
    let good = Descriptor { address: start, length: 256, sampler: 0, about: R32_UINT.into() };
    let with =
        |descriptor| planned(&fake, DescriptorKind::UNIFORM_TEXEL_BUFFER, descriptor, &bounds());
    assert_eq!(with(good).unwrap().0, good);
    // 64 texels, of any size.
    with(Descriptor { length: 768, about: RGB32_UINT.into(), ..good }).unwrap();
    for (what, descriptor) in [
        ("colour", Descriptor { about: 0, ..good }),
        ("colour", Descriptor { about: 1 << 32 | u64::from(R32_UINT), ..good }),
        ("colour", Descriptor { about: D16.into(), ..good }),
        ("does not take", Descriptor { about: R8_UNORM.into(), ..good }),
        ("not aligned", Descriptor { address: start + 8, ..good }),
        ("number of texels", Descriptor { length: 0, ..good }),
        ("number of texels", Descriptor { length: 254, ..good }),
        ("number of texels", Descriptor { length: 260, ..good }),
        ("not in the window", Descriptor { address: start + (1 << 40), ..good }),
        ("kind's", Descriptor { sampler: 8, ..good }),
    ] {
        assert_malformed(with(descriptor), what);
    }
    let mut none = Box::new([[u32::MAX; 3]; FORMATS]);
    none[R32_UINT as usize][2] = 0x8;
    let uniform_only = Bounds { formats: Formats::new(none), ..BOUNDS };
    let stored = planned(&fake, DescriptorKind::STORAGE_TEXEL_BUFFER, good, &uniform_only);
    assert_malformed(stored, "does not take");
}

#[test]
fn a_descriptor_of_what_has_ended_has_nothing() {
    let fake = Fake::new();
    let (view, sampler) = (view(image(&fake)), Sampler { serial: 7, ..Sampler::new_zeroed() });
    fake.put(VIEW, view.as_bytes());
    fake.put(SAMPLER, sampler.as_bytes());
    let kind = DescriptorKind::COMBINED_IMAGE_SAMPLER;
    let both = |view, sampler| Descriptor {
        sampler: fake.start + SAMPLER,
        about: sampler,
        ..of_view(&fake, view)
    };
    let with = |descriptor| planned(&fake, kind, descriptor, &bounds()).unwrap();
    let nothing = Descriptor::default();
    assert_eq!(with(nothing).0, nothing);
    assert_eq!(with(both(7, 7)).0, both(7, 7));
    assert_eq!(with(both(6, 7)).0, Descriptor { address: 0, length: 0, ..both(7, 7) });
    assert_eq!(with(both(7, 6)).0, of_view(&fake, 7));
    // A view without a serial number is none.
    fake.put(VIEW, &[0; 8]);
    assert_eq!(with(both(0, 6)).0, nothing);
    fake.put(VIEW, view.as_bytes());
    // What streams run on tells them apart: all of it.
    let (_, before) = with(both(7, 7));
    assert_eq!(with(both(7, 7)).1, before);
    fake.put(VIEW, ImageView { components: [0, 1, 2, 3], ..view }.as_bytes());
    let (_, other_view) = with(both(7, 7));
    fake.put(SAMPLER, Sampler { border_color: 1, ..sampler }.as_bytes());
    let (_, other_sampler) = with(both(7, 7));
    assert!(before != other_view && other_view != other_sampler);
    for (what, kind, descriptor) in [
        ("not aligned", kind, Descriptor { address: fake.start + VIEW + 4, ..both(7, 7) }),
        ("not in the window", kind, Descriptor { sampler: fake.end() - 64, ..both(7, 7) }),
        ("kind's", DescriptorKind::SAMPLED_IMAGE, both(7, 7)),
        ("kind's", DescriptorKind::STORAGE_IMAGE, Descriptor { about: 1, ..of_view(&fake, 7) }),
        ("kind's", DescriptorKind::SAMPLER, both(7, 7)),
    ] {
        assert_malformed(planned(&fake, kind, descriptor, &bounds()), what);
    }
}
