// SPDX-License-Identifier: MIT OR Apache-2.0

//! `um.*`: submission through doorbells.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error, UserModeQueue};
use bellhop_protocol::control::adapter::{
    EngineType, NODE_USER_MODE_SUBMISSION_SUPPORTED, NodeMetadata,
};
use bellhop_protocol::control::doorbell::CreateDoorbell;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, HwQueueFlags, SubmitCommand};
use bellhop_protocol::status::Status;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("um.submit.five-steps", source::UM_PROGRESS, five_steps).shows(
        "the five steps submit a command buffer, whose last packet advances the progress fence",
    ),
    Behaviour::new("um.submit.no-control-message", source::UM_INTRODUCTION, no_control_message)
        .shows("while the device is awake, a submission sends no request"),
    Behaviour::new("um.submit.batch", source::UM_PSEUDOCODE, batch)
        .shows("many command buffers can be queued and rung for once"),
    Behaviour::new("um.submit.order", source::KMD_RINGS, order)
        .shows("a queue's command buffers execute in the order of their submission"),
    Behaviour::new("um.ring.wrap", source::KMD_RINGS, ring_wrap)
        .shows("packets wrap around the end of the ring, and a full ring makes the driver wait"),
    Behaviour::new("um.queues.every-node", source::UM_DOORBELLS, every_node)
        .shows("several queues on every node work at once"),
    Behaviour::new("um.queue.refuses-kernel-mode", source::UM_HW_QUEUE, refuses_kernel_mode)
        .shows("a queue for user-mode submission takes no kernel-mode submission"),
    Behaviour::new("um.node.not-supported", source::UM_DISCOVERY, node_not_supported).shows(
        "a node without the user-mode flag has no such queue, and executes kernel-mode \
         submissions",
    ),
    Behaviour::new("um.fallback", source::UM_PSEUDOCODE, fallback).shows(
        "a lost queue falls back to kernel-mode submission where the program asked for that",
    ),
    Behaviour::new("um.queue.one-doorbell", source::UM_HW_QUEUE, one_doorbell)
        .shows("a queue has one doorbell, and a queue without the user-mode flag has none"),
];

fn five_steps(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    for expected in 1..=100 {
        bench.commands.write_data(bench.va(0), &u64::to_le_bytes(expected))?;
        let value = bench.queue.submit(&mut bench.commands)?;
        require!(value == expected, "submission {expected} got value {value}");
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
        bench.commands.reset();
        let current = bench.queue.progress_fence().current_value()?;
        require!(current == expected, "the fence is at {current} after {expected}");
        let written = bench.word(0)?;
        require!(written == expected, "the fence came before the work: {written}");
    }
    Ok(())
}

fn no_control_message(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    let before = bench.process.statistics()?.control_messages;
    for _ in 0..2000 {
        let value = bench.queue.submit(&mut bench.commands)?;
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
    }
    let messages = bench.process.statistics()?.control_messages - before;
    let counters = bench.queue.counters();
    // One request is the query itself; each ring that found the device disconnected is another, or asleep where a kick
    // does not notify it.
    let expected = 1 + counters.notifies - counters.kicks + counters.connects;
    require!(messages == expected, "{messages} requests, {expected} accounted for");
    Ok(())
}

/// Command buffers that each write a number to a separate place.
fn numbered(bench: &Bench, count: u64) -> Result<Vec<CommandBuffer>, Mismatch> {
    let mut buffers = Vec::new();
    for number in 0..count {
        let mut commands = CommandBuffer::new(&bench.device, 64)?;
        commands.write_data(bench.va(8 * number), &u64::to_le_bytes(number + 1))?;
        buffers.push(commands);
    }
    Ok(buffers)
}

fn batch(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut buffers = numbered(&bench, 64)?;
    let mut last = 0;
    for commands in &mut buffers {
        last = bench.queue.queue(commands)?;
    }
    let rings = bench.queue.counters().rings;
    bench.queue.ring()?;
    bench.queue.progress_fence().poll(last, TIMEOUT)?;
    let rung = bench.queue.counters();
    require!(rung.rings - rings <= 1 + rung.connects, "{} rings", rung.rings - rings);
    for number in 0..64 {
        let written = bench.word(8 * number)?;
        require!(written == number as u64 + 1, "buffer {number} wrote {written}");
    }
    Ok(())
}

fn order(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut buffers = Vec::new();
    for number in 0..64u64 {
        // Each submission advances the number of the one before, so that any other order loses it.
        let mut commands = CommandBuffer::new(&bench.device, 64)?;
        commands.copy(bench.va(8 * number), bench.va(8 * number + 8), 8)?;
        buffers.push(commands);
    }
    bench.write(0, &u64::to_le_bytes(0x1234_5678))?;
    let mut last = 0;
    for commands in &mut buffers {
        last = bench.queue.submit(commands)?;
    }
    bench.queue.progress_fence().poll(last, TIMEOUT)?;
    let arrived = bench.word(64 * 8)?;
    require!(arrived == 0x1234_5678, "{arrived:#x} arrived");
    Ok(())
}

fn ring_wrap(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    // After one packet of 24 bytes, later ones of 16 cross the ring's end.
    bench.queue.queue_raw(&odd_packet())?;
    // Goes around a ring of 4 KiB several times, and rings only when it is full.
    let mut last = 0;
    for _ in 0..2000 {
        last = bench.queue.queue(&mut bench.commands)?;
    }
    bench.queue.ring()?;
    bench.queue.progress_fence().poll(last, TIMEOUT)?;
    require!(last == 2000, "{last} submissions");
    Ok(())
}

