// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which parts of frames are composed, and what happens amid them.

use super::*;
use crate::gpu::display::source::Shape;

#[test]
fn a_torn_frame_has_the_lines_before_it_and_a_whole_one_follows() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().set_address(flip(1, false), 0);
    step(&mut state, 10 * MS);
    assert_eq!(seen(&mut state, viewer), "B1");
    // 16 ms: 6 ms after the VSYNC, of which the blank took 2: line 4 is scanned.
    state.source(0).unwrap().set_address(flip(2, true), 16 * MS);
    let torn = state.step(16 * MS);
    let [job] = &*torn.work.jobs else { panic!("{torn:?}") };
    // Above line 4 the screen is as the viewer has seen it, which is in the same buffer.
    let latest = job.filling.latest.as_ref().unwrap();
    assert_eq!((job.torn_at, Arc::ptr_eq(latest, &job.filling.into)), (4, true));
    let mode = job.mode;
    let below = state.shown(0, &mode).unwrap();
    state.slice_ended();
    assert_eq!((below.0, below.1.unwrap().address.address), (2, 0x2000));
    assert_eq!(torn.wakes_at, Some(20 * MS));
    finish(&mut state, torn, 0);
    assert_eq!(seen(&mut state, viewer), "2t4");
    step(&mut state, 20 * MS);
    assert_eq!(seen(&mut state, viewer), "2");
    // In the blank nothing is torn.
    state.source(0).unwrap().set_address(flip(3, true), 21 * MS);
    step(&mut state, 21 * MS);
    assert_eq!(seen(&mut state, viewer), "");
    step(&mut state, 30 * MS);
    assert_eq!(seen(&mut state, viewer), "3");
}

#[test]
fn flips_happen_while_frames_are_composed_and_those_are_of_what_is_shown_then() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    let composing = state.step(0);
    assert_eq!(composing.work.jobs.len(), 1);
    let mode = composing.work.jobs[0].mode;
    for number in 1..=3 {
        let now = number * 10 * MS;
        state.source(0).unwrap().set_address(flip(number, false), now - MS);
        let at_vsync = state.step(now);
        assert_eq!(at_vsync.after, [vsync(0, 0, number, number)]);
        assert!(at_vsync.work.is_empty(), "there is one work at a time");
        state.flipped(at_vsync.after);
        assert_eq!(reports(&mut state), [vsync(0, 0, number, number)]);
        assert_eq!(state.shown(0, &mode).unwrap().0, number);
        state.slice_ended();
    }
    state.composed(composing.work, (31 * MS, 31 * MS));
    assert_eq!(seen(&mut state, viewer), "B0");
    step(&mut state, 31 * MS);
    assert_eq!(seen(&mut state, viewer), "3", "the newest follows");
}

/// A slice that is being read holds up neither the thread that scans out nor the VSYNC's event, but the report alone.
#[test]
fn a_flip_amid_a_slice_is_reported_when_that_has_ended_and_nobody_waits_for_it() {
    let mut state = state();
    view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().control_vsync(0, &[9], 0);
    let composing = state.step(0);
    let mode = composing.work.jobs[0].mode;
    state.source(0).unwrap().set_address(flip(1, false), MS);
    assert!(state.shown(0, &mode).is_some());
    let mut at_vsync = state.step(10 * MS);
    state.flipped(std::mem::take(&mut at_vsync.after));
    assert_eq!((at_vsync.events.len(), at_vsync.wakes_at), (1, Some(20 * MS)));
    assert_eq!(reports(&mut state), [], "the old picture is still read");
    assert_eq!(told(&mut state, 20 * MS), [(2, 101)], "VSYNCs go on");
    state.slice_ended();
    assert_eq!(reports(&mut state), [vsync(0, 0, 1, 1)]);
}

#[test]
fn frames_that_take_long_are_followed_by_as_long_a_rest_and_flips_by_none() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    let composing = state.step(0);
    state.composed(composing.work, (0, 25 * MS));
    assert_eq!(seen(&mut state, viewer), "B0");
    for number in 3..=5 {
        state.source(0).unwrap().set_address(flip(number, false), (number * 10 - 1) * MS);
        let at_vsync = state.step(number * 10 * MS);
        assert_eq!(at_vsync.after, [vsync(0, 0, number, number)]);
        assert_eq!(at_vsync.work.is_empty(), number < 5, "the rest ends after 50 ms");
        finish(&mut state, at_vsync, number * 10 * MS);
    }
    assert_eq!(seen(&mut state, viewer), "5");
}

