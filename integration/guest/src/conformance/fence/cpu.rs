// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.*`: CPUs wait for native fences, and signal them.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error, Fence};
use bellhop_protocol::control::fence::{
    CancelWait, FenceValue, MAX_FENCE_LIST, SignalFences, WaitFlags, WaitForFences,
};
use bellhop_protocol::event::EventKind;
use bellhop_protocol::status::Status;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fence.wait.blocked", source::FENCE_SYNC, wait_blocked)
        .shows("an interrupt wakes a blocked waiter once the fence has its value"),
    Behaviour::new("fence.wait.reached", source::FENCE_SYNC, wait_reached)
        .shows("a wait for a value that the fence already has is satisfied at once"),
    Behaviour::new("fence.wait.timeout", source::FENCE_SYNC, wait_timeout)
        .shows("a wait ends when its time is over, and the waiter can wait again"),
    Behaviour::new("fence.wait.many", source::FENCE_SYNC, wait_many)
        .shows("many threads wait for different values of one fence, and each wakes"),
    Behaviour::new("fence.interrupt.conditional", source::FENCE_DESIGN, conditional)
        .shows("a signal interrupts only if a CPU waits for its value"),
    Behaviour::new("fence.wait.all", source::FENCE_EXISTING, wait_all)
        .shows("a wait for several fences ends once, with the last of them"),
    Behaviour::new("fence.wait.any", source::FENCE_EXISTING, wait_any)
        .shows("a wait for any of several fences ends with the first, and then monitors none"),
    Behaviour::new("fence.wait.thousands", source::FENCE_EXISTING, wait_thousands).shows(
        "thousands wait for one fence and for many, and one interrupt releases all that are \
         satisfied",
    ),
    Behaviour::new("fence.signal.cpu", source::FENCE_CPU_SIGNAL, signal_cpu).shows(
        "a CPU signals several fences at once, which releases waiters on CPUs and on the GPU",
    ),
    Behaviour::new("fence.signal.refused", source::FENCE_CPU_SIGNAL, signal_refused).shows(
        "a CPU cannot decrease a fence, cannot signal a progress fence, and signals all of a list \
         or none",
    ),
];

fn values(fences: &[(&Fence, u64)]) -> Vec<FenceValue> {
    let value = |&(fence, value): &(&Fence, u64)| FenceValue { fence: fence.handle(), value };
    fences.iter().map(value).collect()
}

/// Sends a request to wait, and returns its status.
fn ask(
    scene: &Scene,
    bench: &Bench,
    flags: WaitFlags,
    fences: &[(&Fence, u64)],
    cookie: u64,
) -> Result<Status, Mismatch> {
    let list = values(fences);
    let request = WaitForFences { cookie, flags: flags.bits(), count: list.len() as u32 };
    let process = bench.process.process();
    let ended = raw::status_with_list(scene.transport(), process, &request, list.as_bytes())?;
    Ok(ended.0)
}

/// Sends a request to signal, and returns its status and detail.
fn signal(
    scene: &Scene,
    bench: &Bench,
    fences: &[(&Fence, u64)],
) -> Result<(Status, u64), Mismatch> {
    let list = values(fences);
    let request = SignalFences { count: list.len() as u32, reserved: 0 };
    let process = bench.process.process();
    raw::status_with_list(scene.transport(), process, &request, list.as_bytes())
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
        let status = ask(scene, &bench, WaitFlags::empty(), &[(&fence, value)], 1)?;
        require!(status == Status::SUCCESS, "a wait for {value} at 5 ended with {status}");
    }
    let status = ask(scene, &bench, WaitFlags::empty(), &[(&fence, 6)], 1)?;
    require!(status == Status::PENDING, "a wait for 6 at 5 ended with {status}");
    let cancel = CancelWait { cookie: 1 };
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
    let interrupts = |bench: &Bench| bench.process.statistics().map(|s| s.interrupts);
    let before = interrupts(&bench)?;
    for value in 1..=10 {
        bench.commands.signal_fence(&fence, value)?.conditional_interrupt(&fence)?;
    }
    bench.run()?;
    let unwaited = interrupts(&bench)? - before;
    require!(unwaited == 0, "{unwaited} interrupts though no CPU waits");

    let status = ask(scene, &bench, WaitFlags::empty(), &[(&fence, 20)], 1)?;
    require!(status == Status::PENDING, "the wait ended with {status}");
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
    scene.show(format!(
        "interrupts for 10 signals with no waiter: {unwaited}, with one for the last: {raised}"
    ));
    Ok(())
}

