//! `km.*`: kernel-mode submission, beside user-mode submission.

use super::raw::Process;
use super::scene::{MEMORY, Scene, TIMEOUT};
use super::{Behaviour, Mismatch, require, source};
use bellhop_guest_umd::{
    Adapter, Allocation, BasicContext, BasicPlusPlusContext, CommandBuffer, Device, Error,
    GpuMapping, QueueFault, RenderBuffer, VirtualContext,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::{AllocationKind, DestroyAllocation, Evict};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::hw_queue::CreateHwQueue;
use bellhop_protocol::control::node_context::{
    CreateNodeContext, PatchLocation, Render, SubmissionModel, SubmitCommandVirtual,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::{Kernel, xor_stream};
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::{IndirectBuffer, NOP};
use bellhop_protocol::packet::paging::{FlushTlb, WritePageTable};
use bellhop_protocol::packet::transfer::Fill;
use bellhop_protocol::packet::{Opcode, PacketHeader};
use bellhop_protocol::status::Status;
use std::sync::Arc;
use zerocopy::IntoBytes;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        id: "km.submit",
        shows: "a command buffer submitted through the control queue executes, and its fence is signaled",
        section: source::KMD_DMA,
        check: submit,
    },
    Behaviour {
        id: "km.wait.blocked",
        shows: "its completion wakes a blocked waiter",
        section: source::KMD_INTERRUPT,
        check: wait_blocked,
    },
    Behaviour {
        id: "km.beside-um",
        shows: "both kinds of queue work on one engine at the same time",
        section: source::UM_INTRODUCTION,
        check: beside_um,
    },
    Behaviour {
        id: "km.basic.submit",
        shows: "basic model: packets that name allocations are patched with their addresses and execute",
        section: source::KMD_VIRTUAL,
        check: basic_submit,
    },
    Behaviour {
        id: "km.basic.every-packet",
        shows: "basic model: every packet with addresses does what it does with virtual ones",
        section: source::KMD_VIRTUAL,
        check: basic_every_packet,
    },
    Behaviour {
        id: "km.basic.copied",
        shows: "basic model: the command buffer is the driver's again at once, and what stood in its addresses is dropped",
        section: source::KMD_DMA,
        check: basic_copied,
    },
    Behaviour {
        id: "km.basic.contained",
        shows: "basic model: a packet that would reach what it was not given is refused, and nothing of its buffer executes",
        section: source::KMD_DMA,
        check: basic_contained,
    },
    Behaviour {
        id: "km.basic.lists",
        shows: "basic model: a patch location that is not at an address, or leads out of its allocation, is refused",
        section: source::KMD_VIRTUAL,
        check: basic_lists,
    },
    Behaviour {
        id: "km.basic.residency",
        shows: "basic model: what is listed is made resident, and stays until the submission is done",
        section: source::KMD_PAGING,
        check: basic_residency,
    },
    Behaviour {
        id: "km.basic.paged",
        shows: "basic model: paged allocations are brought in by being listed, and keep their bytes when nobody lists them",
        section: source::KMD_PAGING,
        check: basic_paged,
    },
    Behaviour {
        id: "km.basic.fences",
        shows: "basic model: fences of the process order submissions with other queues; another process's are not reached",
        section: source::KMD_DMA,
        check: basic_fences,
    },
    Behaviour {
        id: "km.basic.bounded",
        shows: "basic model: what is queued is bounded, and goes on when some of it is done",
        section: source::KMD_DMA,
        check: basic_bounded,
    },
    Behaviour {
        id: "km.basic-plus-plus.submit",
        shows: "basic++ model: the driver's own DMA buffer executes where it is",
        section: source::KMD_DMA,
        check: plus_submit,
    },
    Behaviour {
        id: "km.basic-plus-plus.residency",
        shows: "basic++ model: what is listed is made resident",
        section: source::KMD_PAGING,
        check: plus_residency,
    },
    Behaviour {
        id: "km.basic-plus-plus.paged",
        shows: "basic++ model: a paged allocation is reached while it is listed, and not afterwards",
        section: source::KMD_PAGING,
        check: plus_paged,
    },
    Behaviour {
        id: "km.virtual.submit",
        shows: "WDDM 2.0 model: parts of the buffer that the host supplied execute, in order",
        section: source::KMD_DMA,
        check: virtual_submit,
    },
    Behaviour {
        id: "km.virtual.contained",
        shows: "WDDM 2.0 model: an address outside of that buffer is refused",
        section: source::KMD_DMA,
        check: virtual_contained,
    },
    Behaviour {
        id: "km.virtual.residency",
        shows: "WDDM 2.0 model: what is not resident faults that context alone",
        section: source::KMD_PAGING,
        check: virtual_residency,
    },
    Behaviour {
        id: "km.models.apart",
        shows: "each kind of context refuses what is another kind's",
        section: source::KMD_DMA,
        check: models_apart,
    },
    Behaviour {
        id: "km.models.together",
        shows: "contexts of all models and a user-mode queue work on each node at the same time",
        section: source::KMD_RINGS,
        check: models_together,
    },
    Behaviour {
        id: "km.fence-ids",
        shows: "submission fence ids grow, whoever submits, and each context's progress values count its own",
        section: source::KMD_DMA,
        check: fence_ids,
    },
    Behaviour {
        id: "km.suspended",
        shows: "a suspended context executes nothing of what is submitted to it until it is resumed",
        section: source::UM_SUSPENSION,
        check: suspended,
    },
];

