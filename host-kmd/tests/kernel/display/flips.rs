// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flips: their order, their fences and their ends.

use super::*;
use bellhop_host_kmd::hardware::{Interrupt, Monitor};
use bellhop_protocol::control::allocation::{OpenSharedAllocation, ShareAllocation};
use bellhop_protocol::control::display::TargetMode;
use bellhop_protocol::control::fence::{CreateNativeFence, DestroyNativeFence};
use bellhop_protocol::control::flip::{
    ControlInterrupt, GetScanLine, INTERRUPT_VSYNC, POINTER_VISIBLE, SetPointerPosition,
    SetPointerShape, SetVidPnSourceOwner, SetVidPnSourceVisibility,
};
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::event::InputKind;
use std::time::Duration;

const SHOWN: FlipOutcome = FlipOutcome::SHOWN;
const DROPPED: FlipOutcome = FlipOutcome::DROPPED;
const LOST: FlipOutcome = FlipOutcome::LOST;

fn fence(bench: &mut Bench, client: Client) -> (Handle, u32) {
    let created = bench.call(client, &CreateNativeFence::new(client.device, 0)).unwrap();
    (created.fence, created.slot)
}

#[test]
fn a_vsync_flip_is_answered_when_it_is_queued_and_happens_at_the_vsync() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    assert_eq!(flip(&mut bench, client, primary, 70), Ok(()));
    assert_eq!(take_flipped(&mut bench), []);
    vsync(&mut bench, client.guest, 0);
    let (_, event) = bench.events[0];
    assert_eq!((event.kind, event.process, event.object), (EventKind::FLIPPED, client.process, 0));
    assert_eq!((event.value, event.cookie, event.time), (70, 1, 1001));
    assert_eq!(take_flipped(&mut bench), [(70, SHOWN)]);
    vsync(&mut bench, client.guest, 0);
    assert_eq!(bench.events, []);
}

#[test]
fn flips_happen_in_order_one_at_each_vsync_and_nine_are_too_many() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    for number in 1..=8 {
        assert_eq!(flip(&mut bench, client, primary, number), Ok(()));
    }
    let full = Err((Status::INSUFFICIENT_RESOURCES, 0));
    assert_eq!(flip(&mut bench, client, primary, 9), full);
    for number in 1..=8 {
        vsync(&mut bench, client.guest, 0);
        assert_eq!(take_flipped(&mut bench), [(number, SHOWN)]);
    }
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), []);
}

#[test]
fn an_immediate_flip_is_answered_when_it_has_happened() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    let request = address(primary, 5, FlipFlags::IMMEDIATE);
    let token = begin_flip(&mut bench, client, request, &[]);
    assert_eq!(bench.outcome(client, token), None);
    bench.interrupt();
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert_eq!(take_flipped(&mut bench), [(5, SHOWN)]);
    // It waits for a VSYNC flip before it.
    assert_eq!(flip(&mut bench, client, primary, 6), Ok(()));
    let request = address(primary, 7, FlipFlags::IMMEDIATE);
    let token = begin_flip(&mut bench, client, request, &[]);
    bench.interrupt();
    assert_eq!(bench.outcome(client, token), None);
    vsync(&mut bench, client.guest, 0);
    bench.interrupt();
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert_eq!(take_flipped(&mut bench), [(6, SHOWN), (7, SHOWN)]);
}

#[test]
fn a_flip_waits_for_all_its_fences_and_those_behind_it_wait_too() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    let [(one, first), (two, second)] = [(); 2].map(|()| fence(&mut bench, client));
    let request = address(primary, 1, FlipFlags::empty());
    let token = begin_flip(&mut bench, client, request, &[(one, 3), (two, 4)]);
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert_eq!(flip(&mut bench, client, primary, 2), Ok(()));
    bench.model.signal(client.guest, first, 3);
    bench.interrupt();
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), []);
    bench.model.signal(client.guest, second, 4);
    bench.interrupt();
    for number in [1, 2] {
        vsync(&mut bench, client.guest, 0);
        assert_eq!(take_flipped(&mut bench), [(number, SHOWN)]);
    }
}

#[test]
fn a_flip_whose_fence_is_closed_is_lost_and_the_next_happens() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    let (never, _) = fence(&mut bench, client);
    begin_flip(&mut bench, client, address(primary, 1, FlipFlags::empty()), &[(never, 3)]);
    assert_eq!(flip(&mut bench, client, primary, 2), Ok(()));
    bench.call(client, &DestroyNativeFence { fence: never }).unwrap();
    assert_eq!(take_flipped(&mut bench), [(1, LOST)]);
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(2, SHOWN)]);
}

