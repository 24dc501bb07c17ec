// SPDX-License-Identifier: MIT OR Apache-2.0

//! Many null command buffers, each with a buffer of its own, on one engine.

use super::floor::{self, MinimalPath, ONE_PROCESSOR, Shape};
use super::report::Measured;
use super::set_up::{COMMANDS, TIMEOUT, context};
use bellhop_guest_umd::{Adapter, CommandBuffer, Context, Error, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;
use std::time::Instant;

/// Submissions in a batch.
const DEPTHS: [u64; 4] = [1, 4, 16, DEEPEST];
const DEEPEST: u64 = 64;
/// Bytes of the ring.
const RING: u64 = 64 << 10;
/// Batches that go round the ring: whoever touches it first misses caches, and faults.
const ROUND: u64 = 100;

/// When a submitter waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// For each submission.
    Each,
    /// For the last of a batch, before it fills the next: submitter and executor take turns.
    Last,
    /// For the batch before the last: it fills a batch while another is executed, so that neither side idles.
    KeepsFed,
}

/// When the doorbell is rung and when the fence is waited for.
#[derive(Debug, Clone, Copy)]
struct Discipline {
    name: &'static str,
    rings_each: bool,
    waits: Waits,
}

const ONCE_FED: &str = "ring_once_kept_fed";
const EACH_FED: &str = "ring_each_kept_fed";
const ONCE_LAST: &str = "ring_once_wait_last";
const EACH_LAST: &str = "ring_each_wait_last";

const DISCIPLINES: [Discipline; 5] = [
    Discipline { name: "ring_and_wait_each", rings_each: true, waits: Waits::Each },
    Discipline { name: EACH_LAST, rings_each: true, waits: Waits::Last },
    Discipline { name: ONCE_LAST, rings_each: false, waits: Waits::Last },
    Discipline { name: EACH_FED, rings_each: true, waits: Waits::KeepsFed },
    Discipline { name: ONCE_FED, rings_each: false, waits: Waits::KeepsFed },
];

impl Discipline {
    /// Submissions a second, in batches of as many command buffers, after some batches that are not measured: the first ring
    /// connects, and may wake the engine.
    fn rate(
        self,
        context: &Context,
        batch: &mut [CommandBuffer],
        before: u64,
        samples: u64,
    ) -> Result<f64, Error> {
        let mut queue = context.create_user_mode_queue(RING)?;
        self.submit(&mut queue, batch, before)?;
        let depth = batch.len() as u64;
        let rounds = (samples / depth).max(1);
        let start = Instant::now();
        self.submit(&mut queue, batch, rounds)?;
        Ok((rounds * depth) as f64 / start.elapsed().as_secs_f64())
    }

    /// Submits a batch many times, and waits for all of them.
    fn submit(
        self,
        queue: &mut UserModeQueue,
        batch: &mut [CommandBuffer],
        times: u64,
    ) -> Result<(), Error> {
        for _ in 0..times {
            let before = queue.last_value();
            match (self.waits, self.rings_each) {
                (Waits::Each, _) => {
                    for commands in &mut *batch {
                        let value = queue.submit(commands)?;
                        queue.progress_fence().poll(value, TIMEOUT)?;
                    }
                }
                (_, true) => {
                    for commands in &mut *batch {
                        queue.submit(commands)?;
                    }
                }
                (_, false) => {
                    for commands in &mut *batch {
                        queue.queue(commands)?;
                    }
                    queue.ring()?;
                }
            }
            let until = if self.waits == Waits::KeepsFed { before } else { queue.last_value() };
            queue.progress_fence().poll(until, TIMEOUT)?;
        }
        queue.progress_fence().poll(queue.last_value(), TIMEOUT)
    }
}

/// How the submitter of a minimal path waits, whether its executor checks, and the name of its rate at a depth.
const FLOORS: [(Waits, bool, &str); 3] = [
    (Waits::Last, false, "minimal_path"),
    (Waits::KeepsFed, false, "minimal_path_kept_fed"),
    (Waits::KeepsFed, true, "checked_path_kept_fed"),
];

