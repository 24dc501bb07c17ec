// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether a Vulkan device computes rightly what kernels rely on.
//!
//! A device that says it can may be wrong: Mesa's lavapipe before version 25 stops each loop after 65,535 iterations
//! and reports no error.

mod kernels;
mod trials;

use crate::report::{INSTALL, Kind, Verdict};
use crate::vulkan::{Device, PhysicalDevice, VulkanError};
use trials::{Trial, Wrong};

/// Tries a device. Hands on what it tries next, and what it knows: a driver may end this process at any time.
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
    // Outside of what Vulkan promises. A program for the processor shares its addresses; a GPU would be lost.
    if description.kind == Kind::Cpu && physical.has_buffer_addresses() {
        say(Progress::Trying(trials::POINTER.what.to_owned()));
        let pointers = (trials::POINTER.run)(&device, &description.limits).is_ok();
        say(Progress::Found(Verdict::Usable { pointers }));
    }
}

/// How far a self-test is.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// What is tried next.
    Trying(String),
    /// What is known; what follows may better it.
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
