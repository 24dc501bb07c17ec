// SPDX-License-Identifier: MIT OR Apache-2.0

//! What ends, moves or loses power while a display shows it.

use super::*;
use bellhop_host_kmd::hardware::PhysicalAddress;
use bellhop_host_kmd::port::{Command, Input};
use bellhop_protocol::control::allocation::{DestroyAllocation, Evict};
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::flip::SetVidPnSourceOwner;
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::control::process::DestroyProcess;
use std::time::Duration;

/// A world whose source 0 shows a primary, which flip 1 flipped; and where its pixels are.
fn showing() -> (Bench, Client, Handle, PhysicalAddress) {
    let (mut bench, client) = lit();
    let primary = primary(&mut bench, client);
    flip(&mut bench, client, primary, 1).unwrap();
    vsync(&mut bench, client.guest, 0);
    take_flipped(&mut bench);
    let base = bench.model.state().displays.sources[&(client.guest, 0)].shown.unwrap().base;
    bench.model.state().displays.lets_go_late = true;
    (bench, client, primary, base)
}

fn reads(bench: &Bench, client: Client, base: PhysicalAddress) -> bool {
    bench.model.state().displays.reads(client.guest, base)
}

fn let_go(bench: &mut Bench, client: Client) {
    bench.model.let_go(client.guest);
    bench.interrupt();
}

#[test]
fn a_primary_is_destroyed_when_the_hardware_has_let_go_of_it() {
    let (mut bench, client, primary, base) = showing();
    let token = bench.begin(client, &DestroyAllocation { allocation: primary });
    assert_eq!(bench.outcome(client, token), None);
    assert!(reads(&bench, client, base));
    assert_eq!(bench.model.state().displays.sources[&(client.guest, 0)].shown, None);
    let_go(&mut bench, client);
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert!(!reads(&bench, client, base));
}

#[test]
fn a_primary_that_is_replaced_first_is_destroyed_at_once() {
    let (mut bench, client, first, _) = showing();
    let second = primary(&mut bench, client);
    flip(&mut bench, client, second, 2).unwrap();
    vsync(&mut bench, client.guest, 0);
    assert_eq!(bench.call(client, &DestroyAllocation { allocation: first }), Ok(()));
}

#[test]
fn flips_to_a_primary_that_is_destroyed_are_lost_and_others_happen() {
    let (mut bench, client, shown, _) = showing();
    let [doomed, other] = [(); 2].map(|()| primary(&mut bench, client));
    flip(&mut bench, client, other, 2).unwrap();
    flip(&mut bench, client, doomed, 3).unwrap();
    flip(&mut bench, client, shown, 4).unwrap();
    assert_eq!(bench.call(client, &DestroyAllocation { allocation: doomed }), Ok(()));
    assert_eq!(take_flipped(&mut bench), [(3, FlipOutcome::LOST)]);
    for number in [2, 4] {
        vsync(&mut bench, client.guest, 0);
        assert_eq!(take_flipped(&mut bench), [(number, FlipOutcome::SHOWN)]);
    }
}

#[test]
fn flips_behind_one_to_a_primary_that_is_destroyed_happen_after_the_picture_came_back() {
    let (mut bench, client, shown, base) = showing();
    let doomed = primary(&mut bench, client);
    flip(&mut bench, client, doomed, 2).unwrap();
    flip(&mut bench, client, shown, 3).unwrap();
    let token = bench.begin(client, &DestroyAllocation { allocation: doomed });
    bench.interrupt();
    assert_eq!(take_flipped(&mut bench), [(2, FlipOutcome::LOST)]);
    let back = bench.model.state().displays.sources[&(client.guest, 0)].shown.unwrap();
    assert_eq!(back.base, base);
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(3, FlipOutcome::SHOWN)]);
    let_go(&mut bench, client);
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
}

#[test]
fn a_device_a_process_and_a_guest_end_when_nothing_of_them_is_read() {
    for target in 0..3 {
        let (mut bench, client, _, base) = showing();
        let (guest, process) = (client.guest, client.process);
        let mut token = None;
        match target {
            0 => token = Some(bench.begin(client, &DestroyDevice { device: client.device })),
            1 => token = Some(bench.begin(client, &DestroyProcess { flags: 0 })),
            _ => bench.input(Input::Detach { guest }),
        }
        assert!(reads(&bench, client, base));
        let has_ended = |bench: &Bench| match token {
            Some(token) => bench.outcome(client, token) == Some(Status::SUCCESS),
            None => bench.detached == [guest],
        };
        assert!(!has_ended(&bench), "{target}");
        let_go(&mut bench, client);
        assert!(has_ended(&bench), "{target} of process {process}");
        let has_source = bench.model.state().displays.sources.contains_key(&(guest, 0));
        assert_eq!(has_source, target == 0, "the process's end takes its paths");
    }
}

