//! What submitting costs, measured from inside the guest, beside what it could cost at least.

mod batch;
mod copy;
mod floor;
mod report;
mod round_trip;

pub use report::Report;

use crate::guest::Guest;
use anyhow::Context as _;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::features::Features;
use clap::ValueEnum;
use std::sync::Arc;
use std::time::Duration;

/// How long anything may take before something is wrong.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// One null command buffer, from submission to fence: through a doorbell, through the control
    /// queue, and a cache line between two processors
    RoundTrip,
    /// Many null command buffers: ring and wait for each, ring for each, ring once
    Batch,
    /// The copy engine beside memcpy
    Copy,
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which suites; all when empty.
    pub suites: Vec<Suite>,
    /// How many submissions of each kind.
    pub samples: u64,
    /// Where what driver and device share is.
    pub placement: PlacementPolicy,
}

/// Measures.
///
/// # Errors
/// When the device cannot be used.
pub fn run(guest: Arc<dyn Guest>, options: &Options) -> anyhow::Result<Report> {
    let place = guest.reached();
    let transport: Arc<dyn Transport> = guest;
    let adapter =
        Adapter::open_with(transport, options.placement).context("cannot open the adapter")?;
    let mut report = Report::new(place);
    if !adapter.features().contains(Features::USER_MODE_SUBMISSION) {
        anyhow::bail!("user-mode submission was not negotiated, so there are no doorbells");
    }
    let is_wanted = |suite| options.suites.is_empty() || options.suites.contains(&suite);
    if is_wanted(Suite::RoundTrip) {
        round_trip::run(&adapter, options.samples, &mut report)?;
    }
    if is_wanted(Suite::Batch) {
        batch::run(&adapter, options.samples, &mut report)?;
    }
    if is_wanted(Suite::Copy) {
        copy::run(&adapter, &mut report)?;
    }
    Ok(report)
}

/// The first node of a type.
fn node(adapter: &Adapter, wanted: EngineType) -> anyhow::Result<u32> {
    let nodes = adapter.nodes().context("cannot ask what nodes there are")?;
    let found = (0u32..).zip(&nodes).find(|(_, node)| node.engine_type == wanted);
    found.map(|(ordinal, _)| ordinal).with_context(|| format!("there is no {wanted} node"))
}
