// SPDX-License-Identifier: MIT OR Apache-2.0

//! Local memory of several GPUs.

use super::pair::{Pair, nodes};
use crate::client::Client;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::Scene;
use bellhop_guest_umd::{Allocation, Device, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;
use std::sync::Arc;

const SIZE: u64 = 40 * PAGE_SIZE;

/// An allocation that is in the local memory of a GPU or nowhere.
fn local(device: &Device, gpu: u8, size: u64) -> Result<Arc<Allocation>, Error> {
    device.allocation(size).segments(SegmentSet::PRIVATE).on_gpu(gpu).create()
}

fn usage(device: &Device, gpu: u8) -> Result<u64, Error> {
    Ok(device.video_memory_info_on(gpu)?.usage)
}

pub(super) fn own(scene: &Scene) -> Result<(), Mismatch> {
    nodes(scene)?;
    let device = scene.adapter().open_process()?.create_device()?;
    for gpu in [0, 1] {
        let allocation = local(&device, gpu, SIZE)?;
        allocation.make_resident()?;
        let used = [usage(&device, 0)?, usage(&device, 1)?];
        let mut expected = [0, 0];
        expected[usize::from(gpu)] = SIZE;
        require!(used == expected, "{used:?} bytes are used for one of GPU {gpu}");
        allocation.evict()?;
    }
    let [master, slave] = [device.video_memory_info_on(0)?, device.video_memory_info_on(1)?];
    require!(master.size > 0 && slave.size >= master.size, "{master:?} and {slave:?}");
    Ok(())
}

pub(super) fn peer(scene: &Scene) -> Result<(), Mismatch> {
    let mut pair = Pair::new(scene, EngineType::COPY)?;
    let of_master = local(pair.device(), 0, SIZE)?;
    let of_slave = local(pair.device(), 1, SIZE)?;
    pair.device().make_resident(&[&of_master, &of_slave])?;
    let maps = [of_master.map(Protection::WRITE)?, of_slave.map(Protection::WRITE)?];
    let pattern: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    for reader in 0..2 {
        let [one, other] = pair.both();
        let (writes, reads) = if reader == 0 { (other, one) } else { (one, other) };
        // It writes into the peer's memory, which the peer copies into its own and then to where a CPU reads it.
        let far = &maps[reader];
        let near = &maps[1 - reader];
        writes.write(0, &pattern)?;
        writes.commands.copy(writes.va(0), far.gpu_va(), SIZE)?;
        writes.run()?;
        reads.write(0, &[0; 64])?;
        reads.commands.copy(far.gpu_va(), near.gpu_va(), SIZE)?;
        reads.commands.copy(near.gpu_va(), reads.va(0), SIZE)?;
        reads.run()?;
        let read = reads.read(0, SIZE as usize)?;
        require!(read == pattern, "GPU {reader} did not read what its peer wrote");
        reads.commands.fill(far.gpu_va(), SIZE, 0)?;
        reads.commands.fill(near.gpu_va(), SIZE, 0)?;
        reads.run()?;
    }
    Ok(())
}

pub(super) fn moved(scene: &Scene) -> Result<(), Mismatch> {
    let mut pair = Pair::new(scene, EngineType::COPY)?;
    let anywhere = SegmentSet::LOCAL | SegmentSet::PRIVATE | SegmentSet::SYSTEM;
    let builder = pair.device().allocation(SIZE).segments(anywhere).cpu_visible();
    let allocation = builder.preferred(SegmentSet::PRIVATE).on_gpu(1).create()?;
    allocation.make_resident()?;
    let used = usage(pair.device(), 1)?;
    require!(used == SIZE, "{used} bytes are in the slave's memory");
    let map = allocation.map(Protection::WRITE)?;
    let at = map.gpu_va();
    pair.slave.commands.fill(at, SIZE, 0x0506_0708)?;
    pair.slave.run()?;
    for client in pair.both() {
        // Locked, it moves to where a CPU reaches it, and each GPU finds it there.
        let locked = allocation.lock_bytes()?;
        let mut bytes = [0; 4];
        locked.read(SIZE as usize - 4, &mut bytes)?;
        require!(bytes == [8, 7, 6, 5], "a CPU reads {bytes:?}");
        client.write(0, &[0; 8])?;
        client.commands.copy(at + SIZE - 8, client.va(0), 8)?;
        client.run()?;
        let word = client.word(0)?;
        require!(word == 0x0506_0708_0506_0708, "an engine reads {word:#x}");
    }
    allocation.evict()?;
    let [master, slave] = pair.both();
    for client in [slave, master] {
        client.commands.fill(at, 8, 1)?;
        client.expect_fault(FaultReason::WRITE_PAGE_FAULT, at)?;
    }
    Ok(())
}

pub(super) fn full(scene: &Scene) -> Result<(), Mismatch> {
    let mut pair = Pair::new(scene, EngineType::COPY)?;
    let kept = local(pair.device(), 0, SIZE)?;
    kept.make_resident()?;
    let own = kept.map(Protection::WRITE)?;
    pair.master.commands.fill(own.gpu_va(), SIZE, 7)?;
    pair.master.run()?;
    let size = pair.device().video_memory_info_on(1)?.size;
    let half = size / 2 / PAGE_SIZE * PAGE_SIZE + PAGE_SIZE;
    let supported = SegmentSet::PRIVATE | SegmentSet::SYSTEM;
    let mut halves = Vec::new();
    for number in 1..=2u32 {
        let builder = pair.device().allocation(half).segments(supported).on_gpu(1);
        let half = builder.preferred(SegmentSet::PRIVATE).create()?;
        half.make_resident()?;
        let map = half.map(Protection::WRITE)?;
        pair.slave.commands.fill(map.gpu_va(), PAGE_SIZE, number)?;
        pair.slave.run()?;
        halves.push(map);
    }
    let used = [usage(pair.device(), 0)?, usage(pair.device(), 1)?];
    require!(used == [SIZE, half], "{used:?} bytes are used, not one half of the slave's memory");
    for (number, map) in (1u64..).zip(&halves) {
        pair.slave.commands.copy(map.gpu_va() + PAGE_SIZE - 8, pair.slave.va(0), 8)?;
        pair.slave.run()?;
        let word = pair.slave.word(0)?;
        require!(word == number << 32 | number, "half {number} holds {word:#x}");
    }
    pair.master.commands.copy(own.gpu_va(), pair.master.va(0), 4)?;
    pair.master.run()?;
    require!(pair.master.read(0, 4)? == [7, 0, 0, 0], "the master's memory changed");
    Ok(())
}

pub(super) fn shared(scene: &Scene) -> Result<(), Mismatch> {
    let (mut one, mut two) =
        (Pair::new(scene, EngineType::COPY)?, Pair::new(scene, EngineType::COPY)?);
    let builder = one.device().allocation(SIZE).segments(SegmentSet::PRIVATE);
    let created = builder.on_gpu(1).shared().create()?;
    created.make_resident()?;
    let map = created.map(Protection::WRITE)?;
    one.slave.commands.fill(map.gpu_va(), SIZE, 0x0a0b_0c0d)?;
    one.slave.run()?;
    let opened = two.device().open_shared_allocation(created.share()?)?;
    opened.make_resident()?;
    let map = opened.map(Protection::empty())?;
    for client in two.both() {
        client.commands.copy(map.gpu_va() + SIZE - 8, client.va(0), 8)?;
        client.run()?;
        let word = client.word(0)?;
        require!(word == 0x0a0b_0c0d_0a0b_0c0d, "the other process reads {word:#x}");
    }
    Ok(())
}

pub(super) fn mirrored(scene: &Scene) -> Result<(), Mismatch> {
    let mut pair = Pair::new(scene, EngineType::COPY)?;
    let builder = || pair.device().allocation(SIZE).segments(SegmentSet::PRIVATE);
    let mirrored = builder().linked_mirrored().create()?;
    let refused = [
        builder().linked_mirrored().on_gpu(1).create(),
        builder().linked_mirrored().shared().create(),
        pair.device().allocation(SIZE).linked_mirrored().cpu_visible().create(),
    ];
    for refused in refused {
        match refused {
            Err(Error::Refused { status: Status::INVALID_PARAMETER, .. }) => {}
            other => return Err(Mismatch::Seen(format!("{:?}", other.map(drop)))),
        }
    }
    mirrored.make_resident()?;
    let used = [usage(pair.device(), 0)?, usage(pair.device(), 1)?];
    require!(used == [SIZE, SIZE], "{used:?} bytes are used");
    let map = mirrored.map(Protection::WRITE)?;
    let last = map.gpu_va() + SIZE - 8;
    let read = |client: &mut Client| -> Result<u64, Mismatch> {
        client.write(0, &[0xff; 8])?;
        client.commands.copy(last, client.va(0), 8)?;
        client.run()?;
        Ok(client.word(0)?)
    };
    for client in pair.both() {
        let word = read(client)?;
        require!(word == 0, "a copy begins with {word:#x}");
    }
    for (client, value) in pair.both().into_iter().zip([1, 2]) {
        client.commands.fill(map.gpu_va(), SIZE, value)?;
        client.run()?;
    }
    for round in 0..2 {
        for (client, value) in pair.both().into_iter().zip([0x1_0000_0001, 0x2_0000_0002]) {
            let word = read(client)?;
            require!(word == value, "a GPU reads {word:#x} instead of its own {value:#x}");
        }
        if round == 0 {
            mirrored.evict()?;
            // All of the local memory of the slave, so that what is evicted has to leave it.
            let all = pair.device().video_memory_info_on(1)?.size;
            let other = local(pair.device(), 1, all)?;
            other.make_resident()?;
            other.evict()?;
            mirrored.make_resident()?;
        }
    }
    Ok(())
}

pub(super) fn refused(scene: &Scene) -> Result<(), Mismatch> {
    let gpus = nodes(scene)?.iter().map(|node| node.gpu()).max().unwrap_or(0) + 1;
    let device = scene.adapter().open_process()?.create_device()?;
    for gpu in [gpus, 15] {
        match local(&device, gpu, SIZE) {
            Err(Error::Refused { status: Status::INVALID_PARAMETER, .. }) => {}
            other => {
                let other = other.map(drop);
                return Err(Mismatch::Seen(format!("an allocation on GPU {gpu}: {other:?}")));
            }
        }
        match device.video_memory_info_on(gpu) {
            Err(Error::Refused { status: Status::INVALID_PARAMETER, .. }) => {}
            other => return Err(Mismatch::Seen(format!("the memory of GPU {gpu}: {other:?}"))),
        }
    }
    Ok(())
}