/// The cells of the source that the only job of a step composes; `None` for the whole screen.
fn cells_of(step: &Step) -> Option<Cells> {
    let [job] = &*step.work.jobs else { panic!("{step:?}") };
    job.cells
}

#[test]
fn a_pointer_that_moves_has_only_that_composed_which_it_lay_and_lies_over() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    let words = [0xff00_0000; 2].into();
    let shape = Shape { width: 2, words, hot: (0, 0) };
    state.source(0).unwrap().set_shape(Some(shape), 0);
    let first = state.step(0);
    assert_eq!(cells_of(&first), None);
    finish(&mut state, first, 0);
    seen(&mut state, viewer);
    // The screen has 4 x 8 pixels, each a cell of its own.
    let cells = |rows: &[(usize, u64)]| {
        let mut words = [0; 64];
        rows.iter().for_each(|(row, columns)| words[*row] = *columns);
        Some(Cells::from_words(words))
    };
    for (time, at, expected) in [
        (1, Some((1, 2)), cells(&[(2, 0b0110)])),
        (11, Some((3, 7)), cells(&[(2, 0b0110), (7, 0b1000)])),
        (21, Some((-1, 6)), cells(&[(7, 0b1000), (6, 0b0001)])),
        (31, None, cells(&[(6, 0b0001)])),
    ] {
        state.source(0).unwrap().move_pointer(at, time * MS);
        let moved = state.step((time + 9) * MS);
        assert_eq!(cells_of(&moved), expected, "{at:?}");
        finish(&mut state, moved, (time + 9) * MS);
        assert_eq!(seen(&mut state, viewer), "", "nothing was composed that differs");
    }
}

#[test]
fn a_buffer_is_stale_where_something_changed_since_it_was_filled_and_a_flip_changes_everything() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    step(&mut state, 0);
    let one = |row: usize| {
        let mut words = [0; 64];
        words[row] = 1;
        Cells::from_words(words)
    };
    let change = |state: &mut State, row, time: u64, differs| {
        state.source(0).unwrap().change_cells(one(row), (time - 1) * MS);
        let mut changed = state.step(time * MS);
        let cells = cells_of(&changed);
        let buffer = changed.work.jobs[0].filling.buffer;
        if differs {
            changed.work.jobs[0].changed = one(row);
        }
        finish(state, changed, time * MS);
        (cells, buffer)
    };
    // The viewer has the first frame, so that the other buffer is filled, for the first time.
    assert_eq!(change(&mut state, 1, 10, true), (None, 1));
    assert_eq!(seen(&mut state, viewer), "B00");
    // It has given both back: the next changes go into the latest.
    assert_eq!(change(&mut state, 2, 20, true), (Some(one(2)), 1));
    assert_eq!(seen(&mut state, viewer), "0");
    assert_eq!(change(&mut state, 3, 30, false), (Some(one(3)), 1));
    assert_eq!(seen(&mut state, viewer), "", "it is the same");
    assert_eq!(change(&mut state, 4, 40, true), (Some(one(4)), 1));
    // It keeps that one: the first buffer misses all that changed since.
    let mut since = one(1);
    [2, 3, 4, 5].iter().for_each(|row| since.add(&one(*row)));
    assert_eq!(change(&mut state, 5, 50, true), (Some(since), 0));
    seen(&mut state, viewer);
    state.source(0).unwrap().set_address(flip(1, false), 51 * MS);
    assert_eq!(change(&mut state, 6, 60, true).0, None);
    assert_eq!(seen(&mut state, viewer), "1");
}

