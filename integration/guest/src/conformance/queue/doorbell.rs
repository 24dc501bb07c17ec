// SPDX-License-Identifier: MIT OR Apache-2.0

//! `doorbell.*`: how doorbells live, and what their status means.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scarce_doorbells::{is_global, too_few_doorbells};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{Allocation, CommandBuffer, Error, UserModeQueue};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, DestroyAllocation, Evict,
};
use bellhop_protocol::control::context::{CreateContext, DestroyContext};
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::doorbell::{ConnectDoorbell, CreateDoorbell, DestroyDoorbell};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, HwQueueFlags};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData, NOTIFY_EACH_SUBMISSION};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use zerocopy::IntoBytes;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("doorbell.status.retry", source::UM_PSEUDOCODE, status_retry)
        .shows("a new doorbell reads DISCONNECTED_RETRY, and a ring then connects it"),
    Behaviour::new(
        "doorbell.status.connected-notify",
        source::UM_PSEUDOCODE,
        status_connected_notify,
    )
    .shows(
        "a doorbell reads CONNECTED_NOTIFY while its engine sleeps, and a notify wakes the \
         engine",
    ),
    Behaviour::new("doorbell.status.abort", source::UM_PSEUDOCODE, status_abort)
        .shows("the doorbell of a lost queue reads DISCONNECTED_ABORT and cannot be connected"),
    Behaviour::new("doorbell.connect.again", source::UM_PSEUDOCODE, connect_again)
        .shows("connecting a connected doorbell succeeds with CONNECTED or CONNECTED_NOTIFY"),
    Behaviour::new("doorbell.connect.runs-the-ring", source::UM_PSEUDOCODE, connect_runs_the_ring)
        .shows("a connect executes what the ring holds, even if the doorbell was not rung"),
    Behaviour::new("doorbell.victim", source::UM_VICTIM, victim).shows(
        "with more queues than physical doorbells, queues lose their doorbells and get them back, \
         and no ring is lost",
    ),
    Behaviour::new(
        "doorbell.victim.least-recently-rung",
        source::UM_DOORBELLS,
        victim_least_recently_rung,
    )
    .shows("the victim is the guest's least recently rung doorbell, whichever was connected first"),
    Behaviour::new("doorbell.model.words", source::UM_DOORBELLS, model_words).shows(
        "each doorbell has a word of its own or, in the global model, all share one and have tags \
         of their own",
    ),
    Behaviour::new("doorbell.model.everybody-rings", source::UM_DOORBELLS, model_everybody_rings)
        .shows("queues that ring at the same time, through one word or several, lose no ring"),
    Behaviour::new("doorbell.rotation.dummy", source::UM_VICTIM, rotation_dummy).shows(
        "a ring of a disconnected doorbell, before or after it had a physical one, runs when the \
         doorbell is connected and not earlier",
    ),
    Behaviour::new(
        "doorbell.rotation.connect-at-once",
        source::UM_VICTIM,
        rotation_connect_at_once,
    )
    .shows(
        "several threads connect one doorbell, and several, at the same time, and each succeeds",
    ),
    Behaviour::new("doorbell.ring.not-valid", source::UM_RESIDENCY, ring_not_valid)
        .shows("a ring or ring control of a wrong size is refused"),
    Behaviour::new("doorbell.ring.referenced", source::UM_RESIDENCY, ring_referenced).shows(
        "the ring's allocations cannot be destroyed while the doorbell lives, and can be \
         afterwards",
    ),
    Behaviour::new("doorbell.ring.resident", source::UM_RESIDENCY, ring_resident).shows(
        "a ring must be resident when its doorbell is created, and cannot be evicted until the \
         doorbell is destroyed",
    ),
    Behaviour::new("doorbell.ring.lifetime", source::UM_RESIDENCY, ring_lifetime).shows(
        "the ring's allocations outlive doorbell, queue and context, and go with their device",
    ),
    Behaviour::new("doorbell.evicted-memory", source::UM_RESIDENCY, evicted_memory).shows(
        "the GPU faults on evicted memory, and reaches it as before when it is resident again",
    ),
    Behaviour::new("doorbell.notify-each", source::UM_APIS, notify_each).shows(
        "a doorbell can be connected as CONNECTED_NOTIFY for good, and each of its rings is \
         notified",
    ),
    Behaviour::new("doorbell.private-data.not-valid", source::UM_APIS, private_data_not_valid)
        .shows(
            "private data that the kernel-mode driver does not take is refused, and nothing is \
             created",
        ),
    Behaviour::new("doorbell.destroy", source::UM_APIS, destroy)
        .shows("a queue can have another doorbell once its doorbell is destroyed"),
];