#[test]
fn a_mailbox_shows_the_newest_frame_that_is_done() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    let (done, slot) = fence(&mut bench, client);
    let replace = |number| address(primary, number, FlipFlags::REPLACE);
    begin_flip(&mut bench, client, replace(1), &[]);
    begin_flip(&mut bench, client, replace(2), &[]);
    // The first was pending in the hardware, which will not show it.
    assert_eq!(take_flipped(&mut bench), [(1, DROPPED)]);
    begin_flip(&mut bench, client, replace(3), &[(done, 1)]);
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(2, SHOWN)]);
    begin_flip(&mut bench, client, replace(4), &[(done, 2)]);
    bench.model.signal(client.guest, slot, 2);
    bench.interrupt();
    assert_eq!(take_flipped(&mut bench), [(3, DROPPED)]);
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(4, SHOWN)]);
}

#[test]
fn a_flip_that_does_not_happen_in_time_resets_the_display_and_the_picture_comes_back() {
    let (mut bench, client) = lit();
    let [first, second] = [(); 2].map(|()| primary(&mut bench, client));
    flip(&mut bench, client, first, 1).unwrap();
    vsync(&mut bench, client.guest, 0);
    flip(&mut bench, client, second, 2).unwrap();
    flip(&mut bench, client, first, 3).unwrap();
    take_flipped(&mut bench);
    let before = bench.model.state().displays.sources[&(client.guest, 0)].shown.unwrap();
    // Four intervals of 60 Hz, and a quarter of the time-out.
    bench.later(Duration::from_millis(560));
    assert_eq!(take_flipped(&mut bench), []);
    bench.later(Duration::from_millis(10));
    assert_eq!(take_flipped(&mut bench), [(2, LOST), (3, LOST)]);
    bench.interrupt();
    {
        let displays = &bench.model.state().displays;
        let shown = displays.sources[&(client.guest, 0)].shown.unwrap();
        assert_eq!((displays.resets, shown.base), (1, before.base));
    }
    flip(&mut bench, client, second, 4).unwrap();
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(4, SHOWN)]);
}

#[test]
fn an_interrupt_that_was_raised_in_time_counts_however_late_it_is_read() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    flip(&mut bench, client, primary, 1).unwrap();
    bench.model.vsync(client.guest, 0);
    bench.later(Duration::from_secs(60));
    assert_eq!(take_flipped(&mut bench), [(1, SHOWN)]);
    assert_eq!(bench.model.state().displays.resets, 0);
}

#[test]
fn a_vsync_with_another_address_or_of_another_target_does_not_count() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    flip(&mut bench, client, primary, 1).unwrap();
    let (guest, source, count, time) = (client.guest, 0, 1, 2);
    let flip = bench.model.state().displays.sources[&(guest, 0)].pending.unwrap().flip;
    for (target, flip) in [(1, flip), (0, flip + 1)] {
        bench.raise(Interrupt::CrtcVsync { guest, source, target, flip, count, time });
    }
    assert_eq!(take_flipped(&mut bench), []);
    bench.later(Duration::from_secs(1));
    assert_eq!(take_flipped(&mut bench), [(1, LOST)]);
}

/// "A source whose mode stays keeps its flips", also one that the hardware has shown and not yet reported.
#[test]
fn a_flip_that_is_shown_while_the_first_target_changes_counts() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    for (number, targets) in [(1, vec![1]), (3, vec![0, 1]), (5, vec![0])] {
        flip(&mut bench, client, primary, number).unwrap();
        flip(&mut bench, client, primary, number + 1).unwrap();
        bench.model.vsync(client.guest, 0);
        for target in targets {
            assert_eq!(commit(&mut bench, client, &[path(0, target)]), Ok(()));
        }
        bench.interrupt();
        assert_eq!(take_flipped(&mut bench), [(number, SHOWN)]);
        vsync(&mut bench, client.guest, 0);
        assert_eq!(take_flipped(&mut bench), [(number + 1, SHOWN)]);
    }
    bench.later(Duration::from_secs(60));
    assert_eq!(bench.model.state().displays.resets, 0);
}

