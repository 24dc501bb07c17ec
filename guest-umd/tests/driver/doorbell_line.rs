// SPDX-License-Identifier: MIT OR Apache-2.0

//! Small command buffers in the ring, and the ring's newest packets in the doorbell's line.

use crate::device::{FEATURES, HANG, ScriptedDevice, Shape};
use crate::rig::{RING, Rig, named_buffer, open, packets};
use bellhop_guest_umd::{CommandBuffer, Device, UserModeQueue};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::features::Features;
use bellhop_protocol::packet::Packet;
use bellhop_protocol::packet::fence::SignalFence;
use proptest::prelude::*;
use std::sync::Arc;

/// A private buffer of so many words, each a packet that does nothing.
fn small_buffer(gpu: &Device, words: usize) -> CommandBuffer {
    let mut commands = CommandBuffer::new(gpu, 64).unwrap();
    for _ in 0..words {
        commands.nop().unwrap();
    }
    commands
}

/// What an engine that has read up to `position` finds in the line, by the words of the protocol's document: the write
/// pointer, the copy's start, and at most six words of the ring from there on.
fn found(device: &ScriptedDevice, position: u64) -> Option<Vec<u64>> {
    let [written, start, words @ ..] = device.line(0);
    let held = written.checked_sub(start)?;
    let skipped = position.checked_sub(start)?;
    let is_copy = held <= 48 && skipped <= held && (held | skipped).is_multiple_of(8);
    is_copy.then(|| words[(skipped / 8) as usize..(held / 8) as usize].to_vec())
}

/// The ring's words between two positions.
fn in_ring(device: &ScriptedDevice, from: u64, to: u64) -> Vec<u64> {
    let bytes = device.ring(0).read(from, (to - from) as usize);
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[test]
fn at_most_five_words_of_packets_are_in_the_ring_and_more_are_named() {
    for words in 0..=6 {
        let mut rig = Rig::new();
        let mut commands = small_buffer(&rig.gpu, words);
        assert_eq!(rig.queue.submit(&mut commands).unwrap(), 1);
        let ring = rig.device.ring(0);
        let bytes = ring.read(0, ring.pointers().written() as usize);
        let submitted = packets(&bytes);
        let (last, before) = submitted.split_last().unwrap();
        let signal = SignalFence::new(rig.queue.progress_fence().slot(), 1);
        assert_eq!(*last, Packet::SignalFence(signal), "{words}");
        match before {
            [Packet::IndirectBuffer(buffer)] => {
                assert_eq!((words, buffer.gpu_va), (6, commands.gpu_va()));
            }
            small => {
                assert_eq!(small.len(), words);
                assert!(words < 6 && small.iter().all(|packet| *packet == Packet::Nop));
            }
        }
    }
}

#[test]
fn a_buffer_that_was_recorded_anew_is_in_the_ring_as_it_is_now() {
    let mut rig = Rig::new();
    let mut commands = small_buffer(&rig.gpu, 5);
    commands.reset();
    commands.fill(0x1000, 64, 7).unwrap();
    rig.queue.submit(&mut commands).unwrap();
    let ring = rig.device.ring(0);
    let bytes = ring.read(0, ring.pointers().written() as usize);
    assert!(matches!(packets(&bytes)[..], [Packet::Fill(_), Packet::SignalFence(_)]));
}

#[test]
fn memory_that_the_program_may_change_is_named() {
    let mut rig = Rig::new();
    rig.commands = named_buffer(&rig.gpu);
    rig.commands.nop().unwrap();
    rig.submit().unwrap();
    let bytes = rig.device.ring(0).read(0, 32);
    assert!(matches!(packets(&bytes)[..], [Packet::IndirectBuffer(_), Packet::SignalFence(_)]));
}

#[test]
fn an_engine_finds_the_newest_submissions_in_the_line() {
    let mut rig = Rig::new();
    let mut commands = small_buffer(&rig.gpu, 1);
    for value in 1..=9 {
        rig.queue.submit(&mut commands).unwrap();
        let (before, now) = ((value - 1) * 24, value * 24);
        assert_eq!(found(&rig.device, before), Some(in_ring(&rig.device, before, now)));
        let both = value.is_multiple_of(2).then(|| in_ring(&rig.device, before - 24, now));
        assert_eq!(found(&rig.device, before.saturating_sub(24)).filter(|_| value > 1), both);
    }
}

#[test]
fn without_the_feature_nothing_but_the_write_pointer_is_in_the_line() {
    let features = FEATURES - Features::DOORBELL_LINES;
    let shape = Shape { features, opened: features, ..Shape::default() };
    let device = ScriptedDevice::with(shape);
    let gpu = open(&device).create_device().unwrap();
    let mut queue = gpu.create_context(0).unwrap().create_user_mode_queue(RING).unwrap();
    device.set_status(0, ConnectionStatus::CONNECTED);
    let mut commands = small_buffer(&gpu, 1);
    queue.submit(&mut commands).unwrap();
    assert_eq!(device.line(0), [24, 0, 0, 0, 0, 0, 0, 0]);
    device.execute(0, 1);
    queue.progress_fence().poll(1, HANG).unwrap();
}

/// What a program does with its queue.
#[derive(Debug, Clone, Copy)]
enum Act {
    Submit(usize),
    Queue(usize),
    Ring,
    /// The doorbell is a victim.
    Disconnect,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let words = || 0..8usize;
    let act = prop_oneof![
        4 => words().prop_map(Act::Submit),
        2 => words().prop_map(Act::Queue),
        1 => Just(Act::Ring),
        1 => Just(Act::Disconnect),
    ];
    prop::collection::vec(act, 1..40)
}

/// Acts, and returns whether the doorbell rang.
fn act(
    act: Act,
    queue: &mut UserModeQueue,
    buffers: &mut [CommandBuffer],
    device: &ScriptedDevice,
) {
    match act {
        Act::Submit(words) => drop(queue.submit(&mut buffers[words]).unwrap()),
        Act::Queue(words) => drop(queue.queue(&mut buffers[words]).unwrap()),
        Act::Ring => queue.ring().unwrap(),
        Act::Disconnect => device.set_status(0, ConnectionStatus::DISCONNECTED_RETRY),
    }
}

proptest! {
    #[test]
    fn whatever_a_program_does_the_line_holds_what_the_ring_has(all in acts()) {
        let mut rig = Rig::new();
        let mut buffers: Vec<_> = (0..8).map(|words| small_buffer(&rig.gpu, words)).collect();
        let device = Arc::clone(&rig.device);
        for one in all {
            act(one, &mut rig.queue, &mut buffers, &device);
            let written = device.rung(0);
            for position in (written.saturating_sub(64)..written).step_by(8) {
                if let Some(words) = found(&device, position) {
                    prop_assert_eq!(&words, &in_ring(&device, position, written), "{:?}", one);
                }
            }
            if let Act::Submit(words @ 0..=4) = one {
                let size = (words as u64 + 2) * 8;
                prop_assert!(found(&device, written - size).is_some(), "the newest is missing");
            }
        }
    }
}
