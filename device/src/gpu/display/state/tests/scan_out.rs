// SPDX-License-Identifier: MIT OR Apache-2.0

//! VSYNCs, flips and what sources show.

use super::*;

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
fn plugging_is_reported_once() {
    let mut state = state();
    assert!(state.is_plugged(0) && !state.is_plugged(1) && !state.is_plugged(2));
    let changed = |child| Interrupt::ChildStatusChanged { guest: GUEST, child };
    assert!(state.plug(1, true) && !state.plug(1, true) && !state.plug(2, true));
    assert!(state.plug(1, false));
    assert_eq!(reports(&mut state), [changed(1)]);
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