/// A process with a device and some memory, without a queue.
struct Desk {
    // Dropped in this order.
    mapping: GpuMapping,
    memory: Arc<Allocation>,
    device: Device,
    process: Adapter,
}

impl Desk {
    fn new(scene: &Scene) -> Result<Self, Mismatch> {
        let process = scene.adapter().open_process()?;
        let device = process.create_device()?;
        let memory = device.create_allocation(AllocationKind::SYSTEM, MEMORY)?;
        let mapping = memory.map(Protection::WRITE)?;
        Ok(Self { mapping, memory, device, process })
    }

    fn word(&self, offset: usize) -> Result<u64, Mismatch> {
        let mut bytes = [0; 8];
        self.memory.read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn va(&self, offset: u64) -> u64 {
        self.mapping.gpu_va() + offset
    }

    fn expect_word(&self, offset: usize, expected: u64) -> Result<(), Mismatch> {
        let word = self.word(offset)?;
        require!(word == expected, "{word:#x} at {offset:#x}, not {expected:#x}");
        Ok(())
    }
}

/// Asserts how something was refused.
fn expect_refused<T>(
    result: Result<T, Error>,
    expected: Status,
    about: u64,
) -> Result<(), Mismatch> {
    match result {
        Err(Error::Refused { status, detail, .. }) => {
            require!(
                (status, detail) == (expected, about),
                "ended with {status} about {detail:#x}, not with {expected} about {about:#x}"
            );
            Ok(())
        }
        Err(error) => Err(Mismatch::Seen(format!("instead of {expected}: {error}"))),
        Ok(_) => Err(Mismatch::Seen(format!("no {expected}, but success"))),
    }
}

/// Asserts that waiting for a submission ends with the loss of its context.
fn expect_lost(waited: Result<(), Error>) -> Result<QueueFault, Mismatch> {
    match waited {
        Err(Error::QueueLost { fault: Some(fault), .. }) => Ok(fault),
        Err(error) => Err(Mismatch::Seen(format!("instead of a fault: {error}"))),
        Ok(()) => Err(Mismatch::Seen("no fault, but success".into())),
    }
}

fn submit(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    for expected in 1..=20 {
        bench.commands.reset();
        bench.commands.write_data(bench.va(0), &u64::to_le_bytes(expected))?;
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        let written = bench.word(0)?;
        require!(written == expected, "submission {expected} wrote {written}");
    }
    Ok(())
}

fn wait_blocked(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    bench.commands.nop()?;
    for _ in 0..20 {
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().wait(value, TIMEOUT)?;
    }
    Ok(())
}

fn beside_um(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.fill(bench.va(8192), 4096, 2)?;
    bench.commands.fill(bench.va(0), 4096, 1)?;
    for _ in 0..50 {
        let user_mode = bench.queue.submit(&mut bench.commands)?;
        let kernel_mode = queue.submit(&mut commands)?;
        bench.queue.progress_fence().poll(user_mode, TIMEOUT)?;
        queue.progress_fence().poll(kernel_mode, TIMEOUT)?;
    }
    let (user_mode, kernel_mode) = (bench.word(0)? as u32, bench.word(8192)? as u32);
    require!((user_mode, kernel_mode) == (1, 2), "filled with {user_mode} and {kernel_mode}");
    Ok(())
}

fn basic_submit(scene: &Scene) -> Result<(), Mismatch> {
    for engine in [EngineType::THREE_D, EngineType::COPY] {
        let desk = Desk::new(scene)?;
        let mut context = desk.device.create_basic_context(scene.node(engine)?)?;
        let mut commands = RenderBuffer::new();
        for expected in 1..=20 {
            commands.reset();
            commands.write_data((&desk.memory, 8), &u64::to_le_bytes(expected))?;
            commands.copy((&desk.memory, 8), (&desk.memory, 3 * PAGE_SIZE + 16), 8)?;
            let value = context.submit(&commands)?;
            require!(value == expected, "submission {expected} has value {value}");
            context.progress_fence().wait(value, TIMEOUT)?;
            desk.expect_word(3 * PAGE_SIZE as usize + 16, expected)?;
        }
    }
    Ok(())
}

fn basic_every_packet(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::THREE_D)?;
    let mut context = desk.device.create_basic_context(node)?;
    let mut virtually = desk.device.create_basic_plus_plus_context(node)?;
    let other = desk.device.create_allocation(AllocationKind::SYSTEM, 2 * PAGE_SIZE)?;
    let noise: Vec<u8> = (0..PAGE_SIZE).map(|index| xor_stream(5, index) as u8).collect();
    other.write(0, &noise)?;
    // Across pages, which are where they like in the guest's memory.
    let from = |offset| (&other, offset);
    let to = |offset| (&desk.memory, offset);
    let mut commands = RenderBuffer::new();
    commands
        .nop()?
        .fill(to(4092), 16, 0xABCD_EF01)?
        .copy(from(100), to(8000), 3000)?
        .compare(from(100), to(8000), 3000, to(0))?
        .compare(from(101), to(8000), 3000, to(8))?
        .hash(from(100), 3000, 7, to(16))?
        .timestamp(to(24))?
        .dispatch(Kernel::XOR_STREAM, from(0), to(20480), 4096, 99)?;
    let value = context.submit(&commands)?;
    context.progress_fence().wait(value, TIMEOUT)?;
    let mapped = other.map(Protection::empty())?;
    let mut buffer = CommandBuffer::new(&desk.device, 64)?;
    buffer.hash(mapped.gpu_va() + 100, 3000, 7, desk.va(32))?;
    let value = virtually.submit(&mut buffer, &[])?;
    virtually.progress_fence().wait(value, TIMEOUT)?;

