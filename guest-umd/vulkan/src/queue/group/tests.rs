// SPDX-License-Identifier: MIT OR Apache-2.0

//! What goes into which ring, and when.

use super::*;
use bellhop_protocol::packet::Packet;
use bellhop_protocol::packet::commands::ExecuteCommands;
use zerocopy::{IntoBytes, transmute};

fn chunk(gpu_va: u64, devices: u8, meets: bool) -> Chunk {
    let packet = transmute!(ExecuteCommands::new(gpu_va, 64));
    Chunk { gpu_va, length: 64, devices, meets, goes_on: false, has_packets: false, packet }
}

fn named(expected: &[(usize, &[&str])]) -> Vec<(usize, Vec<String>)> {
    let owned = |packets: &[&str]| packets.iter().map(|packet| (*packet).to_owned()).collect();
    expected.iter().map(|(device, packets)| (*device, owned(packets))).collect()
}

/// What is submitted to which device index, in this order, where meetings have the slots 100 and more.
fn submitted(fill: impl FnOnce(&mut Parts<'_>)) -> Vec<(usize, Vec<String>)> {
    let name = |packet: &Words| match Packet::decode(packet.as_bytes()).unwrap().0 {
        Packet::WaitFence(wait) => format!("wait {} {}", wait.slot(), wait.value),
        Packet::SignalFence(signal) => format!("signal {} {}", signal.slot(), signal.value),
        Packet::ExecuteCommands(commands) => format!("execute {}", commands.gpu_va),
        other => panic!("{other:?}"),
    };
    let mut all = Vec::new();
    let mut submit = |device: usize, packets: &[Words]| {
        all.push((device, packets.iter().map(name).collect()));
        Ok(())
    };
    let meetings = Meetings::default();
    let mut parts = Parts::new(3, &meetings, &mut submit);
    parts.slots = vec![100, 101, 102];
    fill(&mut parts);
    assert_eq!(parts.outcome, Ok(()));
    all
}

#[test]
fn each_gpu_gets_what_is_for_it_in_order() {
    let all = submitted(|parts| {
        parts.put(1, wait(7, 1));
        parts.execute(0b111, &chunk(1, 0b011, false));
        parts.execute(0b110, &chunk(2, 0b111, false));
        parts.put(2, signal(8, 2));
        parts.end_batch();
        parts.execute(0b001, &chunk(3, 0b110, false));
        parts.end_batch();
    });
    let expected: [(usize, &[&str]); 3] = [
        (0, &["execute 1"]),
        (1, &["wait 7 1", "execute 1", "execute 2"]),
        (2, &["execute 2", "signal 8 2"]),
    ];
    assert_eq!(all, named(&expected));
}

#[test]
fn gpus_that_meet_have_come_before_they_wait() {
    let all = submitted(|parts| {
        parts.execute(0b101, &chunk(1, 0b111, false));
        parts.execute(0b101, &chunk(2, 0b111, true));
        // One alone meets nobody.
        parts.execute(0b001, &chunk(3, 0b011, true));
        parts.end_batch();
    });
    let expected: [(usize, &[&str]); 4] = [
        (0, &["execute 1", "signal 100 1"]),
        (2, &["execute 1", "signal 102 1"]),
        (0, &["wait 102 1", "execute 2", "execute 3"]),
        (2, &["wait 100 1", "execute 2"]),
    ];
    assert_eq!(all, named(&expected));
}

#[test]
fn nothing_follows_what_failed() {
    let mut count = 0;
    let mut submit = |_: usize, _: &[Words]| {
        count += 1;
        Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)
    };
    let meetings = Meetings::default();
    let mut parts = Parts::new(2, &meetings, &mut submit);
    for _ in 0..2 {
        parts.execute(0b11, &chunk(1, 0b11, false));
        parts.end_batch();
    }
    assert_eq!(parts.outcome, Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY));
    assert_eq!(count, 1);
}
