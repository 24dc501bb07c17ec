//! What submitting costs, measured from inside the guest, beside what it could cost at least and what
//! others cost.
//!
//! Everything that is compared is measured in the same repetition, one right after the other: other
//! load on the machine then changes both.

mod batch;
mod copy;
mod doorbells;
mod fence;
mod floor;
pub mod headlines;
mod partner;
mod queues;
mod report;
mod rivals;
mod round_trip;
mod usage;
mod wake;

pub use report::{Configuration, Measured, Report};
pub use usage::Usage;

use crate::guest::Guest;
use crate::processors;
use anyhow::{Context as _, bail};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, CommandBuffer, Context, Device, PlacementPolicy};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::features::Features;
use clap::ValueEnum;
use std::sync::Arc;
use std::time::Duration;

/// How long anything may take before something is wrong.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Room for the smallest command buffer.
const COMMANDS: usize = 64;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// One null command buffer, from submission to fence: through a doorbell, through the control
    /// queue; beside cache lines between two processes, io_uring and eventfds
    RoundTrip,
    /// Many null command buffers: ring and wait for each, ring for each, ring once
    Batch,
    /// The copy engine beside memcpy
    Copy,
    /// Signals: interrupts, a blocked CPU waiter, engine to engine
    Fence,
    /// The first submission after a while without any, beside an eventfd that wakes a process
    Wake,
    /// One doorbell, alone and beside 1,024 connected ones
    Doorbells,
    /// 10,000 queues that share the physical doorbells
    Queues,
    /// What a daemon uses that has guests and nothing to do; only from the host
    Idle,
    /// One engine that more and more guests share; only from the host
    Oversubscription,
    /// A guest beside another that does everything wrong; only from the host
    Hostile,
}

impl Suite {
    /// As people name it.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Those that need nothing of the device's configuration and nothing of the host.
    pub const IN_ANY_GUEST: [Self; 5] =
        [Self::RoundTrip, Self::Batch, Self::Copy, Self::Fence, Self::Wake];
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which suites.
    pub suites: Vec<Suite>,
    /// How many submissions of each kind in all.
    pub samples: u64,
    /// In how many repetitions.
    pub repetitions: u64,
    /// Where what driver and device share is.
    pub placement: PlacementPolicy,
    /// The daemon's process, where that can be looked at.
    pub daemon: Option<u32>,
}

/// Measures.
///
/// # Errors
/// When the device cannot be used, or a suite needs another configuration or the host.
pub fn run(
    guest: Arc<dyn Guest>,
    options: &Options,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let transport: Arc<dyn Transport> = guest;
    let adapter =
        Adapter::open_with(transport, options.placement).context("cannot open the adapter")?;
    if !adapter.features().contains(Features::USER_MODE_SUBMISSION) {
        bail!("user-mode submission was not negotiated, so there are no doorbells");
    }
    if let Some((processor, _)) = processors::pair() {
        processors::pin(&[processor]).context("cannot stay on one processor")?;
    }
    let samples = options.samples.div_ceil(options.repetitions);
    for _ in 0..options.repetitions {
        for suite in &options.suites {
            match suite {
                Suite::RoundTrip => round_trip::run(&adapter, samples, measured)?,
                Suite::Batch => batch::run(&adapter, samples, measured)?,
                Suite::Copy => copy::run(&adapter, measured)?,
                Suite::Fence => fence::run(&adapter, measured)?,
                Suite::Wake => wake::run(&adapter, options.daemon, measured)?,
                Suite::Doorbells => doorbells::run(&adapter, samples, measured)?,
                Suite::Queues => queues::run(&adapter, measured)?,
                Suite::Idle | Suite::Oversubscription | Suite::Hostile => {
                    bail!(
                        "this suite is measured from the host: by bellhop bench, without a socket"
                    )
                }
            }
        }
    }
    Ok(())
}

/// A context on the first node of a type, on a device of its own.
fn context(adapter: &Adapter, engine_type: EngineType) -> anyhow::Result<Context> {
    let nodes = adapter.nodes().context("cannot ask what nodes there are")?;
    let found = (0u32..).zip(&nodes).find(|(_, node)| node.engine_type == engine_type);
    let node = found.map(|(ordinal, _)| ordinal);
    let node = node.with_context(|| format!("there is no {engine_type} node"))?;
    Ok(adapter.create_device()?.create_context(node)?)
}

/// A command buffer that does nothing.
fn null_commands(device: &Device) -> Result<CommandBuffer, bellhop_guest_umd::Error> {
    let mut commands = CommandBuffer::new(device, COMMANDS)?;
    commands.nop()?;
    Ok(commands)
}