    desk.expect_word(4096, 0xABCD_EF01_ABCD_EF01)?;
    let mut copied = vec![0; 3000];
    desk.memory.read(8000, &mut copied)?;
    require!(copied == noise[100..3100], "other bytes were copied");
    desk.expect_word(0, u64::MAX)?;
    let differs = noise[101..].iter().zip(&copied).position(|(left, right)| left != right);
    desk.expect_word(8, differs.map_or(u64::MAX, |offset| offset as u64))?;
    desk.expect_word(16, desk.word(32)?)?;
    require!(desk.word(24)? != 0, "the time is 0");
    let mut mixed = vec![0; 8];
    desk.memory.read(20480, &mut mixed)?;
    let plain = noise.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let expected = (plain ^ xor_stream(99, 0)).to_le_bytes();
    require!(mixed == expected, "the stream begins with {mixed:x?}, not {expected:x?}");
    Ok(())
}

fn basic_copied(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    context.suspend()?;
    // Whatever address stands there: of this process, of the aperture, of nothing.
    for (index, address) in [0, desk.va(0), 3 << 44, 1 << 24, u64::MAX].into_iter().enumerate() {
        let mut commands = RenderBuffer::new();
        commands.raw(Fill::new(address, 8, index as u32 + 1).as_bytes())?;
        let allocation_index = commands.list(&desk.memory, true)?;
        let allocation_offset = 512 + 8 * index as u64;
        commands.patch(PatchLocation { allocation_index, patch_offset: 8, allocation_offset })?;
        context.submit(&commands)?;
        // The buffer is gone before anything of it executes.
    }
    context.resume()?;
    context.progress_fence().wait(5, TIMEOUT)?;
    for index in 0..5 {
        let pattern = index as u64 + 1;
        desk.expect_word(512 + 8 * index, pattern << 32 | pattern)?;
    }
    desk.expect_word(0, 0)
}

