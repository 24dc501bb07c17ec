// SPDX-License-Identifier: MIT OR Apache-2.0

//! QEMU's messages about a running VM, in its machine protocol (QMP).

use anyhow::Context;
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// A connection to QEMU's monitor.
pub struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    /// Both ends of a connection: this one, and the one for QEMU.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn pair() -> anyhow::Result<(Self, OwnedFd)> {
        let (ours, qemus) = UnixStream::pair().context("cannot create a socket for QEMU")?;
        let qemus = qemus.into_std().context("cannot create a socket for QEMU")?;
        qemus.set_nonblocking(false).context("cannot create a socket for QEMU")?;
        Ok((Self { stream: BufReader::new(ours) }, qemus.into()))
    }

    /// Waits until QEMU stops the VM without ending it, and returns the reason in QEMU's words. The VM
    /// does not continue by itself.
    ///
    /// # Errors
    /// When QEMU sends an unexpected message.
    pub async fn stopped(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self
                .stream
                .read_line(&mut line)
                .await
                .context("cannot read from QEMU's monitor")?;
            if count == 0 {
                // The VM has ended; the task that waits for its process sees that.
                return std::future::pending().await;
            }
            let message: Value = serde_json::from_str(&line)
                .context("QEMU's monitor sent something other than QMP")?;
            if message.get("QMP").is_some() {
                self.execute("qmp_capabilities").await?;
            } else if message["event"] == "STOP" {
                self.execute("query-status").await?;
            } else if let Some(status) = message["return"]["status"].as_str() {
                return Ok(status.to_owned());
            }
        }
    }

    async fn execute(&mut self, command: &str) -> anyhow::Result<()> {
        let message = format!("{}\n", json!({ "execute": command }));
        let stream = self.stream.get_mut();
        stream.write_all(message.as_bytes()).await.context("cannot write to QEMU's monitor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_processes::process::block_on;

    #[test]
    fn a_vm_that_stops_is_asked_why() {
        let stopped = block_on(async {
            let (mut monitor, qemu) = Monitor::pair()?;
            let qemu = std::os::unix::net::UnixStream::from(qemu);
            qemu.set_nonblocking(true)?;
            let mut qemu = BufReader::new(UnixStream::from_std(qemu)?);
            let qemu = async {
                let mut asked = String::new();
                qemu.get_mut().write_all(b"{\"QMP\": {\"version\": {}}}\n").await?;
                qemu.read_line(&mut asked).await?;
                let said = "{\"return\": {}}\n{\"event\": \"RTC_CHANGE\"}\n{\"event\": \"STOP\"}\n";
                qemu.get_mut().write_all(said.as_bytes()).await?;
                qemu.read_line(&mut asked).await?;
                let said = "{\"return\": {\"status\": \"internal-error\", \"running\": false}}\n";
                qemu.get_mut().write_all(said.as_bytes()).await?;
                anyhow::Ok(asked)
            };
            let (stopped, asked) = tokio::try_join!(monitor.stopped(), qemu)?;
            assert_eq!(
                asked,
                "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"query-status\"}\n"
            );
            Ok(stopped)
        });
        assert_eq!(stopped.unwrap(), "internal-error");
    }
}
