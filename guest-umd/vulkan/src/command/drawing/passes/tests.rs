// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is recorded of renderings and draws.

mod long;
mod queries;
mod transform;

use super::super::super::bound::Program;
use super::super::super::drawn::{List, Single, stale};
use super::super::super::stream::HEADER;
use super::*;
use crate::command::test_heap;
use crate::query::Counted;
use crate::rendering::View;
use bellhop_protocol::vulkan::{
    Attachment, BeginRendering, BeginTransform, Command, Draw, EndTransform, MAX_CONTINUED,
    SetState, TransformBuffer, commands,
};

fn recording(is_primary: bool) -> Recording {
    Recording::new(test_heap::heap(), is_primary, 0b11)
}

fn name(command: Command<'_>) -> String {
    match command {
        Command::Barrier(..) => "barrier".to_owned(),
        Command::BeginRendering(begin, data) => {
            let attachments = BeginRendering::attachments(data);
            let attachments = attachments.filter(|attachment| attachment.view != 0);
            let attachments: Vec<_> =
                attachments.map(|it| (it.view, it.load, it.store, it.resolve_view)).collect();
            format!("begin {} {} {attachments:?}", begin.layers, begin.view_mask)
        }
        Command::EndRendering(..) => "end".to_owned(),
        Command::SetState(set, data) => {
            let words: Vec<_> = SetState::words(data).collect();
            format!("state {} {words:?}", set.header.argument)
        }
        Command::SetVertexBuffers(set, _) => {
            format!("vertices {} {}", set.header.argument, set.count)
        }
        Command::BindGraphics(bind, data) => {
            let constants = bind.resources().constants(data).to_vec();
            format!("bind {} {constants:?}", bind.pipeline)
        }
        Command::Draw(draw, _) => format!("draw {}", draw.vertices),
        Command::BeginQuery(begin, _) => format!("count {}", begin.header.argument),
        Command::EndQuery(end, _) => format!("counted {}", end.destination),
        Command::Fill(fill, _) => format!("fill {} {}", fill.destination, fill.header.argument),
        Command::Timestamp(time, _) => format!("time {}", time.destination),
        Command::Wait(wait, _) => format!("wait {}", wait.address),
        Command::BeginTransform(_, data) => {
            let buffers = BeginTransform::buffers(data).filter(|buffer| buffer.address != 0);
            let buffers: Vec<_> = buffers.map(|it| (it.address, it.counter)).collect();
            format!("store {buffers:?}")
        }
        Command::EndTransform(_, data) => {
            let counters: Vec<_> =
                EndTransform::counters(data).filter(|counter| *counter != 0).collect();
            format!("stored {counters:?}")
        }
        Command::BeginConditional(begin, _) => {
            format!("if {} {}", begin.address, begin.header.argument)
        }
        Command::EndConditional(..) => "in any case".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The commands of each chunk.
fn chunks(recording: &Recording) -> Vec<Vec<String>> {
    let chunk = |chunk| {
        let bytes = recording.stream.bytes(chunk).unwrap();
        commands(&bytes).map(|command| name(command.unwrap().1)).collect()
    };
    recording.chunks().iter().map(chunk).collect()
}

/// The commands of a recording that is one chunk.
fn told(recording: &mut Recording) -> Vec<String> {
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    let mut chunks = chunks(recording);
    assert_eq!(chunks.len(), 1);
    chunks.remove(0)
}

fn area() -> vk::Rect2D {
    vk::Rect2D::default().extent(vk::Extent2D { width: 4, height: 4 })
}

/// A rendering with an attachment that is cleared, resolved, and not stored.
fn rendering(view_mask: u32) -> Rendering {
    let color = Attachment {
        view: 64,
        serial: 1,
        resolve_view: 128,
        resolve_serial: 2,
        resolve_mode: 2,
        load: 1,
        store: 1,
        ..Default::default()
    };
    Rendering::new(area(), 1, view_mask).with([color], Attachment::default(), Attachment::default())
}

const WHOLE: &str = "begin 1 0 [(64, 1, 1, 128)]";
const FIRST: &str = "begin 1 0 [(64, 1, 0, 0)]";
const MIDDLE: &str = "begin 1 0 [(64, 0, 0, 0)]";
const LAST: &str = "begin 1 0 [(64, 0, 1, 128)]";

fn bind(recording: &mut Recording, address: u64, others: Vec<u64>) {
    let is_apart = !others.is_empty();
    let (sets, dynamic_offsets, push_constants) = (0, 0, 4);
    let is_plain = !is_apart;
    let cold = None;
    recording.drawing().program =
        Some(Program { address, others, is_plain, sets, dynamic_offsets, push_constants, cold });
    recording.stale |= stale::BOUND | if is_apart { stale::APART } else { 0 };
}

fn draw(recording: &mut Recording, vertices: u32) {
    let (instances, first_vertex, first_instance) = (1, 0, 0);
    recording.draw(0, Draw { header: HEADER, vertices, instances, first_vertex, first_instance });
}

fn set(recording: &mut Recording, state: Single, word: u32) {
    recording.drawing().states.set(state, &[word]);
    recording.stale |= stale::STATES;
}

#[test]
fn a_draw_tells_what_the_host_was_not_told() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    set(&mut recording, Single::LineWidth, 3);
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 1);
    draw(&mut recording, 2);
    recording.bound.constants(0, &[7; 4]);
    recording.stale |= stale::BOUND;
    recording.drawing().vertices.bind(1, 64, 8, None);
    recording.stale |= stale::VERTICES;
    draw(&mut recording, 3);
    recording.end_rendering();
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 4);
    recording.end_rendering();
    let expected = [
        WHOLE,
        "state 2 [3]",
        "bind 8 [0, 0, 0, 0]",
        "draw 1",
        "draw 2",
        "vertices 0 2",
        "bind 8 [7, 7, 7, 7]",
        "draw 3",
        "end",
        WHOLE,
        "draw 4",
        "end",
    ];
    let expected = expected.map(|line| line.replace("vertices 0 2", "vertices 1 1"));
    assert_eq!(told(&mut recording), expected);
}

