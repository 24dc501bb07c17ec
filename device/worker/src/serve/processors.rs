// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processors that a worker may use.

use rustix::io;
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Confines the calling thread, and those that it starts, to so many of its processors, from the one with this number
/// among them on, counted round. 0 processors are all.
///
/// # Errors
/// When Linux refuses.
pub fn limit(processors: u32, first: u32) -> io::Result<()> {
    let all = sched_getaffinity(None)?;
    match choose(&all, processors, first) {
        Some(chosen) => sched_setaffinity(None, &chosen),
        None => Ok(()),
    }
}

/// By how much nicer a worker is than the daemon: where both want a processor, engines have more of it. Not by much: on a
/// busy host the kernels of guests would time out that are no longer than usual.
const NICER: i32 = 2;

/// Lowers the priority of the calling thread, and of those that it starts. It cannot undo that: nothing in the sandbox
/// changes a priority.
///
/// # Errors
/// When Linux refuses.
pub fn be_nice() -> io::Result<()> {
    let nice = getpriority_process(None)?.saturating_add(NICER);
    setpriority_process(None, nice)
}

/// Returns the chosen processors, or `None` if they are all.
fn choose(all: &CpuSet, processors: u32, first: u32) -> Option<CpuSet> {
    let there: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
    if processors == 0 || processors as usize >= there.len() {
        return None;
    }
    let mut chosen = CpuSet::new();
    let from = first as usize % there.len();
    there.iter().cycle().skip(from).take(processors as usize).for_each(|cpu| chosen.set(*cpu));
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_processors_are_chosen_and_counted_round() {
        let set = |cpus: &[usize]| {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|cpu| set.set(*cpu));
            set
        };
        let all = set(&[1, 2, 5, 9]);
        assert_eq!(choose(&all, 2, 0), Some(set(&[1, 2])));
        assert_eq!(choose(&all, 2, 3), Some(set(&[9, 1])));
        assert_eq!(choose(&all, 3, u32::MAX), Some(set(&[9, 1, 2])));
        assert_eq!(choose(&all, 0, 1), None);
        assert_eq!(choose(&all, 4, 1), None);
    }
}
