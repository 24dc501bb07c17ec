// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fault.*`: the faults of a HW queue. Each loses that queue alone, with a precise reason.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::scene::{MEMORY, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error, UserModeQueue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::{IndirectBuffer, MAX_INDIRECT_BUFFER_SIZE};
use bellhop_protocol::packet::{Opcode, PacketHeader};
use zerocopy::IntoBytes;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fault.packet.unknown", source::PROTOCOL_PACKETS, unknown_packet)
        .shows("a packet with an unknown opcode loses its queue"),
    Behaviour::new("fault.packet.bad-length", source::PROTOCOL_PACKETS, bad_length)
        .shows("a packet whose length does not fit its opcode, 0 included, loses its queue"),
    Behaviour::new("fault.packet.cut-off", source::PROTOCOL_PACKETS, cut_off)
        .shows("a packet that the buffer or the write pointer cuts off loses its queue"),
    Behaviour::new("fault.packet.misaligned", source::PROTOCOL_PACKETS, misaligned)
        .shows("a packet with a misaligned address or length loses its queue"),
    Behaviour::new("fault.packet.not-on-this-node", source::PROTOCOL_PACKETS, not_on_this_node)
        .shows("a dispatch on a copy node, or of a kernel that does not exist, loses its queue"),
    Behaviour::new("fault.address.not-mapped", source::KMD_VIRTUAL, not_mapped).shows(
        "a read or a write of an unmapped address loses the queue, and the fault names the first \
         such address",
    ),
    Behaviour::new("fault.address.read-only", source::KMD_VIRTUAL, read_only)
        .shows("a write to a page that is mapped read-only loses the queue"),
    Behaviour::new("fault.address.wraps", source::KMD_VIRTUAL, wraps)
        .shows("a range that wraps around the end of the address space loses its queue"),
    Behaviour::new("fault.ring.pointer-out-of-range", source::KMD_RINGS, pointer_out_of_range)
        .shows("a write pointer that the ring cannot have loses the queue"),
    Behaviour::new(
        "fault.indirect-buffer.contains-itself",
        source::PROTOCOL_PACKETS,
        contains_itself,
    )
    .shows("an indirect buffer that contains itself loses its queue"),
    Behaviour::new("fault.indirect-buffer.bad", source::PROTOCOL_PACKETS, bad_indirect_buffer)
        .shows("an indirect buffer with an address or size that it cannot have loses its queue"),
    Behaviour::new("fault.fence.not-owned", source::FENCE_HANDLES, fence_not_owned).shows(
        "a packet that names a fence of another process, a destroyed one, or none loses its \
         queue",
    ),
    Behaviour::new("fault.fence.backwards", source::FENCE_HANDLES, fence_backwards)
        .shows("a fence value that goes backwards loses the queue, and the fence keeps its value"),
    Behaviour::new("fault.wait.ends", source::UM_RESIDENCY, wait_ends)
        .shows("a blocked wait for a lost queue's progress ends and tells why"),
    Behaviour::new("fault.wait.gpu", source::FENCE_ALWAYS_SIGNALED, wait_gpu)
        .shows("a queue that waits on the GPU for a lost queue's progress continues"),
    Behaviour::new("fault.others-go-on", source::UM_RESIDENCY, others_go_on).shows(
        "a queue of another process continues on an engine on which queue after queue faults",
    ),
];

fn unknown_packet(scene: &Scene) -> Result<(), Mismatch> {
    for opcode in [0x02, 0x2F, 0xFFFF] {
        let mut bench = scene.bench()?;
        bench.commands.nop()?.raw(PacketHeader::new(Opcode(opcode), 8, 0).as_bytes())?;
        let fault = bench.expect_fault(FaultReason::UNKNOWN_PACKET, opcode.into())?;
        // Of the packet itself where the ring has it, and else of the one that names the buffer.
        require!([0, 8].contains(&fault.read_pointer), "{fault}");
    }
    Ok(())
}

fn bad_length(scene: &Scene) -> Result<(), Mismatch> {
    for (opcode, size) in
        [(Opcode::COPY, 24), (Opcode::COPY, 40), (Opcode::NOP, 0), (Opcode::HASH, 0xFFFF * 8)]
    {
        let mut bench = scene.bench()?;
        bench.commands.raw(PacketHeader::new(opcode, size, 0).as_bytes())?.raw(&[0; 64])?;
        bench.expect_fault(FaultReason::BAD_PACKET_LENGTH, size as u64)?;
    }
    Ok(())
}

fn cut_off(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    // An indirect buffer that ends inside a packet of 32 bytes.
    bench.write(0, PacketHeader::new(Opcode::COPY, 32, 0).as_bytes())?;
    bench.commands.indirect_buffer(bench.va(0), 16)?;
    bench.expect_fault(FaultReason::BAD_PACKET_LENGTH, 32)?;
    // A ring whose write pointer is inside a packet.
    let mut bench = scene.bench()?;
    bench.queue.queue_raw(PacketHeader::new(Opcode::COPY, 32, 0).as_bytes())?;
    let ended = bench.queue.ring().and_then(|()| bench.queue.progress_fence().poll(1, TIMEOUT));
    bench.expect_lost(ended, FaultReason::BAD_PACKET_LENGTH, 32).map(|_| ())
}

