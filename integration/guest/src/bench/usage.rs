//! What a process uses of its processors.

use anyhow::Context as _;
use std::fs;

/// What all threads of a process used since they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds that they ran.
    pub cpu_ns: u64,
    /// How often one was given a processor.
    pub wakeups: u64,
}

impl Usage {
    /// That of a process now.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(process: u32) -> anyhow::Result<Self> {
        let gone = || format!("cannot see what process {process} uses");
        let mut usage = Self { cpu_ns: 0, wakeups: 0 };
        for task in fs::read_dir(format!("/proc/{process}/task")).with_context(gone)? {
            // A thread may end between being listed and being looked at. There are nanoseconds on a
            // processor, nanoseconds in line for one, and how often it got one.
            let times = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let mut times = times.split_whitespace().map(|number| number.parse::<u64>());
            if let (Some(Ok(cpu_ns)), Some(Ok(wakeups))) = (times.next(), times.nth(1)) {
                usage.cpu_ns += cpu_ns;
                usage.wakeups += wakeups;
            }
        }
        Ok(usage)
    }

    /// What was used since `before`.
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