fn status_retry(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let status = bench.queue.status();
    require!(status == ConnectionStatus::DISCONNECTED_RETRY, "a new doorbell reads {status}");
    bench.commands.nop()?;
    bench.run()?;
    let connects = bench.queue.counters().connects;
    require!(connects == 1, "{connects} connects");
    let status = bench.queue.status();
    let connected = [ConnectionStatus::CONNECTED, ConnectionStatus::CONNECTED_NOTIFY];
    require!(connected.contains(&status), "a connected doorbell reads {status}");
    Ok(())
}

/// Waits until the doorbell's engine sleeps. Returns whether the doorbell is still connected: an engine that
/// sleeps for long loses its power, and its doorbells are disconnected.
fn await_sleep(bench: &Bench) -> Result<bool, Mismatch> {
    let start = Instant::now();
    loop {
        let seen = bench.queue.status();
        match seen {
            ConnectionStatus::CONNECTED_NOTIFY => return Ok(true),
            ConnectionStatus::DISCONNECTED_RETRY => return Ok(false),
            _ => require!(start.elapsed() < TIMEOUT, "the doorbell still reads {seen}"),
        }
        std::thread::yield_now();
    }
}

fn status_connected_notify(scene: &Scene) -> Result<(), Mismatch> {
    const ENOUGH: u64 = 20;
    let mut bench = scene.bench()?;
    let mut notified = 0;
    // The host handles a notification later, and then has the engine look once more. That look may wake the
    // engine between the load of the status and the ring.
    for round in 1..=10 * ENOUGH {
        bench.commands.nop()?;
        bench.run()?;
        if !await_sleep(&bench)? {
            continue;
        }
        let before = bench.queue.counters().notifies;
        bench.commands.nop()?;
        bench.run()?;
        let notifies = bench.queue.counters().notifies - before;
        require!(notifies <= 1, "{notifies} notifies for a ring to a sleeper, round {round}");
        notified += notifies;
        if notified == ENOUGH {
            return Ok(());
        }
    }
    Err(Mismatch::Seen(format!("{notified} rings to a sleeper were notified")))
}

fn status_abort(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.raw(&[0xFF; 8])?;
    bench.expect_fault(FaultReason::UNKNOWN_PACKET, 0xFFFF)?;
    let request = ConnectDoorbell { hw_queue: bench.queue.handle() };
    let process = bench.process.process();
    raw::expect_status(scene.transport(), process, &request, Status::DEVICE_REMOVED)
}

fn connect_again(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    bench.run()?;
    for _ in 0..3 {
        let request = ConnectDoorbell { hw_queue: bench.queue.handle() };
        let reply = raw::call(scene.transport(), bench.process.process(), &request)?;
        let connected = [ConnectionStatus::CONNECTED, ConnectionStatus::CONNECTED_NOTIFY];
        require!(connected.contains(&reply.status), "the reply says {}", reply.status);
    }
    bench.commands.nop()?;
    Ok(bench.run()?)
}

fn connect_runs_the_ring(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    let value = bench.queue.queue(&mut bench.commands)?;
    bench.queue.publish_unrung();
    let request = ConnectDoorbell { hw_queue: bench.queue.handle() };
    raw::call(scene.transport(), bench.process.process(), &request)?;
    bench.queue.progress_fence().poll(value, TIMEOUT)?;
    let rings = bench.queue.counters().rings;
    require!(rings == 0, "{rings} rings");
    Ok(())
}

