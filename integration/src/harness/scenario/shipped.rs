// SPDX-License-Identifier: MIT OR Apache-2.0

//! The scenarios that bellhop ships.

use crate::harness::scenario::Scenario;
use crate::harness::scenario::parse::ScenarioError;

/// A shipped scenario.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! examples {
    ($($name:literal),+ $(,)?) => {
        &[$(Example {
            name: $name,
            text: include_str!(concat!("../../../scenarios/", $name, ".toml")),
        }),+]
    };
}

/// All shipped scenarios.
pub const EXAMPLES: &[Example] = examples![
    "first-submission",
    "two-guests-one-engine",
    "kernel-mode-beside-user-mode",
    "batch-ordering",
    "fences-between-queues",
    "without-a-bar",
    "without-doorbell-lines",
    "more-queues-than-doorbells",
    "global-doorbell",
    "moved-doorbells",
    "connect-storm",
    "bad-packet-neighbour-unharmed",
    "recover-from-bad-packets",
    "process-ended-abnormally",
    "guest-killed-mid-submission",
    "guest-reset-storm",
    "hostile-doorbell-writer",
    "suspended-context",
    "engine-f1",
    "device-d3-and-back",
    "power-storm",
    "guest-disconnected-and-failed",
    "one-thousand-queues",
    "ten-thousand-queues",
    "stress",
];

impl Scenario {
    /// A shipped scenario.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn example(name: &str) -> Result<Self, ScenarioError> {
        let example = EXAMPLES.iter().find(|example| example.name == name);
        let example = example.ok_or_else(|| ScenarioError::Unknown(name.into()))?;
        Self::parse(example.text, &format!("{name}.toml"))
    }
}
