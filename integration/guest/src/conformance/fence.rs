//! `fence.*`: native fences, waited for by CPU and by GPU.

use super::raw;
use super::scene::{Scene, TIMEOUT};
use super::{Behaviour, Mismatch, require, source};
use bellhop_guest_umd::{CommandBuffer, Error};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::fence::{CancelWait, DestroyNativeFence, WaitForFence};
use bellhop_protocol::status::Status;
use std::thread;
use std::time::Duration;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        id: "fence.initial-value",
        shows: "a fence begins at the value it is created with",
        section: source::FENCE_DESIGN,
        check: initial_value,
    },
    Behaviour {
        id: "fence.signal.poll",
        shows: "a value that the GPU signals is seen by polling",
        section: source::FENCE_DESIGN,
        check: signal_poll,
    },
    Behaviour {
        id: "fence.wait.blocked",
        shows: "a blocked waiter is woken by an interrupt once the value is reached",
        section: source::FENCE_SYNC,
        check: wait_blocked,
    },
    Behaviour {
        id: "fence.wait.reached",
        shows: "a wait for a value that is reached is satisfied at once",
        section: source::FENCE_SYNC,
        check: wait_reached,
    },
    Behaviour {
        id: "fence.wait.timeout",
        shows: "a wait ends with its time, and the waiter can wait again",
        section: source::FENCE_SYNC,
        check: wait_timeout,
    },
    Behaviour {
        id: "fence.wait.many",
        shows: "many threads wait for different values of one fence, and each is woken",
        section: source::FENCE_SYNC,
        check: wait_many,
    },
    Behaviour {
        id: "fence.interrupt.conditional",
        shows: "a signal interrupts only when the CPU waits for its value",
        section: source::FENCE_DESIGN,
        check: conditional,
    },
    Behaviour {
        id: "fence.gpu-wait.engine-to-engine",
        shows: "a queue waits for a fence that another engine signals, and is held until then",
        section: source::FENCE_NATIVE,
        check: engine_to_engine,
    },
    Behaviour {
        id: "fence.gpu-wait.yields",
        shows: "a queue that waits leaves its engine to others",
        section: source::FENCE_NATIVE,
        check: yields,
    },
    Behaviour {
        id: "fence.progress.destroy",
        shows: "a queue's progress fence cannot be destroyed by itself",
        section: source::UM_PROGRESS,
        check: progress_destroy,
    },
];

fn initial_value(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    for value in [0, 1, u64::MAX - 1, u64::MAX] {
        let current = bench.device.create_fence(value)?.current_value()?;
        require!(current == value, "created with {value}, it reads {current}");
    }
    Ok(())
}

fn signal_poll(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    for value in [1, 2, 2, 1000, u64::MAX] {
        bench.commands.signal_fence(&fence, value)?;
        bench.queue.submit(&mut bench.commands)?;
        fence.poll(value, TIMEOUT)?;
        bench.commands.reset();
        let current = fence.current_value()?;
        require!(current == value, "signaled {value}, it reads {current}");
        let last = bench.queue.last_value();
        bench.queue.progress_fence().poll(last, TIMEOUT)?;
    }
    Ok(())
}

fn wait_blocked(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let (gate, fence) = (bench.device.create_fence(0)?, bench.device.create_fence(0)?);
    let mut opener = bench.context.create_user_mode_queue(4096)?;
    let mut open = CommandBuffer::new(&bench.device, 64)?;
    for value in 1..=20 {
        bench.commands.reset();
        bench.commands.wait_fence(&gate, value)?.signal_fence(&fence, value)?;
        let submitted = bench.queue.submit(&mut bench.commands)?;
        let waited = thread::scope(|threads| {
            let waiter = threads.spawn(|| fence.wait(value, TIMEOUT));
            open.reset();
            open.signal_fence(&gate, value)?;
            opener.submit(&mut open)?;
            waiter
                .join()
                .map_err(|_| Mismatch::Seen("the waiter panicked".into()))?
                .map_err(Mismatch::from)
        });
        waited?;
        bench.queue.progress_fence().wait(submitted, TIMEOUT)?;
        opener.progress_fence().wait(opener.last_value(), TIMEOUT)?;
    }
    Ok(())
}

fn wait_reached(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let fence = bench.device.create_fence(5)?;
    for value in [0, 4, 5] {
        let request = WaitForFence { fence: fence.handle(), value, cookie: 1 };
        let (status, _) = raw::status(scene.transport(), bench.process.process(), &request)?;
        require!(status == Status::SUCCESS, "a wait for {value} at 5 ended with {status}");
    }
    let request = WaitForFence { fence: fence.handle(), value: 6, cookie: 1 };
    let (status, _) = raw::status(scene.transport(), bench.process.process(), &request)?;
    require!(status == Status::PENDING, "a wait for 6 at 5 ended with {status}");
    let cancel = CancelWait { fence: fence.handle(), cookie: 1 };
    raw::call(scene.transport(), bench.process.process(), &cancel)?;
    raw::expect_status(
        scene.transport(),
        bench.process.process(),
        &cancel,
        Status::INVALID_PARAMETER,
    )
}