fn basic_contained(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    let mut refuse = |status, about, build: &dyn Fn(&mut RenderBuffer) -> Result<(), Error>| {
        let mut commands = RenderBuffer::new();
        // Would leave a trace if anything of the buffer executed.
        commands.fill((&desk.memory, 0), 8, 1)?;
        build(&mut commands)?;
        expect_refused(context.submit(&commands), status, about)
    };
    let size = MEMORY;
    let (privileged, illegal) = (Status::PRIVILEGED_INSTRUCTION, Status::ILLEGAL_INSTRUCTION);
    refuse(privileged, 24, &|commands| {
        commands.raw(Fill::new(desk.va(0), 8, 2).as_bytes()).map(|_| ())
    })?;
    let readable = desk.device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    refuse(privileged, 24, &|commands| {
        commands.raw(Fill::new(0, 8, 2).as_bytes())?;
        let allocation_index = commands.list(&readable, false)?;
        let (patch_offset, allocation_offset) = (24 + 8, 0);
        commands.patch(PatchLocation { allocation_index, patch_offset, allocation_offset })?;
        Ok(())
    })?;
    for (offset, length) in [
        (size, 1),
        (0, size + 1),
        (size - 8, 9),
        (u64::MAX, 1),
        (8, u64::MAX),
        (u64::MAX, u64::MAX),
    ] {
        refuse(Status::INVALID_PARAMETER, 1, &|commands| {
            commands.copy((&desk.memory, offset), (&desk.memory, 0), length).map(|_| ())
        })?;
    }
    refuse(illegal, 24, &|commands| {
        commands.raw(IndirectBuffer::new(desk.va(0), 8).as_bytes()).map(|_| ())
    })?;
    refuse(illegal, 24, &|commands| {
        let to = (&desk.memory, 0);
        commands.dispatch(Kernel::XOR_STREAM, to, to, 8, 0).map(|_| ())
    })?;
    refuse(illegal, 24, &|commands| {
        commands.raw(PacketHeader::new(Opcode(0x7777), 8, 0).as_bytes()).map(|_| ())
    })?;
    for packet in [FlushTlb::new(0).as_bytes(), WritePageTable::new(0, 1, 1, 0).as_bytes()] {
        refuse(privileged, 24, &|commands| commands.raw(packet).map(|_| ()))?;
    }
    refuse(Status::INVALID_USER_BUFFER, 24, &|commands| {
        commands.raw(&Fill::new(0, 8, 0).as_bytes()[..16]).map(|_| ())
    })?;
    refuse(Status::INVALID_USER_BUFFER, 24, &|commands| commands.raw(&[0; 4]).map(|_| ()))?;
    // The context takes what is right, and nothing of the rest was executed.
    let mut commands = RenderBuffer::new();
    let value = context.submit(commands.nop()?)?;
    require!(value == 1, "refused command buffers were counted: {value}");
    context.progress_fence().wait(value, TIMEOUT)?;
    desk.expect_word(0, 0)
}

fn basic_lists(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let stranger = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    let location = |allocation_index, patch_offset, allocation_offset| PatchLocation {
        allocation_index,
        patch_offset,
        allocation_offset,
    };
    let good = location(0, 8, 0);
    let fill = Fill::new(0, 8, 1);
    let parameter = Status::INVALID_PARAMETER;
    for (locations, index) in [
        // Over the header, across the address's start or end, over the length, behind the packet.
        (vec![location(0, 0, 0), good], 0),
        (vec![location(0, 4, 0)], 0),
        (vec![good, location(0, 12, 0)], 1),
        (vec![good, location(0, 16, 0)], 1),
        (vec![good, location(0, 24, 0)], 1),
        (vec![good, location(0, u32::MAX, 0)], 1),
        // Twice, of no allocation, past its end.
        (vec![good, good], 1),
        (vec![location(1, 8, 0)], 0),
        (vec![location(u32::MAX, 8, 0)], 0),
        (vec![location(0, 8, MEMORY - 7)], 0),
        (vec![location(0, 8, u64::MAX - 7)], 0),
    ] {
        let mut commands = RenderBuffer::new();
        commands.raw(fill.as_bytes())?;
        commands.list(&desk.memory, true)?;
        for location in locations {
            commands.patch(location)?;
        }
        expect_refused(context.submit(&commands), parameter, index)?;
    }
    // Another process's allocation is none.
    let mut commands = RenderBuffer::new();
    commands.fill((&stranger.memory, 0), 8, 1)?;
    let handle = stranger.memory.handle();
    expect_refused(context.submit(&commands), Status::INVALID_HANDLE, handle.0)?;
    // Another device's may go at any time.
    let device = desk.process.create_device()?;
    let foreign = device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    let mut commands = RenderBuffer::new();
    commands.fill((&foreign, 0), 8, 1)?;
    expect_refused(context.submit(&commands), parameter, foreign.handle().0)?;
    desk.expect_word(0, 0)
}

