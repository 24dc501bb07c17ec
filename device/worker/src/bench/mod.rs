// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a dispatch through a worker costs, over the same Vulkan in one process.

mod native;
mod through;

pub use native::native;
pub use through::through_worker;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Dispatches of the batch: as many as a worker takes.
pub const BATCH: usize = 64;
/// Work groups of the dispatch of several.
pub const GROUPS: u32 = 16;
/// Bytes that the kernel limited by memory loads and stores.
pub const STREAM: u64 = 64 << 20;
/// Invocations of its work groups, and bytes of each.
const STREAM_GROUP: u64 = 256 * 16;
/// Its work groups.
const STREAM_GROUPS: u32 = (STREAM / STREAM_GROUP) as u32;
/// Measurements of a dispatch, after so many that are not counted.
const ROUNDS: (usize, usize) = (2000, 200);
/// Measurements of a batch, after so many that are not counted.
const BATCH_ROUNDS: (usize, usize) = (200, 20);
/// Measurements of the kernel limited by memory, after so many that are not counted.
const STREAM_ROUNDS: (usize, usize) = (20, 3);

/// What kernels cost. Each figure is a median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Nanoseconds from submitting one work group that does nothing until it is known to be done.
    pub null_ns: u64,
    /// As `null_ns`, of [`GROUPS`] work groups.
    pub groups_ns: u64,
    /// Nanoseconds of [`BATCH`] dispatches that depend on each other, in one command buffer.
    pub batch_ns: u64,
    /// Nanoseconds of a kernel that loads and stores [`STREAM`] bytes, which are mapped already.
    pub stream_ns: u64,
}

/// Measures a device in a process of its own. The command runs `bellhop-worker`.
///
/// # Errors
/// When the process fails.
pub fn native_in(mut command: Command, device: u32) -> anyhow::Result<Figures> {
    command.args(["native-bench", &device.to_string()]);
    // Otherwise Mesa caches compiled kernels in the user's home.
    command.env("MESA_SHADER_CACHE_DISABLE", "true").stdin(Stdio::null());
    let output = command.output().context("cannot start a worker")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the worker ended ({}): {said}", output.status);
    serde_json::from_slice(&output.stdout).context("the worker printed no figures")
}

/// Returns the median time of so many rounds.
fn median(
    (rounds, before): (usize, usize),
    mut run: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    for _ in 0..before {
        run()?;
    }
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(nanoseconds(times[rounds / 2]))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Checks that so many steps of the sequence were made.
fn check_steps(steps: usize, found: u32) -> anyhow::Result<()> {
    let step = |x: u32, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    let expected = (0..steps).fold(0, step);
    ensure!(
        found == expected,
        "after {steps} dispatches the word is {found:#x}, not {expected:#x}"
    );
    Ok(())
}