/// Joins a thread that waits.
fn join(waiter: thread::ScopedJoinHandle<'_, Result<(), Error>>) -> Result<(), Mismatch> {
    match waiter.join() {
        Ok(ended) => Ok(ended?),
        Err(_) => Err(Mismatch::Seen("the waiter panicked".into())),
    }
}

fn wait_all(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let [one, two] = [bench.device.create_fence(0)?, bench.device.create_fence(7)?];
    for round in 1..=10 {
        let fences = [(&one, round), (&two, 7), (&two, 7 + round)];
        bench.commands.signal_fence(&one, round)?;
        thread::scope(|threads| {
            let device = &bench.device;
            let waiter =
                threads.spawn(move || device.wait_for_fences(&fences, WaitFlags::empty(), TIMEOUT));
            bench.queue.submit(&mut bench.commands)?;
            one.poll(round, TIMEOUT)?;
            require!(!waiter.is_finished(), "it ended with one of two fences");
            two.signal(7 + round)?;
            join(waiter)
        })?;
        bench.queue.progress_fence().wait(bench.queue.last_value(), TIMEOUT)?;
        bench.commands.reset();
    }
    let ended = bench.device.wait_for_fences(
        &[(&one, 10), (&two, 18)],
        WaitFlags::empty(),
        Duration::from_millis(20),
    );
    let timed_out = matches!(ended, Err(Error::Timeout { value: 18, current: 17 }));
    require!(timed_out, "a wait that nothing satisfies ended with {ended:?}");
    Ok(())
}

fn wait_any(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let [one, two] = [bench.device.create_fence(0)?, bench.device.create_fence(0)?];
    let interrupts = |bench: &Bench| bench.process.statistics().map(|s| s.interrupts);
    for round in 1..=10 {
        let fences = [(&one, u64::MAX), (&two, round)];
        thread::scope(|threads| {
            let device = &bench.device;
            let waiter = threads
                .spawn(move || device.wait_for_fences(&fences, WaitFlags::WAIT_ANY, TIMEOUT));
            bench.commands.signal_fence(&two, round)?;
            bench.queue.submit(&mut bench.commands)?;
            join(waiter)
        })?;
        bench.queue.progress_fence().poll(bench.queue.last_value(), TIMEOUT)?;
        bench.commands.reset();
    }
    let before = interrupts(&bench)?;
    bench.commands.signal_fence(&one, 5)?.signal_fence(&two, 50)?;
    bench.run()?;
    let raised = interrupts(&bench)? - before;
    require!(raised == 0, "{raised} interrupts though no CPU waits now");
    Ok(())
}