#[test]
fn what_a_source_reports_that_is_gone_does_not_count_for_the_next() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    (0..5).for_each(|_| vsync(&mut bench, client.guest, 0));
    flip(&mut bench, client, primary, 1).unwrap();
    bench.model.vsync(client.guest, 0);
    let small = VidPnPath {
        source_mode: source_mode(32, 32),
        target_mode: target_mode(32, 32),
        ..path(0, 0)
    };
    begin_commit(&mut bench, client, &[small]);
    bench.interrupt();
    assert_eq!(take_flipped(&mut bench), [(1, LOST)]);
    flip(&mut bench, client, primary, 2).unwrap();
    begin_commit(&mut bench, client, &[]);
    let (_, event) = bench.events.pop().unwrap();
    assert_eq!((event.kind, event.value, event.outcome), (EventKind::FLIPPED, 2, LOST));
    assert_eq!(event.cookie, 0, "VSYNCs of the source");
}

#[test]
fn flips_that_stay_have_the_time_of_the_mode_that_their_source_gets() {
    let (mut bench, client) = lit();
    let slow = TargetMode { refresh_numerator: 5, ..target_mode(64, 32) };
    let modes = vec![target_mode(64, 32), slow];
    bench.model.plug(client.guest, 0, Some(Monitor { modes, ..monitor() }));
    bench.interrupt();
    bench.events.clear();
    let primary = primary(&mut bench, client);
    flip(&mut bench, client, primary, 1).unwrap();
    bench.later(Duration::from_millis(300));
    let path = VidPnPath { target_mode: slow, ..path(0, 0) };
    assert_eq!(commit(&mut bench, client, &[path]), Ok(()));
    // Four intervals of 5 Hz, and a quarter of the time-out.
    bench.later(Duration::from_millis(1290));
    assert_eq!(take_flipped(&mut bench), []);
    bench.later(Duration::from_millis(10));
    assert_eq!(take_flipped(&mut bench), [(1, LOST)]);
}

#[test]
fn the_hardware_tells_of_vsyncs_whoever_wants_them() {
    let (mut bench, client) = lit();
    let told =
        |bench: &Bench| bench.model.state().displays.sources[&(client.guest, 0)].wanted_by.clone();
    let wanted = |flags| ControlInterrupt { source: 0, flags };
    assert!(told(&bench).is_empty());
    bench.call(client, &wanted(INTERRUPT_VSYNC)).unwrap();
    assert_eq!(told(&bench), [client.process]);
    let primary = primary(&mut bench, client);
    flip(&mut bench, client, primary, 77).unwrap();
    let pending = bench.model.state().displays.sources[&(client.guest, 0)].pending.unwrap();
    assert_eq!(pending.number, 77, "by the number that the driver gave");
    (0..3).for_each(|_| vsync(&mut bench, client.guest, 0));
    assert_eq!(take_flipped(&mut bench), [(77, SHOWN)]);
    bench.call(client, &wanted(0)).unwrap();
    assert!(told(&bench).is_empty());
    assert_eq!(
        bench.call(client, &GetScanLine { source: 0, reserved: 0 }).unwrap_err().0,
        Status::INVALID_PARAMETER
    );
    assert_eq!(
        bench.ask(client.guest, 0, &GetScanLine { source: 0, reserved: 0 }).unwrap().line,
        3
    );
    let none = bench.ask(client.guest, 0, &GetScanLine { source: 1, reserved: 0 });
    assert_eq!(none, Err((Status::GRAPHICS_SOURCE_NOT_IN_TOPOLOGY, 1)));
}

#[test]
fn flips_of_a_blanked_source_happen_at_once() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    flip(&mut bench, client, primary, 1).unwrap();
    bench.call(client, &SetVidPnSourceVisibility { source: 0, visible: 0 }).unwrap();
    bench.interrupt();
    assert_eq!(take_flipped(&mut bench), [(1, SHOWN)]);
    flip(&mut bench, client, primary, 2).unwrap();
    bench.interrupt();
    assert_eq!(take_flipped(&mut bench), [(2, SHOWN)]);
}

#[test]
fn a_source_is_flipped_by_its_owner_and_by_whom_the_owner_lets() {
    let (mut bench, client) = lit();
    let other = bench.client(client.guest);
    let (mine, theirs) = (primary(&mut bench, client), primary(&mut bench, other));
    let refused = Err((Status::GRAPHICS_SOURCE_NOT_IN_TOPOLOGY, 0));
    assert_eq!(flip(&mut bench, other, theirs, 1), refused);
    let grant = SetVidPnSourceOwner { source: 0, process: other.process };
    assert_eq!(bench.call(other, &grant), Err((Status::GRAPHICS_SOURCE_NOT_IN_TOPOLOGY, 0)));
    bench.call(client, &grant).unwrap();
    assert_eq!(flip(&mut bench, other, theirs, 1), Ok(()));
    assert_eq!(flip(&mut bench, client, mine, 2), Ok(()));
    for (number, process) in [(1, other.process), (2, client.process)] {
        vsync(&mut bench, client.guest, 0);
        let (_, event) = bench.events.pop().unwrap();
        assert_eq!((event.value, event.process, event.outcome), (number, process, SHOWN));
    }
    bench.call(client, &SetVidPnSourceOwner { source: 0, process: 0 }).unwrap();
    assert_eq!(flip(&mut bench, other, theirs, 3), refused);
}

