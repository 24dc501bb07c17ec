// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attachments of depth, stencil and several samples, clears of parts, blits and resolves.

use super::*;

#[test]
fn what_is_behind_something_is_not_drawn_and_the_stencil_says_where_it_was() {
    let Some(mut streams) = scene() else { return };
    let near = rectangle([0.0, 0.0], [8.0, 16.0], 0.25, RED);
    let far = rectangle([0.0, 0.0], [16.0, 8.0], 0.5, GREEN);
    streams.put_vertices(&[near, far].concat());
    for format in [D32, D32_S8] {
        let has_stencil = format == D32_S8;
        let mut pipeline = Graphics::new();
        let state = &mut pipeline.state;
        (state.depth_format, state.tests_depth, state.writes_depth) = (format, 1, 1);
        state.depth_compare = 1;
        if has_stencil {
            // What passes both tests adds one.
            state.stencil_format = format;
            state.tests_stencil = 1;
            let face = StencilFace {
                pass: 3,
                compare: 7,
                compare_mask: 255,
                write_mask: 255,
                ..StencilFace::new_zeroed()
            };
            (state.front, state.back) = (face, face);
        }
        streams.put_graphics(format.into(), &pipeline);
        let (color, depth) = (image(0, RGBA8, COLOR_USE), image(1, format, DEPTH_USE));
        let colors = streams.attach(color, COLOR, CLEAR, BLUE);
        let aspects = if has_stencil { DEPTH | STENCIL } else { DEPTH };
        let one = [1.0_f32.to_bits(), 5, 0, 0];
        let depths = streams.attach(depth, aspects, CLEAR, one);
        let others = if has_stencil { [depths; 2] } else { [depths, NO_ATTACHMENT] };
        streams.render(&[colors], others).bind().draw(0, 12).end().show(color, COLOR).execute();
        let expected = texels(|x, y| match (x < 8, y < 8) {
            (true, _) => RED_TEXEL,
            (false, true) => GREEN_TEXEL,
            (false, false) => BLUE_TEXEL,
        });
        assert_eq!(streams.shown(), expected);
        streams.show(depth, DEPTH).execute();
        let expected = texels(|x, y| match (x < 8, y < 8) {
            (true, _) => 0.25_f32.to_bits(),
            (false, true) => 0.5_f32.to_bits(),
            (false, false) => 1.0_f32.to_bits(),
        });
        assert_eq!(streams.shown(), expected);
        if has_stencil {
            streams.show(depth, STENCIL).execute();
            let bytes = streams.words(DATA, 64).as_bytes().to_vec();
            let at = |x: usize, y: usize| bytes[y * SIZE as usize + x];
            assert_eq!([at(0, 0), at(15, 0), at(0, 15), at(15, 15)], [6, 6, 6, 5]);
        }
        // An attachment that is loaded has what was there, and a part of it is cleared.
        let loaded = Attachment { load: LOAD, ..colors };
        let depths = Attachment { load: LOAD, ..depths };
        let others = if has_stencil { [depths; 2] } else { [depths, NO_ATTACHMENT] };
        let clear = |aspect, value| ClearAttachment {
            aspect,
            value,
            offset: [2, 2],
            extent: [2, 1],
            layers: 1,
            ..ClearAttachment::new_zeroed()
        };
        let half = [0.75_f32.to_bits(), 0, 0, 0];
        streams.render(&[loaded], others).put(clear(COLOR, BLUE), 0, &[]);
        streams.put(clear(DEPTH, half), 0, &[]).end().show(color, COLOR).execute();
        let shown = streams.shown();
        assert_eq!(shown[33..37], [RED_TEXEL, BLUE_TEXEL, BLUE_TEXEL, RED_TEXEL]);
        streams.show(depth, DEPTH).execute();
        let shown = streams.shown();
        assert_eq!([shown[33], shown[34], shown[50]], [0.25_f32, 0.75, 0.25].map(f32::to_bits));
        // All of it, outside of a rendering.
        let range = Range { aspect: DEPTH, level: 0, levels: 1, layer: 0, layers: 1, reserved: 0 };
        let value = [0.125_f32.to_bits(), 0];
        let clear =
            ClearDepthStencil { image: depth, value, range, ..ClearDepthStencil::new_zeroed() };
        streams.put(clear, 0, &[]).show(depth, DEPTH).execute();
        assert_eq!(streams.shown(), texels(|_, _| 0.125_f32.to_bits()));
    }
}