fn basic_residency(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    let mut commands = RenderBuffer::new();
    for round in 1..=5u32 {
        desk.memory.evict()?;
        commands.reset();
        context.suspend()?;
        let value = context.submit(commands.fill((&desk.memory, 64), 8, round)?)?;
        let busy = Status::GRAPHICS_ALLOCATION_BUSY;
        let handle = desk.memory.handle();
        expect_refused(desk.memory.evict(), busy, handle.0)?;
        context.resume()?;
        context.progress_fence().wait(value, TIMEOUT)?;
        desk.expect_word(64, u64::from(round) << 32 | u64::from(round))?;
    }
    Ok(())
}

fn basic_paged(scene: &Scene) -> Result<(), Mismatch> {
    const SIZE: u64 = 1 << 20;
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    // Nobody makes any of them resident.
    let paged: Result<Vec<_>, _> = (0..12).map(|_| desk.device.allocation(SIZE).create()).collect();
    let paged = paged?;
    let mut commands = RenderBuffer::new();
    for (index, allocation) in paged.iter().enumerate() {
        commands.reset();
        commands.fill((allocation, 0), SIZE, index as u32 + 1)?;
        context.submit(&commands)?;
    }
    // Each takes over the last page of the one before it.
    for pair in paged.windows(2) {
        commands.reset();
        let last = SIZE - PAGE_SIZE;
        commands.copy((&pair[0], last), (&pair[1], last), PAGE_SIZE)?;
        context.submit(&commands)?;
    }
    let mut value = 0;
    for (index, allocation) in paged.iter().enumerate() {
        commands.reset();
        commands.copy((allocation, 8), (&desk.memory, 16 * index as u64), 8)?;
        commands.copy((allocation, SIZE - 8), (&desk.memory, 16 * index as u64 + 8), 8)?;
        value = context.submit(&commands)?;
    }
    context.progress_fence().wait(value, TIMEOUT)?;
    for index in 0..paged.len() {
        let pattern = index as u64 + 1;
        desk.expect_word(16 * index, pattern << 32 | pattern)?;
        desk.expect_word(16 * index + 8, 1 << 32 | 1)?;
    }
    Ok(())
}

fn basic_fences(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let stranger = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut first = desk.device.create_basic_context(node)?;
    let mut second = desk.device.create_basic_context(scene.node(EngineType::THREE_D)?)?;
    let fence = desk.device.create_fence(0)?;
    let mut commands = RenderBuffer::new();
    commands.wait_fence(&fence, 1)?.copy((&desk.memory, 0), (&desk.memory, 8), 8)?;
    let held = first.submit(&commands)?;
    commands.reset();
    commands.write_data((&desk.memory, 0), &7u64.to_le_bytes())?.signal_fence(&fence, 1)?;
    second.submit(&commands)?;
    first.progress_fence().wait(held, TIMEOUT)?;
    desk.expect_word(8, 7)?;
    // Not another process's, although all physical addresses are of one address space.
    let secret = stranger.device.create_basic_context(node)?;
    for slot in [stranger.device.create_fence(0)?.slot(), secret.progress_fence().slot()] {
        let mut context = desk.device.create_basic_context(node)?;
        commands.reset();
        let packet = SignalFence::new(slot, 1);
        let value = context.submit(commands.raw(packet.as_bytes())?)?;
        let fault = expect_lost(context.progress_fence().wait(value, TIMEOUT))?;
        require!(fault.reason == FaultReason::FENCE_NOT_OWNED, "{fault}");
        expect_refused(context.submit(&commands), Status::DEVICE_REMOVED, context.handle().0)?;
    }
    let value = first.submit(commands_of_nothing(&mut commands)?)?;
    first.progress_fence().wait(value, TIMEOUT)?;
    Ok(())
}

