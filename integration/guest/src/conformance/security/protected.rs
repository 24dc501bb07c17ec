// SPDX-License-Identifier: MIT OR Apache-2.0

//! Protected memory, and every way to read it.

use super::Lab;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::kernel::touch;
use crate::conformance::raw;
use crate::conformance::scene::{Bench, MEMORY, Scene};
use bellhop_guest_umd::security::{Protected, SecureSession};
use bellhop_guest_umd::{Allocation, Arguments, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, COMPRESSED, CreateAllocation, Lock, SegmentSet,
};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::packet::surface::{StretchFilter, StretchRect};
use bellhop_protocol::pixel_format::PixelFormat;
use bellhop_protocol::status::Status;
use std::sync::Arc;

const SECRET: &[u8; 16] = b"nobody reads it!";

/// Protected memory with a secret at its start, and a bench in the same process, whose memory a CPU reads.
fn secret(
    scene: &Scene,
    engine: EngineType,
) -> Result<(SecureSession, Protected, Bench), Mismatch> {
    let bench = scene.bench_on(engine)?;
    let mut session = SecureSession::new(&bench.process, &bench.device)?;
    let memory = session.protected(2 * PAGE_SIZE)?;
    session.put(&memory, 0, SECRET)?;
    Ok((session, memory, bench))
}

/// Nothing of the bench's memory is what it was not.
fn expect_nothing(bench: &Bench) -> Result<(), Mismatch> {
    let seen = bench.read(0, MEMORY as usize)?;
    require!(seen.iter().all(|byte| *byte == 0), "something of it is where a CPU reads");
    Ok(())
}

pub(super) fn refused(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let good = CreateAllocation {
        supported_segments: (SegmentSet::PRIVATE | SegmentSet::SYSTEM).bits(),
        flags: AllocationFlags::PROTECTED.bits(),
        ..CreateAllocation::fixed(lab.device.handle(), AllocationKind::PAGED, PAGE_SIZE, 0)
    };
    let with =
        |flags: AllocationFlags| CreateAllocation { flags: good.flags | flags.bits(), ..good };
    let local = SegmentSet::LOCAL | SegmentSet::PRIVATE;
    for bad in [
        with(AllocationFlags::CPU_VISIBLE),
        with(AllocationFlags::PERMANENT_SYSTEM_MEM),
        with(AllocationFlags::ACCESSED_PHYSICALLY),
        CreateAllocation { supported_segments: local.bits(), ..good },
        CreateAllocation { supported_segments: SegmentSet::SYSTEM.bits(), ..good },
        CreateAllocation { private_data: COMPRESSED, ..good },
        CreateAllocation {
            flags: good.flags,
            ..CreateAllocation::fixed(lab.device.handle(), AllocationKind::LOCAL, PAGE_SIZE, 0)
        },
    ] {
        let process = lab.process.process();
        raw::expect_status(scene.transport(), process, &bad, Status::INVALID_PARAMETER)?;
    }
    let memory = lab.session.protected(PAGE_SIZE)?;
    let lock = Lock { allocation: memory.allocation().handle() };
    let process = lab.process.process();
    raw::expect_status(scene.transport(), process, &lock, Status::NOT_SUPPORTED)
}

pub(super) fn kept(scene: &Scene) -> Result<(), Mismatch> {
    type Append = fn(&mut Bench, u64) -> Result<(), Error>;
    // Each packet, and whether its fault has the address that it may not read.
    let packets: [(EngineType, Append, bool); 9] = [
        (EngineType::COPY, |b, at| b.commands.copy(at, b.va(64), 16).map(drop), false),
        (EngineType::COPY, |b, at| b.commands.hash(at, 16, 0, b.va(64)).map(drop), true),
        (EngineType::COPY, |b, at| b.commands.compare(at, b.va(0), 16, b.va(64)).map(drop), true),
        (EngineType::COPY, |b, at| b.commands.compare(b.va(0), at, 16, b.va(64)).map(drop), true),
        (EngineType::COPY, |b, at| b.commands.indirect_buffer(at, 64).map(drop), true),
        (
            EngineType::COPY,
            |b, at| b.commands.copy_rect((at, 64), (b.va(64), 64), 4, 4).map(drop),
            false,
        ),
        (
            EngineType::THREE_D,
            |b, at| b.commands.dispatch(Kernel::XOR_STREAM, at, b.va(64), 16, 1).map(drop),
            true,
        ),
        (
            EngineType::THREE_D,
            |b, at| b.commands.dispatch(Kernel::SPIN_UNTIL, at, b.va(64), 8, 0).map(drop),
            true,
        ),
        (
            EngineType::THREE_D,
            |b, at| {
                let (from, to) = ((at, 64, [4, 4]), (b.va(64), 64, [4, 4]));
                let format = PixelFormat::A8R8G8B8;
                let packet = StretchRect::new(from, to, format, StretchFilter::NEAREST);
                b.commands.stretch_rect(&packet).map(drop)
            },
            true,
        ),
    ];
    for (engine, append, reads) in packets {
        let (_session, memory, mut bench) = secret(scene, engine)?;
        append(&mut bench, memory.gpu_va())?;
        let address = if reads { memory.gpu_va() } else { bench.va(64) };
        bench.expect_fault(FaultReason::PROTECTED_MEMORY, address)?;
        expect_nothing(&bench)?;
    }
    // From protected memory to protected memory is no way out.
    let (mut session, memory, _bench) = secret(scene, EngineType::COPY)?;
    let other = session.protected(PAGE_SIZE)?;
    Ok(session.copy((&memory, 0), (&other, 100), 16)?)
}

