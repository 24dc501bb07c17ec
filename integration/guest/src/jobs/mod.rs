// SPDX-License-Identifier: MIT OR Apache-2.0

//! The main job: real work that a guest does.

mod latency;
mod report;

pub use report::Report;

use crate::output::note;
use crate::stream::{self, Input, Nodes, Transformation, TransformedBy};
use anyhow::{Context, bail};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use bellhop_protocol::control::adapter::Statistics;
use bellhop_protocol::features::Features;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::sync::Arc;

/// The parameters of the job.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The file to stream.
    pub input: PathBuf,
    /// Bytes in a chunk.
    pub chunk: u64,
    /// The number of small submissions to time.
    pub samples: u64,
    /// The number of repetitions.
    pub repetitions: u64,
    /// The processors that guest and daemon use.
    pub pinning: String,
    /// The number of these processors.
    pub processors: usize,
    /// What people may do where the device runs no kernels of guests' own.
    pub advice: Option<String>,
    /// Where shared memory is.
    pub placement: PlacementPolicy,
}

/// Streams a file through the GPU, then times small submissions.
///
/// # Errors
/// When the input cannot be read, or the device cannot be used. The report says whether the result is
/// wrong.
pub fn run(transport: Arc<dyn Transport>, options: &RunOptions) -> anyhow::Result<Report> {
    let mut input = Input::open(&options.input)?;
    let adapter =
        Adapter::open_with(transport, options.placement).context("cannot open the adapter")?;
    if !adapter.features().contains(Features::USER_MODE_SUBMISSION) {
        bail!("user-mode submission was not negotiated, so there are no doorbells");
    }
    let nodes = Nodes::of(&adapter)?;
    let counted = || adapter.statistics().context("cannot read the device's counters");
    let before = counted()?;
    let (transformation, mut transformed_by) = Transformation::of(&adapter);
    if let (TransformedBy::BuiltInKernel { why }, Some(advice)) =
        (&mut transformed_by, &options.advice)
    {
        *why = format!("{why}; {advice}");
    }
    let progress = progress(&input);
    let advance = |bytes| progress.inc(bytes);
    let streamed =
        stream::run(&adapter, &nodes, &mut input, options.chunk, &transformation, advance)?;
    progress.finish_and_clear();
    let mut timed = latency::run(&adapter, nodes.compute[0], options.samples, options.repetitions)?;
    // This guest may use only one of these.
    timed.disturbances.processors = options.processors;
    let statistics = since(&counted()?, &before);
    Ok(Report::new(&streamed, transformed_by, timed, &statistics, options.pinning.clone()))
}

/// The difference of two counts.
fn since(after: &Statistics, before: &Statistics) -> Statistics {
    Statistics {
        packets: after.packets - before.packets,
        interrupts: after.interrupts - before.interrupts,
        control_messages: after.control_messages - before.control_messages,
        engine_wakeups: after.engine_wakeups - before.engine_wakeups,
        ..Statistics::default()
    }
}

fn progress(input: &Input) -> ProgressBar {
    note(format_args!("streaming {} through the GPU", input.path().display()));
    let (bar, template) = match input.size() {
        Some(size) => (ProgressBar::new(size), "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {bytes_per_sec}"),
    };
    // The templates are correct. A wrong one would leave the bar its default look.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