fn victim(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let physical = too_few_doorbells(scene, &bench)?;
    let before = bench.process.statistics()?.victims;
    let mut queues = Vec::new();
    for _ in 0..physical + 2 {
        let mut commands = CommandBuffer::new(&bench.device, 64)?;
        commands.nop()?;
        queues.push((bench.context.create_user_mode_queue(4096)?, commands));
    }
    for _ in 0..3 {
        for (queue, commands) in &mut queues {
            let value = queue.submit(commands)?;
            queue.progress_fence().poll(value, TIMEOUT)?;
        }
    }
    let victims = bench.process.statistics()?.victims - before;
    require!(victims > 0, "no doorbell was victimised");
    let reconnected = queues.iter().any(|(queue, _)| queue.counters().connects > 1);
    require!(reconnected, "no victim was connected again");
    Ok(())
}

/// The test tries again if the engine slept for long, because all doorbells are then disconnected.
fn victim_least_recently_rung(scene: &Scene) -> Result<(), Mismatch> {
    const TRIES: usize = 20;
    let bench = scene.bench()?;
    let physical = too_few_doorbells(scene, &bench)?;
    let mut queues = Vec::new();
    for _ in 0..=physical {
        let commands = CommandBuffer::new(&bench.device, 64)?;
        queues.push((bench.context.create_user_mode_queue(4096)?, commands));
    }
    let run = |queues: &mut [(UserModeQueue, CommandBuffer)], which: &[usize]| {
        for which in which {
            let (queue, commands) = &mut queues[*which];
            let value = queue.submit(commands)?;
            queue.progress_fence().poll(value, TIMEOUT)?;
        }
        Ok::<_, Mismatch>(())
    };
    for _ in 0..TRIES {
        run(&mut queues, &(0..physical).collect::<Vec<_>>())?;
        // Other guests may have taken some of them.
        let connected = still_connected(&queues[..physical])?;
        let Some((idle, others)) = connected.split_last() else { continue };
        run(&mut queues, others)?;
        run(&mut queues, &[physical])?;
        let left = still_connected(&queues[..physical])?;
        if left == others {
            return Ok(());
        }
        let is_one_less = left.len() + 1 == connected.len();
        require!(
            !is_one_less,
            "queue {idle} rang least recently, and of {connected:?} {left:?} are left"
        );
    }
    Err(Mismatch::Seen("the doorbells were disconnected again and again".into()))
}

/// Which of the queues' doorbells are connected.
fn still_connected(queues: &[(UserModeQueue, CommandBuffer)]) -> Result<Vec<usize>, Mismatch> {
    let mut connected = Vec::new();
    for (number, (queue, _)) in queues.iter().enumerate() {
        if queue.status() != ConnectionStatus::DISCONNECTED_RETRY {
            connected.push(number);
        }
    }
    Ok(connected)
}

fn ring_resident(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let parts = Parts::new(scene, &bench)?;
    let ring = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
    let control = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
    let request = parts.doorbell(ring.handle(), control.handle());
    for allocation in [&ring, &control] {
        allocation.evict()?;
        let expected = Status::GRAPHICS_ALLOCATION_INVALID;
        raw::expect_status(scene.transport(), parts.process, &request, expected)?;
        allocation.make_resident()?;
    }
    let doorbell = raw::call(scene.transport(), parts.process, &request)?.doorbell;
    for allocation in [&ring, &control] {
        let request = Evict { device: bench.device.handle(), count: 1, reserved: 0 };
        let list = [allocation.handle()];
        let (status, _) =
            raw::status_with_list(scene.transport(), parts.process, &request, list.as_bytes())?;
        require!(status == Status::GRAPHICS_ALLOCATION_BUSY, "EVICT ended with {status}");
    }
    raw::call(scene.transport(), parts.process, &DestroyDoorbell { doorbell })?;
    ring.evict()?;
    Ok(control.evict()?)
}

