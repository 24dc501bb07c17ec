// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::gpu::display::config::ConnectorConfig;
use crate::gpu::display::viewer::Update;
use bellhop_host_kmd::hardware::{Monitor, PhysicalAddress, Segment, SourceAddress};
use bellhop_protocol::control::display::{
    ConnectorKind, Rotation, Scaling, SourceMode, TargetMode,
};
use bellhop_protocol::pixel_format::PixelFormat;

const GUEST: GuestId = GuestId(7);
const MS: u64 = 1_000_000;

/// Two connectors, the first of them plugged.
fn state() -> State {
    let connector = |plugged| ConnectorConfig {
        name: String::new(),
        kind: ConnectorKind::VIRTUAL,
        max_pixel_rate: u64::MAX,
        monitor: Monitor { edid: vec![0; 128], modes: Vec::new() },
        plugged,
    };
    let connectors = vec![connector(true), connector(false)];
    State::new(GUEST, &DisplayConfig { connectors, total_pixel_rate: u64::MAX })
}

/// 100 Hz: a VSYNC every 10 ms, of which the blank takes 2 ms.
fn path(source: u32, target: u32) -> DisplayPath {
    DisplayPath {
        source,
        target,
        scaling: Scaling::IDENTITY,
        rotation: Rotation::IDENTITY,
        source_mode: SourceMode { width: 4, height: 8, format: PixelFormat::X8R8G8B8, reserved: 0 },
        target_mode: TargetMode {
            width: 4,
            height: 8,
            total_width: 5,
            total_height: 10,
            refresh_numerator: 100,
            refresh_denominator: 1,
            flags: 0,
            min_refresh: 0,
        },
    }
}

fn flip(number: u64, immediate: bool) -> Option<SourceAddress> {
    let base = PhysicalAddress { segment: Segment::Local, address: number * 0x1000 };
    Some(SourceAddress { flip: number, number: 100 + number, base, pitch: 16, immediate })
}

fn vsync(source: u32, target: u32, flip: u64, count: u64) -> Interrupt {
    Interrupt::CrtcVsync { guest: GUEST, source, target, flip, count, time: count * 10 * MS }
}

fn reports(state: &mut State) -> Vec<Interrupt> {
    state.reports.take().collect()
}

/// A step has done what it says.
fn finish(state: &mut State, step: Step, now: u64) {
    state.flipped(step.after);
    state.composed(step.work, (now, now));
}

/// The VSYNCs that process 9 is told of in a step: their counts, and the flips that are shown, by the driver's numbers.
fn told(state: &mut State, now: u64) -> Vec<(u64, u64)> {
    let step = state.step(now);
    let told = step.events.iter().map(|event| {
        assert_eq!((event.kind, event.process, event.object), (EventKind::VSYNC, 9, 0));
        assert_eq!(event.time, event.cookie * 10 * MS);
        (event.cookie, event.value)
    });
    let told = told.collect();
    finish(state, step, now);
    told
}

/// A step whose frames are composed at once. Returns when the next one is.
fn step(state: &mut State, now: u64) -> Option<u64> {
    let step = state.step(now);
    let wakes_at = step.wakes_at;
    finish(state, step, now);
    wakes_at
}

#[test]
fn nobody_wakes_a_screen_that_nobody_watches() {
    let mut state = state();
    state.commit(&[path(0, 0)], 0);
    assert_eq!(step(&mut state, MS), None);
    state.source(0).unwrap().set_address(flip(1, false), 2 * MS);
    assert_eq!(step(&mut state, 2 * MS), Some(10 * MS));
    assert_eq!(step(&mut state, 10 * MS), None);
    assert_eq!(reports(&mut state), [vsync(0, 0, 1, 1)]);
    assert_eq!(step(&mut state, 55 * MS), None);
    assert_eq!(reports(&mut state), []);
}

#[test]
fn each_vsync_is_told_of_while_somebody_wants_it() {
    let mut state = state();
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().control_vsync(0, &[9], 25 * MS);
    assert_eq!(step(&mut state, 25 * MS), Some(30 * MS));
    assert_eq!(told(&mut state, 30 * MS), [(3, 0)]);
    assert_eq!(step(&mut state, 30 * MS), Some(40 * MS));
    state.source(0).unwrap().set_address(flip(1, false), 31 * MS);
    // The thread was late: one VSYNC is missed, and the count says so.
    assert_eq!(told(&mut state, 53 * MS), [(5, 101)]);
    assert_eq!(step(&mut state, 53 * MS), Some(60 * MS));
    // The kernel learns of the flip alone.
    assert_eq!(reports(&mut state), [vsync(0, 0, 1, 5)]);
    state.source(0).unwrap().control_vsync(0, &[], 55 * MS);
    assert_eq!(told(&mut state, 60 * MS), []);
    assert_eq!(step(&mut state, 60 * MS), None);
    assert_eq!(reports(&mut state), []);
}

