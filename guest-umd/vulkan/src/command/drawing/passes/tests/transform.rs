// SPDX-License-Identifier: MIT OR Apache-2.0

//! Transformed vertices that are stored in renderings, and conditions around them.

use super::*;

/// A recording of a rendering with a buffer for vertices.
fn storing() -> Recording {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.drawing().stored[1] = TransformBuffer { address: 4096, length: 64, counter: 0 };
    recording.begin_plain(rendering(0), false);
    recording
}

#[test]
fn the_pipeline_is_bound_before_vertices_are_stored() {
    let mut recording = storing();
    recording.begin_storing([0, 512, 0, 0]);
    draw(&mut recording, 1);
    recording.finish_storing([0, 516, 0, 0]);
    recording.finish_storing([0, 520, 0, 0]);
    recording.end_rendering();
    let expected =
        [WHOLE, "bind 8 [0, 0, 0, 0]", "store [(4096, 512)]", "draw 1", "stored [516]", "end"];
    assert_eq!(told(&mut recording), expected);
}

#[test]
fn an_interrupted_rendering_goes_on_storing_where_it_stopped() {
    let mut recording = storing();
    recording.begin_storing([0; 4]);
    draw(&mut recording, 1);
    recording.barrier();
    draw(&mut recording, 2);
    recording.finish_storing([0, 512, 0, 0]);
    recording.end_rendering();
    let told = told(&mut recording);
    let spare = told[4].clone();
    assert!(spare.starts_with("stored ["), "{told:?}");
    let counter: u64 = spare["stored [".len()..spare.len() - 1].parse().unwrap();
    let resumed = format!("store [(4096, {counter})]");
    let expected = [
        FIRST,
        "bind 8 [0, 0, 0, 0]",
        "store [(4096, 0)]",
        "draw 1",
        &spare,
        "end",
        "barrier",
        LAST,
        &resumed,
        "draw 2",
        "stored [512]",
        "end",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_condition_around_renderings_holds_in_one_chunk_and_one_inside_is_interrupted() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.begin_condition(1024, false);
    recording.begin_plain(rendering(0), false);
    draw(&mut recording, 1);
    recording.barrier();
    draw(&mut recording, 2);
    recording.end_rendering();
    recording.end_condition();
    assert!(!recording.stream.is_held());
    recording.begin_plain(rendering(0), false);
    recording.begin_condition(2048, true);
    draw(&mut recording, 3);
    recording.barrier();
    draw(&mut recording, 4);
    recording.end_condition();
    recording.end_rendering();
    let told = told(&mut recording);
    let conditions: Vec<_> = told
        .iter()
        .filter(|line| line.starts_with("if") || line.starts_with("in") || line.starts_with("draw"))
        .collect();
    let expected = [
        "if 1024 0",
        "draw 1",
        "draw 2",
        "in any case",
        "if 2048 1",
        "draw 3",
        "in any case",
        "if 2048 1",
        "draw 4",
        "in any case",
    ];
    assert_eq!(conditions, expected);
}