pub(super) fn kernel(scene: &Scene) -> Result<(), Mismatch> {
    // One kernel for loads, and one for stores.
    for loads in [true, false] {
        // Where there are no kernels, the reason is theirs; where there is no node, the node's.
        Lab::new(scene)?;
        let (_session, memory, mut bench) = secret(scene, EngineType::THREE_D)?;
        let touch = touch(scene, &bench)?;
        let plain = bench.va(0);
        let (from, to) =
            if loads { (memory.gpu_va(), plain) } else { (plain, memory.gpu_va() + 8) };
        let mut arguments = Arguments::new();
        arguments.address(from).address(to);
        bench.commands.dispatch_kernel(&touch, [1; 3], &arguments)?;
        let wrong = if loads { from } else { to };
        bench.expect_fault(FaultReason::PROTECTED_MEMORY, wrong)?;
        expect_nothing(&bench)?;
    }
    Ok(())
}

pub(super) fn shared(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let allocation = lab
        .device
        .allocation(PAGE_SIZE)
        .segments(SegmentSet::PRIVATE | SegmentSet::SYSTEM)
        .protected()
        .shared()
        .create()?;
    allocation.make_resident()?;
    let mut writer = scene.bench_on(EngineType::COPY)?;
    let opened = writer.device.open_shared_allocation(allocation.share()?)?;
    opened.make_resident()?;
    let theirs = opened.map(Protection::WRITE)?;
    writer.commands.copy(theirs.gpu_va(), writer.va(0), 16)?;
    writer.expect_fault(FaultReason::PROTECTED_MEMORY, writer.va(0))?;
    expect_nothing(&writer)
}

/// Private allocations until there is no room for more.
fn fill(bench: &Bench, each: u64) -> Result<Vec<Arc<Allocation>>, Mismatch> {
    let info = bench.device.video_memory_info(SegmentSet::PRIVATE)?;
    let mut all = Vec::new();
    for _ in 0..info.size / each {
        let allocation = bench.device.allocation(each).segments(SegmentSet::PRIVATE).create()?;
        match allocation.make_resident() {
            Ok(()) => all.push(allocation),
            Err(Error::Refused { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

pub(super) fn evicted(scene: &Scene) -> Result<(), Mismatch> {
    let (mut session, memory, mut bench) = secret(scene, EngineType::COPY)?;
    let others = fill(&bench, 8 << 20)?;
    require!(!others.is_empty(), "private memory has no room");
    // It is sealed from wherever it is now: so it is there.
    let sealed = session.seal_protected(&memory, 0, SECRET.len(), b"")?;
    let again = session.protected(PAGE_SIZE)?;
    session.open_protected(&sealed, b"", &again, 0)?;
    bench.commands.copy(memory.gpu_va(), bench.va(0), 16)?;
    bench.expect_fault(FaultReason::PROTECTED_MEMORY, bench.va(0))?;
    expect_nothing(&bench)
}

pub(super) fn freed(scene: &Scene) -> Result<(), Mismatch> {
    let mut lab = Lab::new(scene)?;
    let size = 1 << 20;
    let memory = lab.session.protected(size)?;
    lab.session.put(&memory, 0, &SECRET.repeat(size as usize / SECRET.len()))?;
    drop(memory);
    let mut bench = scene.bench_on(EngineType::COPY)?;
    for allocation in fill(&bench, MEMORY)? {
        let mapping = allocation.map(Protection::empty())?;
        bench.commands.copy(mapping.gpu_va(), bench.va(0), MEMORY)?;
        bench.run()?;
        expect_nothing(&bench)?;
    }
    Ok(())
}