fn misaligned(scene: &Scene) -> Result<(), Mismatch> {
    type Build = fn(&mut CommandBuffer, u64) -> Result<(), Error>;
    let cases: [(Build, u64); 6] = [
        (|c, va| c.fill(va + 2, 8, 0).map(|_| ()), 2),
        (|c, va| c.timestamp(va + 4).map(|_| ()), 4),
        (|c, va| c.hash(va, 8, 0, va + 1).map(|_| ()), 1),
        (|c, va| c.compare(va, va, 8, va + 12).map(|_| ()), 12),
        (|c, va| c.dispatch(Kernel::XOR_STREAM, va + 1, va, 8, 0).map(|_| ()), 1),
        (|c, va| c.dispatch(Kernel::XOR_STREAM, va, va + 4, 8, 0).map(|_| ()), 4),
    ];
    for (build, offset) in cases {
        let mut bench = scene.bench()?;
        let va = bench.va(0);
        build(&mut bench.commands, va)?;
        bench.expect_fault(FaultReason::MISALIGNED, va + offset)?;
    }
    let mut bench = scene.bench()?;
    bench.commands.fill(bench.va(0), 6, 0)?;
    bench.expect_fault(FaultReason::MISALIGNED, 6).map(|_| ())
}

fn not_on_this_node(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench_on(EngineType::COPY)?;
    bench.commands.dispatch(Kernel::XOR_STREAM, bench.va(0), bench.va(0), 8, 0)?;
    bench.expect_fault(FaultReason::NOT_SUPPORTED_BY_NODE, Opcode::DISPATCH.0.into())?;
    let mut bench = scene.bench()?;
    bench.commands.dispatch(Kernel(99), bench.va(0), bench.va(0), 8, 0)?;
    bench.expect_fault(FaultReason::NOT_SUPPORTED_BY_NODE, 99).map(|_| ())
}

fn not_mapped(scene: &Scene) -> Result<(), Mismatch> {
    const NOWHERE: u64 = 1 << 39;
    let mut bench = scene.bench()?;
    bench.commands.copy(NOWHERE + 5, bench.va(0), 8)?;
    bench.expect_fault(FaultReason::READ_PAGE_FAULT, NOWHERE + 5)?;
    let mut bench = scene.bench()?;
    bench.commands.copy(bench.va(0), NOWHERE, 8)?;
    bench.expect_fault(FaultReason::WRITE_PAGE_FAULT, NOWHERE)?;
    // The range crosses the end of the mapping: the fault names the first byte beyond it.
    let mut bench = scene.bench()?;
    let fence = bench.device.create_allocation(AllocationKind::LOCAL, PAGE_SIZE)?;
    let page = fence.map_at(NOWHERE, 0, PAGE_SIZE, Protection::WRITE)?;
    bench.commands.fill(page.gpu_va() + 4000, 200, 7)?;
    bench.expect_fault(FaultReason::WRITE_PAGE_FAULT, NOWHERE + PAGE_SIZE)?;
    // A command buffer at an unmapped address.
    let mut bench = scene.bench()?;
    bench.commands.indirect_buffer(NOWHERE, 64)?;
    bench.expect_fault(FaultReason::READ_PAGE_FAULT, NOWHERE).map(|_| ())
}

fn read_only(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let page = bench.device.create_allocation(AllocationKind::LOCAL, PAGE_SIZE)?;
    page.write(0, &[9; 16])?;
    let mapping = page.map(Protection::empty())?;
    bench.commands.copy(mapping.gpu_va(), bench.va(0), 16)?;
    bench.run()?;
    require!(bench.read(0, 16)? == [9; 16], "the page cannot be read");
    bench.commands.write_data(mapping.gpu_va() + 8, &[1])?;
    bench.expect_fault(FaultReason::WRITE_PROTECTION_FAULT, mapping.gpu_va() + 8)?;
    let mut bytes = [0; 16];
    page.read(0, &mut bytes)?;
    require!(bytes == [9; 16], "the page was written");
    Ok(())
}

fn wraps(scene: &Scene) -> Result<(), Mismatch> {
    for (start, length) in [(u64::MAX - 7, 16), ((1 << 48) - 4, 8), (1 << 63, 8), (8, u64::MAX)] {
        let mut bench = scene.bench()?;
        bench.commands.fill(start & !3, length & !3, 0)?;
        bench.expect_fault(FaultReason::ADDRESS_OUT_OF_RANGE, start & !3)?;
    }
    Ok(())
}