/// A `NOP` of three units.
fn odd_packet() -> Vec<u8> {
    use bellhop_protocol::packet::{Opcode, PacketHeader};
    use zerocopy::IntoBytes;
    let header = PacketHeader::new(Opcode::NOP, 24, 0);
    [header.as_bytes(), &[0; 16]].concat()
}

fn every_node(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let supported =
        |(_, node): &(u32, NodeMetadata)| node.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0;
    let nodes = (0..).zip(scene.adapter().nodes()?).filter(supported);
    let nodes: Vec<u32> = nodes.map(|(ordinal, _)| ordinal).collect();
    let mut queues: Vec<(UserModeQueue, CommandBuffer)> = Vec::new();
    for node in nodes.into_iter().flat_map(|node| [node; 3]) {
        let queue = bench.device.create_context(node)?.create_user_mode_queue(4096)?;
        let number = queues.len() as u64;
        let mut commands = CommandBuffer::new(&bench.device, 256)?;
        commands.fill(bench.va(4096 * number), 4096, number as u32 + 1)?;
        queues.push((queue, commands));
    }
    for _ in 0..20 {
        let mut values = Vec::new();
        for (queue, commands) in &mut queues {
            values.push(queue.submit(commands)?);
        }
        for ((queue, _), value) in queues.iter().zip(values) {
            queue.progress_fence().poll(value, TIMEOUT)?;
        }
    }
    for number in 0..queues.len() {
        let word = bench.word(4096 * number + 4088)? as u32;
        require!(word == number as u32 + 1, "queue {number} filled with {word:#x}");
    }
    scene.node(EngineType::COPY).map(|_| ())
}

fn node_not_supported(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let nodes = bench.process.nodes()?;
    let without = |node: &NodeMetadata| node.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED == 0;
    let Some(node) = nodes.iter().position(without) else {
        return Err(Mismatch::NotOffered("every node takes user-mode submission".into()));
    };
    let context = bench.device.create_context(node as u32)?;
    let flags = HwQueueFlags::USER_MODE_SUBMISSION | HwQueueFlags::NATIVE_PROGRESS_FENCE;
    let flags = flags.bits();
    let request = CreateHwQueue { context: context.handle(), flags, reserved: 0 };
    let process = bench.process.process();
    raw::expect_status(scene.transport(), process, &request, Status::NOT_SUPPORTED)?;
    let mut queue = context.create_fallback_queue(4096)?;
    require!(!queue.is_user_mode(), "the driver says that it is for user-mode submission");
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    let submission = queue.submit(commands.fill(bench.va(0), 64, 5)?)?;
    queue.wait(submission, TIMEOUT)?;
    require!(bench.word(0)? == 0x5_0000_0005, "it filled with {:#x}", bench.word(0)?);
    Ok(())
}

fn fallback(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let mut queue = bench.context.create_fallback_queue(4096)?;
    let mut good = CommandBuffer::new(&bench.device, 64)?;
    good.write_data(bench.va(0), &[1; 8])?;
    let submission = queue.submit(&mut good)?;
    queue.wait(submission, TIMEOUT)?;
    require!(submission.user_mode && queue.is_user_mode(), "it began in kernel mode");
    let mut bad = CommandBuffer::new(&bench.device, 64)?;
    let lost = queue.submit(bad.raw(&[0xFF; 8])?)?;
    match queue.wait(lost, TIMEOUT) {
        Err(Error::QueueLost { .. }) => {}
        other => return Err(Mismatch::Seen(format!("a bad packet ended with {other:?}"))),
    }
    good.reset();
    let submission = queue.submit(good.write_data(bench.va(8), &[2; 8])?)?;
    require!(!submission.user_mode && !queue.is_user_mode(), "it still submits in user mode");
    queue.wait(submission, TIMEOUT)?;
    require!(bench.word(8)? == u64::from_le_bytes([2; 8]), "it wrote {:#x}", bench.word(8)?);
    let waited = queue.wait(lost, TIMEOUT);
    require!(waited.is_err(), "what was lost is done");
    Ok(())
}

fn refuses_kernel_mode(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    let request = SubmitCommand {
        hw_queue: bench.queue.handle(),
        gpu_va: bench.commands.gpu_va(),
        progress_fence_value: 1,
        size: 8,
        reserved: 0,
    };
    let process = bench.process.process();
    raw::expect_status(scene.transport(), process, &request, Status::NOT_SUPPORTED)?;
    Ok(bench.run()?)
}

fn one_doorbell(scene: &Scene) -> Result<(), Mismatch> {
    use bellhop_protocol::control::allocation::AllocationKind;
    let bench = scene.bench()?;
    let ring = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
    let control = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
    let kernel_mode = bench.context.create_kernel_mode_queue()?;
    let request = |hw_queue| CreateDoorbell::new(hw_queue, ring.handle(), control.handle());
    let process = bench.process.process();
    let expect = |hw_queue, expected| {
        raw::expect_status(scene.transport(), process, &request(hw_queue), expected)
    };
    expect(bench.queue.handle(), Status::INVALID_PARAMETER)?;
    expect(kernel_mode.handle(), Status::NOT_SUPPORTED)
}
