// SPDX-License-Identifier: MIT OR Apache-2.0

//! What draws run on: indices, structures in memory, dynamic state, sets and constants; and what is counted.

use super::*;
use crate::workers::streams::SET;

/// Draws a rectangle into a cleared image in a way, and returns the texels.
fn drawn(
    streams: &mut Streams,
    pipeline: &Graphics,
    serial: u64,
    draw: impl FnOnce(&mut Streams),
) -> Vec<u32> {
    streams.put_graphics(serial, pipeline);
    let color = image(0, RGBA8, COLOR_USE);
    let attachment = streams.attach(color, COLOR, CLEAR, BLUE);
    streams.render(&[attachment], NONE).bind();
    draw(streams);
    streams.end().show(color, COLOR).execute();
    streams.shown()
}

/// A rectangle of texels in another colour.
fn inside(from: [u32; 2], to: [u32; 2], color: u32) -> Vec<u32> {
    texels(|x, y| {
        let is_inside = (from[0]..to[0]).contains(&x) && (from[1]..to[1]).contains(&y);
        if is_inside { color } else { BLUE_TEXEL }
    })
}

#[test]
fn indices_and_structures_in_memory_say_what_is_drawn() {
    let Some(mut streams) = scene() else { return };
    let corners = [[4.0, 4.0], [8.0, 4.0], [4.0, 8.0], [8.0, 8.0]];
    let unused = vertex([0.0, 0.0], 0.0, GREEN);
    let corners = corners.map(|corner| vertex(corner, 0.0, RED));
    streams.put_vertices(&[&[unused][..], &corners].concat());
    let expected = inside([4, 4], [8, 8], RED_TEXEL);
    let pipeline = Graphics::new();
    let indices = DATA + 0x6000;
    for (kind, bytes) in
        [(0, [9_u16, 0, 1, 2, 2, 1, 3].as_bytes()), (1, [9_u32, 0, 1, 2, 2, 1, 3].as_bytes())]
    {
        streams.write(indices, bytes);
        let length = bytes.len() as u64;
        let set = SetIndexBuffer { address: indices, length, ..SetIndexBuffer::new_zeroed() };
        let draw = DrawIndexed {
            indices: 6,
            instances: 1,
            first_index: 1,
            vertex_offset: 1,
            ..DrawIndexed::new_zeroed()
        };
        let shown = drawn(&mut streams, &pipeline, 1, |streams| {
            streams.put(set, kind, &[]).put(draw, 0, &[]);
        });
        assert_eq!(shown, expected);
        // As many as there are, and no more.
        streams.bytes.clear();
        let color = streams.attach(image(0, RGBA8, COLOR_USE), COLOR, CLEAR, BLUE);
        let more = DrawIndexed { indices: 7, ..draw };
        streams.render(&[color], NONE).bind().put(set, kind, &[]).put(more, 0, &[]).end().begin();
        assert_eq!(streams.answer().unwrap().result, CommandsResult::MALFORMED);
        let structures = DATA + 0x7000;
        streams.write(structures, [6_u32, 1, 1, 1, 0].as_bytes());
        let draw = DrawIndirect { address: structures, most: 1, ..DrawIndirect::new_zeroed() };
        let shown = drawn(&mut streams, &pipeline, 1, |streams| {
            streams.put(set, kind, &[]).put(draw, 1, &[]);
        });
        assert_eq!(shown, expected);
    }
    // Two triangles, of which a number in memory says that one is drawn, or both.
    let structures = DATA + 0x7000;
    streams.write(structures, [3_u32, 1, 1, 0, 0, 3, 1, 2, 0].as_bytes());
    let draw = DrawIndirect {
        address: structures,
        count: DATA + 0x7100,
        most: 2,
        stride: 20,
        ..DrawIndirect::new_zeroed()
    };
    for count in 0..4_u32 {
        streams.write(draw.count, count.as_bytes());
        let shown = drawn(&mut streams, &pipeline, 1, |streams| {
            streams.put(draw, 0, &[]);
        });
        let red = shown.iter().filter(|texel| **texel == RED_TEXEL).count();
        let all = [0, 6, 16, 16];
        assert!(red.abs_diff(all[count as usize]) < 5, "{count}: {red}");
    }
}

