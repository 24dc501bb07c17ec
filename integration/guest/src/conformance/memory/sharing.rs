// SPDX-License-Identifier: MIT OR Apache-2.0

//! `memory.sharing.*`: allocations that processes of one guest share.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene};
use crate::conformance::source;
use bellhop_guest_umd::Allocation;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{
    OpenSharedAllocation, SegmentSet, ShareAllocation, Unlock,
};
use bellhop_protocol::control::fence::NtHandle;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;
use std::sync::Arc;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("memory.sharing.processes", source::KMD_ALLOCATIONS, processes).shows(
        "engines and CPUs of two processes see one allocation's bytes when one process opens it \
         by its name",
    ),
    Behaviour::new("memory.sharing.residency", source::KMD_ALLOCATIONS, residency).shows(
        "a shared allocation is resident as long as one process needs it, and each maps and locks \
         it for itself",
    ),
    Behaviour::new("memory.sharing.lifetime", source::KMD_ALLOCATIONS, lifetime).shows(
        "a shared allocation outlives the process that created it, and goes, with its name, when \
         the last process closes it",
    ),
    Behaviour::new("memory.sharing.refused", source::KMD_ALLOCATIONS, refused).shows(
        "an allocation that was not created to be shared is not shared, and an unknown name opens \
         nothing",
    ),
];

const SIZE: u64 = 20 * PAGE_SIZE;

/// An allocation of one process that the other opened.
fn shared(a: &Bench, b: &Bench) -> Result<[Arc<Allocation>; 2], Mismatch> {
    let created = a.device.allocation(SIZE).cpu_visible().shared().create()?;
    let opened = b.device.open_shared_allocation(created.share()?)?;
    require!(opened.size() == SIZE, "it is opened with {} bytes", opened.size());
    Ok([created, opened])
}

fn processes(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("shared memory that CPUs access")?;
    let (mut a, mut b) = (scene.bench()?, scene.bench()?);
    let [created, opened] = shared(&a, &b)?;
    created.make_resident()?;
    opened.make_resident()?;
    let (at_a, at_b) = (created.map(Protection::WRITE)?, opened.map(Protection::WRITE)?);
    a.commands.fill(at_a.gpu_va(), SIZE, 0x0102_0304)?;
    a.run()?;
    b.commands.copy(at_b.gpu_va() + SIZE - 8, b.va(0), 8)?;
    b.commands.fill(at_b.gpu_va(), 4, 5)?;
    b.run()?;
    let seen = b.word(0)?;
    require!(seen == 0x0102_0304_0102_0304, "the other's engine reads {seen:#x}");
    for allocation in [&created, &opened] {
        let mut bytes = [0; 8];
        allocation.lock_bytes()?.read(0, &mut bytes)?;
        require!(bytes == [5, 0, 0, 0, 4, 3, 2, 1], "a CPU reads {bytes:?}");
    }
    Ok(())
}

fn residency(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("shared memory that CPUs access")?;
    let (mut a, mut b) = (scene.bench()?, scene.bench()?);
    let [created, opened] = shared(&a, &b)?;
    let (at_a, at_b) = (created.map(Protection::WRITE)?, opened.map(Protection::WRITE)?);
    created.make_resident()?;
    opened.make_resident()?;
    created.evict()?;
    // One process does not unlock what the other locked.
    let locked = opened.lock_bytes()?;
    let request = Unlock { allocation: created.handle() };
    let process = a.process.process();
    raw::expect_status(scene.transport(), process, &request, Status::INVALID_PARAMETER)?;
    b.commands.fill(at_b.gpu_va(), SIZE, 7)?;
    b.run()?;
    let mut bytes = [0; 4];
    locked.read(SIZE as usize - 4, &mut bytes)?;
    require!(bytes == [7, 0, 0, 0], "a CPU reads {bytes:?} where an engine stored 7");
    let gone = at_b.gpu_va();
    drop(at_b);
    // The other process has addresses of its own.
    a.commands.copy(at_a.gpu_va(), a.va(0), 4)?;
    a.run()?;
    require!(a.read(0, 4)? == [7, 0, 0, 0], "the other process's mapping went, too");
    b.commands.fill(gone, 4, 8)?;
    b.expect_fault(FaultReason::WRITE_PAGE_FAULT, gone)?;
    drop(locked);
    opened.evict()?;
    a.commands.fill(at_a.gpu_va(), 4, 9)?;
    a.expect_fault(FaultReason::WRITE_PAGE_FAULT, at_a.gpu_va())?;
    Ok(())
}

fn lifetime(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("shared memory that CPUs access")?;
    let (mut a, mut b) = (scene.bench()?, scene.bench()?);
    let [created, opened] = shared(&a, &b)?;
    let name = created.share()?;
    let (at_a, at_b) = (created.map(Protection::WRITE)?, opened.map(Protection::WRITE)?);
    created.make_resident()?;
    opened.make_resident()?;
    a.commands.fill(at_a.gpu_va(), SIZE, 3)?;
    a.run()?;
    // Destroyed here, the allocation keeps its bytes for the other process, and engines do not reach them
    // from here.
    let gone = at_a.gpu_va();
    drop((at_a, created));
    a.commands.copy(gone, a.va(0), 4)?;
    a.expect_fault(FaultReason::READ_PAGE_FAULT, gone)?;
    drop(a);
    b.commands.copy(at_b.gpu_va() + SIZE - 4, b.va(0), 4)?;
    b.run()?;
    require!(b.read(0, 4)? == [3, 0, 0, 0], "the bytes went with the one who created it");
    let other = scene.bench()?;
    let again = other.device.open_shared_allocation(name)?;
    drop((at_b, opened));
    again.make_resident()?;
    let mut bytes = [0; 4];
    again.lock_bytes()?.read(0, &mut bytes)?;
    require!(bytes == [3, 0, 0, 0], "opened again it holds {bytes:?}");
    drop(again);
    // Evicts it from a device that never opened it.
    let device = other.process.create_device()?;
    let request = OpenSharedAllocation { device: device.handle(), nt_handle: name };
    let process = other.process.process();
    raw::expect_status(scene.transport(), process, &request, Status::INVALID_PARAMETER)
}

fn refused(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("shared memory that CPUs access")?;
    let (bench, other) = (scene.bench()?, scene.bench()?);
    let process = bench.process.process();
    let alone = bench.device.allocation(PAGE_SIZE).create()?;
    for allocation in [alone.handle(), bench.memory.allocation().handle()] {
        let request = ShareAllocation { allocation };
        raw::expect_status(scene.transport(), process, &request, Status::NOT_SUPPORTED)?;
    }
    let builder = || bench.device.allocation(PAGE_SIZE).shared();
    let system = SegmentSet::SYSTEM;
    for wrong in [builder().own_pages(), builder().segments(system).accessed_physically()] {
        require!(wrong.create().is_err(), "what cannot be shared is created for sharing");
    }
    let [shared, opened] = shared(&bench, &other)?;
    let NtHandle(name) = shared.share()?;
    require!(opened.share()? == NtHandle(name), "it has two names");
    let fence = bench.device.fence(0).shared().create();
    let fences = fence.as_ref().ok().map(|fence| fence.share()).transpose()?;
    let wrong = [0, 1, name ^ 1, shared.handle().0, u64::MAX].map(NtHandle);
    for nt_handle in wrong.into_iter().chain(fences) {
        let request = OpenSharedAllocation { device: bench.device.handle(), nt_handle };
        raw::expect_status(scene.transport(), process, &request, Status::INVALID_PARAMETER)?;
    }
    Ok(())
}