/// The buffer with one packet that does nothing.
fn commands_of_nothing(commands: &mut RenderBuffer) -> Result<&RenderBuffer, Error> {
    commands.reset();
    commands.nop().map(|commands| &*commands)
}

fn basic_bounded(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    let mut commands = RenderBuffer::new();
    // As large as can be, and then nothing more.
    commands.fill((&desk.memory, 0), 8, 1)?;
    commands.raw(&NOP.as_bytes().repeat((32 << 10) / 8 - 3))?;
    require!(commands.nop().is_err(), "the buffer is larger than it may be");
    context.suspend()?;
    let mut taken = 0;
    let refused = loop {
        match context.submit(&commands) {
            Ok(value) => taken = value,
            Err(error) => break error,
        }
        require!(taken < 100_000, "{taken} submissions are queued");
    };
    let Error::Refused { status, .. } = refused else { return Err(refused.into()) };
    require!(
        status == Status::INSUFFICIENT_RESOURCES || status == Status::QUOTA_EXCEEDED,
        "the last ended with {status}"
    );
    context.resume()?;
    // The driver waits for room itself, if it may.
    let value = context.submit_within(&commands, TIMEOUT)?;
    require!(value == taken + 1, "submission {value} after {taken}");
    context.progress_fence().wait(value, TIMEOUT)?;
    // What is done makes room at once.
    let value = context.submit(&commands)?;
    require!(value == taken + 2, "submission {value} after {taken}");
    context.progress_fence().wait(value, TIMEOUT)?;
    Ok(())
}

fn plus_submit(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut context = desk.device.create_basic_plus_plus_context(node)?;
    let mut commands = CommandBuffer::new(&desk.device, 256)?;
    for expected in 1..=20 {
        commands.reset();
        commands.write_data(desk.va(0), &u64::to_le_bytes(expected))?;
        let value = context.submit(&mut commands, &[&desk.memory])?;
        require!(value == expected, "submission {expected} has value {value}");
        context.progress_fence().wait(value, TIMEOUT)?;
        desk.expect_word(0, expected)?;
    }
    Ok(())
}

fn plus_residency(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut context = desk.device.create_basic_plus_plus_context(node)?;
    let mut commands = CommandBuffer::new(&desk.device, 256)?;
    commands.write_data(desk.va(0), &7u64.to_le_bytes())?;
    desk.memory.evict()?;
    let value = context.submit(&mut commands, &[&desk.memory])?;
    context.progress_fence().wait(value, TIMEOUT)?;
    desk.expect_word(0, 7)?;
    // What is not listed is not looked at.
    desk.memory.evict()?;
    let value = context.submit(&mut commands, &[])?;
    let fault = expect_lost(context.progress_fence().wait(value, TIMEOUT))?;
    require!(fault.reason == FaultReason::WRITE_PAGE_FAULT, "{fault}");
    Ok(())
}

fn plus_paged(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut context = desk.device.create_basic_plus_plus_context(node)?;
    let paged = desk.device.allocation(1 << 20).create()?;
    let mapping = paged.map(Protection::WRITE)?;
    let mut commands = CommandBuffer::new(&desk.device, 256)?;
    for pattern in 1..=5u32 {
        commands.reset();
        commands.copy(mapping.gpu_va(), desk.va(0), 8)?;
        commands.fill(mapping.gpu_va(), 1 << 20, pattern)?;
        let value = context.submit(&mut commands, &[&paged])?;
        context.progress_fence().wait(value, TIMEOUT)?;
        let before = u64::from(pattern - 1);
        desk.expect_word(0, before << 32 | before)?;
    }
    let value = context.submit(&mut commands, &[])?;
    let fault = expect_lost(context.progress_fence().wait(value, TIMEOUT))?;
    require!(fault.reason == FaultReason::READ_PAGE_FAULT, "{fault}");
    require!(fault.address == mapping.gpu_va(), "{fault}, not at {:#x}", mapping.gpu_va());
    Ok(())
}