#[test]
fn a_flip_happens_at_the_vsync_after_it_was_asked_for_and_the_latest_one_counts() {
    let mut state = state();
    state.commit(&[path(0, 0)], 0);
    let source = state.source(0).unwrap();
    source.set_address(flip(1, false), 5 * MS);
    assert_eq!(source.set_address(flip(2, false), 6 * MS), Some(1));
    assert_eq!(step(&mut state, 9 * MS), Some(10 * MS));
    assert_eq!(state.source(0).unwrap().flip(), 0);
    step(&mut state, 10 * MS);
    assert_eq!(state.source(0).unwrap().flip(), 2);
    // Asked for after the VSYNC, though the thread looks later.
    state.source(0).unwrap().set_address(flip(3, false), 20 * MS + 1);
    assert_eq!(step(&mut state, 21 * MS), Some(30 * MS));
    assert_eq!(reports(&mut state), [vsync(0, 0, 2, 1)]);
}

#[test]
fn an_immediate_flip_happens_at_once_and_is_reported_when_nothing_is_read_that_was_before_it() {
    let mut state = state();
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().set_address(flip(1, true), 5 * MS);
    let step = state.step(5 * MS);
    let flipped =
        |flip, count, time| Interrupt::Flipped { guest: GUEST, source: 0, flip, count, time };
    assert_eq!(step.after, [flipped(1, 0, 5 * MS)]);
    assert_eq!(reports(&mut state), []);
    state.flipped(step.after);
    assert_eq!(reports(&mut state), [flipped(1, 0, 5 * MS)]);
}

#[test]
fn a_blanked_source_flips_at_once_and_has_no_vsync() {
    let mut state = state();
    state.commit(&[path(0, 0)], 0);
    let source = state.source(0).unwrap();
    source.control_vsync(0, &[9], 0);
    source.set_address(flip(1, false), MS);
    source.set_visible(false, 2 * MS);
    assert_eq!(step(&mut state, 2 * MS), None);
    let flipped = Interrupt::Flipped { guest: GUEST, source: 0, flip: 1, count: 0, time: 2 * MS };
    assert_eq!(reports(&mut state), [flipped]);
    let source = state.source(0).unwrap();
    assert_eq!((source.surface(), source.line(3 * MS).in_vertical_blank), (None, true));
    source.set_visible(true, 42 * MS);
    assert!(source.surface().is_some());
    assert_eq!(step(&mut state, 42 * MS), Some(50 * MS));
    assert_eq!(told(&mut state, 50 * MS), [(5, 101)]);
}

#[test]
fn a_source_that_stays_goes_on_and_one_that_changes_begins_anew() {
    let mut state = state();
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().set_address(flip(1, false), 0);
    step(&mut state, 10 * MS);
    state.commit(&[path(0, 0), path(1, 1)], 15 * MS);
    assert_eq!(state.source(0).unwrap().last_vsync(20 * MS).count, 2);
    assert_eq!(state.source(0).unwrap().flip(), 1);
    let mut other = path(0, 0);
    other.target_mode.refresh_numerator = 50;
    state.source(0).unwrap().set_address(flip(2, false), 24 * MS);
    state.commit(&[other, path(1, 1)], 25 * MS);
    // Its monitor has another rate: frames begin anew, and nothing is lost.
    let source = state.source(0).unwrap();
    assert_eq!((source.flip(), source.last_vsync(44 * MS).count), (1, 2));
    assert_eq!(step(&mut state, 30 * MS), Some(45 * MS));
    step(&mut state, 45 * MS);
    let shown = |flip, count, time| Interrupt::CrtcVsync {
        guest: GUEST,
        source: 0,
        target: 0,
        flip,
        count,
        time,
    };
    assert_eq!(reports(&mut state), [shown(1, 1, 10 * MS), shown(2, 3, 45 * MS)]);
    let mut smaller = other;
    smaller.source_mode.width = 3;
    state.commit(&[smaller, path(1, 1)], 50 * MS);
    let source = state.source(0).unwrap();
    assert_eq!((source.flip(), source.last_vsync(69 * MS).count), (0, 0));
    assert_eq!(state.source(1).unwrap().last_vsync(44 * MS).count, 2);
    state.commit(&[], 45 * MS);
    assert!(state.source(0).is_none() && state.paths().is_empty());
}

