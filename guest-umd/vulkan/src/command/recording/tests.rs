// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is recorded, in which chunks.

use super::*;
use crate::command::bound::Program;
use crate::command::test_heap;
use bellhop_protocol::packet::{Packet, PacketError};
use bellhop_protocol::vulkan::{Command, MAX_UPDATE, commands};

fn recording(is_primary: bool) -> Recording {
    Recording::new(test_heap::heap(), is_primary, 0b11)
}

/// Runs a test over the commands of each chunk.
fn commands_of(recording: &Recording) -> Vec<Vec<String>> {
    let name = |command: Command<'_>| match command {
        Command::Barrier(..) => "barrier".to_owned(),
        Command::Copy(copy, _) => {
            format!("copy {} {} {}", copy.source, copy.destination, copy.length)
        }
        Command::Fill(fill, _) => {
            format!("fill {} {} {}", fill.destination, fill.length, fill.header.argument)
        }
        Command::Update(update, bytes) => {
            format!("update {} {}", update.destination, bytes.len())
        }
        Command::Dispatch(dispatch, data) => format!(
            "dispatch {:?} {} {}",
            dispatch.groups,
            dispatch.resources().set_addresses(data).len(),
            dispatch.resources().constants(data).len()
        ),
        Command::Timestamp(time, _) => format!("time {}", time.destination),
        Command::Wait(wait, _) => format!("wait {} {}", wait.address, wait.header.argument),
        other => format!("{other:?}"),
    };
    let chunks = recording.chunks().iter().map(|chunk| {
        let bytes = recording.stream.bytes(chunk).unwrap();
        let place = (chunk.gpu_va, chunk.length);
        if chunk.has_packets {
            let Ok((Packet::IndirectBuffer(executes), 16)) = executed(chunk) else { panic!() };
            assert_eq!((executes.gpu_va, executes.size()), place);
            return packets(&bytes);
        }
        let Ok((Packet::ExecuteCommands(executes), 16)) = executed(chunk) else { panic!() };
        assert_eq!((executes.gpu_va, executes.header.argument), place);
        commands(&bytes).map(|command| name(command.unwrap().1)).collect()
    });
    chunks.collect()
}

/// What the engine reads where a chunk is submitted.
fn executed(chunk: &Chunk) -> Result<(Packet<'_>, usize), PacketError> {
    Packet::decode(chunk.packet.as_bytes())
}

/// The packets of a chunk.
fn packets(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while !bytes.is_empty() {
        let (packet, length) = Packet::decode(bytes).unwrap();
        names.push(match packet {
            Packet::Copy(copy) => {
                format!("packet: copy {} {} {}", copy.source, copy.destination, copy.length)
            }
            Packet::Fill(fill) => {
                format!(
                    "packet: fill {} {} {}",
                    fill.destination, fill.length, fill.header.argument
                )
            }
            Packet::WriteData(write, data) => {
                format!("packet: write {} {:?}", write.destination, [data[0], data[data.len() - 1]])
            }
            other => panic!("{other:?}"),
        });
        bytes = &bytes[length..];
    }
    names
}

fn program(cold: Option<&Arc<AtomicBool>>) -> Option<Program> {
    let cold = cold.map(Arc::clone);
    let (sets, dynamic_offsets, push_constants) = (1, 1, 8);
    let others = Vec::new();
    Some(Program {
        address: 64,
        is_plain: cold.is_none(),
        others,
        sets,
        dynamic_offsets,
        push_constants,
        cold,
    })
}

#[test]
fn barriers_without_a_command_between_are_one() {
    let mut recording = recording(true);
    recording.barrier();
    recording.copy(8, 16, 4);
    recording.barrier();
    recording.barrier();
    recording.fill(24, 0, 7);
    recording.fill(24, 4, 7);
    recording.wait(32, 1);
    recording.barrier();
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    // Packets are executed one after the other.
    let packets = ["packet: copy 8 16 4", "packet: fill 24 4 7"];
    assert_eq!(commands_of(&recording), [packets, ["wait 32 1", "barrier"]]);
    recording.reset(false);
    recording.wait(32, 1);
    recording.barrier();
    recording.barrier();
    recording.fill(24, 4, 7);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    assert_eq!(commands_of(&recording), [["wait 32 1", "barrier", "fill 24 4 7"]]);
    recording.reset(false);
    assert_eq!((recording.end(), commands_of(&recording).len()), (vk::Result::SUCCESS, 0));
}

