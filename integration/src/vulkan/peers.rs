// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program that starts another one, and takes turns with it by semaphores of Vulkan.

use crate::hosted::this_executable;
use anyhow::{Context, ensure};
use bellhop_vulkan_suite::{Failure, peers};
use command_fds::{CommandFdExt, FdMapping};
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::{Command, Stdio};

/// The hidden command that is both.
pub const PEERS: &str = "vulkan-peers";
/// The descriptors that the second one gets.
const DESCRIPTORS: [RawFd; 2] = [3, 4];

/// Which of the two.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Arguments {
    /// Be the second one
    #[arg(long)]
    follows: bool,
}

impl Arguments {
    /// Takes turns.
    ///
    /// # Errors
    /// When something else is seen than turns.
    pub fn run(self) -> anyhow::Result<()> {
        if self.follows {
            #[expect(unsafe_code, reason = "descriptors are inherited by number")]
            // SAFETY: the first one passes these, and nothing here has opened any other.
            let shared = DESCRIPTORS.map(|number| unsafe { OwnedFd::from_raw_fd(number) });
            return Ok(peers::follow(&super::lab(0)?, shared)?);
        }
        let lab = super::lab(0)?;
        let mut second = None;
        let start = |shared: peers::Shared| {
            second = Some(start(shared).map_err(|error| Failure::Seen(format!("{error:#}")))?);
            Ok(())
        };
        peers::lead(&lab, start)?;
        let status = second.context("there is no second program")?.wait()?;
        ensure!(status.success(), "the second program ended ({status})");
        Ok(writeln!(std::io::stdout(), "the programs took turns")?)
    }
}

/// Starts the second one.
fn start(shared: peers::Shared) -> anyhow::Result<std::process::Child> {
    let this = this_executable()?;
    let mut command = Command::new(this);
    command.args([PEERS, "--follows"]).stdin(Stdio::null());
    let mapping = |(parent_fd, child_fd)| FdMapping { parent_fd, child_fd };
    command.fd_mappings(shared.into_iter().zip(DESCRIPTORS).map(mapping).collect())?;
    command.spawn().context("cannot start a second program")
}