fn view(state: &mut State, target: u32) -> ViewerId {
    state.add_viewer(target, Arc::new(Signal::new().unwrap())).unwrap()
}

/// What a viewer was told: `B` new buffers, `-` no signal, or the flip of a frame. Frames are given back.
fn seen(state: &mut State, viewer: ViewerId) -> String {
    let viewer = state.viewer(viewer).unwrap();
    let mut seen = String::new();
    for update in viewer.take() {
        match update {
            Update::Buffers(_) => seen += "B",
            Update::NoSignal => seen += "-",
            Update::Frame(frame) => {
                viewer.give_back(frame.buffer);
                seen += &format!("{}", frame.flip);
                if frame.torn_at > 0 {
                    seen += &format!("t{}", frame.torn_at);
                }
            }
        }
    }
    seen
}

/// When somebody looks whether a picture has changed that was first seen at a time.
fn look_after(time: u64) -> Option<u64> {
    Some(time + 200 * MS)
}

#[test]
fn a_viewer_sees_each_change_once() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    assert_eq!(seen(&mut state, viewer), "-");
    state.commit(&[path(0, 0)], 0);
    step(&mut state, 0);
    assert_eq!(seen(&mut state, viewer), "B0");
    state.source(0).unwrap().set_address(flip(1, false), 3 * MS);
    assert_eq!(step(&mut state, 3 * MS), Some(10 * MS));
    assert_eq!(step(&mut state, 10 * MS), look_after(10 * MS));
    assert_eq!(seen(&mut state, viewer), "1");
    assert_eq!(step(&mut state, 11 * MS), look_after(10 * MS));
    assert_eq!(seen(&mut state, viewer), "");
    state.commit(&[], 21 * MS);
    assert_eq!(seen(&mut state, viewer), "-");
    state.remove_viewer(viewer);
    assert_eq!(state.viewers_of(0), 0);
}

#[test]
fn a_viewer_that_looks_away_wakes_nobody_and_sees_what_is_there_when_it_looks_again() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.watch(viewer, false, 0);
    state.commit(&[path(0, 0)], 0);
    assert_eq!(step(&mut state, 0), None);
    assert_eq!(seen(&mut state, viewer), "B0", "the first frame, for its size");
    assert_eq!(step(&mut state, 11 * MS), None);
    state.source(0).unwrap().set_address(flip(1, false), 12 * MS);
    step(&mut state, 20 * MS);
    assert_eq!(step(&mut state, 500 * MS), None);
    assert_eq!(seen(&mut state, viewer), "");
    state.watch(viewer, true, 501 * MS);
    assert_eq!(step(&mut state, 501 * MS), look_after(501 * MS));
    assert_eq!(seen(&mut state, viewer), "1");
    // Another size is told even to who looks away.
    state.watch(viewer, false, 511 * MS);
    let mut large = path(0, 0);
    large.target_mode.width = 5;
    state.commit(&[large], 512 * MS);
    step(&mut state, 530 * MS);
    assert_eq!(seen(&mut state, viewer), "B1");
}

#[test]
fn a_viewer_that_keeps_its_buffers_misses_frames_and_wakes_nobody() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    step(&mut state, 0);
    for number in 1..=5 {
        let now = number * 10 * MS;
        state.source(0).unwrap().set_address(flip(number, false), now - MS);
        step(&mut state, now - MS);
        assert_eq!(step(&mut state, now), None);
    }
    assert_eq!(seen(&mut state, viewer), "B01");
    step(&mut state, 51 * MS);
    assert_eq!(seen(&mut state, viewer), "5");
}

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
fn clones_show_one_source_each_in_its_own_way() {
    let mut state = state();
    let viewers = [view(&mut state, 0), view(&mut state, 1)];
    let mut clone = path(0, 1);
    clone.target_mode.width = 8;
    clone.scaling = Scaling::CENTERED;
    state.commit(&[path(0, 0), clone], 0);
    let first = state.step(0);
    let sizes: Vec<_> = first.work.jobs.iter().map(|job| job.filling.into.size()).collect();
    assert_eq!(sizes, [(4, 8), (8, 8)]);
    finish(&mut state, first, 0);
    state.source(0).unwrap().set_address(flip(1, false), MS);
    step(&mut state, 10 * MS);
    assert_eq!(viewers.map(|viewer| seen(&mut state, viewer)), ["B01", "B01"]);
    // The preferred target is that of the first path, and only it interrupts.
    assert_eq!(reports(&mut state), [vsync(0, 0, 1, 1)]);
}

