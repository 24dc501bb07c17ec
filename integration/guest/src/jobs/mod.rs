// SPDX-License-Identifier: MIT OR Apache-2.0

//! The main job: real work that a guest does.

mod latency;
mod report;
mod stream;

pub use report::Report;

use anyhow::{Context, bail};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use bellhop_protocol::control::adapter::{EngineType, NodeMetadata, Statistics};
use bellhop_protocol::features::Features;
use std::path::PathBuf;
use std::sync::Arc;

/// What the job does.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The file to stream.
    pub input: PathBuf,
    /// Bytes in a chunk.
    pub chunk: u64,
    /// How many small submissions to time.
    pub samples: u64,
    /// The number of repetitions.
    pub repetitions: u64,
    /// The processors that guest and daemon use.
    pub pinning: String,
    /// The number of these processors.
    pub processors: usize,
    /// Where shared memory is.
    pub placement: PlacementPolicy,
}

/// Streams a file through the GPU, then times small submissions.
///
/// # Errors
/// When the input cannot be read, or the device cannot be used. The report says whether the result is
/// wrong.
pub fn run(transport: Arc<dyn Transport>, options: &RunOptions) -> anyhow::Result<Report> {
    let input = stream::Input::open(&options.input)?;
    let adapter =
        Adapter::open_with(transport, options.placement).context("cannot open the adapter")?;
    if !adapter.features().contains(Features::USER_MODE_SUBMISSION) {
        bail!("user-mode submission was not negotiated, so there are no doorbells");
    }
    let nodes = Nodes::of(&adapter)?;
    let counted = || adapter.statistics().context("cannot read the device's counters");
    let before = counted()?;
    let streamed = stream::run(&adapter, &nodes, input, options.chunk)?;
    let mut timed = latency::run(&adapter, nodes.compute, options.samples, options.repetitions)?;
    // Of these, this guest may use only one.
    timed.disturbances.processors = options.processors;
    let statistics = since(&counted()?, &before);
    Ok(Report::new(&streamed, timed, &statistics, options.pinning.clone()))
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

/// The nodes of the job's stages.
struct Nodes {
    compute: u32,
    copy_in: u32,
    copy_out: u32,
}

impl Nodes {
    fn of(adapter: &Adapter) -> anyhow::Result<Self> {
        let nodes = adapter.nodes().context("cannot query the nodes")?;
        let of_type = |wanted: EngineType| {
            let is_wanted = move |(_, node): &(u32, &NodeMetadata)| node.engine_type == wanted;
            (0u32..).zip(&nodes).filter(is_wanted).map(|(ordinal, _)| ordinal)
        };
        let compute = of_type(EngineType::THREE_D).next().context("there is no compute node")?;
        let mut copies = of_type(EngineType::COPY);
        let copy_in = copies.next().unwrap_or(compute);
        Ok(Self { compute, copy_in, copy_out: copies.next().unwrap_or(copy_in) })
    }
}