fn virtual_submit(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_virtual_context(scene.node(EngineType::COPY)?)?;
    for round in 0..3u64 {
        for expected in 1..=20 {
            let to = desk.va(8 * (expected % 3));
            context.commands().write_data(to, &(round * 100 + expected).to_le_bytes())?;
            context.submit()?;
        }
        context.restart(TIMEOUT)?;
        for (offset, expected) in [(0, 18), (8, 19), (16, 20)] {
            desk.expect_word(offset, round * 100 + expected)?;
        }
    }
    Ok(())
}

fn virtual_contained(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    // For the check that a driver reaches the buffer at all.
    drop(desk.device.create_virtual_context(node)?);
    let process = Process::begin(scene.transport())?;
    let request =
        CreateNodeContext { device: process.device()?, node, model: SubmissionModel::VIRTUAL };
    let reply = process.call(&request)?;
    let (start, size) = (reply.command_buffer_gpu_va, reply.command_buffer_size);
    let end = start + u64::from(size);
    for (gpu_va, size) in [
        (start - 8, 8),
        (start - 8, 16),
        (end, 8),
        (end - 8, 16),
        (start + 8, size),
        (0, 8),
        (u64::MAX - 7, 8),
        (start + 4, 8),
        (start, 0),
        (start, 4),
        (start, u32::MAX - 7),
    ] {
        let request = SubmitCommandVirtual { context: reply.context, gpu_va, size, reserved: 0 };
        process.expect_status(&request, Status::INVALID_PARAMETER)?;
    }
    Ok(())
}

fn virtual_residency(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut lost = desk.device.create_virtual_context(node)?;
    let mut kept = desk.device.create_virtual_context(node)?;
    desk.memory.evict()?;
    let target = desk.va(8);
    lost.commands().write_data(target, &1u64.to_le_bytes())?;
    let value = lost.submit()?;
    let fault = expect_lost(lost.progress_fence().wait(value, TIMEOUT))?;
    require!(fault.reason == FaultReason::WRITE_PAGE_FAULT, "{fault}");
    require!(fault.address == target, "{fault}, not at {target:#x}");
    let handle = lost.handle();
    lost.commands().nop()?;
    expect_refused(lost.submit(), Status::DEVICE_REMOVED, handle.0)?;
    desk.memory.make_resident()?;
    kept.commands().write_data(target, &2u64.to_le_bytes())?;
    let value = kept.submit()?;
    kept.progress_fence().wait(value, TIMEOUT)?;
    desk.expect_word(8, 2)
}

fn models_apart(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    // Where a driver reaches the buffer at all.
    drop(desk.device.create_virtual_context(node)?);
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    let create = |model| process.call(&CreateNodeContext { device, node, model });
    let basic = create(SubmissionModel::BASIC)?.context;
    let plus = create(SubmissionModel::BASIC_PLUS_PLUS)?.context;
    let wddm2 = create(SubmissionModel::VIRTUAL)?;
    let queues = process.context(node)?;
    let unsupported = Status::NOT_SUPPORTED;
    for context in [basic, plus, wddm2.context] {
        for flags in [0, 1] {
            process.expect_status(&CreateHwQueue { context, flags, reserved: 0 }, unsupported)?;
        }
    }
    let gpu_va = wddm2.command_buffer_gpu_va;
    for context in [basic, plus, queues] {
        let request = SubmitCommandVirtual { context, gpu_va, size: 8, reserved: 0 };
        process.expect_status(&request, unsupported)?;
    }
    let render = |context, dma_buffer_size| Render {
        context,
        dma_buffer: if dma_buffer_size == 0 { 0 } else { gpu_va },
        dma_buffer_size,
        command_length: 0,
        allocation_count: 0,
        patch_location_count: 0,
    };
    for context in [wddm2.context, queues] {
        process.expect_status(&render(context, 8), unsupported)?;
    }
    // Each of the two that render takes what the other does not.
    process.expect_status(&render(basic, 8), Status::INVALID_PARAMETER)?;
    process.expect_status(&render(basic, 0), Status::INVALID_PARAMETER)?;
    process.expect_status(&render(plus, 0), Status::INVALID_PARAMETER)?;
    let unknown = CreateNodeContext { device, node, model: SubmissionModel(0) };
    process.expect_status(&unknown, Status::INVALID_PARAMETER)?;
    // What the host supplied is the context's alone.
    for bits in 0..64 {
        let allocation = Handle(wddm2.context.0 ^ bits);
        let evict = Evict { device, count: 1, reserved: 0 };
        let list = allocation.as_bytes();
        let (evicted, _) =
            super::raw::status_with_list(scene.transport(), process.id, &evict, list)?;
        let (destroyed, _) = process.status(&DestroyAllocation { allocation })?;
        require!(!evicted.is_success() && !destroyed.is_success(), "{allocation} went");
    }
    Ok(())
}