#[test]
fn an_owner_flips_what_another_process_shares_with_it() {
    let (mut bench, client) = lit();
    let other = bench.client(client.guest);
    let flags = AllocationFlags::PRIMARY | AllocationFlags::SHARED;
    let theirs = primary_with(&mut bench, other, flags);
    let nt_handle = bench.call(other, &ShareAllocation { allocation: theirs }).unwrap();
    let request = OpenSharedAllocation { device: client.device, nt_handle };
    let mine = bench.call(client, &request).unwrap().allocation;
    flip(&mut bench, client, mine, 1).unwrap();
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(1, SHOWN)]);
    // The other's end leaves the picture, which the owner still has.
    let token = bench.begin(other, &DestroyProcess { flags: 0 });
    assert_eq!(bench.outcome(other, token), Some(Status::SUCCESS));
    let shown = bench.model.state().displays.sources[&(client.guest, 0)].shown;
    assert!(shown.is_some());
    flip(&mut bench, client, mine, 2).unwrap();
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(2, SHOWN)]);
}

#[test]
fn a_flip_waits_until_its_primary_is_in_memory() {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    bench.model.state().prompt_paging = false;
    let request = address(primary, 1, FlipFlags::IMMEDIATE);
    let token = begin_flip(&mut bench, client, request, &[]);
    bench.interrupt();
    assert_eq!(bench.model.state().displays.sources[&(client.guest, 0)].shown, None);
    assert_eq!(take_flipped(&mut bench), []);
    while bench.model.oldest_paging(client.guest).is_some() {
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
    bench.interrupt();
    assert_eq!(take_flipped(&mut bench), [(1, SHOWN)]);
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
}

#[test]
fn a_pointer_has_the_shape_that_its_owner_gives_it() {
    let (mut bench, client) = lit();
    let image = bench.local(client, 4 * 4096).unwrap().allocation;
    let shape = SetPointerShape {
        source: 0,
        width: 16,
        height: 8,
        pitch: 64,
        hot_x: 3,
        hot_y: 7,
        allocation: image,
        offset: 4096,
    };
    bench.call(client, &shape).unwrap();
    let position = SetPointerPosition { source: 0, x: -4, y: 40, flags: POINTER_VISIBLE };
    bench.call(client, &position).unwrap();
    {
        let state = bench.model.state();
        let source = &state.displays.sources[&(client.guest, 0)];
        let pointer = source.pointer.unwrap();
        assert_eq!((pointer.width, pointer.height, pointer.pitch), (16, 8, 64));
        assert_eq!((pointer.hot_x, pointer.hot_y, pointer.base.address % 4096), (3, 7, 0));
        assert_eq!(source.position, ((-4, 40), true));
    }
    let paged = primary(&mut bench, client);
    let moving = SetPointerShape { allocation: paged, offset: 0, ..shape };
    assert_eq!(bench.call(client, &moving), Err((Status::NOT_SUPPORTED, 0)));
    let none = SetPointerShape {
        width: 0,
        height: 0,
        pitch: 0,
        hot_x: 0,
        hot_y: 0,
        allocation: Handle(0),
        offset: 0,
        ..shape
    };
    bench.call(client, &none).unwrap();
    assert_eq!(bench.model.state().displays.sources[&(client.guest, 0)].pointer, None);
}

#[test]
fn what_a_viewer_does_reaches_the_owner_of_what_the_viewer_sees() {
    let (mut bench, client) = lit();
    let (guest, kind, value) = (client.guest, InputKind::KEY, 0x61 << 1 | 1);
    for source in [0, 1] {
        bench.raise(Interrupt::DisplayInput { guest, source, kind, value });
    }
    let (_, event) = bench.events.pop().unwrap();
    assert_eq!(bench.events, []);
    assert_eq!((event.kind, event.process, event.object), (EventKind::INPUT, client.process, 0));
    assert_eq!((event.value, event.cookie), (1, 0xC3));
}