fn wait_timeout(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let ended = fence.wait(1, Duration::from_millis(20));
    let timed_out = matches!(ended, Err(Error::Timeout { value: 1, current: 0 }));
    require!(timed_out, "a wait that nothing satisfies ended with {ended:?}");
    bench.commands.signal_fence(&fence, 1)?;
    bench.queue.submit(&mut bench.commands)?;
    Ok(fence.wait(1, TIMEOUT)?)
}

fn wait_many(scene: &Scene) -> Result<(), Mismatch> {
    const WAITERS: u64 = 32;
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let ended: Vec<_> = thread::scope(|threads| {
        let waiters: Vec<_> = (1..=WAITERS)
            .map(|value| {
                threads.spawn({
                    let fence = &fence;
                    move || fence.wait(value, TIMEOUT)
                })
            })
            .collect();
        for value in 1..=WAITERS {
            bench.commands.reset();
            bench.commands.signal_fence(&fence, value)?;
            let submitted = bench.queue.submit(&mut bench.commands)?;
            bench.queue.progress_fence().poll(submitted, TIMEOUT)?;
        }
        Ok::<_, Mismatch>(waiters.into_iter().map(|waiter| waiter.join()).collect())
    })?;
    for (value, ended) in (1..).zip(ended) {
        match ended {
            Ok(result) => result?,
            Err(_) => return Err(Mismatch::Seen(format!("the waiter for {value} panicked"))),
        }
    }
    Ok(())
}

fn conditional(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let interrupts = |bench: &super::scene::Bench| bench.process.statistics().map(|s| s.interrupts);
    let before = interrupts(&bench)?;
    for value in 1..=10 {
        bench.commands.signal_fence(&fence, value)?.conditional_interrupt(&fence)?;
    }
    bench.run()?;
    let raised = interrupts(&bench)? - before;
    require!(raised == 0, "{raised} interrupts though nobody waits");

    let process = bench.process.process();
    let wait = WaitForFence { fence: fence.handle(), value: 20, cookie: 1 };
    raw::call(scene.transport(), process, &wait)?;
    let before = interrupts(&bench)?;
    for value in 11..20 {
        bench.commands.signal_fence(&fence, value)?;
    }
    bench.run()?;
    let raised = interrupts(&bench)? - before;
    require!(raised == 0, "{raised} interrupts for values less than the one waited for");
    bench.commands.signal_fence(&fence, 20)?;
    bench.run()?;
    let raised = interrupts(&bench)? - before;
    require!(raised == 1, "{raised} interrupts for the value waited for");
    Ok(())
}

fn engine_to_engine(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let copy_node = scene.node(EngineType::COPY)?;
    let mut copies = bench.device.create_context(copy_node)?.create_user_mode_queue(4096)?;
    let mut copy = CommandBuffer::new(&bench.device, 256)?;
    let (there, back) = (bench.device.create_fence(0)?, bench.device.create_fence(0)?);
    // Each round the copy engine takes what the compute engine made, and the other way round.
    for round in 1..=50u64 {
        copy.reset();
        copy.wait_fence(&there, round)?
            .copy(bench.va(0), bench.va(8), 8)?
            .signal_fence(&back, round)?;
        let copied = copies.submit(&mut copy)?;
        let (made, taken, back_here) = (bench.va(0), bench.va(8), bench.va(16));
        bench.commands.reset();
        bench
            .commands
            .write_data(made, &u64::to_le_bytes(round))?
            .signal_fence(&there, round)?
            .wait_fence(&back, round)?
            .copy(taken, back_here, 8)?;
        let value = bench.queue.submit(&mut bench.commands)?;
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
        copies.progress_fence().poll(copied, TIMEOUT)?;
        let arrived = bench.word(16)?;
        require!(arrived == round, "round {round} ended with {arrived}");
    }
    Ok(())
}

fn yields(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let gate = bench.device.create_fence(0)?;
    bench.commands.wait_fence(&gate, 1)?;
    let held = bench.queue.submit(&mut bench.commands)?;
    let mut other = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.nop()?;
    for _ in 0..10 {
        let value = other.submit(&mut commands)?;
        other.progress_fence().poll(value, TIMEOUT)?;
    }
    let current = bench.queue.progress_fence().current_value()?;
    require!(current < held, "the queue did not wait");
    commands.reset();
    commands.signal_fence(&gate, 1)?;
    other.submit(&mut commands)?;
    Ok(bench.queue.progress_fence().poll(held, TIMEOUT)?)
}

fn progress_destroy(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.queue.progress_fence().handle();
    let request = DestroyNativeFence { fence };
    let (status, _) = raw::status(scene.transport(), bench.process.process(), &request)?;
    require!(!status.is_success(), "it was destroyed");
    bench.commands.nop()?;
    bench.run()
}