#[test]
fn samples_become_one_in_a_rendering_and_outside_of_one() {
    let Some(mut streams) = scene() else { return };
    // Half of each texel of a column.
    streams.put_vertices(&rectangle([0.0, 0.0], [4.5, 16.0], 0.0, RED));
    let mut pipeline = Graphics::new();
    pipeline.state.samples = 4;
    streams.put_graphics(1, &pipeline);
    let several = Image { samples: 4, ..image(0, RGBA8, COLOR_USE) };
    let (one, other) = (image(1, RGBA8, COLOR_USE), image(2, RGBA8, COLOR_USE));
    let mut attachment = streams.attach(several, COLOR, CLEAR, BLUE);
    let resolved = streams.attach(one, COLOR, CLEAR, BLUE);
    (attachment.resolve_view, attachment.resolve_serial) = (resolved.view, resolved.serial);
    attachment.resolve_mode = 2;
    let resolve = ResolveImage {
        source: several,
        destination: other,
        from: whole(COLOR),
        to: whole(COLOR),
        extent: [SIZE, SIZE, 1],
        ..ResolveImage::new_zeroed()
    };
    streams.render(&[attachment], NONE).bind().draw(0, 6).end().barrier().put(resolve, 0, &[]);
    streams.execute();
    for image in [one, other] {
        streams.show(image, COLOR).execute();
        let shown = streams.shown();
        assert_eq!([shown[3], shown[5]], [RED_TEXEL, BLUE_TEXEL]);
        let [red, _, blue, _] = shown[4].to_le_bytes();
        assert!((126..=129).contains(&red) && (126..=129).contains(&blue), "{:x}", shown[4]);
    }
}

#[test]
fn a_blit_stretches_turns_and_converts() {
    let Some(mut streams) = scene() else { return };
    let (source, destination) = (image(0, RGBA8, COLOR_USE), image(1, 44, COLOR_USE));
    let texels_of = |x: u32, y: u32| if x < 8 && y < 8 { RED_TEXEL } else { GREEN_TEXEL };
    streams.write(DATA, texels(texels_of).as_bytes());
    let copy = CopyMemoryToImage {
        address: DATA,
        image: source,
        layers: whole(COLOR),
        extent: [SIZE, SIZE, 1],
        ..CopyMemoryToImage::new_zeroed()
    };
    let blit = BlitImage {
        source,
        destination,
        from: whole(COLOR),
        to: whole(COLOR),
        from_corners: [[0; 3], [SIZE, SIZE, 1]],
        // From right to left, and in half of the rows.
        to_corners: [[SIZE, 0, 0], [0, 8, 1]],
        ..BlitImage::new_zeroed()
    };
    let range = Range { aspect: COLOR, level: 0, levels: 1, layer: 0, layers: 1, reserved: 0 };
    let clear = ClearImage { image: destination, range, ..ClearImage::new_zeroed() };
    let nothing = BlitImage { to_corners: [[0; 3], [0, 8, 1]], ..blit };
    streams.put(copy, 0, &[]).put(clear, 0, &[]).barrier();
    streams.put(blit, 0, &[]).put(nothing, 0, &[]).show(destination, COLOR).execute();
    // The other format has blue first.
    let expected = texels(|x, y| match (x >= 8, y) {
        (true, 0..4) => 0xFFFF_0000,
        (_, 0..8) => GREEN_TEXEL,
        _ => 0,
    });
    assert_eq!(streams.shown(), expected);
}