#[test]
fn a_new_chunk_is_told_everything_again() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    set(&mut recording, Single::CullMode, 1);
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 1);
    recording.end_rendering();
    recording.stream.new_chunk();
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 2);
    recording.end_rendering();
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    let chunk = |draw| [WHOLE, "state 1000267000 [1]", "bind 8 [0, 0, 0, 0]", draw, "end"];
    assert_eq!(chunks(&recording), [chunk("draw 1"), chunk("draw 2")]);
    recording.reset(false);
    bind(&mut recording, 8, Vec::new());
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 3);
    assert_eq!(told(&mut recording), [WHOLE, "bind 8 [0, 0, 0, 0]", "draw 3"]);
}

#[test]
fn a_draw_outside_of_a_rendering_or_without_a_pipeline_fails_at_the_end() {
    let mut recording = recording(true);
    draw(&mut recording, 1);
    assert_eq!(recording.end(), vk::Result::ERROR_UNKNOWN);
    recording.reset(false);
    bind(&mut recording, 8, Vec::new());
    draw(&mut recording, 1);
    assert_eq!(recording.end(), vk::Result::ERROR_UNKNOWN);
    recording.reset(false);
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 1);
    assert_eq!(recording.end(), vk::Result::ERROR_UNKNOWN);
}

#[test]
fn a_barrier_in_a_rendering_interrupts_it() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 1);
    recording.barrier();
    recording.barrier();
    draw(&mut recording, 2);
    recording.wait_inside(&[(32, 1)]);
    draw(&mut recording, 3);
    recording.end_rendering();
    let bind = "bind 8 [0, 0, 0, 0]";
    let expected = [
        FIRST, bind, "draw 1", "end", "barrier", MIDDLE, "draw 2", "end", "wait 32", "barrier",
        LAST, "draw 3", "end",
    ];
    assert_eq!(told(&mut recording), expected);
}

