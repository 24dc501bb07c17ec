// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the conformance suite of programs must have seen.

use super::outcomes;
use rustix::process::geteuid;
use serde_json::Value;

/// Behaviours that a device with its default configuration does not offer.
pub const NOT_OFFERED: &[&str] = &[
    "program.kernel.apart",
    "program.video.apart",
    "program.display.composed",
    "program.display.exclusive",
    "program.display.direct-flip",
    "program.display.independent-flip",
    "program.display.apart",
    "program.display.killed",
    "program.link.fence",
    "program.link.memory",
];

/// Behaviours that take programs of several users, which only root starts.
pub const OF_USERS: [&str; 4] =
    ["program.user.unprivileged", "program.user.files", "program.user.lists", "program.user.agent"];

/// Asserts that a report has every behaviour as seen, but for these, and where programs are of one user those of users.
#[track_caller]
pub fn assert_every_behaviour_is_seen(report: &Value, not_offered: &[&str]) {
    assert_seen(report, not_offered, geteuid().is_root());
}

/// The same, where it is known whether programs are of several users.
#[track_caller]
pub fn assert_seen(report: &Value, not_offered: &[&str], several_users: bool) {
    let failed: Vec<_> = outcomes(report, "failed").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let missing = outcomes(report, "not-offered").map(|check| check["id"].as_str().unwrap());
    let missing: Vec<_> = missing.filter(|id| several_users || !OF_USERS.contains(id)).collect();
    // What kernels there are depends on the host's Vulkan.
    let is_seen = |id: &&str| outcomes(report, "passed").any(|check| check["id"] == **id);
    let (kernels, others): (Vec<_>, Vec<_>) =
        not_offered.iter().copied().partition(|id| id.starts_with("program.kernel."));
    let expected = kernels.into_iter().filter(|id| !is_seen(id)).chain(others);
    assert_eq!(missing, expected.collect::<Vec<_>>());
    assert!(outcomes(report, "passed").count() >= 30, "{report}");
}