#[test]
fn a_ticket_passes_when_no_surface_is_read_any_more() {
    let mut state = state();
    let passed =
        |ticket| Interrupt::DisplayQuiesced { guest: GUEST, ticket: DisplayTicket(ticket) };
    assert_eq!(state.quiesce(), DisplayTicket(1));
    assert_eq!(reports(&mut state), [passed(1)]);
    view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    let composing = state.step(0);
    assert_eq!(composing.work.jobs.len(), 1);
    let mode = composing.work.jobs[0].mode;
    assert!(state.shown(0, &mode).is_some());
    state.commit(&[], 0);
    assert_eq!([state.quiesce(), state.quiesce()], [DisplayTicket(2), DisplayTicket(3)]);
    assert_eq!(reports(&mut state), [], "a slice is read");
    state.slice_ended();
    assert_eq!(reports(&mut state), [passed(3)], "no other slice of it can begin");
    assert_eq!(state.quiesce(), DisplayTicket(4));
    assert_eq!(reports(&mut state), [passed(4)]);
    finish(&mut state, composing, 0);
    assert_eq!(reports(&mut state), []);
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
    let shape = super::super::source::Shape { width: 2, words, hot: (0, 0) };
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
fn plugging_is_reported_once() {
    let mut state = state();
    assert!(state.is_plugged(0) && !state.is_plugged(1) && !state.is_plugged(2));
    let changed = |child| Interrupt::ChildStatusChanged { guest: GUEST, child };
    assert!(state.plug(1, true) && !state.plug(1, true) && !state.plug(2, true));
    assert!(state.plug(1, false));
    assert_eq!(reports(&mut state), [changed(1)]);
}

#[test]
fn input_reaches_the_source_that_is_seen_and_its_queue_is_bounded() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    let key = |keysym| Input::Key { keysym, down: true };
    assert!(!state.input(viewer, key(1)), "nothing is shown");
    let mut turned = path(1, 0);
    turned.rotation = Rotation::ROTATE_180;
    state.commit(&[turned], 0);
    assert!(state.input(viewer, key(0x61)));
    assert!(state.input(viewer, Input::Pointer { x: 0, y: 1, buttons: 1 }));
    assert!(state.input(viewer, Input::Pointer { x: 1, y: 1, buttons: 1 }));
    assert!(state.input(viewer, Input::Pointer { x: 1, y: 1, buttons: 0 }));
    let input = |kind, value| Interrupt::DisplayInput { guest: GUEST, source: 1, kind, value };
    assert_eq!(
        reports(&mut state),
        [
            input(InputKind::KEY, 0x61 << 1 | 1),
            input(InputKind::POINTER, 2 << 32 | 6 << 16 | 1),
            input(InputKind::POINTER, 2 << 32 | 6 << 16),
        ]
    );
    // `a` is held already.
    let typed = |state: &mut State, keysym| {
        let down = state.input(viewer, key(keysym));
        down && state.input(viewer, Input::Key { keysym, down: false })
    };
    let taken = (0..1000).filter(|keysym| typed(&mut state, *keysym)).count();
    assert_eq!((taken, reports(&mut state).len()), (32, 64));
}

