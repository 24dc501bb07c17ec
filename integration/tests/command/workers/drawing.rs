// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing in a worker: what is drawn is compared with what Vulkan's rules make of the vertices, texel by texel.

mod attachments;
mod draws;
mod scene;

use super::streams::{DATA, PIPELINE, STREAM, Streams};
use bellhop_protocol::vulkan::*;
use bellhop_worker::messages::commands::{CommandsResult, CommandsTask, CommandsTaskKind};
use scene::*;
use zerocopy::{FromZeros, IntoBytes};

const NONE: [Attachment; 2] = [NO_ATTACHMENT; 2];
const NO_ATTACHMENT: Attachment = Attachment::NONE;

/// A colour to clear with: blue.
const BLUE: [u32; 4] = [0, 0, 0x3F80_0000, 0x3F80_0000];
const BLUE_TEXEL: u32 = 0xFFFF_0000;

#[test]
fn a_triangle_and_a_rectangle_cover_the_texels_whose_centres_they_have() {
    let Some(mut streams) = scene() else { return };
    streams.put_graphics(1, &Graphics::new());
    let triangle = [[0.0, 0.0], [16.0, 0.0], [0.0, 16.0]].map(|at| vertex(at, 0.0, RED));
    let rectangle = rectangle([4.0, 2.0], [12.0, 10.0], 0.0, GREEN);
    streams.put_vertices(&[&triangle[..], &rectangle].concat());
    let color = image(0, RGBA8, COLOR_USE);
    let attachment = streams.attach(color, COLOR, CLEAR, BLUE);
    // A centre on the edge to the right is not of the triangle.
    let expected = texels(|x, y| {
        let in_rectangle = (4..12).contains(&x) && (2..10).contains(&y);
        if in_rectangle {
            GREEN_TEXEL
        } else if x + y < 15 {
            RED_TEXEL
        } else {
            BLUE_TEXEL
        }
    });
    for _ in 0..3 {
        streams.write(DATA, &[0; 1024]);
        streams.render(&[attachment], NONE).bind().draw(0, 3).draw(3, 6).draw(0, 0).end();
        streams.show(color, COLOR).execute();
        assert_eq!(streams.shown(), expected);
    }
}

#[test]
fn a_stream_of_draws_waits_for_its_pipelines_and_sees_others_at_their_address() {
    let Some(mut streams) = scene() else { return };
    streams.put_vertices(&rectangle([0.0, 0.0], [16.0, 16.0], 0.0, RED));
    let color = image(0, RGBA8, COLOR_USE);
    let attachment = streams.attach(color, COLOR, CLEAR, BLUE);
    let run = |streams: &mut Streams, kind| {
        streams.write(DATA, &[0; 1024]);
        streams.render(&[attachment], NONE).bind().draw(0, 6).end().show(color, COLOR);
        streams.begin_with(kind);
        let answer = streams.answer().unwrap();
        (answer.result, streams.shown()[0])
    };
    let execute = CommandsTaskKind::EXECUTE;
    streams.put_graphics(1, &Graphics::new());
    assert_eq!(run(&mut streams, execute), (CommandsResult::LACKS, 0));
    streams.worker.task(CommandsTask::MAKE.as_bytes()).unwrap();
    let answer = streams.answer().unwrap();
    assert_eq!(answer.result, CommandsResult::DONE);
    assert_eq!(run(&mut streams, execute), (CommandsResult::DONE, RED_TEXEL));
    // Another writes green alone, and one that is for dispatches by its serial number is none to draw with.
    let mut other = Graphics::new();
    other.colors[0].write_mask = 0b1010;
    streams.put_graphics(2, &other);
    let makes = CommandsTaskKind::MAKE_AND_EXECUTE;
    assert_eq!(run(&mut streams, makes), (CommandsResult::DONE, 0xFFFF_0000));
    let dispatch = Dispatch { pipeline: PIPELINE, ..Dispatch::new_zeroed() };
    streams.bind_alone().put(dispatch, 0, &[]).begin();
    let answer = streams.answer().unwrap();
    assert_eq!(answer.result, CommandsResult::MALFORMED);
    assert!(answer.text().contains("reverse"), "{}", answer.text());
    // What Vulkan does not allow is told where it is named.
    other.state.topology = 77;
    streams.put_graphics(3, &other);
    assert_eq!(run(&mut streams, makes), (CommandsResult::MALFORMED, 0));
}