#[test]
fn dynamic_state_is_what_the_stream_has_set_or_what_it_is_by_itself() {
    let Some(mut streams) = scene() else { return };
    streams.put_vertices(&rectangle([0.0, 0.0], [16.0, 16.0], 0.0, RED));
    let set = |streams: &mut Streams, state, words: &[u32]| {
        let set = SetState { words: words.len() as u32, ..SetState::new_zeroed() };
        streams.put(set, state, words.as_bytes());
    };
    let floats = |numbers: [f32; 6]| numbers.map(f32::to_bits);
    let dynamic = Graphics { states: vec![0, 1, 1_000_267_000, 1_000_267_005], ..Graphics::new() };
    let shown = drawn(&mut streams, &dynamic, 1, |streams| {
        set(streams, 0, &floats([2.0, 4.0, 8.0, 8.0, 0.0, 1.0]));
        set(streams, 1, &[0, 6, 16, 10]);
        streams.draw(0, 6);
        set(streams, 1, &[0, 0, 1, 1]);
        set(streams, 0, &floats([0.0, 0.0, 16.0, 16.0, 0.0, 1.0]));
        streams.draw(0, 6);
        // Triangles of both sides are culled.
        set(streams, 1, &[0, 0, 16, 16]);
        set(streams, 1_000_267_000, &[3]);
        streams.draw(0, 6);
    });
    let mut expected = inside([2, 6], [10, 12], RED_TEXEL);
    expected[0] = RED_TEXEL;
    assert_eq!(shown, expected);
    // Nobody has set anything: a viewport and a scissor of one texel.
    let shown = drawn(&mut streams, &dynamic, 1, |streams| {
        streams.draw(0, 6);
    });
    assert_eq!(shown, inside([0, 0], [1, 1], RED_TEXEL));
    let counted = Graphics {
        states: vec![1_000_267_003, 1_000_267_004, 1_000_267_002],
        viewports: Vec::new(),
        scissors: Vec::new(),
        ..Graphics::new()
    };
    let shown = drawn(&mut streams, &counted, 2, |streams| {
        set(streams, 1_000_267_003, &floats([0.0, 0.0, 16.0, 16.0, 0.0, 1.0]));
        set(streams, 1_000_267_004, &[3, 3, 4, 4]);
        // A strip of the first four corners.
        set(streams, 1_000_267_002, &[4]);
        streams.draw(0, 3);
    });
    let red = |at: [usize; 2]| shown[at[1] * SIZE as usize + at[0]] == RED_TEXEL;
    assert!(red([3, 3]) && red([6, 6]) && !red([2, 3]) && !red([7, 3]));
}

const COLORED: &str = "
    struct Out { @builtin(position) at: vec4f, @location(0) color: vec4f }
    @group(1) @binding(2) var<uniform> uniform_color: vec4f;
    var<immediate> constant: vec4f;
    @vertex fn vertex(@location(0) at: vec4f, @location(1) color: vec4f) -> Out {
        return Out(at, color + constant);
    }
    @fragment fn fragment(in: Out) -> @location(0) vec4f { return in.color * uniform_color; }";

#[test]
fn draws_have_sets_with_offsets_and_constants() {
    let Some(mut streams) = scene() else { return };
    streams.put_vertices(&rectangle([0.0, 0.0], [16.0, 16.0], 0.0, RED));
    let binding = Binding {
        set: 1,
        binding: 2,
        kind: DescriptorKind::UNIFORM_BUFFER_DYNAMIC,
        count: 1,
        first: 1,
        reserved: 0,
    };
    let pipeline =
        Graphics { bindings: vec![binding], constants: 16, shader: COLORED, ..Graphics::new() };
    let uniform = DATA + 0x6000;
    streams.write(uniform + 256, [1.0_f32, 1.0, 1.0, 1.0].as_bytes());
    streams.write(uniform + 512, [0.0_f32, 1.0, 0.0, 1.0].as_bytes());
    let descriptor = Descriptor { address: uniform, length: 16, ..Descriptor::default() };
    streams.write(SET, [Descriptor::default(), descriptor].as_bytes());
    let bind = |streams: &mut Streams, offset: u32, constant: [f32; 4]| {
        let data = [[0, SET].as_bytes(), [offset, 0].as_bytes(), constant.as_bytes()].concat();
        let bind = BindGraphics {
            pipeline: PIPELINE,
            dynamic_offsets: 1,
            push_constants: 16,
            ..BindGraphics::new_zeroed()
        };
        streams.put(bind, 2, &data);
    };
    streams.put_graphics(1, &pipeline);
    let color = image(0, RGBA8, COLOR_USE);
    let attachment = streams.attach(color, COLOR, CLEAR, BLUE);
    let vertices = VertexBuffer { address: VERTICES, length: 0x4000, stride: 0 };
    let set = SetVertexBuffers { count: 1, ..SetVertexBuffers::new_zeroed() };
    for (offset, constant, expected) in [
        (256, [0.0; 4], RED_TEXEL),
        (256, [0.0, 1.0, 0.0, 0.0], 0xFF00_FFFF),
        (512, [0.0, 1.0, 0.0, 0.0], GREEN_TEXEL),
    ] {
        streams.put(set, 0, vertices.as_bytes());
        bind(&mut streams, 256, [0.0; 4]);
        streams.render(&[attachment], NONE).draw(0, 3);
        bind(&mut streams, offset, constant);
        streams.draw(0, 6).end().show(color, COLOR).execute();
        assert_eq!(streams.shown(), texels(|_, _| expected));
    }
}