/// What a guest is told that a viewer does: `+` and `-` with a key, or the pointer's buttons.
fn told_of_input(state: &mut State) -> Vec<String> {
    let told = reports(state).into_iter().filter_map(|report| match report {
        Interrupt::DisplayInput { kind: InputKind::KEY, value, .. } => {
            Some(format!("{}{}", if value & 1 == 1 { '+' } else { '-' }, value >> 1))
        }
        Interrupt::DisplayInput { value, .. } => Some(format!("buttons {}", value & 0xffff)),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_viewer_that_leaves_lets_go_of_what_it_holds() {
    let mut state = state();
    let viewers = [view(&mut state, 0), view(&mut state, 0)];
    state.commit(&[path(0, 0)], 0);
    let key = |keysym, down| Input::Key { keysym, down };
    for (viewer, input) in [
        (viewers[0], key(1, true)),
        (viewers[1], key(2, true)),
        (viewers[0], key(3, true)),
        (viewers[0], key(1, false)),
        (viewers[0], Input::Pointer { x: 1, y: 1, buttons: 1 }),
    ] {
        assert!(state.input(viewer, input));
    }
    assert_eq!(told_of_input(&mut state), ["+1", "+2", "+3", "-1", "buttons 1"]);
    state.remove_viewer(viewers[0]);
    assert_eq!(told_of_input(&mut state), ["-3", "buttons 0"]);
    state.remove_viewer(viewers[1]);
    assert_eq!(told_of_input(&mut state), ["-2"]);
}

#[test]
fn what_was_pressed_comes_up_however_much_else_is_dropped() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    let key = |keysym, down| Input::Key { keysym, down };
    let pointer = |buttons| Input::Pointer { x: 1, y: 1, buttons };
    assert!(state.input(viewer, pointer(1)));
    let pressed: Vec<u32> =
        (0..1000).filter(|keysym| state.input(viewer, key(*keysym, true))).collect();
    assert_eq!(pressed.len(), 63);
    assert!(state.input(viewer, pointer(0)), "buttons end as they are");
    let released: Vec<u32> =
        (0..1000).filter(|keysym| state.input(viewer, key(*keysym, false))).collect();
    assert_eq!(released, pressed, "and no other key");
    let told = told_of_input(&mut state);
    assert_eq!((told[0].as_str(), told.len()), ("buttons 0", 1 + 2 * 63));
    // Nor does the room grow with presses that are followed by no release.
    for _ in 0..1000 {
        state.input(viewer, key(1, true));
        state.input(viewer, key(1, false));
    }
    assert_eq!(told_of_input(&mut state).len(), 64);
}

/// A picture of which each slice takes no time: what is counted is how often the thread wakes up by itself.
#[test]
fn a_still_picture_that_is_watched_wakes_the_thread_ten_times_a_second() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().set_address(flip(1, false), 0);
    let (mut now, mut frames, mut wakeups) = (0, String::new(), [0; 30]);
    loop {
        let next = state.step(now);
        let (is_done, wakes_at) = (next.work.is_empty(), next.wakes_at);
        finish(&mut state, next, now);
        frames += &seen(&mut state, viewer);
        if is_done {
            now = wakes_at.unwrap();
            let Some(of_second) = wakeups.get_mut((now / (1000 * MS)) as usize) else { break };
            *of_second += 1;
        }
    }
    // Looks are rare once 64 of them, a thirtieth of a second apart, have found nothing.
    assert_eq!(wakeups[3..], [10; 27]);
    assert_eq!(frames, "B01", "one frame for each change");
    // Nobody has another frame, or a look, once nobody watches.
    state.watch(viewer, false, now);
    assert_eq!(step(&mut state, now), None);
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

#[test]
fn variable_refresh_flips_when_asked() {
    let mut state = state();
    let mut variable = path(0, 0);
    variable.target_mode.min_refresh = 20_000;
    state.commit(&[variable], 0);
    state.source(0).unwrap().set_address(flip(1, false), 23 * MS);
    assert_eq!(step(&mut state, 23 * MS), None);
    let report = Interrupt::CrtcVsync {
        guest: GUEST,
        source: 0,
        target: 0,
        flip: 1,
        count: 1,
        time: 23 * MS,
    };
    assert_eq!(reports(&mut state), [report]);
}

#[test]
fn without_power_nothing_is_scanned_and_all_is_kept() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().set_address(flip(1, false), 0);
    step(&mut state, 10 * MS);
    state.source(0).unwrap().set_address(flip(2, false), 11 * MS);
    state.source(0).unwrap().control_vsync(0, &[9], 11 * MS);
    state.set_power(false, 12 * MS);
    assert_eq!(seen(&mut state, viewer), "-");
    reports(&mut state);
    assert_eq!(step(&mut state, 35 * MS), None);
    assert!(state.line(0, 35 * MS).in_vertical_blank);
    assert_eq!(reports(&mut state), []);
    state.set_power(true, 45 * MS);
    assert_eq!(step(&mut state, 45 * MS), Some(50 * MS));
    step(&mut state, 50 * MS);
    assert_eq!(reports(&mut state), [vsync(0, 0, 2, 5)]);
    assert!(seen(&mut state, viewer).ends_with('2'));
}

#[test]
fn a_reset_forgets_what_is_pending_and_keeps_what_is_shown() {
    let mut state = state();
    state.commit(&[path(0, 0)], 0);
    state.source(0).unwrap().set_address(flip(1, false), 0);
    step(&mut state, 10 * MS);
    state.source(0).unwrap().set_address(flip(2, false), 11 * MS);
    state.reset(15 * MS);
    reports(&mut state);
    assert_eq!(step(&mut state, 15 * MS), None);
    let source = state.source(0).unwrap();
    assert_eq!((source.flip(), source.last_vsync(25 * MS).count), (1, 1));
    assert_eq!(source.set_address(None, 26 * MS), None);
}
