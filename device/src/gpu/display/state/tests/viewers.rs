// SPDX-License-Identifier: MIT OR Apache-2.0

//! What viewers see, and what they cost.

use super::*;

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