#[test]
fn a_long_update_is_several() {
    let mut secondary = recording(false);
    secondary.update(64, &vec![1; MAX_UPDATE as usize - 4]);
    assert_eq!(secondary.end(), vk::Result::SUCCESS);
    let expected =
        ["update 64 16384", "update 16448 16384", "update 32832 16384", "update 49216 16380"];
    assert_eq!(commands_of(&secondary).concat(), expected);
    let mut primary = recording(true);
    let bytes: Vec<u8> = (0..=255).chain(50..150).collect();
    primary.update(64, &bytes);
    assert_eq!(primary.end(), vk::Result::SUCCESS);
    let expected = ["packet: write 64 [0, 255]", "packet: write 320 [50, 149]"];
    assert_eq!(commands_of(&primary), [expected]);
}

#[test]
fn copies_before_the_first_other_command_are_packets() {
    let mut recording = recording(true);
    recording.copy(8, 16, 4);
    recording.bound.program = program(None);
    recording.dispatch(0, [0; 3], [1; 3]);
    recording.barrier();
    recording.copy(16, 8, 4);
    recording.update(64, &[1; 4]);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    let packets = vec!["packet: copy 8 16 4"];
    let commands = vec!["dispatch [1, 1, 1] 1 8", "barrier", "copy 16 8 4", "update 64 4"];
    assert_eq!(commands_of(&recording), [packets, commands]);
}

#[test]
fn many_copies_are_several_chunks_of_packets_and_a_set_behind_them_is_in_none() {
    let mut recording = recording(true);
    for index in 0..10_000 {
        recording.copy(index * 8, 0, 8);
    }
    recording.bound.program = program(None);
    recording.push_set(0, &Arc::default(), |_| ());
    recording.dispatch(0, [0; 3], [1; 3]);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    assert!(recording.chunks().iter().all(|chunk| chunk.length <= 64 << 10));
    let expected = (0..10_000).map(|index| format!("packet: copy {} 0 8", index * 8));
    let expected: Vec<_> = expected.chain(["dispatch [1, 1, 1] 1 8".to_owned()]).collect();
    assert_eq!(commands_of(&recording).concat(), expected);
}

#[test]
fn what_is_held_begins_no_packets_and_goes_on_with_none() {
    let mut recording = recording(true);
    recording.copy(8, 16, 4);
    recording.stream.hold(test_heap::heap()).unwrap();
    recording.fill(64, 4, 1);
    recording.stream.let_go();
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    assert_eq!(commands_of(&recording), [["packet: copy 8 16 4"], ["fill 64 4 1"]]);
}

#[test]
fn a_dispatch_without_a_pipeline_fails_at_the_end() {
    let mut recording = recording(true);
    recording.dispatch(0, [0; 3], [1; 3]);
    assert_eq!(recording.end(), vk::Result::ERROR_UNKNOWN);
    recording.reset(true);
    recording.bound.program = program(None);
    recording.dispatch(0, [0; 3], [1, 2, 3]);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    assert_eq!(commands_of(&recording), [["dispatch [1, 2, 3] 1 8"]]);
}

#[test]
fn the_first_dispatch_of_a_cold_pipeline_begins_a_chunk() {
    let mut recording = recording(true);
    let warm = Arc::default();
    recording.fill(64, 4, 0);
    recording.bound.program = program(Some(&warm));
    recording.dispatch(0, [0; 3], [1; 3]);
    recording.dispatch(0, [0; 3], [2; 3]);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    let lengths: Vec<_> = commands_of(&recording).iter().map(Vec::len).collect();
    assert_eq!(lengths, [1, 2]);
    assert!(!warm.load(Ordering::Relaxed));
    recording.submitted();
    assert!(warm.load(Ordering::Relaxed));
}

