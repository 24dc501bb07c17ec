// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.*`: where the values of native fences are, and which process reaches them.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error, Fence};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::fence::{NtHandle, OpenNativeFence, ShareNativeFence};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;
use std::thread;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fence.access.gpu-reads", source::FENCE_TYPES, gpu_reads)
        .shows("packets read CurrentValue and MonitoredValue where they are mapped"),
    Behaviour::new("fence.access.gpu-writes", source::FENCE_TYPES, gpu_writes).shows(
        "a CurrentValue that a packet writes is visible and satisfies waits once it is evaluated",
    ),
    Behaviour::new("fence.access.monitored-read-only", source::FENCE_TYPES, monitored_read_only)
        .shows("no packet can write MonitoredValue"),
    Behaviour::new("fence.access.intra-gpu", source::FENCE_TYPES, intra_gpu).shows(
        "engines signal an intra-GPU fence and wait for it; no CPU can read, wait for or signal \
         it",
    ),
    Behaviour::new("fence.storage.packed", source::FENCE_STORAGE, packed).shows(
        "fences of one process share a page, fences of two processes do not, and a shared fence \
         has its own",
    ),
    Behaviour::new("fence.share.processes", source::FENCE_HANDLES, share_processes)
        .shows("CPUs and queues of two processes signal a shared fence and wait for it"),
    Behaviour::new("fence.share.same-process", source::FENCE_OPEN, share_same_process)
        .shows("a fence that another device of its process opens has the mapping of the first"),
    Behaviour::new("fence.share.lifetime", source::FENCE_HANDLES, share_lifetime).shows(
        "a shared fence outlives the process that created it, as long as another has it open",
    ),
    Behaviour::new("fence.share.refused", source::FENCE_OPEN, share_refused).shows(
        "a fence that was not created to be shared is not shared, and an unknown name opens \
         nothing",
    ),
];

fn gpu_reads(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(7)?;
    let mapping = fence.mapping();
    bench.commands.copy(mapping.current_value_gpu_va, bench.va(0), 8)?;
    bench.commands.copy(mapping.monitored_value_gpu_va, bench.va(8), 8)?;
    bench.run()?;
    let seen = (bench.word(0)?, bench.word(8)?);
    require!(seen == (7, u64::MAX), "the values read {seen:?}");
    thread::scope(|threads| {
        let waiter = threads.spawn(|| fence.wait(40, TIMEOUT));
        // The wait has begun once MonitoredValue has its value.
        loop {
            bench.commands.copy(mapping.monitored_value_gpu_va, bench.va(8), 8)?;
            bench.run()?;
            match bench.word(8)? {
                39 => break,
                u64::MAX => {}
                other => return Err(Mismatch::Seen(format!("MonitoredValue reads {other}"))),
            }
        }
        fence.signal(40)?;
        waiter.join().map_err(|_| Mismatch::Seen("the waiter panicked".into()))??;
        Ok(())
    })
}

fn gpu_writes(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let mapping = fence.mapping();
    let mut waiting = bench.context.create_user_mode_queue(4096)?;
    let mut wait = CommandBuffer::new(&bench.device, 64)?;
    wait.wait_fence(&fence, 3)?;
    let held = waiting.submit(&mut wait)?;
    bench.commands.write_data(mapping.current_value_gpu_va, &3u64.to_le_bytes())?;
    bench.run()?;
    let seen = fence.current_value()?;
    require!(seen == 0, "it reads {seen} before it is evaluated");
    bench.commands.conditional_interrupt(&fence)?;
    bench.run()?;
    fence.poll(3, TIMEOUT)?;
    Ok(waiting.progress_fence().poll(held, TIMEOUT)?)
}

fn monitored_read_only(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let monitored = fence.mapping().monitored_value_gpu_va;
    bench.commands.write_data(monitored, &0u64.to_le_bytes())?;
    bench.expect_fault(FaultReason::WRITE_PROTECTION_FAULT, monitored)?;
    Ok(())
}

fn intra_gpu(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.fence(2).intra_gpu().create()?;
    let copy_node = scene.node(EngineType::COPY)?;
    let mut other = bench.device.create_context(copy_node)?.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 128)?;
    let mapping = fence.mapping();
    commands.wait_fence(&fence, 3)?.copy(mapping.current_value_gpu_va, bench.va(0), 8)?;
    let held = other.submit(&mut commands)?;
    bench.commands.copy(mapping.current_value_gpu_va, bench.va(8), 8)?;
    bench.commands.signal_fence(&fence, 3)?;
    bench.run()?;
    other.progress_fence().poll(held, TIMEOUT)?;
    let seen = (bench.word(8)?, bench.word(0)?);
    require!(seen == (2, 3), "the engines read {seen:?}");
    require!(fence.current_value().is_err(), "a CPU sees its value");
    let refused =
        |ended| matches!(ended, Err(Error::Refused { status: Status::NOT_SUPPORTED, .. }));
    let (waited, signaled) = (fence.wait(3, TIMEOUT), fence.signal(4));
    require!(refused(waited), "a CPU waits for it");
    require!(refused(signaled), "a CPU signals it");
    Ok(())
}