#[test]
fn a_flip_amid_a_part_of_a_frame_drops_it_and_a_whole_one_follows() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    step(&mut state, 0);
    seen(&mut state, viewer);
    state.source(0).unwrap().change_cells(Cells::ALL, MS);
    let mut part = state.step(10 * MS);
    assert_eq!(cells_of(&part), Some(Cells::ALL));
    // So says who composes, whom the state tells of another flip.
    part.work.jobs[0].is_gone = true;
    finish(&mut state, part, 10 * MS);
    assert_eq!(seen(&mut state, viewer), "");
    // What the viewer saw last is in no buffer: there is nothing to tear, nor to compare with.
    state.source(0).unwrap().set_address(flip(1, true), 16 * MS);
    let torn = state.step(16 * MS);
    assert_eq!(cells_of(&torn), None);
    assert_eq!((torn.work.jobs[0].torn_at, torn.work.jobs[0].filling.latest.is_none()), (0, true));
    finish(&mut state, torn, 16 * MS);
    assert_eq!(seen(&mut state, viewer), "1");
}

#[test]
fn what_is_taken_away_is_let_go_amid_a_frame() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().set_address(flip(1, false), 0);
    step(&mut state, 10 * MS);
    seen(&mut state, viewer);
    state.source(0).unwrap().set_address(flip(2, false), 10 * MS);
    let composing = state.step(20 * MS);
    let mode = composing.work.jobs[0].mode;
    reports(&mut state);
    assert!(state.shown(0, &mode).is_some());
    state.source(0).unwrap().set_address(None, 21 * MS);
    let ticket = state.quiesce();
    assert_eq!(reports(&mut state), [], "a slice is read");
    state.slice_ended();
    assert_eq!(state.shown(0, &mode), Some((0, None)));
    state.slice_ended();
    assert_eq!(reports(&mut state), [Interrupt::DisplayQuiesced { guest: GUEST, ticket }]);
    // Without its mode, or without power, it is not this picture.
    let mut smaller = path(0, 0);
    smaller.source_mode.width = 3;
    state.commit(&[smaller], 22 * MS);
    assert_eq!(state.shown(0, &mode), None);
    let mut work = composing.work;
    work.jobs[0].is_gone = true;
    state.composed(work, (23 * MS, 23 * MS));
    assert_eq!(seen(&mut state, viewer), "");
    step(&mut state, 24 * MS);
    assert_eq!(seen(&mut state, viewer), "0", "what there is in its place follows at once");
}

#[test]
fn a_frame_that_was_composed_for_another_mode_is_dropped() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    let composing = state.step(0);
    state.commit(&[], 0);
    finish(&mut state, composing, 0);
    assert_eq!(seen(&mut state, viewer), "-");
}

#[test]
fn what_engines_draw_is_composed_alone_and_a_flip_has_them_draw_into_another_picture() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().set_address(flip(1, false), 0);
    let at_vsync = state.step(10 * MS);
    let surface = state.source(0).unwrap().surface().unwrap();
    assert_eq!(at_vsync.watched, Some(vec![(0, surface)]));
    let memory = crate::gpu::memory::address_map::tests::shared_map();
    let private = PhysicalAddress { segment: Segment::Private, address: 0x100 };
    let picture = Arc::new(Surface { address: private, ..surface }.drawn(&memory).unwrap());
    state.watch_drawn(&[(0, Arc::clone(&picture))]);
    finish(&mut state, at_vsync, 10 * MS);
    assert_eq!(seen(&mut state, viewer), "B1");
    // The first look.
    step(&mut state, 210 * MS);
    picture.marks.mark(5, 0b0110);
    assert_eq!(state.step(221 * MS).wakes_at, Some(230 * MS), "the next VSYNC");
    let drawn = state.step(230 * MS);
    let mut expected = [0; 64];
    expected[5] = 0b0110;
    assert_eq!(
        (cells_of(&drawn), drawn.watched.is_none()),
        (Some(Cells::from_words(expected)), true)
    );
    finish(&mut state, drawn, 230 * MS);
    state.source(0).unwrap().set_address(flip(2, false), 231 * MS);
    let flipped = state.step(240 * MS);
    assert_eq!(flipped.watched.as_ref().map(|watched| watched[0].1.address.address), Some(0x2000));
    finish(&mut state, flipped, 240 * MS);
    state.watch(viewer, false, 241 * MS);
    assert_eq!(state.step(241 * MS).watched, Some(Vec::new()), "nobody watches");
}