fn pointer_out_of_range(scene: &Scene) -> Result<(), Mismatch> {
    for pointer in [4104, 3, u64::MAX, 1 << 63] {
        let mut bench = scene.bench()?;
        bench.commands.nop()?;
        // The queue is connected and idle, so that the engine watches its doorbell.
        let value = bench.queue.submit(&mut bench.commands)?;
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
        let pointer = u64::wrapping_add(UserModeQueue::SUBMISSION_SIZE, pointer);
        let rung = bench.queue.ring_with(pointer);
        let ended = rung.and_then(|()| bench.queue.progress_fence().poll(2, TIMEOUT));
        bench.expect_lost(ended, FaultReason::RING_POINTER_OUT_OF_RANGE, pointer)?;
    }
    Ok(())
}

fn contains_itself(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let itself = IndirectBuffer::new(bench.va(0), 16);
    bench.write(0, itself.as_bytes())?;
    bench.commands.indirect_buffer(bench.va(0), 16)?;
    bench.expect_fault(FaultReason::INDIRECT_BUFFER_TOO_DEEP, bench.va(0)).map(|_| ())
}

fn bad_indirect_buffer(scene: &Scene) -> Result<(), Mismatch> {
    for (offset, size) in [(4, 16), (0, 12), (0, MAX_INDIRECT_BUFFER_SIZE + 8), (0, u32::MAX)] {
        let mut bench = scene.bench()?;
        bench.commands.indirect_buffer(bench.va(offset), size)?;
        bench.expect_fault(FaultReason::BAD_INDIRECT_BUFFER, size.into())?;
    }
    Ok(())
}

fn fence_not_owned(scene: &Scene) -> Result<(), Mismatch> {
    let owner = scene.bench()?;
    let others = owner.device.create_fence(7)?;
    let beyond = scene.transport().config().fence_count;
    for slot in [Some(others.slot()), None, Some(beyond), Some(u32::MAX)] {
        let mut bench = scene.bench()?;
        // Otherwise, the slot of a destroyed fence of this process. No fence was created since.
        let slot = match slot {
            Some(slot) => slot,
            None => bench.device.create_fence(0)?.slot(),
        };
        bench.commands.raw(SignalFence::new(slot, 100).as_bytes())?;
        bench.expect_fault(FaultReason::FENCE_NOT_OWNED, slot.into())?;
    }
    let current = others.current_value()?;
    require!(current == 7, "the other process's fence is at {current}");
    Ok(())
}

fn fence_backwards(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(10)?;
    bench.commands.signal_fence(&fence, 11)?.signal_fence(&fence, 9)?;
    bench.expect_fault(FaultReason::FENCE_WENT_BACKWARDS, 9)?;
    let current = fence.current_value()?;
    require!(current == 11, "the fence is at {current}");
    Ok(())
}

fn wait_ends(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let gate = bench.device.create_fence(0)?;
    bench.commands.wait_fence(&gate, 1)?.raw(&[0xFF; 8])?;
    let value = bench.queue.submit(&mut bench.commands)?;
    let mut opener = bench.context.create_user_mode_queue(4096)?;
    let mut open = CommandBuffer::new(&bench.device, 64)?;
    open.signal_fence(&gate, 1)?;
    let ended = std::thread::scope(|threads| {
        let waiter = threads.spawn(|| bench.queue.progress_fence().wait(value, TIMEOUT));
        opener.submit(&mut open)?;
        waiter.join().map_err(|_| Mismatch::Seen("the waiter panicked".into()))
    })?;
    bench.expect_lost(ended, FaultReason::UNKNOWN_PACKET, 0xFFFF).map(|_| ())
}

fn wait_gpu(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut waiting = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.wait_fence(bench.queue.progress_fence(), 1000)?;
    let value = waiting.submit(&mut commands)?;
    bench.commands.raw(&[0xFF; 8])?;
    bench.expect_fault(FaultReason::UNKNOWN_PACKET, 0xFFFF)?;
    Ok(waiting.progress_fence().poll(value, TIMEOUT)?)
}

fn others_go_on(scene: &Scene) -> Result<(), Mismatch> {
    let mut neighbour = scene.bench()?;
    let length = MEMORY / 2;
    neighbour.write(0, &[0x5A; (MEMORY / 2) as usize])?;
    neighbour.commands.copy(neighbour.va(0), neighbour.va(length), length)?;
    for round in 0..10u8 {
        let mut hostile = scene.bench()?;
        hostile.commands.copy(hostile.va(0), hostile.va(length), length)?.raw(&[0xFF; 8])?;
        let lost = hostile.queue.submit(&mut hostile.commands);
        let value = neighbour.queue.submit(&mut neighbour.commands)?;
        neighbour.queue.progress_fence().poll(value, TIMEOUT)?;
        let ended = lost.and_then(|value| hostile.queue.progress_fence().poll(value, TIMEOUT));
        hostile.expect_lost(ended, FaultReason::UNKNOWN_PACKET, 0xFFFF)?;
        let copied = neighbour.read(length as usize, length as usize)?;
        require!(copied.iter().all(|byte| *byte == 0x5A), "round {round}: the copy is wrong");
    }
    Ok(())
}
