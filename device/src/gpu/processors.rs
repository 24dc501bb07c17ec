// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processors that engines run on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::io;

/// The numbers of the processors that the calling thread, and threads that it starts, may run on.
///
/// # Errors
/// If the kernel does not reveal them.
pub fn usable() -> io::Result<Vec<usize>> {
    let usable = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|number| usable.is_set(*number)).collect())
}

/// Starts a thread that runs on this processor only: a thread inherits the processors of its creator.
pub(super) fn start_on<T>(
    processor: usize,
    start: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        only.set(processor);
    }
    sched_setaffinity(None, &only).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("no engine can run on processor {processor}: {error}"))
    })?;
    let started = start();
    sched_setaffinity(None, &before)?;
    started
}

/// Has the calling thread run on another of its processors than the one that it is on, if it has another. It may come back
/// there. Returns whether it has another.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn step_aside() -> io::Result<bool> {
    let own = sched_getaffinity(None)?;
    let mut others = own;
    others.unset(sched_getcpu());
    if others.count() == 0 {
        return Ok(false);
    }
    sched_setaffinity(None, &others)?;
    sched_setaffinity(None, &own)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_runs_where_it_was_started_and_the_one_that_starts_it_as_before() {
        let before = usable().unwrap();
        let first = *before.first().unwrap();
        let thread = start_on(first, || Ok(thread::spawn(|| usable().unwrap()))).unwrap();
        assert_eq!(thread.join().unwrap(), [first]);
        assert_eq!(usable().unwrap(), before);
    }

    #[test]
    fn a_thread_steps_aside_if_it_has_another_processor_and_may_run_where_it_might_before() {
        let before = usable().unwrap();
        assert_eq!(step_aside().unwrap(), before.len() > 1);
        assert_eq!(usable().unwrap(), before);
        let first = *before.first().unwrap();
        let thread = start_on(first, || Ok(thread::spawn(|| step_aside().unwrap()))).unwrap();
        assert!(!thread.join().unwrap());
    }

    #[test]
    fn a_processor_that_is_not_there_is_an_error_that_names_it() {
        let error = start_on(CpuSet::MAX_CPU, || Ok(())).unwrap_err().to_string();
        assert!(error.contains("processor 1024"), "{error}");
    }
}
