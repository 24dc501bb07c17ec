// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processor time of a process.

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

#[cfg(test)]
mod tests {
    use super::*;

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