fn ring_lifetime(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("local memory that CPUs access")?;
    scene.needs(Features::USER_MODE_SUBMISSION)?;
    let process = raw::Process::begin(scene.transport())?;
    let device = process.device()?;
    let allocate = || {
        let (size, kind) = (4096, AllocationKind::LOCAL);
        let request = CreateAllocation::fixed(device, kind, size, 0);
        Ok::<_, Mismatch>(process.call(&request)?.allocation)
    };
    let create = |ring_buffer, ring_control| {
        let context = process.call(&CreateContext { device, node: 0, engine_affinity: 0 })?;
        let flags = HwQueueFlags::USER_MODE_SUBMISSION | HwQueueFlags::NATIVE_PROGRESS_FENCE;
        let flags = flags.bits();
        let hw_queue = process.call(&CreateHwQueue { context, flags, reserved: 0 })?.hw_queue;
        let private_data = DoorbellPrivateData::default();
        let flags = 0;
        process.call(&CreateDoorbell {
            flags,
            private_data,
            ..CreateDoorbell::new(hw_queue, ring_buffer, ring_control)
        })?;
        Ok::<_, Mismatch>((context, hw_queue))
    };
    let (ring, control) = (allocate()?, allocate()?);
    // Without the ring of the one before, the second and third would be refused.
    let (_, hw_queue) = create(ring, control)?;
    process.call(&DestroyHwQueue { hw_queue })?;
    let (context, _) = create(ring, control)?;
    process.call(&DestroyContext { context })?;
    create(ring, control)?;
    process
        .expect_status(&DestroyAllocation { allocation: ring }, Status::GRAPHICS_ALLOCATION_BUSY)?;
    process.call(&DestroyDevice { device })?;
    for allocation in [ring, control] {
        process.expect_status(&DestroyAllocation { allocation }, Status::INVALID_HANDLE)?;
    }
    Ok(())
}

fn evicted_memory(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.write(0, &[7; 64])?;
    bench.memory.allocation().evict()?;
    require!(bench.read(0, 64)? == [7; 64], "the CPU does not reach it");
    bench.memory.allocation().make_resident()?;
    bench.commands.copy(bench.va(0), bench.va(64), 64)?;
    bench.run()?;
    require!(bench.read(64, 64)? == [7; 64], "the GPU does not reach it again");
    bench.memory.allocation().evict()?;
    bench.commands.copy(bench.va(0), bench.va(128), 64)?;
    bench.expect_fault(FaultReason::READ_PAGE_FAULT, bench.va(0)).map(|_| ())
}

fn notify_each(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let data = DoorbellPrivateData { flags: NOTIFY_EACH_SUBMISSION, reserved: [0; 3] };
    let mut queue = bench.context.user_mode_queue(4096).private_data(data).create()?;
    bench.commands.nop()?;
    const SUBMISSIONS: u64 = 50;
    for _ in 0..SUBMISSIONS {
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
    }
    let notifies = queue.counters().notifies;
    require!(notifies == SUBMISSIONS, "{notifies} notifies for {SUBMISSIONS} submissions");
    Ok(())
}

fn private_data_not_valid(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let parts = Parts::new(scene, &bench)?;
    let ring = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
    let control = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
    let good = parts.doorbell(ring.handle(), control.handle());
    for private_data in [
        DoorbellPrivateData { flags: 2, ..DoorbellPrivateData::default() },
        DoorbellPrivateData { flags: 0, reserved: [0, 0, 1] },
    ] {
        let request = CreateDoorbell { private_data, ..good };
        raw::expect_status(scene.transport(), parts.process, &request, Status::INVALID_PARAMETER)?;
    }
    raw::call(scene.transport(), parts.process, &good).map(|_| ())
}

fn model_words(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let global = is_global(&bench)?;
    let allocate = || bench.device.create_allocation(AllocationKind::LOCAL, 4096);
    let parts = [Parts::new(scene, &bench)?, Parts::new(scene, &bench)?];
    let rings = [[allocate()?, allocate()?], [allocate()?, allocate()?]];
    let create = |parts: &Parts, [ring, control]: &[Arc<Allocation>; 2]| {
        let request = parts.doorbell(ring.handle(), control.handle());
        raw::call(scene.transport(), parts.process, &request)
    };
    let first = create(&parts[0], &rings[0])?;
    let second = create(&parts[1], &rings[1])?;
    for Parts { process, hw_queue } in parts {
        raw::call(scene.transport(), process, &DestroyHwQueue { hw_queue })?;
    }
    let one_word = first.doorbell_offset == second.doorbell_offset;
    require!(one_word == global, "words at {:#x}", first.doorbell_offset);
    let tags = [first.ring_tag.0, second.ring_tag.0];
    require!(global || tags == [0; 2], "tags {tags:x?} for words that are not shared");
    require!(!global || tags[0] != tags[1], "both have tag {:#x}", tags[0]);
    require!(first.status_offset != second.status_offset, "they share a status");
    Ok(())
}