/// The rate of the minimal path in each shape; none on one processor.
fn minimal_paths(
    depth: u64,
    samples: u64,
    waits: Waits,
    checks: bool,
) -> anyhow::Result<Vec<(String, f64)>> {
    let mut rates = Vec::new();
    let shapes: Vec<_> = if checks {
        Shape::checked_of_depth(depth).collect()
    } else {
        Shape::of_depth(depth).collect()
    };
    for shape in shapes {
        let Some(mut path) = MinimalPath::start(shape)? else { break };
        rates.push((shape.to_string(), path.rate(depth, samples, waits == Waits::KeepsFed)));
    }
    Ok(rates)
}

pub(super) fn run(adapter: &Adapter, samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let context = context(adapter, EngineType::THREE_D)?;
    for depth in DEPTHS {
        let mut batch = CommandBuffer::many(context.device(), COMMANDS, depth as usize)?;
        for commands in &mut batch {
            commands.nop()?;
        }
        let mut floors = [None; FLOORS.len()];
        for (floor, (waits, checks, name)) in floors.iter_mut().zip(FLOORS) {
            let name = format!("{name}_depth_{depth:02}_per_second");
            *floor = measured.best_shape(&name, minimal_paths(depth, samples, waits, checks)?);
            match *floor {
                Some(floor) => measured.figure(name, floor),
                None => measured.absent(name, ONE_PROCESSOR),
            }
        }
        let mut rates = Vec::new();
        for discipline in DISCIPLINES {
            let rate = discipline.rate(&context, &mut batch, 1, samples)?;
            let name = discipline.name;
            measured.figure(format!("{name}_depth_{depth:02}_submissions_per_second"), rate);
            rates.push((name, rate));
        }
        if depth == DEEPEST {
            let rate = |wanted| {
                rates.iter().find(|(name, _)| *name == wanted).map_or(0.0, |(_, rate)| *rate)
            };
            let line = floor::cache_line_round_trip(samples)?.map(|line| line.p50.max(1) as f64);
            let [last, fed, checked] = floors;
            measured.figure("submissions_per_second_one_engine", rate(ONCE_FED));
            let kept_fed = Deepest { once: rate(ONCE_FED), each: rate(EACH_FED), floor: fed, line };
            kept_fed.put("", measured);
            over_checked(rate(ONCE_FED), checked, measured);
            let in_turns =
                Deepest { once: rate(ONCE_LAST), each: rate(EACH_LAST), floor: last, line };
            in_turns.put("_wait_last", measured);
        }
    }
    Ok(())
}

/// Submissions a second in the deepest batches, kept fed and rung for once and each.
pub(super) fn kept_fed(context: &Context, samples: u64) -> anyhow::Result<[f64; 2]> {
    let mut batch = CommandBuffer::many(context.device(), COMMANDS, DEEPEST as usize)?;
    for commands in &mut batch {
        commands.nop()?;
    }
    let mut rate = |rings_each| {
        let fed = Discipline { name: "", rings_each, waits: Waits::KeepsFed };
        fed.rate(context, &mut batch, ROUND, samples)
    };
    Ok([rate(false)?, rate(true)?])
}

/// The rate over that of the minimal path whose executor checks.
fn over_checked(once: f64, checked: Option<f64>, measured: &mut Measured) {
    const NAME: &str = "throughput_over_checked_path";
    match checked {
        Some(checked) => measured.ratio(NAME, once, checked),
        None => measured.absent(NAME, ONE_PROCESSOR),
    }
}

/// Rates of the deepest batches whose submitters wait alike.
struct Deepest {
    once: f64,
    each: f64,
    /// The minimal path's rate.
    floor: Option<f64>,
    /// Nanoseconds of a cache line's round trip.
    line: Option<f64>,
}

impl Deepest {
    /// The ratios: one ring a batch over one ring each, one ring a batch over the floor, and submissions in the
    /// time of a cache line's round trip.
    fn put(&self, how: &str, measured: &mut Measured) {
        let Self { once, each, floor, line } = *self;
        measured.ratio(format!("ring_once_over_ring_each{how}_depth_64"), once, each);
        let mut compare = |name: String, over: Option<f64>, under: f64| match over {
            Some(over) => measured.ratio(name, over, under),
            None => measured.absent(name, ONE_PROCESSOR),
        };
        compare(format!("throughput{how}_over_minimal_path"), floor.map(|floor| once / floor), 1.0);
        compare(format!("submissions{how}_per_cacheline_rtt"), line, 1e9 / once);
    }
}
