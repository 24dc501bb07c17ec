// SPDX-License-Identifier: MIT OR Apache-2.0

//! Blits, resolves, and copies and clears of depths and stencils.

use super::*;
use crate::vulkan::Formats;

const ONE: Layers = Layers { aspect: COLOR, level: 0, first: 0, count: 1 };

fn plan<C: Encoded>(fake: &Fake, command: C, argument: u32) -> Result<(), Wrong> {
    Commands::new().with(command, argument, &[]).plan(fake, plain())
}

#[test]
fn a_blit_that_vulkan_does_not_allow_is_malformed() {
    let fake = Fake::new();
    let source = image(&fake);
    let destination = Image { address: source.address + 4096, ..source };
    let good = BlitImage {
        source,
        destination,
        from: ONE,
        to: ONE,
        from_corners: [[0; 3], [16, 8, 1]],
        to_corners: [[16, 8, 0], [3, 0, 1]],
        ..BlitImage::new_zeroed()
    };
    let blit = |blit, filter| plan(&fake, blit, filter);
    let depths = |image: Image| Image { format: D32_S8, ..image };
    let both = Layers { aspect: DEPTH | STENCIL, ..ONE };
    let of_depths = BlitImage {
        source: depths(source),
        destination: depths(destination),
        from: both,
        to: both,
        ..good
    };
    let planes = Image { kind: ImageKind::THREE, extent: [16, 8, 4], layers: 1, ..source };
    for (good, filter) in [
        (good, 1),
        (of_depths, 0),
        (BlitImage { source: planes, from_corners: [[0; 3], [16, 8, 4]], ..good }, 0),
        (BlitImage { destination: Image { format: 90, ..destination }, ..good }, 1),
        (
            BlitImage {
                destination: source,
                to_corners: [[0, 0, 0], [4, 4, 1]],
                to: Layers { first: 1, ..ONE },
                ..good
            },
            0,
        ),
    ] {
        blit(good, filter).unwrap();
    }
    let integers = |image: Image, format| Image { format, ..image };
    for (what, bad, filter) in [
        ("unknown filter", good, 2),
        ("not for copies", BlitImage { source: Image { usage: 2, ..source }, ..good }, 0),
        (
            "several samples",
            BlitImage { source: Image { samples: 4, levels: 1, ..source }, ..good },
            0,
        ),
        ("between integers", BlitImage { source: integers(source, 98), ..good }, 0),
        (
            "between integers",
            BlitImage {
                source: integers(source, 98),
                destination: integers(destination, 99),
                ..good
            },
            0,
        ),
        (
            "one of several",
            BlitImage {
                source: integers(source, 98),
                destination: integers(destination, 98),
                ..good
            },
            1,
        ),
        ("different formats", BlitImage { source: depths(source), ..good }, 0),
        ("one of several", of_depths, 1),
        ("different aspects", BlitImage { to: Layers { aspect: DEPTH, ..ONE }, ..of_depths }, 0),
        (
            "aspect",
            BlitImage {
                from: Layers { aspect: DEPTH, ..ONE },
                to: Layers { aspect: DEPTH, ..ONE },
                ..good
            },
            0,
        ),
        ("numbers of layers", BlitImage { to: Layers { count: 2, ..ONE }, ..good }, 0),
        (
            "numbers of layers",
            BlitImage { source: planes, to: Layers { first: 1, ..ONE }, ..good },
            0,
        ),
        ("level or layer", BlitImage { from: Layers { level: 3, ..ONE }, ..good }, 0),
        ("does not have", BlitImage { from_corners: [[0; 3], [17, 8, 1]], ..good }, 0),
        ("does not have", BlitImage { to: Layers { level: 1, ..ONE }, ..good }, 0),
        ("dimension", BlitImage { from_corners: [[0; 3], [16, 8, 0]], ..good }, 0),
        ("overlap", BlitImage { destination: source, ..good }, 0),
    ] {
        assert_malformed(blit(bad, filter), what);
    }
    let mut features = Box::new([[u32::MAX; 3]; FORMATS]);
    features[RGBA8 as usize][0] = 0;
    features[RGBA8 as usize][1] = 0x400;
    let bounds = Bounds { formats: Formats::new(features), ..on(plain()) };
    let bytes = Commands::new().with(good, 0, &[]).0;
    assert_malformed(fake.plan_for(&bounds, &bytes), "does none");
}

