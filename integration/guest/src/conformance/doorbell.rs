//! `doorbell.*`: the life of doorbells and what their status means.

use super::raw;
use super::scene::{Bench, Scene, TIMEOUT};
use super::{Behaviour, Mismatch, require, source};
use bellhop_guest_umd::CommandBuffer;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{AllocationKind, DestroyAllocation};
use bellhop_protocol::control::doorbell::{ConnectDoorbell, CreateDoorbell, DestroyDoorbell};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, HwQueueFlags};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;
use std::time::Instant;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        id: "doorbell.status.retry",
        shows: "a new doorbell reads DISCONNECTED_RETRY, and a ring then connects it",
        section: source::UM_PSEUDOCODE,
        check: status_retry,
    },
    Behaviour {
        id: "doorbell.status.connected-notify",
        shows: "a doorbell reads CONNECTED_NOTIFY while its engine sleeps, and a notify wakes it",
        section: source::UM_PSEUDOCODE,
        check: status_connected_notify,
    },
    Behaviour {
        id: "doorbell.status.abort",
        shows: "the doorbell of a lost queue reads DISCONNECTED_ABORT and cannot be connected",
        section: source::UM_PSEUDOCODE,
        check: status_abort,
    },
    Behaviour {
        id: "doorbell.connect.again",
        shows: "connecting a connected doorbell succeeds with CONNECTED or CONNECTED_NOTIFY",
        section: source::UM_PSEUDOCODE,
        check: connect_again,
    },
    Behaviour {
        id: "doorbell.connect.runs-the-ring",
        shows: "a connect executes what the ring holds, though nobody rang",
        section: source::UM_PSEUDOCODE,
        check: connect_runs_the_ring,
    },
    Behaviour {
        id: "doorbell.victim",
        shows: "with more queues than physical doorbells, one loses its and gets it back, and no ring is lost",
        section: source::UM_VICTIM,
        check: victim,
    },
    Behaviour {
        id: "doorbell.ring.not-valid",
        shows: "a ring or ring control of a wrong size is refused",
        section: source::UM_RESIDENCY,
        check: ring_not_valid,
    },
    Behaviour {
        id: "doorbell.ring.referenced",
        shows: "the ring's allocations cannot be destroyed while the doorbell lives, and can be after",
        section: source::UM_RESIDENCY,
        check: ring_referenced,
    },
    Behaviour {
        id: "doorbell.destroy",
        shows: "a queue can have another doorbell once its doorbell is destroyed",
        section: source::UM_APIS,
        check: destroy,
    },
];

fn status_retry(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let status = bench.queue.status()?;
    require!(status == ConnectionStatus::DISCONNECTED_RETRY, "a new doorbell reads {status}");
    bench.commands.nop()?;
    bench.run()?;
    let connects = bench.queue.counters().connects;
    require!(connects == 1, "{connects} connects");
    let status = bench.queue.status()?;
    let connected = [ConnectionStatus::CONNECTED, ConnectionStatus::CONNECTED_NOTIFY];
    require!(connected.contains(&status), "a connected doorbell reads {status}");
    Ok(())
}

/// Waits until the doorbell reads a status.
fn await_status(bench: &Bench, wanted: ConnectionStatus) -> Result<(), Mismatch> {
    let start = Instant::now();
    while bench.queue.status()? != wanted {
        let seen = bench.queue.status()?;
        require!(start.elapsed() < TIMEOUT, "the doorbell goes on to read {seen}, not {wanted}");
        std::thread::yield_now();
    }
    Ok(())
}

fn status_connected_notify(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    for round in 1..=20 {
        bench.commands.nop()?;
        bench.run()?;
        await_status(&bench, ConnectionStatus::CONNECTED_NOTIFY)?;
        let before = bench.queue.counters().notifies;
        bench.commands.nop()?;
        bench.run()?;
        let notifies = bench.queue.counters().notifies - before;
        require!(notifies == 1, "{notifies} notifies for a ring to a sleeper, round {round}");
    }
    Ok(())
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
    bench.run()
}

fn connect_runs_the_ring(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    let value = bench.queue.queue(&mut bench.commands)?;
    let request = ConnectDoorbell { hw_queue: bench.queue.handle() };
    raw::call(scene.transport(), bench.process.process(), &request)?;
    bench.queue.progress_fence().poll(value, TIMEOUT)?;
    let rings = bench.queue.counters().rings;
    require!(rings == 0, "{rings} rings");
    Ok(())
}

fn victim(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let physical = bench.process.user_mode_submission_caps()?.physical_doorbells as usize;
    let doorbells = scene.transport().config().doorbell_count as usize;
    require!(physical + 2 < doorbells, "{physical} physical doorbells are too many to run out of");
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

/// A HW queue without a doorbell, and two allocations for a ring.
struct Parts {
    process: u32,
    hw_queue: Handle,
}

impl Parts {
    fn new(scene: &Scene, bench: &Bench) -> Result<Self, Mismatch> {
        let process = bench.process.process();
        let flags = HwQueueFlags::USER_MODE_SUBMISSION.bits();
        let request = CreateHwQueue { context: bench.context.handle(), flags, reserved: 0 };
        let hw_queue = raw::call(scene.transport(), process, &request)?.hw_queue;
        Ok(Self { process, hw_queue })
    }

    fn doorbell(&self, ring_buffer: Handle, ring_control: Handle) -> CreateDoorbell {
        let hw_queue = self.hw_queue;
        CreateDoorbell {
            hw_queue,
            ring_buffer,
            ring_control,
            flags: 0,
            private_data: DoorbellPrivateData::default(),
        }
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
