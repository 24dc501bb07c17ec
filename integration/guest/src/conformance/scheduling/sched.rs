// SPDX-License-Identifier: MIT OR Apache-2.0

//! `sched.*`: which context executes when several have work for one engine.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, MEMORY, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Context, UserModeQueue};
use bellhop_protocol::control::context::SetContextSchedulingPriority;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::status::Status;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("sched.turns", source::KMD_ENGINES, turns)
        .shows("a long command of one context does not hold up a short command of another"),
    Behaviour::new("sched.turns.kernel-mode", source::KMD_ENGINES, turns_kernel_mode)
        .shows("a long command does not hold up a short kernel-mode submission of another context"),
    Behaviour::new("sched.turns.context", source::KMD_ENGINES, turns_context)
        .shows("a context with many queues gets no more engine time than a context with one"),
    Behaviour::new("sched.priority", source::KMD_ENGINES, priority)
        .shows("a context with a higher priority gets most of its engine's time"),
    Behaviour::new("sched.priority.starvation", source::KMD_ENGINES, starvation)
        .shows("the lowest priority makes progress however much work the highest has"),
    Behaviour::new("sched.priority.range", source::PROTOCOL_REQUESTS, range)
        .shows("there are priorities from -7 to 7, and no others"),
];

/// A context that executes until a word of the bench's memory is not 0, and its queue.
struct Long<'b> {
    bench: &'b Bench,
    queue: UserModeQueue,
    value: u64,
    // The queue reads it until it is done.
    _commands: CommandBuffer,
}

impl<'b> Long<'b> {
    fn begin(bench: &'b Bench, context: &Context) -> Result<Self, Mismatch> {
        let mut queue = context.create_user_mode_queue(4096)?;
        let mut commands = CommandBuffer::new(&bench.device, 256)?;
        bench.write(0, &[0; 16])?;
        commands.write_data(bench.va(8), &[1; 8])?;
        commands.dispatch(Kernel::SPIN_UNTIL, bench.va(0), bench.va(16), 8, 1)?;
        let value = queue.submit(&mut commands)?;
        let long = Self { bench, queue, value, _commands: commands };
        let start = std::time::Instant::now();
        while bench.word(8)? == 0 {
            require!(start.elapsed() < TIMEOUT, "the long command never begins");
            std::thread::yield_now();
        }
        Ok(long)
    }

    /// Asserts that it still executes, and ends it.
    fn end(self) -> Result<(), Mismatch> {
        let reached = self.queue.progress_fence().current_value()?;
        require!(reached < self.value, "the long command ended");
        self.bench.write(0, &1u64.to_le_bytes())?;
        Ok(self.queue.progress_fence().poll(self.value, TIMEOUT)?)
    }
}

fn turns(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.nop()?;
    let other = bench.device.create_context(bench.context.node())?;
    let value = bench.queue.submit(&mut commands)?;
    bench.queue.progress_fence().poll(value, TIMEOUT)?;
    let mut short = other.create_user_mode_queue(4096)?;
    let long = Long::begin(&bench, &bench.context)?;
    // Few, so that the long command does not count as a hang before.
    for _ in 0..4 {
        let value = short.submit(&mut commands)?;
        short.progress_fence().poll(value, TIMEOUT)?;
    }
    long.end()
}

fn turns_kernel_mode(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let other = bench.device.create_context(bench.context.node())?;
    let mut short = other.create_kernel_mode_queue()?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.nop()?;
    let long = Long::begin(&bench, &bench.context)?;
    for _ in 0..3 {
        let value = short.submit(&mut commands)?;
        short.progress_fence().poll(value, TIMEOUT)?;
    }
    long.end()
}

/// The work of a context: these submissions for each of its queues.
struct Work {
    context: Context,
    queues: Vec<(UserModeQueue, Vec<CommandBuffer>)>,
}

impl Work {
    /// Long submissions for the queues of a new, suspended context. Each ends with what `last` appends,
    /// given the queue and the submission's number from 1.
    fn new(
        bench: &Bench,
        queues: usize,
        mut last: impl FnMut(&mut CommandBuffer, usize, u64) -> Result<(), Mismatch>,
    ) -> Result<Self, Mismatch> {
        let context = bench.device.create_context(bench.context.node())?;
        let mut work = Vec::new();
        for queue in 0..queues {
            let mut buffers = Vec::new();
            for number in 1..=SUBMISSIONS {
                let mut commands = CommandBuffer::new(&bench.device, 4096 - 64)?;
                for _ in 0..40 {
                    commands.fill(bench.va(4096), MEMORY - 4096, 7)?;
                }
                last(&mut commands, queue, number)?;
                buffers.push(commands);
            }
            work.push((context.create_user_mode_queue(4096)?, buffers));
        }
        context.suspend()?;
        Ok(Self { context, queues: work })
    }

