// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads that a worker cannot do without.

use super::faults::end;
use std::io::{self, Write};
use std::{panic, thread};

/// Ends the process when it is dropped, however its thread ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        end();
    }
}

/// Starts a thread. When it returns or panics, the process ends at once, because no more answers would reach the
/// owner.
///
/// # Errors
/// When Linux refuses the thread.
pub fn spawn(
    name: &str,
    run: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
) -> io::Result<()> {
    let started = thread::Builder::new().name(name.into()).spawn(move || {
        let _guard = Guard;
        if let Err(error) = run() {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "bellhop-worker: {error:#}");
        }
    });
    started.map(drop)
}

/// From now on, a panic of any thread ends the process, also of one that a library has started.
pub fn make_all_essential() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        tell(panicked);
        end();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::process::Command;

    /// Set in the process that is to end.
    const INSIDE: &str = "BELLHOP_WORKER_ESSENTIAL";

    #[test]
    fn a_thread_that_panics_ends_its_process_at_once() {
        if env::var_os(INSIDE).is_some() {
            spawn("essential", || panic!("as the test wants")).unwrap();
            rest();
        }
        assert_this_ends("a_thread_that_panics_ends_its_process_at_once");
    }

    #[test]
    fn a_thread_of_a_library_that_panics_ends_its_process_once_all_are_essential() {
        if env::var_os(INSIDE).is_some() {
            make_all_essential();
            thread::spawn(|| panic!("as the test wants"));
            rest();
        }
        assert_this_ends(
            "a_thread_of_a_library_that_panics_ends_its_process_once_all_are_essential",
        );
    }

    fn rest() -> ! {
        loop {
            thread::park();
        }
    }

    /// Runs a test of these in a process of its own, which ends with an error.
    #[track_caller]
    fn assert_this_ends(test: &str) {
        let this = format!("serve::essential::tests::{test}");
        let mut command = Command::new(env::current_exe().unwrap());
        let output =
            command.args(["--nocapture", "--exact", &this]).env(INSIDE, "1").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("as the test wants"), "{output:?}");
    }
}