#[test]
fn a_stream_goes_on_where_it_says_and_keeps_what_draws_run_on() {
    let Some(mut streams) = scene() else { return };
    streams.put_graphics(1, &Graphics::new());
    streams.put_vertices(&rectangle([0.0, 0.0], [16.0, 16.0], 0.0, RED));
    let color = image(0, RGBA8, COLOR_USE);
    let attachment = streams.attach(color, COLOR, CLEAR, BLUE);
    let (second, third) = (STREAM + 0x4000, STREAM + 0x8000);
    streams.draw(0, 6).end();
    let last = std::mem::take(&mut streams.bytes);
    streams.write(third, &last);
    let next = |address, length: usize| Continue {
        address,
        length: length as u64,
        ..Continue::new_zeroed()
    };
    streams.render(&[attachment], NONE).put(next(third, last.len()), 0, &[]);
    let middle = std::mem::take(&mut streams.bytes);
    streams.write(second, &middle);
    // A processor's command between what draws run on and the draws.
    let query = QueryCaps { destination: DATA + 0x2000, length: 4, ..QueryCaps::new_zeroed() };
    streams.bind().put(query, 0, &[]).put(next(second, middle.len()), 0, &[]).execute();
    streams.show(color, COLOR).execute();
    assert_eq!(streams.shown(), texels(|_, _| RED_TEXEL));
    assert_eq!(streams.words(DATA + 0x2000, 1), [CAPS_VERSION]);
    // One that goes on with itself has no end, and one that goes on before its end does not.
    streams.put(next(STREAM, 24), 0, &[]).begin();
    let answer = streams.answer().unwrap();
    assert_eq!((answer.result, answer.offset), (CommandsResult::MALFORMED, 0));
    assert!(answer.text().contains("too long"), "{}", answer.text());
    streams.put(next(second, 24), 0, &[]).barrier().begin();
    let answer = streams.answer().unwrap();
    assert!(answer.text().contains("not the last"), "{}", answer.text());
}

#[test]
fn nothing_of_a_stream_that_draws_as_vulkan_does_not_allow_is_executed() {
    let Some(mut streams) = scene() else { return };
    streams.put_graphics(1, &Graphics::new());
    let color = image(0, RGBA8, COLOR_USE);
    let attachment = streams.attach(color, COLOR, CLEAR, BLUE);
    let depth = streams.attach(image(1, D32, DEPTH_USE), DEPTH, CLEAR, [0; 4]);
    let refused = |streams: &mut Streams, what: &str| {
        streams.begin();
        let answer = streams.answer().unwrap();
        assert_eq!(answer.result, CommandsResult::MALFORMED, "{what}");
        assert!(answer.text().contains(what), "{}, not {what}", answer.text());
    };
    streams.fill(DATA, 4, 1).bind().draw(0, 3);
    refused(&mut streams, "outside of a rendering");
    streams.render(&[attachment], NONE).bind().draw(0, 3);
    refused(&mut streams, "does not end");
    streams.render(&[attachment], NONE).draw(0, 3).end();
    refused(&mut streams, "without a pipeline");
    streams.render(&[attachment], NONE).barrier().end();
    refused(&mut streams, "does not go there");
    streams.render(&[attachment], [depth, NO_ATTACHMENT]).bind().draw(0, 3).end();
    refused(&mut streams, "other attachments");
    let ended = Attachment { serial: 99, ..attachment };
    streams.render(&[ended], NONE).end();
    refused(&mut streams, "has ended");
    assert_eq!(streams.words(DATA, 1), [0]);
}
