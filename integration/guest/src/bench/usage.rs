// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processor time and the memory of a process.

use anyhow::Context as _;
use std::fs;

/// Processor time of all threads of a process since they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds that they ran.
    pub cpu_ns: u64,
    /// How often a thread got a processor.
    pub wakeups: u64,
}

impl Usage {
    /// The processor time of a process until now.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(process: u32) -> anyhow::Result<Self> {
        let gone = || format!("cannot read the resource usage of process {process}");
        let mut usage = Self { cpu_ns: 0, wakeups: 0 };
        for task in fs::read_dir(format!("/proc/{process}/task")).with_context(gone)? {
            // A thread may end after it was listed. The file holds nanoseconds on a processor, nanoseconds of
            // waiting for one, and how often the thread got one.
            let times = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let mut times = times.split_whitespace().map(|number| number.parse::<u64>());
            if let (Some(Ok(cpu_ns)), Some(Ok(wakeups))) = (times.next(), times.nth(1)) {
                usage.cpu_ns += cpu_ns;
                usage.wakeups += wakeups;
            }
        }
        Ok(usage)
    }

    /// The processor time since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            wakeups: self.wakeups.saturating_sub(before.wakeups),
        }
    }
}

/// The memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that are resident. Memory that several processes share counts by parts, as far as this program may know
    /// that; otherwise whole.
    pub bytes: u64,
}

impl Memory {
    /// The memory of a process now.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(process: u32) -> anyhow::Result<Self> {
        // Only those who may trace a process may read how it shares its memory.
        let shared = fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
        if let Some(bytes) = shared.ok().as_deref().and_then(proportional) {
            return Ok(Self { bytes });
        }
        let path = format!("/proc/{process}/status");
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let bytes = kib(&status, "VmRSS:").with_context(|| format!("{path} says no VmRSS"))?;
        Ok(Self { bytes })
    }

    /// The bytes that came since `before`, of each of `count` pieces.
    #[must_use]
    pub fn since(self, before: Self, count: usize) -> f64 {
        (self.bytes as f64 - before.bytes as f64) / count.max(1) as f64
    }
}

fn proportional(rollup: &str) -> Option<u64> {
    kib(rollup, "Pss:")
}

/// The bytes of a line such as `VmRSS:   123 kB`.
fn kib(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_written_is_a_processs_own() {
        let grown = || {
            let before = Memory::of(std::process::id()).unwrap();
            let _bytes = std::hint::black_box(vec![1u8; 64 << 20]);
            Memory::of(std::process::id()).unwrap().since(before, 2)
        };
        // Other tests of this process have memory too, and may give it back meanwhile.
        let most = (0..10).map(|_| grown()).fold(0.0, f64::max);
        assert!(most > f64::from(16 << 20), "{most} for 64 MiB, of two processes");
        assert!(Memory::of(u32::MAX).is_err());
        assert_eq!(kib("Name: x\nVmRSS:\t   12 kB\n", "VmRSS:"), Some(12 << 10));
        assert_eq!(kib("Pss: none", "Pss:"), None);
    }

    #[test]
    fn a_process_that_computes_uses_its_processor() {
        let before = Usage::of(std::process::id()).unwrap();
        let mut sum = 0u64;
        while Usage::of(std::process::id()).unwrap().since(before).cpu_ns == 0 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(Usage::of(u32::MAX).is_err());
    }
}