fn packed(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("page of published fences for each process of a program")?;
    let (one, two) = (scene.bench()?, scene.bench()?);
    let page = |fence: &Fence| {
        let mapping = fence.mapping();
        [mapping.current_value_offset, mapping.current_value_gpu_va, mapping.monitored_value_gpu_va]
            .map(|at| at / 4096)
    };
    let [first, second] = [one.device.create_fence(0)?, one.device.create_fence(0)?];
    let other = two.device.create_fence(0)?;
    let [alone, also_alone] =
        [one.device.fence(0).shared().create()?, one.device.fence(0).shared().create()?];
    require!(page(&first) == page(&second), "two fences of a process are in two pages");
    for (a, b) in [(&first, &other), (&first, &alone), (&alone, &also_alone)] {
        require!(page(a).iter().zip(page(b)).all(|(a, b)| *a != b), "a page is of two");
    }
    let [current, monitored] =
        [first.mapping().current_value_gpu_va, first.mapping().monitored_value_gpu_va];
    require!(current / 4096 != monitored / 4096, "both values are in one page");
    Ok(())
}

fn share_processes(scene: &Scene) -> Result<(), Mismatch> {
    let (mut a, mut b) = (scene.bench()?, scene.bench()?);
    let created = a.device.fence(0).shared().create()?;
    let opened = b.device.open_fence(created.share()?)?;
    for round in 1..=10u64 {
        let (even, odd) = (2 * round, 2 * round - 1);
        // B's engine waits for A's signal, and A's for B's.
        b.commands.wait_fence(&opened, odd)?.signal_fence(&opened, even)?;
        let held = b.queue.submit(&mut b.commands)?;
        thread::scope(|threads| {
            let waiters =
                [&created, &opened].map(|fence| threads.spawn(move || fence.wait(even, TIMEOUT)));
            a.commands.signal_fence(&created, odd)?.wait_fence(&created, even)?;
            a.run()?;
            for waiter in waiters {
                waiter.join().map_err(|_| Mismatch::Seen("a waiter panicked".into()))??;
            }
            Ok::<_, Mismatch>(())
        })?;
        b.queue.progress_fence().poll(held, TIMEOUT)?;
        b.commands.reset();
        let seen = (created.current_value()?, opened.current_value()?);
        require!(seen == (even, even), "signaled {even}, it reads {seen:?}");
    }
    Ok(())
}

fn share_same_process(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let created = bench.device.fence(3).shared().create()?;
    let other = bench.process.create_device()?;
    let opened = other.open_fence(created.share()?)?;
    require!(created.handle() != opened.handle(), "there is one handle");
    let same = (created.mapping(), created.slot()) == (opened.mapping(), opened.slot());
    require!(same, "{:?} is not {:?}", created.mapping(), opened.mapping());
    drop(created);
    opened.signal(4)?;
    let seen = opened.current_value()?;
    require!(seen == 4, "signaled 4, it reads {seen}");
    Ok(())
}

fn share_lifetime(scene: &Scene) -> Result<(), Mismatch> {
    let mut b = scene.bench()?;
    let a = scene.bench()?;
    let created = a.device.fence(1).shared().create()?;
    let name = created.share()?;
    let opened = b.device.open_fence(name)?;
    drop(created);
    drop(a);
    b.commands.signal_fence(&opened, 2)?;
    b.run()?;
    opened.wait(2, TIMEOUT)?;
    let again = b.device.open_fence(name)?;
    let seen = again.current_value()?;
    require!(seen == 2, "opened again it reads {seen}");
    drop((opened, again));
    let request = OpenNativeFence { device: b.device.handle(), nt_handle: name };
    raw::expect_status(scene.transport(), b.process.process(), &request, Status::INVALID_PARAMETER)
}

fn share_refused(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let process = bench.process.process();
    let fence = bench.device.create_fence(0)?;
    for fence in [fence.handle(), bench.queue.progress_fence().handle()] {
        let request = ShareNativeFence { fence };
        raw::expect_status(scene.transport(), process, &request, Status::NOT_SUPPORTED)?;
    }
    let shared = bench.device.fence(0).shared().create()?;
    let NtHandle(name) = shared.share()?;
    require!(shared.share()? == NtHandle(name), "it has two names");
    for wrong in [0, 1, name ^ 1, shared.handle().0, u64::MAX] {
        let request = OpenNativeFence { device: bench.device.handle(), nt_handle: NtHandle(wrong) };
        raw::expect_status(scene.transport(), process, &request, Status::INVALID_PARAMETER)?;
    }
    Ok(())
}
