//! `sched.*`: who executes when several contexts have work for one engine.

use super::raw;
use super::scene::{Bench, MEMORY, Scene, TIMEOUT};
use super::{Behaviour, Mismatch, require, source};
use bellhop_guest_umd::{CommandBuffer, Context, UserModeQueue};
use bellhop_protocol::control::context::SetContextSchedulingPriority;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        id: "sched.turns",
        shows: "a short command is not held up by a long one of another context",
        section: source::KMD_ENGINES,
        check: turns,
    },
    Behaviour {
        id: "sched.turns.kernel-mode",
        shows: "nor is one that is submitted in kernel mode",
        section: source::KMD_ENGINES,
        check: turns_kernel_mode,
    },
    Behaviour {
        id: "sched.priority",
        shows: "a context with a higher priority gets most of its engine's time",
        section: source::KMD_ENGINES,
        check: priority,
    },
    Behaviour {
        id: "sched.priority.starvation",
        shows: "the lowest priority is executed however much the highest has to do",
        section: source::KMD_ENGINES,
        check: starvation,
    },
    Behaviour {
        id: "sched.priority.range",
        shows: "there are priorities from -7 to 7, and no others",
        section: source::PROTOCOL_REQUESTS,
        check: range,
    },
];

/// A context that executes until a word of the bench's memory is not 0, and its queue.
struct Long<'b> {
    bench: &'b Bench,
    queue: UserModeQueue,
    value: u64,
    // Read by the queue until it is done.
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

    /// Asserts that it executes yet, and ends it.
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
    // Few: the long one must not be taken for a hang before.
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

fn priority(scene: &Scene) -> Result<(), Mismatch> {
    const SUBMISSIONS: u64 = 16;
    // How many the lower has done, as it counts itself, and what the higher saw of that at its end.
    const DONE: usize = 8;
    const SEEN: usize = 16;
    let bench = scene.bench()?;
    let mut sides = Vec::new();
    for priority in [7, -7] {
        let context = bench.device.create_context(bench.context.node())?;
        context.set_scheduling_priority(priority)?;
        let queue = context.create_user_mode_queue(4096)?;
        let mut buffers = Vec::new();
        for number in 1..=SUBMISSIONS {
            let mut commands = CommandBuffer::new(&bench.device, 4096 - 64)?;
            for _ in 0..40 {
                commands.fill(bench.va(4096), MEMORY - 4096, 7)?;
            }
            match priority {
                7 => commands.copy(bench.va(DONE as u64), bench.va(SEEN as u64), 8)?,
                _ => commands.write_data(bench.va(DONE as u64), &number.to_le_bytes())?,
            };
            buffers.push(commands);
        }
        context.suspend()?;
        sides.push((context, queue, buffers));
    }
    for (_, queue, buffers) in &mut sides {
        for commands in buffers {
            queue.submit(commands)?;
        }
    }
    // The higher first, so that the lower is never alone before.
    for (context, ..) in &sides {
        context.resume()?;
    }
    let [(_, high, _), (_, low, _)] = &sides[..] else {
        return Err(Mismatch::Seen("not two contexts".into()));
    };
    high.progress_fence().poll(SUBMISSIONS, TIMEOUT)?;
    low.progress_fence().poll(SUBMISSIONS, TIMEOUT)?;
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