#[test]
fn a_secondary_command_buffer_is_copied() {
    let mut secondary = recording(false);
    let warm = Arc::default();
    secondary.barrier();
    secondary.fill(64, 4, 1);
    secondary.bound.program = program(Some(&warm));
    secondary.dispatch(0, [0; 3], [1; 3]);
    assert_eq!(secondary.end(), vk::Result::SUCCESS);
    let mut primary = recording(true);
    primary.fill(128, 4, 2);
    primary.execute(&secondary);
    primary.barrier();
    primary.submitted();
    primary.execute(&secondary);
    assert_eq!(primary.end(), vk::Result::SUCCESS);
    let (fill, dispatch) = ("fill 64 4 1", "dispatch [1, 1, 1] 1 8");
    let first = vec!["packet: fill 128 4 2"];
    // A secondary one begins with whatever is before it not done.
    let copied = vec!["barrier", fill];
    let last = vec![dispatch, "barrier", "barrier", fill, dispatch];
    assert_eq!(commands_of(&primary), [first, copied, last]);
}

/// The GPUs of each chunk, and whether they meet before it.
fn devices_of(recording: &Recording) -> Vec<(DeviceMask, bool)> {
    recording.chunks().iter().map(|chunk| (chunk.devices, chunk.meets)).collect()
}

#[test]
fn commands_for_some_gpus_are_chunks_of_their_own() {
    let mut recording = recording(true);
    recording.fill(64, 4, 1);
    recording.set_devices(0b10);
    recording.fill(64, 4, 2);
    recording.set_devices(0b10);
    recording.fill(64, 4, 3);
    recording.set_devices(0b11);
    recording.set_devices(0b01);
    recording.meet();
    recording.fill(64, 4, 4);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    // One meets nobody.
    assert_eq!(devices_of(&recording), [(0b11, false), (0b10, false), (0b01, false)]);
    let lengths: Vec<_> = commands_of(&recording).iter().map(Vec::len).collect();
    assert_eq!(lengths, [1, 2, 1]);
    recording.reset(false);
    recording.fill(64, 4, 1);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    assert_eq!(devices_of(&recording), [(0b11, false)]);
}

#[test]
fn a_barrier_for_several_gpus_has_them_meet_even_at_the_end() {
    let mut recording = recording(true);
    recording.fill(64, 4, 1);
    recording.meet();
    recording.fill(64, 4, 2);
    recording.meet();
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    assert_eq!(devices_of(&recording), [(0b11, false), (0b11, true), (0b11, true)]);
}

#[test]
fn a_secondary_command_buffer_is_for_the_gpus_of_both() {
    let mut secondary = recording(false);
    secondary.fill(64, 4, 1);
    secondary.set_devices(0b10);
    secondary.fill(64, 4, 2);
    secondary.set_devices(0b11);
    secondary.meet();
    assert_eq!(secondary.end(), vk::Result::SUCCESS);
    let mut primary = recording(true);
    primary.execute(&secondary);
    primary.set_devices(0b10);
    primary.execute(&secondary);
    assert_eq!(primary.end(), vk::Result::SUCCESS);
    let both = [(0b11, false), (0b10, false), (0b11, true)];
    let one = [(0b10, false), (0b10, true)];
    assert_eq!(devices_of(&primary), [&both[..], &one].concat());
}

#[test]
fn a_pipeline_that_is_another_one_on_each_gpu_is_dispatched_on_each() {
    let mut recording = recording(true);
    let others = vec![128];
    recording.bound.program =
        program(None).map(|program| Program { others, is_plain: false, ..program });
    recording.dispatch(0, [0; 3], [1; 3]);
    recording.set_devices(0b10);
    recording.dispatch(0, [0; 3], [2; 3]);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    assert_eq!(devices_of(&recording), [(0b01, false), (0b10, false), (0b10, false)]);
    let (one, other) = ("dispatch [1, 1, 1] 1 8", "dispatch [2, 2, 2] 1 8");
    assert_eq!(commands_of(&recording).concat(), [one, one, other]);
}

#[test]
fn many_commands_fill_several_chunks_none_of_which_is_too_long() {
    let mut recording = recording(true);
    for turn in 0..2 {
        recording.bound.program = program(None);
        for index in 0..4000 {
            recording.push_set(0, &Arc::default(), |_| ());
            recording.dispatch(0, [0; 3], [index, 1, 1]);
        }
        assert_eq!(recording.end(), vk::Result::SUCCESS, "{turn}");
        let all = commands_of(&recording).concat();
        assert_eq!((all.len(), all[3999].as_str()), (4000, "dispatch [3999, 1, 1] 1 8"));
        assert!(recording.chunks().iter().all(|chunk| chunk.length <= 64 << 10));
        recording.trim();
        recording.reset(turn == 0);
    }
}