#[test]
fn a_vertex_buffer_that_is_not_there_has_zeros() {
    let Some(mut streams) = scene() else { return };
    streams.put_vertices(&rectangle([0.0, 0.0], [16.0, 16.0], 0.0, RED));
    let mut pipeline = Graphics::new();
    pipeline.vertices.push(VertexBinding { binding: 3, ..pipeline.vertices[0] });
    pipeline.attributes[1].binding = 3;
    let shown = drawn(&mut streams, &pipeline, 1, |streams| {
        streams.draw(0, 6);
    });
    assert_eq!(shown, texels(|_, _| 0));
}

#[test]
fn what_draws_do_is_counted() {
    let Some(mut streams) = scene() else { return };
    let halves =
        [rectangle([0.0, 0.0], [16.0, 8.0], 0.0, RED), rectangle([4.0, 4.0], [6.0, 6.0], 0.0, RED)];
    streams.put_vertices(&halves.concat());
    streams.put_graphics(1, &Graphics::new());
    let attachment = streams.attach(image(0, RGBA8, COLOR_USE), COLOR, CLEAR, BLUE);
    let (samples, statistics, times) = (DATA + 0x6000, DATA + 0x6100, DATA + 0x6200);
    let begin = |statistics| BeginQuery { statistics, ..BeginQuery::new_zeroed() };
    let end = |destination| EndQuery { destination, ..EndQuery::new_zeroed() };
    let time = |destination| Timestamp { destination, ..Timestamp::new_zeroed() };
    for _ in 0..2 {
        streams.write(samples, &[0; 0x300]);
        // Vertices and primitives that are assembled, and invocations of the shader of vertices.
        streams.put(begin(0b111), 1, &[]).put(time(times), 0, &[]);
        streams.render(&[attachment], NONE).bind();
        streams.put(begin(0), 0, &[]).draw(0, 6).put(end(samples), 0, &[]);
        streams.put(time(times + 8), 0, &[]);
        let precise = BeginQuery { flags: 1, ..begin(0) };
        streams.put(precise, 0, &[]).draw(6, 6).put(end(samples + 8), 0, &[]).end();
        streams.put(end(statistics), 1, &[]).execute();
        assert_eq!(streams.words(samples, 4), [128, 0, 4, 0]);
        let counted = streams.words(statistics, 6);
        assert_eq!([counted[0], counted[2], counted[1]], [12, 4, 0], "{counted:?}");
        let taken = [times, times + 8].map(|at| streams.pages.load(at));
        assert!(taken[0] > 0 && taken[0] <= taken[1], "{taken:?}");
    }
}

#[test]
fn queries_and_times_have_a_number_for_each_view() {
    let Some(mut streams) = scene() else { return };
    streams.put_vertices(&rectangle([0.0, 0.0], [4.0, 4.0], 0.0, RED));
    let mut pipeline = Graphics::new();
    pipeline.state.view_mask = 0b101;
    streams.put_graphics(1, &pipeline);
    let color = Image { layers: 3, ..image(0, RGBA8, COLOR_USE) };
    let attachment = streams.attach(color, COLOR, CLEAR, BLUE);
    let begin =
        BeginRendering { extent: [SIZE; 2], view_mask: 0b101, ..BeginRendering::new_zeroed() };
    let query = EndQuery { destination: DATA + 0x6000, ..EndQuery::new_zeroed() };
    let time = Timestamp { destination: DATA + 0x6100, ..Timestamp::new_zeroed() };
    streams.fill(DATA + 0x6000, 0x200, 9).barrier();
    streams.render_how(begin, &[attachment], NONE).bind();
    streams.put(BeginQuery::new_zeroed(), 0, &[]).draw(0, 6).put(query, 0, &[]);
    streams.put(time, 0, &[]).end().execute();
    let counted = streams.words(DATA + 0x6000, 5);
    // How the samples are divided among views is left to the host.
    assert_eq!((counted[0] + counted[2], counted[1], counted[3], counted[4]), (32, 0, 0, 9));
    assert_ne!(streams.pages.load(DATA + 0x6100), 9 << 32 | 9);
    assert_eq!(streams.pages.load(DATA + 0x6110), 9 << 32 | 9);
}
