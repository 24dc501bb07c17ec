// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program of its own that keeps its Vulkan device busy.

use super::figures::{FIGURES, without_caches};
use anyhow::{Context, ensure};
pub use bellhop_vulkan_suite::Where;
use bellhop_vulkan_suite::{Lab, keep_busy};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What it prints when its first work is done.
const BUSY: &[u8] = b"busy\n";

/// Keeps a device busy until standard input ends.
///
/// # Errors
/// When it computes wrongly, or nobody reads what is printed.
pub(super) fn be_busy(lab: &Lab, at: Where) -> anyhow::Result<()> {
    let is_over = AtomicBool::new(false);
    let mut is_first = true;
    thread::scope(|scope| {
        scope.spawn(|| {
            // It ends, or cannot be read: nobody wants this any longer.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            is_over.store(true, Ordering::Relaxed);
        });
        keep_busy(lab, at, || {
            if std::mem::take(&mut is_first) {
                std::io::stdout().write_all(BUSY)?;
            }
            anyhow::Ok(!is_over.load(Ordering::Relaxed))
        })
    })
}

/// A program that keeps its device busy. It ends when this is dropped.
#[derive(Debug)]
pub struct Busy(Child);

impl Busy {
    /// Starts it, and waits until its first work is done. The command is as for [`Figures::of`](super::figures::Figures::of).
    ///
    /// # Errors
    /// When it cannot be started, or ends.
    pub fn start(mut command: Command, at: Where) -> anyhow::Result<Self> {
        without_caches(&mut command).args([FIGURES, "--busy"]);
        if at == Where::Beside {
            command.arg("--beside");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut busy = Self(command.spawn().context("cannot start a program with Vulkan")?);
        let output = busy.0.stdout.as_mut().context("its output is piped")?;
        let mut said = [0; BUSY.len()];
        output.read_exact(&mut said).context("a program with Vulkan ended")?;
        ensure!(said == BUSY, "a program with Vulkan said something else");
        Ok(busy)
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it has failed.
    pub fn end(mut self) -> anyhow::Result<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait().context("cannot wait for a program with Vulkan")?;
        ensure!(status.success(), "a program with Vulkan ended ({status})");
        Ok(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