#[test]
fn a_resolve_that_vulkan_does_not_allow_is_malformed() {
    let fake = Fake::new();
    let destination = image(&fake);
    let source =
        Image { samples: 4, levels: 1, address: destination.address + 4096, ..destination };
    let good = ResolveImage {
        source,
        destination,
        from: ONE,
        to: ONE,
        extent: [16, 8, 1],
        ..ResolveImage::new_zeroed()
    };
    plan(&fake, good, 0).unwrap();
    let depths = |image: Image| Image { format: D32_S8, ..image };
    for (what, bad) in [
        ("not for copies", ResolveImage { source: Image { usage: 2, ..source }, ..good }),
        ("several samples to one", ResolveImage { source: destination, ..good }),
        ("several samples to one", ResolveImage { destination: source, ..good }),
        (
            "another format",
            ResolveImage { destination: Image { format: 43, ..destination }, ..good },
        ),
        (
            "no colour",
            ResolveImage {
                from: Layers { aspect: DEPTH, ..ONE },
                source: depths(source),
                destination: depths(destination),
                ..good
            },
        ),
        ("layers", ResolveImage { to: Layers { count: 2, ..ONE }, ..good }),
        ("layers", ResolveImage { extent: [16, 8, 2], ..good }),
        ("does not have", ResolveImage { extent: [17, 8, 1], ..good }),
        ("does not have", ResolveImage { to_offset: [1, 0, 0], ..good }),
        ("reserved", ResolveImage { reserved: 1, ..good }),
    ] {
        assert_malformed(plan(&fake, bad, 0), what);
    }
}

#[test]
fn depths_and_stencils_are_copied_and_cleared_as_what_they_are() {
    let fake = Fake::new();
    let depths = Image { format: D32_S8, ..image(&fake) };
    let rows = |format, aspect, address| CopyMemoryToImage {
        address,
        image: Image { format, ..depths },
        layers: Layers { aspect, ..ONE },
        extent: [16, 8, 1],
        ..CopyMemoryToImage::new_zeroed()
    };
    // Texels of depth have two or four bytes, and those of a stencil one: up to the end of the window.
    for (format, aspect, bytes) in [
        (124, DEPTH, 2),
        (125, DEPTH, 4),
        (127, STENCIL, 1),
        (130, DEPTH, 4),
        (130, STENCIL, 1),
        (128, DEPTH, 2),
    ] {
        let last = fake.end() - 128 * bytes;
        plan(&fake, rows(format, aspect, last), 0).unwrap();
        assert_malformed(plan(&fake, rows(format, aspect, last + 4), 0), "not in the window");
    }
    for (what, copy) in [
        ("or several", rows(130, DEPTH | STENCIL, fake.start)),
        ("does not have", rows(126, STENCIL, fake.start)),
        ("does not have", rows(130, COLOR, fake.start)),
        ("not aligned", rows(127, STENCIL, fake.start + 2)),
    ] {
        assert_malformed(plan(&fake, copy, 0), what);
    }
    let range = Range { aspect: DEPTH, level: 0, levels: 1, layer: 0, layers: 1, reserved: 0 };
    let clear = ClearDepthStencil { image: depths, range, ..ClearDepthStencil::new_zeroed() };
    plan(&fake, clear, 0).unwrap();
    for (what, bad) in [
        ("has a colour", ClearDepthStencil { image: image(&fake), ..clear }),
        ("0 to 1", ClearDepthStencil { value: [f32::NAN.to_bits(), 0], ..clear }),
        ("aspect", ClearDepthStencil { range: Range { aspect: COLOR, ..range }, ..clear }),
        ("not for it", ClearDepthStencil { image: Image { usage: 1, ..depths }, ..clear }),
    ] {
        assert_malformed(plan(&fake, bad, 0), what);
    }
    let both = Layers { aspect: DEPTH | STENCIL, ..ONE };
    let copy = CopyImage {
        source: depths,
        destination: Image { address: depths.address + 4096, ..depths },
        from: both,
        to: both,
        extent: [16, 8, 1],
        ..CopyImage::new_zeroed()
    };
    plan(&fake, copy, 0).unwrap();
    let other = CopyImage { destination: Image { format: 129, ..copy.destination }, ..copy };
    assert_malformed(plan(&fake, other, 0), "different depths");
    let aspects = CopyImage { to: Layers { aspect: DEPTH, ..ONE }, ..copy };
    assert_malformed(plan(&fake, aspects, 0), "different aspects");
}