/// A source that its owner lent to another process, whose primary is shown.
fn lent() -> (Bench, Client, Client, Handle) {
    let (mut bench, client, _, _) = showing();
    bench.model.state().displays.lets_go_late = false;
    let other = bench.client(client.guest);
    let theirs = primary(&mut bench, other);
    let grant = SetVidPnSourceOwner { source: 0, process: other.process };
    bench.call(client, &grant).unwrap();
    flip(&mut bench, other, theirs, 2).unwrap();
    vsync(&mut bench, client.guest, 0);
    (bench, client, other, theirs)
}

#[test]
fn the_end_of_a_guest_process_leaves_the_owner_s_source() {
    let (mut bench, client, other, theirs) = lent();
    flip(&mut bench, other, theirs, 3).unwrap();
    take_flipped(&mut bench);
    let token = bench.begin(other, &DestroyProcess { flags: 0 });
    bench.interrupt();
    assert_eq!(bench.outcome(other, token), Some(Status::SUCCESS));
    assert_eq!(take_flipped(&mut bench), [(3, FlipOutcome::LOST)]);
    assert_eq!(bench.model.state().displays.sources[&(client.guest, 0)].shown, None);
    let mine = primary(&mut bench, client);
    flip(&mut bench, client, mine, 4).unwrap();
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(4, FlipOutcome::SHOWN)]);
}

#[test]
fn a_flip_of_the_owner_s_happens_although_what_is_shown_goes_with_another_process() {
    let (mut bench, client, other, _) = lent();
    take_flipped(&mut bench);
    let mine = [(); 2].map(|()| primary(&mut bench, client));
    for (number, primary) in (3..).zip(mine) {
        flip(&mut bench, client, primary, number).unwrap();
    }
    bench.call(other, &DestroyProcess { flags: 0 }).unwrap();
    assert_eq!(take_flipped(&mut bench), [], "the hardware has the first again");
    for number in [3, 4] {
        vsync(&mut bench, client.guest, 0);
        assert_eq!(take_flipped(&mut bench), [(number, FlipOutcome::SHOWN)]);
    }
}

#[test]
fn a_primary_stays_where_it_is_while_it_is_shown() {
    let (mut bench, client, first, base) = showing();
    // Nobody wants it resident but the display.
    let evict = Evict { device: client.device, count: 1, reserved: 0 };
    let token = bench.send(client.guest, bytes_with_list(client.process, &evict, &[first]));
    assert_eq!(bench.outcome(client, token), Some(Status::INVALID_PARAMETER));
    // All of private memory is wanted: 32 pages, of which fence values take some.
    let mut refused = 0;
    for _ in 0..16 {
        let large = primary(&mut bench, client);
        refused += u32::from(bench.make_resident(client, &[large]).is_err());
    }
    assert!(refused > 0, "memory is full");
    flip(&mut bench, client, first, 2).unwrap();
    vsync(&mut bench, client.guest, 0);
    let shown = bench.model.state().displays.sources[&(client.guest, 0)].shown.unwrap();
    assert_eq!(shown.base, base);
}

#[test]
fn a_mode_change_loses_what_waits_and_is_answered_when_the_old_picture_is_let_go() {
    let (mut bench, client, primary, base) = showing();
    flip(&mut bench, client, primary, 2).unwrap();
    let small = VidPnPath {
        source_mode: source_mode(32, 32),
        target_mode: target_mode(32, 32),
        ..path(0, 0)
    };
    let token = begin_commit(&mut bench, client, &[small]);
    assert_eq!(take_flipped(&mut bench), [(2, FlipOutcome::LOST)]);
    assert_eq!(bench.outcome(client, token), None);
    assert!(reads(&bench, client, base));
    let_go(&mut bench, client);
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    // The pitch of the new mode.
    flip(&mut bench, client, primary, 3).unwrap();
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(3, FlipOutcome::SHOWN)]);
}

#[test]
fn another_path_leaves_the_first_and_its_flips_alone() {
    let (mut bench, client, primary, base) = showing();
    flip(&mut bench, client, primary, 2).unwrap();
    assert_eq!(commit(&mut bench, client, &[path(0, 0), path(1, 1)]), Ok(()));
    assert!(reads(&bench, client, base));
    vsync(&mut bench, client.guest, 0);
    assert_eq!(take_flipped(&mut bench), [(2, FlipOutcome::SHOWN)]);
}

#[test]
fn a_device_without_power_keeps_the_picture_and_a_pending_flip() {
    let (mut bench, client, shown, base) = showing();
    flip(&mut bench, client, shown, 2).unwrap();
    let d3 = Command::SetDevicePower(DevicePowerState::D3);
    assert_eq!(bench.command(d3), Some(Ok(())));
    assert!(bench.model.state().displays.without_power);
    vsync(&mut bench, client.guest, 0);
    // Time without power does not count.
    bench.later(Duration::from_secs(100));
    assert_eq!(take_flipped(&mut bench), []);
    assert!(reads(&bench, client, base));
    // A flip wakes the device.
    flip(&mut bench, client, shown, 3).unwrap();
    assert!(!bench.model.state().displays.without_power);
    for number in [2, 3] {
        vsync(&mut bench, client.guest, 0);
        assert_eq!(take_flipped(&mut bench), [(number, FlipOutcome::SHOWN)]);
    }
    assert_eq!(bench.model.state().displays.resets, 0);
}
