// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests whether a Vulkan device computes correctly what kernels rely on.
//!
//! What a device reports is not enough: Mesa's lavapipe before version 25 ends each loop after 65,535 iterations
//! without an error.

pub mod kernels;
mod trials;

use crate::report::{INSTALL, Kind, Verdict};
use crate::vulkan::{Device, PhysicalDevice, VulkanError};
use trials::{Trial, Wrong};

/// Tests a device. Reports each step before it begins and each verdict at once: the driver may end this process at any
/// time.
pub fn run(physical: PhysicalDevice<'_>, mut say: impl FnMut(Progress)) {
    let description = physical.description();
    let refused = |why: String| {
        let advice = match description.kind {
            Kind::Cpu => INSTALL.to_owned(),
            _ => format!("update its driver, or {INSTALL}"),
        };
        let (name, driver) = (&description.name, &description.driver);
        Progress::Found(Verdict::Refused(format!("{name}, driver {driver}, {why}; {advice}")))
    };
    if let Some(lacking) = physical.lacks() {
        return say(refused(format!("has no {lacking}")));
    }
    let device = match Device::open(physical) {
        Ok(device) => device,
        Err(error) => return say(refused(format!("cannot be opened: {error}"))),
    };
    for trial in trials::ALL {
        say(Progress::Trying(trial.what.to_owned()));
        if let Err(wrong) = (trial.run)(&device, &description.limits) {
            return say(refused(told(trial, &wrong)));
        }
    }
    say(Progress::Found(Verdict::Usable { pointers: false }));
    // Vulkan does not promise this. A driver on the processor shares this process's addresses; a GPU would be lost.
    if description.kind == Kind::Cpu && physical.has_buffer_addresses() {
        say(Progress::Trying(trials::POINTER.what.to_owned()));
        let pointers = (trials::POINTER.run)(&device, &description.limits).is_ok();
        say(Progress::Found(Verdict::Usable { pointers }));
    }
}

/// The progress of a self-test.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// The next step.
    Trying(String),
    /// The verdict so far; a later one may improve it.
    Found(Verdict),
}

fn told(trial: &Trial, wrong: &Wrong) -> String {
    match wrong {
        Wrong::Result(what) => format!("computes wrongly: {what}"),
        Wrong::Vulkan(error) => format!("fails at {}: {error}", trial.what),
    }
}

impl From<VulkanError> for Wrong {
    fn from(error: VulkanError) -> Self {
        Self::Vulkan(error)
    }
}
