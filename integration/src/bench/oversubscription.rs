// SPDX-License-Identifier: MIT OR Apache-2.0

//! One engine that more and more guests share.

use super::setting::Setting;
use anyhow::anyhow;
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest_umd::{Adapter, CommandBuffer, Error, Fence, UserModeQueue};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Guests at once.
const GUESTS: [usize; 4] = [1, 2, 4, MOST_GUESTS];
pub(super) const MOST_GUESTS: usize = 16;
/// How long to measure each number of guests.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// Bytes that a submission fills: some tens of microseconds of engine time.
const SIZE: u64 = 256 << 10;
/// Submissions of a guest in flight.
const IN_FLIGHT: u64 = 32;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until a fence has a value: [`Fence::wait`] or [`Fence::poll`].
pub(super) type Wait = fn(&Fence, u64, Duration) -> Result<(), Error>;

/// A guest that keeps its queue full.
pub(super) struct Load {
    adapter: Adapter,
    queue: UserModeQueue,
    commands: Vec<CommandBuffer>,
}

impl Load {
    pub(super) fn new(setting: &Setting, number: usize) -> anyhow::Result<Self> {
        let adapter = Adapter::open_with(setting.guest(number)?, setting.place.policy())?;
        let device = adapter.create_device()?;
        let target = device.create_allocation(AllocationKind::LOCAL, SIZE)?;
        let target = target.map(Protection::WRITE)?;
        let mut commands = Vec::new();
        for _ in 0..IN_FLIGHT {
            let mut buffer = CommandBuffer::new(&device, 64)?;
            buffer.fill(target.gpu_va(), SIZE, 0)?;
            commands.push(buffer);
        }
        let queue = device.create_context(0)?.create_user_mode_queue(64 << 10)?;
        // The target stays mapped until the process has ended.
        std::mem::forget(target);
        Ok(Self { adapter, queue, commands })
    }

    /// Its process.
    pub(super) fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Submits until `stop` is set, and counts completed submissions. `wait` is the way to wait for a fence.
    pub(super) fn run(
        &mut self,
        wait: Wait,
        stop: &AtomicBool,
        done: &AtomicU64,
    ) -> anyhow::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let half = self.commands.len() / 2;
            for at in [0, half] {
                for commands in &mut self.commands[at..at + half] {
                    self.queue.submit(commands)?;
                }
                // The engine meanwhile executes the other half, which was submitted before.
                let before = self.queue.last_value().saturating_sub(half as u64);
                wait(self.queue.progress_fence(), before, TIMEOUT)?;
                done.fetch_add(half as u64, Ordering::Relaxed);
            }
        }
        Ok(wait(self.queue.progress_fence(), self.queue.last_value(), TIMEOUT)?)
    }
}

pub(super) fn run(setting: &Setting, _: &[Suite], measured: &mut Measured) -> anyhow::Result<()> {
    let loads = (0..MOST_GUESTS).map(|number| Load::new(setting, number));
    let mut loads = loads.collect::<anyhow::Result<Vec<_>>>()?;
    let repetitions = setting.options(&[]).repetitions;
    for _ in 0..repetitions {
        let mut alone = None;
        for guests in GUESTS {
            let rate = rate(&mut loads[..guests])?;
            measured.figure(format!("oversubscribed_{guests:02}to1_submissions_per_second"), rate);
            let alone = *alone.get_or_insert(rate);
            if guests > 1 {
                let name = format!("oversubscribed_{guests}to1_over_1to1_throughput");
                measured.ratio(name, rate, alone);
            }
        }
    }
    Ok(())
}

/// Submissions a second of all these guests together.
fn rate(loads: &mut [Load]) -> anyhow::Result<f64> {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Barrier::new(loads.len() + 1);
    thread::scope(|scope| {
        let run = |load| {
            let (stop, done, begun) = (&stop, &done, &begun);
            scope.spawn(move || {
                begun.wait();
                Load::run(load, Fence::wait, stop, done)
            })
        };
        let threads: Vec<_> = loads.iter_mut().map(run).collect();
        begun.wait();
        let (before, start) = (done.load(Ordering::Relaxed), Instant::now());
        thread::sleep(LOOK);
        let (after, time) = (done.load(Ordering::Relaxed), start.elapsed());
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a guest's thread panicked"))??;
        }
        Ok((after - before) as f64 / time.as_secs_f64())
    })
}
