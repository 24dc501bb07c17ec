// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device's registers of which QEMU emulated a guest's accesses.
//!
//! Shared memory must never be among them: an access that QEMU emulates has stopped the guest.

use anyhow::Context;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The names of emulated accesses in QEMU's log.
pub const EVENTS: [&str; 2] = ["memory_region_ops_read", "memory_region_ops_write"];
/// QEMU's name for registers of virtio devices; the GPUs are a VM's only ones.
const REGISTERS: &str = "virtio";

/// Counts of reads and writes by register.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Accesses(BTreeMap<String, (u64, u64)>);

impl Accesses {
    /// Counts the accesses in a trace.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot read the trace {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let mut accesses = Self::default();
        for line in BufReader::new(file).lines() {
            accesses.count(&line.with_context(cannot)?);
        }
        Ok(accesses)
    }

    /// Counts a line such as `memory_region_ops_read cpu 0 mr 0x5 addr 0x7 value 0x0 size 1 name 'rtc'`.
    fn count(&mut self, line: &str) {
        let Some(event) = EVENTS.iter().position(|event| line.contains(event)) else { return };
        let Some((_, name)) = line.rsplit_once("name '") else { return };
        let name = name.trim_end_matches('\'');
        if name.starts_with(REGISTERS) {
            let (reads, writes) = self.0.entry(name.to_owned()).or_default();
            *[reads, writes][event] += 1;
        }
    }
}

impl fmt::Display for Accesses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "accesses to the GPU that QEMU emulated, since the VM's start:")?;
        for (name, (reads, writes)) in &self.0 {
            writeln!(formatter, "  {name:<40} {reads:>8} reads {writes:>8} writes")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_accesses_to_the_gpu_are_counted() {
        let mut accesses = Accesses::default();
        let access = "cpu 0 mr 0x55 addr 0x70 value 0x8f size 1 name";
        for line in [
            &format!("memory_region_ops_write {access} 'rtc-index'"),
            &format!("memory_region_ops_write {access} 'virtio-pci-common-virtio-audio-pol'"),
            &format!("memory_region_ops_read {access} 'virtio-pci-isr-virtio-audio-pol'"),
            &format!("memory_region_ops_read {access} 'virtio-pci-isr-virtio-audio-pol'"),
            "something that QEMU warns about",
        ] {
            accesses.count(line);
        }
        let expected = [
            ("virtio-pci-common-virtio-audio-pol".to_owned(), (0, 1)),
            ("virtio-pci-isr-virtio-audio-pol".to_owned(), (2, 0)),
        ];
        assert_eq!(accesses, Accesses(expected.into()));
    }
}