fn models_together(scene: &Scene) -> Result<(), Mismatch> {
    for engine in [EngineType::THREE_D, EngineType::COPY] {
        let mut bench = scene.bench_on(engine)?;
        let desk = Desk::new(scene)?;
        let node = scene.node(engine)?;
        let mut contexts: Vec<(BasicContext, BasicPlusPlusContext, VirtualContext)> = Vec::new();
        for _ in 0..2 {
            contexts.push((
                desk.device.create_basic_context(node)?,
                desk.device.create_basic_plus_plus_context(node)?,
                desk.device.create_virtual_context(node)?,
            ));
        }
        let mut commands = CommandBuffer::new(&desk.device, 256)?;
        commands.fill(desk.va(8192), 4096, 2)?;
        bench.commands.fill(bench.va(0), 4096, 4)?;
        for _ in 0..30 {
            let user_mode = bench.queue.submit(&mut bench.commands)?;
            let mut values = Vec::new();
            for (basic, plus, wddm2) in &mut contexts {
                let mut rendered = RenderBuffer::new();
                let value = basic.submit(rendered.fill((&desk.memory, 0), 4096, 1)?)?;
                let list = [&desk.memory];
                let second = plus.submit(&mut commands, &list)?;
                wddm2.commands().fill(desk.va(16384), 4096, 3)?;
                values.push((value, second, wddm2.submit()?));
            }
            bench.queue.progress_fence().poll(user_mode, TIMEOUT)?;
            for ((basic, plus, wddm2), values) in contexts.iter().zip(values) {
                basic.progress_fence().wait(values.0, TIMEOUT)?;
                plus.progress_fence().wait(values.1, TIMEOUT)?;
                wddm2.progress_fence().wait(values.2, TIMEOUT)?;
            }
        }
        for (offset, pattern) in [(4088, 1), (8192, 2), (16384, 3)] {
            desk.expect_word(offset, pattern << 32 | pattern)?;
        }
        let filled = bench.word(0)?;
        require!(filled == 4 << 32 | 4, "the user-mode queue filled with {filled:#x}");
    }
    Ok(())
}

fn fence_ids(scene: &Scene) -> Result<(), Mismatch> {
    let [one, other] = [Desk::new(scene)?, Desk::new(scene)?];
    let node = scene.node(EngineType::COPY)?;
    let mut basic = one.device.create_basic_context(node)?;
    let mut plus = other.device.create_basic_plus_plus_context(node)?;
    let mut commands = CommandBuffer::new(&other.device, 64)?;
    commands.nop()?;
    let mut last = 0;
    for count in 1..=10 {
        let mut rendered = RenderBuffer::new();
        basic.submit(rendered.nop()?)?;
        plus.submit(&mut commands, &[])?;
        for reply in [basic.last_submission(), plus.last_submission()].into_iter().flatten() {
            let (fence, value) = (reply.submission_fence, reply.progress_fence_value);
            require!(fence > last, "submission fence {fence} after {last}");
            require!(value == count, "progress value {value} of submission {count}");
            last = fence;
        }
    }
    basic.progress_fence().wait(10, TIMEOUT)?;
    plus.progress_fence().wait(10, TIMEOUT)?;
    Ok(())
}

fn suspended(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut held = desk.device.create_basic_context(node)?;
    let mut other = desk.device.create_basic_plus_plus_context(node)?;
    let mut commands = CommandBuffer::new(&desk.device, 64)?;
    commands.nop()?;
    held.suspend()?;
    let mut rendered = RenderBuffer::new();
    let value = held.submit(rendered.fill((&desk.memory, 0), 8, 5)?)?;
    // Another context's work on the same engine comes and goes meanwhile.
    let after = other.submit(&mut commands, &[])?;
    other.progress_fence().wait(after, TIMEOUT)?;
    desk.expect_word(0, 0)?;
    held.resume()?;
    held.progress_fence().wait(value, TIMEOUT)?;
    desk.expect_word(0, 5 << 32 | 5)
}
