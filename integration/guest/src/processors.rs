// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processors that programs run on.

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// The processors that this process could use when it first asked, by number.
#[must_use]
pub fn allowed() -> &'static [usize] {
    // Asked once: a thread that was put on one processor since may use only that.
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(|| {
        let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
        (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect()
    })
}

/// Two processors: one for the submitter, and one for the engine.
#[must_use]
pub fn pair() -> Option<(usize, usize)> {
    match allowed() {
        [first, second, ..] => Some((*first, *second)),
        _ => None,
    }
}

/// Pins this thread, and threads and processes that it starts later, to these processors.
///
/// # Errors
/// When the kernel refuses.
pub fn pin(processors: &[usize]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|processor| set.set(*processor));
    sched_setaffinity(None, &set)
}

/// Calls `act` pinned to these processors; threads and processes that it starts stay there.
///
/// # Errors
/// When the kernel refuses.
pub fn on<T>(processors: &[usize], act: impl FnOnce() -> T) -> anyhow::Result<T> {
    let before = sched_getaffinity(None).context("cannot query this thread's processors")?;
    pin(processors).context("cannot pin this thread to processors")?;
    let result = act();
    sched_setaffinity(None, &before).context("cannot unpin this thread")?;
    Ok(result)
}

/// A guest and its daemon on processors of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Apart {
    /// The guest's processor.
    pub guest: &'static [usize],
    /// The daemon's processors: all others.
    pub daemon: &'static [usize],
}

impl Apart {
    /// `None` if this process may use only one processor.
    #[must_use]
    pub fn find() -> Option<Self> {
        let (guest, daemon) = allowed().split_at_checked(1)?;
        (!daemon.is_empty()).then_some(Self { guest, daemon })
    }
}

impl std::fmt::Display for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "guest on {}, bellhopd on {}", list(self.guest), list(self.daemon))
    }
}

/// Numbers in order as the kernel writes them: "0-3,8".
fn list(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|before, after| before + 1 == *after);
    let run = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_written_as_the_kernel_writes_them() {
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!([list(&[]), list(&[7]), list(&[1, 3])], ["", "7", "1,3"]);
        let apart = Apart { guest: &[0], daemon: &[1, 2, 3] };
        assert_eq!(apart.to_string(), "guest on 0, bellhopd on 1-3");
    }

    #[test]
    fn what_is_done_on_one_processor_is_done_there_and_nothing_after_it() {
        let [first, ..] = allowed() else { return };
        let before = sched_getaffinity(None).unwrap();
        let there = on(&[*first], || sched_getaffinity(None).unwrap()).unwrap();
        assert_eq!((there.count(), there.is_set(*first)), (1, true));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