    fn submit(&mut self) -> Result<(), Mismatch> {
        for (queue, buffers) in &mut self.queues {
            for commands in buffers {
                queue.submit(commands)?;
            }
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), Mismatch> {
        for (queue, _) in &self.queues {
            queue.progress_fence().poll(SUBMISSIONS, TIMEOUT)?;
        }
        Ok(())
    }
}

/// Submissions of a queue of [`Work`].
const SUBMISSIONS: u64 = 16;

/// Executes both at once; `first` always has work.
fn compete(first: &mut Work, second: &mut Work) -> Result<(), Mismatch> {
    first.submit()?;
    second.submit()?;
    first.context.resume()?;
    second.context.resume()?;
    first.finish()?;
    second.finish()
}

fn turns_context(scene: &Scene) -> Result<(), Mismatch> {
    const QUEUES: usize = 4;
    // Counts of the large context's finished submissions by queue, and the small context's copy of them at its
    // end.
    const DONE: usize = 8;
    const SEEN: usize = 128;
    let bench = scene.bench()?;
    bench.write(DONE, &[0; QUEUES * 8])?;
    let mut one = Work::new(&bench, 1, |commands, _, _| {
        commands.copy(bench.va(DONE as u64), bench.va(SEEN as u64), QUEUES as u64 * 8)?;
        Ok(())
    })?;
    let mut many = Work::new(&bench, QUEUES, |commands, queue, number| {
        commands.write_data(bench.va((DONE + queue * 8) as u64), &number.to_le_bytes())?;
        Ok(())
    })?;
    compete(&mut one, &mut many)?;
    let mut beside = 0;
    for queue in 0..QUEUES {
        beside += bench.word(SEEN + queue * 8)?;
    }
    require!(
        beside < 2 * SUBMISSIONS,
        "{beside} submissions of the many were done beside {SUBMISSIONS} of the one"
    );
    Ok(())
}

fn priority(scene: &Scene) -> Result<(), Mismatch> {
    // The lower context's own count of finished submissions, and the higher context's copy of it at its end.
    const DONE: usize = 8;
    const SEEN: usize = 16;
    let bench = scene.bench()?;
    let mut high = Work::new(&bench, 1, |commands, _, _| {
        commands.copy(bench.va(DONE as u64), bench.va(SEEN as u64), 8)?;
        Ok(())
    })?;
    let mut low = Work::new(&bench, 1, |commands, _, number| {
        commands.write_data(bench.va(DONE as u64), &number.to_le_bytes())?;
        Ok(())
    })?;
    high.context.set_scheduling_priority(7)?;
    low.context.set_scheduling_priority(-7)?;
    // The higher one starts first, so that the lower never runs alone before.
    compete(&mut high, &mut low)?;
    let beside = bench.word(SEEN)?;
    require!(
        beside < SUBMISSIONS / 2,
        "{beside} of {SUBMISSIONS} submissions of the lower were done by then"
    );
    Ok(())
}

fn starvation(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    bench.context.set_scheduling_priority(7)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.nop()?;
    let mut others = Vec::new();
    for priority in [-7, 0, 6] {
        let context = bench.device.create_context(bench.context.node())?;
        context.set_scheduling_priority(priority)?;
        others.push(context.create_user_mode_queue(4096)?);
    }
    let long = Long::begin(&bench, &bench.context)?;
    for queue in &mut others {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
    }
    long.end()
}

fn range(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    for priority in -7..=7 {
        bench.context.set_scheduling_priority(priority)?;
    }
    let process = raw::Process::begin(scene.transport())?;
    let stranger =
        SetContextSchedulingPriority { context: bench.context.handle(), priority: 0, reserved: 0 };
    process.expect_status(&stranger, Status::INVALID_HANDLE)?;
    for priority in [-8, 8, i32::MIN, i32::MAX] {
        match bench.context.set_scheduling_priority(priority) {
            Err(bellhop_guest_umd::Error::Refused {
                status: Status::INVALID_PARAMETER, ..
            }) => {}
            other => return Err(Mismatch::Seen(format!("{priority}: {other:?}"))),
        }
    }
    Ok(())
}
