// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that find the Vulkan driver and a guest's GPU, and programs that find the host's Vulkan.

use super::super::setting::Setting;
use crate::hosted::{WORKER, this_executable};
use crate::vulkan::driver;
use crate::vulkan::program::name_gpu;
use anyhow::Context;
use bellhop_device::service::Worker;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A guest's GPU, for programs that find driver and GPU by variables.
pub(super) struct Guest<'s> {
    setting: &'s Setting,
    socket: &'s PathBuf,
    /// Where the manifest is.
    _folder: TempDir,
    manifest: PathBuf,
}

impl<'s> Guest<'s> {
    pub(super) fn new(setting: &'s Setting, number: usize) -> anyhow::Result<Self> {
        let socket = setting.sockets.get(number).context("there are fewer sockets than guests")?;
        let folder = tempfile::tempdir().context("cannot make a folder for a driver's manifest")?;
        let manifest = driver::write_manifest(&driver::find(None)?, folder.path())?;
        Ok(Self { setting, socket, _folder: folder, manifest })
    }

    /// A program, and its arguments; this executable if there are no words.
    pub(super) fn command(&self, words: &[OsString]) -> anyhow::Result<Command> {
        let mut command = native(self.setting, words)?;
        name_gpu(&mut command, &self.manifest, self.socket);
        Ok(command)
    }
}

/// The same program with the Vulkan that the daemon's workers have.
pub(super) fn native(setting: &Setting, words: &[OsString]) -> anyhow::Result<Command> {
    let this = this_executable()?;
    let arguments = WORKER.iter().map(OsString::from).collect::<Vec<_>>();
    let worker = setting.worker.strip_suffix(&*arguments).unwrap_or_default();
    let before = worker.strip_suffix(&[this.clone().into_os_string()]).unwrap_or_default();
    let program = if words.is_empty() { &[this.into_os_string()][..] } else { words };
    match Worker::of_words(&[before, program].concat()) {
        Some(Worker::Program(program)) => Ok(program.command()),
        _ => anyhow::bail!("a program without a name"),
    }
}
