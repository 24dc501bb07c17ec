// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processor time that a worker takes for something.

use std::fs;
use std::time::{Duration, Instant};

/// A tick, in which `/proc` has processor times: Linux has 100 in a second for programs (`USER_HZ`), whatever its own are.
const TICK: Duration = Duration::from_millis(10);

/// When a worker began with something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    /// The processor time that it had taken before, if the host lets the daemon know.
    taken: Option<Duration>,
    at: Instant,
}

impl Begun {
    /// A process begins now.
    pub(super) fn now(process: u32) -> Self {
        Self { taken: taken(process), at: Instant::now() }
    }

    /// The processor time that the process has taken since, or all time if that cannot be known: of a process that is
    /// gone, and where `/proc` is not there.
    pub(super) fn spent(self, process: u32) -> Duration {
        let time = self.taken.zip(taken(process));
        time.map_or_else(|| self.at.elapsed(), |(before, after)| after.saturating_sub(before))
    }
}

/// The processor time that all threads of a process have taken.
#[expect(
    clippy::disallowed_methods,
    reason = "the manager of workers: a file of the kernel in memory"
)]
fn taken(process: u32) -> Option<Duration> {
    parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Takes the times of a `/proc/PID/stat`; proc_pid_stat(5).
fn parse(text: &str) -> Option<Duration> {
    // A program's name may hold anything. Behind it: the state, ten fields, and the times in user and kernel mode.
    let mut fields = text.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let all = ticks()?.checked_add(ticks()?)?;
    Some(TICK.saturating_mul(u32::try_from(all).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn times_are_those_that_linux_writes() {
        let text = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 200 100 0 0 20 5 1\n";
        assert_eq!(parse(text), Some(Duration::from_secs(3)));
        for text in
            ["", "7 (a) R", "7 (a) R 1 2 3 4 5 6 7 8 9 10 x 1", "7 (a) R 1 2 3 4 5 6 7 8 9 10 1"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_process_takes_is_seen_and_what_it_sleeps_is_not() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        let sleeping = Begun::now(child.id());
        let own = Begun::now(std::process::id());
        while own.spent(std::process::id()) < Duration::from_millis(50) {}
        // It has started meanwhile.
        let slept = sleeping.spent(child.id());
        assert!(slept < own.at.elapsed(), "{slept:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let passed = sleeping.at.elapsed();
        assert!(sleeping.spent(child.id()) >= passed, "it is gone");
    }
}
