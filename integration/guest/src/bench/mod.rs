// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cost of a submission, measured from inside the guest, beside its floor and the cost of other mechanisms.
//!
//! Figures that are compared are measured in one repetition, right after each other, so that other load on
//! the machine changes both.

mod batch;
pub mod behind_broker;
mod compare;
mod copy;
mod delivery;
mod display;
mod doorbells;
mod fence;
mod floor;
mod growth;
pub mod headlines;
pub mod kernel;
mod names;
mod one_processor;
mod partner;
mod plot;
mod queues;
mod report;
mod rivals;
mod round_trip;
mod set_up;
mod stream;
mod suite;
mod usage;
mod wake;

pub use compare::{Change, Comparison, Origin, Row, Verdict};
pub use delivery::{Delivery, Wanted};
pub use display::{LargeScreen, StillScreen};
pub use growth::{Row as Growing, Table, Verdict as GrowthVerdict};
pub use names::Better;
pub use report::{Configuration, Measured, Report, Shapes};
pub use suite::Suite;
pub use usage::{Memory, Usage};

use crate::guest::Guest;
use crate::processors;
use anyhow::{Context as _, bail};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use bellhop_protocol::features::Features;
use std::sync::Arc;

/// The exit status of a comparison that finds a regression.
pub const REGRESSED: u8 = 3;

/// The variable of the environment that names the daemon's process to a guest on its host, so that a suite can measure
/// what the daemon uses.
pub const DAEMON_VARIABLE: &str = "BELLHOP_DAEMON";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The suites.
    pub suites: Vec<Suite>,
    /// Submissions of each kind, in all repetitions.
    pub samples: u64,
    /// The number of repetitions.
    pub repetitions: u64,
    /// Where shared memory is.
    pub placement: PlacementPolicy,
    /// The daemon's process, if this program sees it.
    pub daemon: Option<u32>,
    /// Whether this program has chosen the daemon's processors.
    pub places_daemon: bool,
}

/// Runs the suites.
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
        processors::pin(&[processor]).context("cannot pin this thread to one processor")?;
    }
    let samples = options.samples.div_ceil(options.repetitions);
    for _ in 0..options.repetitions {
        for suite in &options.suites {
            match suite {
                Suite::RoundTrip => round_trip::run(&adapter, samples, measured)?,
                Suite::Batch => batch::run(&adapter, samples, measured)?,
                Suite::Copy => copy::run(&adapter, samples, measured)?,
                Suite::Stream => stream::run(&adapter, measured)?,
                Suite::Fence => fence::run(&adapter, measured)?,
                Suite::Wake => wake::run(&adapter, options.daemon, measured)?,
                Suite::Doorbells => doorbells::run(&adapter, samples, measured)?,
                Suite::Queues => queues::run(&adapter, measured)?,
                Suite::Kernel => kernel::measure(&adapter, samples, None, measured)?,
                Suite::Display => {
                    display::run(&adapter, options.repetitions, options.daemon, measured)?;
                }
                // Only the program that started the daemon knows that it is on this processor.
                Suite::OneProcessor if options.places_daemon => {
                    one_processor::run(&adapter, samples, measured)?;
                }
                Suite::OneProcessor
                | Suite::Idle
                | Suite::Vulkan
                | Suite::Video
                | Suite::Oversubscription
                | Suite::Broker
                | Suite::Hostile
                | Suite::Scale => {
                    bail!("the host measures this suite: run bellhop bench without a socket")
                }
            }
        }
    }
    Ok(())
}
