// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is counted in renderings and around them.

use super::*;

#[test]
fn what_is_counted_in_a_rendering_is_there_after_it_for_each_view() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.begin_plain(rendering(0b101), false);
    recording.begin_query(OCCLUSION, 0, 1024);
    draw(&mut recording, 1);
    recording.end_query(1024, 2048);
    recording.end_rendering();
    let told = told(&mut recording);
    let expected = [
        "count 0",
        "bind 8 [0, 0, 0, 0]",
        "draw 1",
        "counted 1024",
        "end",
        "barrier",
        "fill 2048 1",
        "fill 2056 1",
    ];
    assert_eq!(told[1..], expected);
}

#[test]
fn a_query_around_renderings_is_in_one_chunk_with_them() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.begin_query(OCCLUSION, 0, 1024);
    for _ in 0..300 {
        recording.begin_plain(rendering(0), false);
        draw(&mut recording, 1);
        recording.barrier();
        recording.end_rendering();
    }
    recording.end_query(1024, 2048);
    let told = told(&mut recording);
    assert_eq!(told.first().map(String::as_str), Some("count 0"));
    assert_eq!(told.iter().filter(|line| *line == "count 0").count(), 1);
    let end = told.len() - 3;
    assert_eq!(told[end..], ["counted 1024", "barrier", "fill 2048 1"]);
    assert!(!recording.stream.is_held());
}

#[test]
fn a_query_stops_where_its_rendering_is_interrupted() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.begin_plain(rendering(0), false);
    recording.begin_query(OCCLUSION, 0, 1024);
    draw(&mut recording, 1);
    recording.barrier();
    draw(&mut recording, 2);
    recording.end_query(1024, 2048);
    recording.end_rendering();
    let expected =
        ["counted 1024", "end", "barrier", LAST, "count 0", "draw 2", "counted 1024", "end"];
    assert_eq!(told(&mut recording)[4..12], expected);
}