#[test]
fn commands_for_other_gpus_in_a_rendering_are_chunks_of_their_own() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 1);
    recording.set_devices(0b10);
    draw(&mut recording, 2);
    recording.end_rendering();
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    let bind = "bind 8 [0, 0, 0, 0]";
    let expected = [vec![FIRST, bind, "draw 1", "end"], vec![LAST, bind, "draw 2", "end"]];
    assert_eq!(chunks(&recording), expected);
    let devices: Vec<_> = recording.chunks().iter().map(|chunk| chunk.devices).collect();
    assert_eq!(devices, [0b11, 0b10]);
}

#[test]
fn a_pipeline_that_is_another_one_on_each_gpu_draws_on_each() {
    let mut recording = recording(true);
    bind(&mut recording, 8, vec![16]);
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 1);
    recording.end_rendering();
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    let bind = |address| format!("bind {address} [0, 0, 0, 0]");
    let all = chunks(&recording);
    let drawn: Vec<_> = all.iter().filter(|chunk| chunk.contains(&"draw 1".to_owned())).collect();
    assert_eq!(drawn.len(), 2);
    assert!(drawn[0].contains(&bind(8)) && drawn[1].contains(&bind(16)));
}

#[test]
fn subpasses_are_renderings_with_barriers_between_them() {
    let pass = RenderPass::of_two_subpasses();
    let views = vec![View { address: 64, serial: 1 }];
    let (clears, area) = (vec![[0; 4]], area());
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.timestamp(256);
    let pass = Arc::new(pass);
    recording.begin_pass(Instance { pass, index: 0, views, clears, area, layers: 1 });
    draw(&mut recording, 1);
    recording.next_subpass();
    draw(&mut recording, 2);
    recording.end_pass();
    recording.fill(512, 4, 1);
    let expected = [
        "time 256",
        "barrier",
        "begin 1 0 [(64, 1, 0, 0)]",
        "bind 8 [0, 0, 0, 0]",
        "draw 1",
        "end",
        "barrier",
        "begin 1 0 [(64, 0, 1, 0)]",
        "draw 2",
        "end",
        "barrier",
        "fill 512 1",
    ];
    assert_eq!(told(&mut recording), expected);
}

#[test]
fn a_secondary_command_buffer_draws_in_the_rendering_of_another() {
    let mut secondary = recording(false);
    secondary.inherit(0);
    bind(&mut secondary, 16, Vec::new());
    draw(&mut secondary, 1);
    secondary.barrier();
    draw(&mut secondary, 2);
    assert_eq!(secondary.end(), vk::Result::SUCCESS);
    let mut primary = recording(true);
    bind(&mut primary, 8, Vec::new());
    primary.begin_plain(rendering(0), false);
    draw(&mut primary, 3);
    primary.execute(&secondary);
    draw(&mut primary, 4);
    primary.end_rendering();
    let (own, other) = ("bind 8 [0, 0, 0, 0]", "bind 16 [0, 0, 0, 0]");
    let expected = [
        FIRST, own, "draw 3", "end", "barrier", MIDDLE, other, "draw 1", "end", "barrier", MIDDLE,
        other, "draw 2", "end", "barrier", LAST, own, "draw 4", "end",
    ];
    assert_eq!(told(&mut primary), expected);
}

const OCCLUSION: Counted = Counted { kind: 0, statistics: 0, stream: 0 };

#[test]
fn lists_of_viewports_are_told_before_the_pipeline() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    let scissors = [[0, 0, 4, 4]];
    recording.drawing().states.set_list(List::Scissors, 0, scissors.into_iter());
    recording.stale |= stale::STATES;
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 1);
    assert_eq!(told(&mut recording)[1], "state 1 [0, 0, 4, 4]");
}
