// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submissions and dispatches through the Vulkan driver, beside those of a program with `guest-umd`, and beside the host's Vulkan
//! itself in one process; programs of other people's; how two programs share an engine; and frames beside what computes.

mod frames;
mod guest;
mod programs;
mod shares;

pub(super) use frames::{CONFIG as FRAMES, run as frames};
pub(super) use programs::{CONFIG as PROGRAMS, run as programs};
pub(super) use shares::{CONFIG as SHARES, run as shares};

use super::setting::Setting;
use crate::vulkan::figures::Figures;
use anyhow::Context;
use bellhop_guest::bench::kernel::Neighbour;
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::processors;
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::kernel::unpadded;
use guest::{Guest, native};

/// Guests: one with `guest-umd`, and one with the Vulkan driver.
pub(super) const GUESTS: usize = 2;
/// The one with the driver.
const WITH_DRIVER: usize = 1;
/// Times that each is measured in a repetition, in turn; the least median counts.
const TURNS: u64 = 3;
/// The ratios.
const SUBMISSION: &str = "vulkan_submission_over_doorbell_rtt";
const DISPATCH: &str = "vulkan_dispatch_over_native";
const GROUPS: &str = "vulkan_dispatch_of_several_groups_over_native";
const BATCH: &str = "vulkan_batch_over_native";

/// Measures empty submissions, with a processor for the submitter and one for the daemon.
pub(super) fn submissions(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let Some(adapter) = adapter(setting, &[SUBMISSION], measured)? else { return Ok(()) };
    let mut beside = Neighbour::new(adapter)?;
    let guest = Guest::new(setting, WITH_DRIVER)?;
    if let Some((processor, _)) = processors::pair() {
        processors::pin(&[processor]).context("cannot pin this thread to one processor")?;
    }
    let options = setting.options(&[]);
    let samples = options.samples.div_ceil(options.repetitions * TURNS);
    for _ in 0..options.repetitions {
        let (mut doorbell, mut vulkan) = (u64::MAX, u64::MAX);
        for _ in 0..TURNS {
            doorbell = doorbell.min(beside.round_trips(samples)?.p50.max(1));
            vulkan = vulkan.min(Figures::of(guest.command(&[])?, samples)?.empty_ns);
        }
        measured.figure("doorbell_beside_vulkan_rtt_ns_p50", doorbell as f64);
        measured.figure("vulkan_submission_ns_p50", vulkan as f64);
        measured.ratio(SUBMISSION, vulkan as f64, doorbell as f64);
    }
    Ok(())
}

/// Measures dispatches, beside the same Vulkan in one process. Both have all processors.
pub(super) fn dispatches(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let Some(adapter) = adapter(setting, &[DISPATCH, GROUPS, BATCH], measured)? else {
        return Ok(());
    };
    drop(adapter);
    let guest = Guest::new(setting, WITH_DRIVER)?;
    let options = setting.options(&[]);
    let samples = options.samples.div_ceil(options.repetitions * TURNS);
    for _ in 0..options.repetitions {
        let mut least = [Figures::LONGEST; 2];
        for _ in 0..TURNS {
            for (least, program) in
                least.iter_mut().zip([guest.command(&[])?, native(setting, &[])?])
            {
                *least = least.least(Figures::of(program, samples)?);
            }
        }
        let [ours, native] = least;
        let mut put = |figure: &str, ratio: &str, of: fn(&Figures) -> u64| {
            let (ours, native) = (of(&ours) as f64, of(&native) as f64);
            measured.figure(format!("vulkan_{figure}_ns_p50"), ours);
            measured.figure(format!("native_vulkan_{figure}_ns_p50"), native);
            measured.ratio(ratio, ours, native);
        };
        put("submission_beside_native", "vulkan_submission_over_native", |of| of.empty_ns);
        put("dispatch", DISPATCH, |of| of.dispatch_ns);
        put("dispatch_of_several_groups", GROUPS, |of| of.groups_ns);
        put("batch_of_64", BATCH, |of| of.batch_ns);
    }
    Ok(())
}

/// The guest with `guest-umd`, if the device executes commands of Vulkan.
fn adapter(
    setting: &Setting,
    ratios: &[&'static str],
    measured: &mut Measured,
) -> anyhow::Result<Option<Adapter>> {
    let adapter = Adapter::open_with(setting.guest(0)?, setting.place.policy())?;
    let caps = adapter.kernel_caps()?;
    if caps.are_supported() {
        return Ok(Some(adapter));
    }
    let missing = unpadded(&caps.missing);
    for ratio in ratios {
        measured.absent(*ratio, format!("there is no Vulkan: {missing}"));
    }
    Ok(None)
}
