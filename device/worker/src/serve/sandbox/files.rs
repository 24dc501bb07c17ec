// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "descriptors of a driver's are used by number")]

//! Files: those that a process keeps, and that it can open no others.

use super::devices;
use anyhow::{Context, ensure};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd,
    RestrictSelfAttr, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fd::BorrowedFd;
use std::path::PathBuf;

/// Gives the driver's own files in memory as many bytes, together, as the worker may have. Lavapipe keeps what it
/// allocates in such a file for each instance, and lengthens it on demand, which the filter refuses: a worker could
/// shorten a guest's memory by that. An unused byte costs nothing.
pub(super) fn lengthen_those_in_memory(bytes: u64) -> anyhow::Result<()> {
    let in_memory: Vec<_> = devices::opened()?
        .into_iter()
        .filter(|(_, path)| path.to_string_lossy().starts_with("/memfd:"))
        .collect();
    let each = bytes / (in_memory.len() as u64).max(1);
    for (number, _) in in_memory {
        // SAFETY: the driver's descriptor stays open: nothing else runs while the worker enters its sandbox.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let length = rustix::fs::fstat(file).context("cannot look at a file in memory")?.st_size;
        if length.cast_unsigned() < each {
            rustix::fs::ftruncate(file, each).context("cannot lengthen a file in memory")?;
        }
    }
    Ok(())
}

/// Gives up all files but these devices, and the network. Without devices, Linux may lack Landlock.
pub(super) fn give_up(devices: Option<&[PathBuf]>) -> anyhow::Result<()> {
    let abi = ABI::V6;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(|rules| rules.create())
        .context("cannot give up files")?;
    let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let rules = devices.unwrap_or_default().iter().try_fold(rules, |rules, device| {
        let device = PathFd::new(device).context("cannot look at a device")?;
        rules.add_rule(PathBeneath::new(device, access)).context("cannot keep a device")
    })?;
    let status = rules.all_threads(true).and_then(|rules| rules.restrict_self());
    let status = status.context("cannot give up files")?;
    ensure!(
        devices.is_none() || status.ruleset != RulesetStatus::NotEnforced,
        "a worker with a real GPU needs Landlock, which this Linux does not have"
    );
    Ok(())
}