fn wait_thousands(scene: &Scene) -> Result<(), Mismatch> {
    const WAITS: u64 = 4_000;
    const FENCES: u64 = 40;
    let mut bench = scene.bench()?;
    let one = bench.device.create_fence(0)?;
    let many: Result<Vec<_>, _> = (0..FENCES).map(|_| bench.device.create_fence(0)).collect();
    let many = many?;
    for wait in 0..WAITS {
        let fence = many.get((wait % FENCES) as usize).unwrap_or(&one);
        // Half of them wait for value 1 of the one fence, and half for value 2.
        for (fence, value, cookie) in [(&one, 1 + wait % 2, wait), (fence, 1, WAITS + wait)] {
            let status = ask(scene, &bench, WaitFlags::empty(), &[(fence, value)], cookie)?;
            require!(status == Status::PENDING, "wait {cookie} ended with {status}");
        }
    }
    let interrupts = |bench: &Bench| bench.process.statistics().map(|s| s.interrupts);
    let before = interrupts(&bench)?;
    bench.commands.signal_fence(&one, 1)?;
    bench.run()?;
    let raised = interrupts(&bench)? - before;
    require!(raised == 1, "{raised} interrupts for a fence that {WAITS} wait for");
    for fence in &many {
        bench.commands.signal_fence(fence, 1)?;
    }
    bench.run()?;
    // Satisfied waits are reported, in any order.
    let process = bench.process.process();
    let mut told = BTreeSet::new();
    let deadline = Instant::now() + TIMEOUT;
    while told.len() as u64 != WAITS / 2 + WAITS {
        let left = deadline.saturating_duration_since(Instant::now());
        let event = scene.transport().next_event(Some(left));
        let event = event.map_err(|error| Mismatch::Seen(format!("no event: {error}")))?;
        // The device may notify without an event.
        require!(
            event.is_some() || !left.is_zero(),
            "{} waits were told of, and no more",
            told.len()
        );
        let Some(event) = event else { continue };
        if (event.kind, event.process) == (EventKind::FENCE_SIGNALED, process) {
            require!(told.insert(event.cookie), "wait {} was told of twice", event.cookie);
        }
    }
    // The remaining waits can be cancelled.
    let mut left = 0;
    for cookie in 0..2 * WAITS {
        let (status, _) = raw::status(scene.transport(), process, &CancelWait { cookie })?;
        let is_left = status == Status::SUCCESS;
        require!(is_left != told.contains(&cookie), "wait {cookie} was told of and taken back");
        left += u64::from(is_left);
    }
    require!(left == WAITS / 2, "{left} of {} still waited", 2 * WAITS);
    Ok(())
}

fn signal_cpu(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let [one, two, done] = [
        bench.device.create_fence(0)?,
        bench.device.create_fence(0)?,
        bench.device.create_fence(0)?,
    ];
    let mut other = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 256)?;
    for round in 1..=10 {
        bench.commands.reset();
        bench.commands.wait_fence(&one, round)?.wait_fence(&two, round)?;
        commands.reset();
        commands.wait_fence(&two, round)?.signal_fence(&done, round)?;
        let held = bench.queue.submit(&mut bench.commands)?;
        let also_held = other.submit(&mut commands)?;
        thread::scope(|threads| {
            let waiter = threads.spawn(|| two.wait(round, TIMEOUT));
            let current = bench.queue.progress_fence().current_value()?;
            require!(current < held, "a queue did not wait");
            bench.device.signal_fences(&[(&one, round), (&two, round)])?;
            join(waiter)
        })?;
        bench.queue.progress_fence().poll(held, TIMEOUT)?;
        other.progress_fence().poll(also_held, TIMEOUT)?;
        done.poll(round, TIMEOUT)?;
        let seen = (one.current_value()?, two.current_value()?);
        require!(seen == (round, round), "signaled {round}, they read {seen:?}");
    }
    Ok(())
}

fn signal_refused(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let [one, two] = [bench.device.create_fence(5)?, bench.device.create_fence(5)?];
    let ended = signal(scene, &bench, &[(&two, 6), (&one, 4)])?;
    require!(ended == (Status::INVALID_PARAMETER, 4), "going back ended with {ended:?}");
    let ended = signal(scene, &bench, &[(&two, 6), (bench.queue.progress_fence(), 9)])?;
    require!(ended.0 == Status::NOT_SUPPORTED, "a progress fence: {ended:?}");
    let many = vec![(&two, 9); MAX_FENCE_LIST as usize + 1];
    let ended = signal(scene, &bench, &many)?;
    require!(ended.0 == Status::INVALID_PARAMETER, "a list that is too long: {ended:?}");
    let seen = (one.current_value()?, two.current_value()?);
    require!(seen == (5, 5), "refused, they read {seen:?}");
    bench.commands.signal_fence(&two, 6)?;
    Ok(bench.run()?)
}