fn model_everybody_rings(scene: &Scene) -> Result<(), Mismatch> {
    const ROUNDS: u64 = 500;
    let bench = scene.bench()?;
    let queues: Vec<_> = (0..3)
        .map(|_| {
            let commands = CommandBuffer::new(&bench.device, 64)?;
            Ok((bench.context.create_user_mode_queue(4096)?, commands))
        })
        .collect::<Result<_, Error>>()?;
    let ring = |(mut queue, mut commands): (UserModeQueue, CommandBuffer)| {
        for _ in 0..ROUNDS {
            commands.nop()?;
            let value = queue.submit(&mut commands)?;
            queue.progress_fence().poll(value, TIMEOUT)?;
            commands.reset();
        }
        queue.progress_fence().current_value()
    };
    let ended: Vec<_> = thread::scope(|threads| {
        let ringing: Vec<_> =
            queues.into_iter().map(|parts| threads.spawn(move || ring(parts))).collect();
        ringing.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for result in ended {
        let value = result.map_err(|_| Mismatch::Seen("a thread panicked".into()))??;
        require!(value == ROUNDS, "{value} of {ROUNDS} submissions ended");
    }
    Ok(())
}

fn rotation_dummy(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let caps = bench.process.user_mode_submission_caps()?;
    let doorbells = scene.transport().config().doorbell_count;
    let mut disconnected = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    // As many other queues as there are physical doorbells take this queue's, where queues can outnumber doorbells.
    let can_be_a_victim = !is_global(&bench)? && caps.physical_doorbells + 2 < doorbells;
    let others = if can_be_a_victim { caps.physical_doorbells } else { 1 };
    let mut others: Vec<_> = (0..others)
        .map(|_| {
            let commands = CommandBuffer::new(&bench.device, 64)?;
            Ok((bench.context.create_user_mode_queue(4096)?, commands))
        })
        .collect::<Result<_, Error>>()?;
    for round in 1..=3 {
        if disconnected.status() == ConnectionStatus::DISCONNECTED_RETRY {
            await_last_look(&bench, &mut others[0])?;
            commands.reset();
            let value = disconnected.queue(commands.nop()?)?;
            let status = disconnected.ring_once();
            let expected = ConnectionStatus::DISCONNECTED_RETRY;
            require!(status == expected, "a ring of a disconnected doorbell reads {status}");
            for _ in 0..20 {
                work(&mut others[0])?;
            }
            let run = disconnected.progress_fence().current_value()?;
            require!(run < value, "it ran before it was connected, in round {round}");
            disconnected.ring()?;
            disconnected.progress_fence().poll(value, TIMEOUT)?;
        }
        others.iter_mut().try_for_each(work)?;
    }
    Ok(())
}

/// Submits and waits until that is done.
fn work((queue, commands): &mut (UserModeQueue, CommandBuffer)) -> Result<(), Error> {
    commands.reset();
    let value = queue.submit(commands.nop()?)?;
    queue.progress_fence().poll(value, TIMEOUT)
}

/// Waits until the engine has looked for the last time at the ring of a doorbell that reads disconnected: work
/// that is queued earlier may still run. The kernel asks for that look before it answers a request. The engine
/// has looked once the second of two submissions that it first saw after the answer ends.
fn await_last_look(
    bench: &Bench,
    other: &mut (UserModeQueue, CommandBuffer),
) -> Result<(), Mismatch> {
    bench.process.user_mode_submission_caps()?;
    (0..2).try_for_each(|_| work(other))?;
    Ok(())
}

fn rotation_connect_at_once(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let (mut queues, mut buffers, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut queue = bench.context.create_user_mode_queue(4096)?;
        let mut commands = CommandBuffer::new(&bench.device, 64)?;
        values.push(queue.queue(commands.nop()?)?);
        queue.publish_unrung();
        queues.push(queue);
        // The engine reads it once it is connected.
        buffers.push(commands);
    }
    let process = bench.process.process();
    let transport = scene.transport();
    let connect = |hw_queue| raw::call(transport, process, &ConnectDoorbell { hw_queue });
    let replies: Vec<_> = thread::scope(|threads| {
        let handles = queues.iter().map(UserModeQueue::handle);
        let connecting: Vec<_> = handles
            .flat_map(|handle| [handle; 3])
            .map(|handle| threads.spawn(move || connect(handle)))
            .collect();
        connecting.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for reply in replies {
        let reply = reply.map_err(|_| Mismatch::Seen("a thread panicked".into()))??;
        let connected = [ConnectionStatus::CONNECTED, ConnectionStatus::CONNECTED_NOTIFY];
        require!(connected.contains(&reply.status), "the reply says {}", reply.status);
    }
    for (queue, value) in queues.iter().zip(values) {
        queue.progress_fence().poll(value, TIMEOUT)?;
    }
    Ok(())
}

/// A HW queue without a doorbell, and two allocations for a ring.
struct Parts {
    process: u32,
    hw_queue: Handle,
}

impl Parts {
    fn new(scene: &Scene, bench: &Bench) -> Result<Self, Mismatch> {
        let process = bench.process.process();
        let flags = HwQueueFlags::USER_MODE_SUBMISSION | HwQueueFlags::NATIVE_PROGRESS_FENCE;
        let flags = flags.bits();
        let request = CreateHwQueue { context: bench.context.handle(), flags, reserved: 0 };
        let hw_queue = raw::call(scene.transport(), process, &request)?.hw_queue;
        Ok(Self { process, hw_queue })
    }

    fn doorbell(&self, ring_buffer: Handle, ring_control: Handle) -> CreateDoorbell {
        let hw_queue = self.hw_queue;
        CreateDoorbell::new(hw_queue, ring_buffer, ring_control)
    }
}

fn ring_not_valid(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let parts = Parts::new(scene, &bench)?;
    let allocate = |size| bench.device.create_allocation(AllocationKind::LOCAL, size);
    let (good, odd) = (allocate(4096)?, allocate(3 * 4096)?);
    let request = parts.doorbell(odd.handle(), good.handle());
    raw::expect_status(scene.transport(), parts.process, &request, Status::INVALID_PARAMETER)?;
    let request = parts.doorbell(good.handle(), Handle(77));
    raw::expect_status(scene.transport(), parts.process, &request, Status::INVALID_HANDLE)
}

fn ring_referenced(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let parts = Parts::new(scene, &bench)?;
    let ring = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
    let control = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
    let request = parts.doorbell(ring.handle(), control.handle());
    let doorbell = raw::call(scene.transport(), parts.process, &request)?.doorbell;
    for allocation in [ring.handle(), control.handle()] {
        let request = DestroyAllocation { allocation };
        let expected = Status::GRAPHICS_ALLOCATION_BUSY;
        raw::expect_status(scene.transport(), parts.process, &request, expected)?;
    }
    raw::call(scene.transport(), parts.process, &DestroyDoorbell { doorbell })?;
    for allocation in [ring.handle(), control.handle()] {
        raw::call(scene.transport(), parts.process, &DestroyAllocation { allocation })?;
    }
    Ok(())
}

fn destroy(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let parts = Parts::new(scene, &bench)?;
    for _ in 0..3 {
        let ring = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
        let control = bench.device.create_allocation(AllocationKind::LOCAL, 4096)?;
        let request = parts.doorbell(ring.handle(), control.handle());
        let doorbell = raw::call(scene.transport(), parts.process, &request)?.doorbell;
        let request = DestroyDoorbell { doorbell };
        raw::call(scene.transport(), parts.process, &request)?;
        raw::expect_status(scene.transport(), parts.process, &request, Status::INVALID_HANDLE)?;
    }
    Ok(())
}
