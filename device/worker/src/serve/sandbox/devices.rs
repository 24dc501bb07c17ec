// SPDX-License-Identifier: MIT OR Apache-2.0

//! The devices by which a driver reaches a GPU.

use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// The descriptors of this process but the standard ones, and what each is of.
pub(super) fn opened() -> anyhow::Result<Vec<(RawFd, PathBuf)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").context("cannot list descriptors")? {
        let path = entry.context("cannot list descriptors")?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let Some(number) = number.filter(|number| *number > libc::STDERR_FILENO) else { continue };
        // The list itself is closed by now, or a folder.
        let Ok(of) = std::fs::read_link(&path) else { continue };
        all.push((number, of));
    }
    Ok(all)
}

/// The devices that this process has open: the driver's, when nothing else has opened any.
pub(super) fn in_use() -> anyhow::Result<Vec<PathBuf>> {
    let is_device = |path: &PathBuf| {
        path.starts_with("/dev")
            && path.metadata().is_ok_and(|about| about.file_type().is_char_device())
    };
    let paths = opened()?.into_iter().map(|(_, path)| path).filter(is_device);
    let devices: BTreeSet<_> = paths.collect();
    ensure!(!devices.is_empty(), "the GPU's driver has opened no device");
    Ok(devices.into_iter().collect())
}
