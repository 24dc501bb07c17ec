// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who waits for whom.

use super::*;
use bellhop_protocol::packet::Packet;
use bellhop_protocol::packet::commands::ExecuteCommands;
use bellhop_protocol::vulkan::CommandCode;
use zerocopy::{IntoBytes, transmute};

/// Where the images of a test's commands are.
const BASE: u64 = 0x7100_0000_0000;

fn drawn(views: &[u64]) -> Uses {
    Uses::drawing(views.iter().map(|view| BASE + view * 0x1000..BASE + (view + 1) * 0x1000))
}

fn copied() -> Uses {
    let mut uses = drawn(&[]);
    uses.add(CommandCode::COPY);
    uses
}

/// The packets of a submission of one command buffer for a GPU, which signals a fence in slot 7 to be told of.
fn submitted(turns: &mut Turns, own: usize, uses: &Uses, is_told: bool) -> Vec<String> {
    let mut turn = Turn::new(turns, own);
    let packet = transmute!(ExecuteCommands::new(1, 64));
    let (devices, meets, goes_on, has_packets) = (1, false, false, false);
    let chunk = Chunk { gpu_va: 1, length: 64, devices, meets, goes_on, has_packets, packet };
    turn.begin(uses);
    turn.execute(1, &chunk);
    if is_told {
        turn.tell(0, signal(7, 1));
    }
    turn.end_batch();
    let name = |packet: &Words| match Packet::decode(packet.as_bytes()).unwrap().0 {
        Packet::WaitFence(wait) => format!("wait {} {}", wait.slot(), wait.value),
        Packet::SignalFence(signal) => format!("signal {} {}", signal.slot(), signal.value),
        Packet::ExecuteCommands(_) => "execute".to_owned(),
        other => panic!("{other:?}"),
    };
    turn.list.iter().map(name).collect()
}

#[test]
fn frames_that_draw_on_images_of_their_own_wait_only_before_they_tell() {
    let mut turns = Turns::of(&[100, 101]);
    let one = submitted(&mut turns, 0, &drawn(&[1]), true);
    assert_eq!(one, ["execute", "signal 7 1", "signal 100 1"]);
    let two = submitted(&mut turns, 1, &drawn(&[2]), true);
    assert_eq!(two, ["execute", "wait 100 1", "signal 7 1", "signal 101 1"]);
    let three = submitted(&mut turns, 0, &drawn(&[1]), true);
    assert_eq!(three, ["execute", "wait 101 1", "signal 7 1", "signal 100 2"]);
}

#[test]
fn frames_that_draw_on_one_image_wait_before_they_begin() {
    let mut turns = Turns::of(&[100, 101]);
    let _ = submitted(&mut turns, 0, &drawn(&[1, 9]), false);
    let two = submitted(&mut turns, 1, &drawn(&[2, 9]), false);
    assert_eq!(two, ["wait 100 1", "execute", "signal 101 1"]);
    // It has waited for that already.
    let three = submitted(&mut turns, 1, &drawn(&[1]), false);
    assert_eq!(three, ["execute", "signal 101 2"]);
}

#[test]
fn what_is_not_looked_into_waits_for_all_and_all_for_it() {
    let mut turns = Turns::of(&[100, 101, 102]);
    let _ = submitted(&mut turns, 0, &drawn(&[1]), false);
    let _ = submitted(&mut turns, 1, &drawn(&[2]), false);
    let copies = submitted(&mut turns, 2, &copied(), false);
    assert_eq!(copies, ["wait 100 1", "wait 101 1", "execute", "signal 102 1"]);
    let after = submitted(&mut turns, 0, &drawn(&[3]), false);
    assert_eq!(after, ["wait 102 1", "execute", "signal 100 2"]);
}

#[test]
fn many_submissions_are_bounded_and_none_is_forgotten() {
    let mut turns = Turns::of(&[100, 101]);
    for number in 0..3 * MOST as u64 {
        let _ = submitted(&mut turns, 0, &drawn(&[number]), false);
    }
    assert!(turns.0[0].written.len() <= MOST);
    let last = 3 * MOST as u64;
    let first = submitted(&mut turns, 1, &drawn(&[0]), false);
    assert_eq!(first[0], format!("wait 100 {last}"));
}
