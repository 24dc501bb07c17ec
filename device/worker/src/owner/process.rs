// SPDX-License-Identifier: MIT OR Apache-2.0

//! The process of a worker. Whoever has it stops and kills it, and waits for neither while it serves others.
//!
//! A process decides how long its end takes: Linux frees its page tables and what they map while it ends, and a system call
//! that it is in comes first. It also decides how long it takes to stop, and can undo a stop before the last of its threads
//! has stopped.

use super::WorkerError;
use crate::waiting::is_readable;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpriority_process, pidfd_open,
    pidfd_send_signal, setpriority_pgrp, waitid,
};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an owner waits for the status of a process that has closed its socket: Linux closes that next to last.
const LAST: Duration = Duration::from_millis(1);

/// By how much nicer a killed process is than its owner. It gets its end over, if nothing else, in ten times the time on a
/// processor that its owner uses as well.
const DYING: i32 = 10;

/// How long an owner that ends waits for the end of a process, at most.
const PARTING: Duration = Duration::from_secs(1);

/// Killed processes that had not ended when they were dropped. Each is looked at with the next start or end of another. An
/// owner that goes on drops only what has ended, so that they are few.
static LEFT: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// A process. Dropping this kills it.
#[derive(Debug)]
pub struct Process {
    /// There until this is dropped.
    child: Option<Child>,
    id: u32,
    /// The process, whatever its ID is used for later.
    process: OwnedFd,
}

impl Process {
    /// Starts a process. It ends when the calling thread does, if it asks Linux for that.
    ///
    /// # Errors
    /// When it cannot be started.
    #[expect(clippy::disallowed_methods, reason = "a manager: until Linux has started the program")]
    pub fn spawn(command: &mut Command) -> Result<Self, WorkerError> {
        leave(None);
        let mut child = command.spawn().map_err(WorkerError::NotStarted)?;
        let id = child.id();
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(process) => Ok(Self { child: Some(child), id, process }),
            Err(error) => {
                let _ = child.kill();
                leave(Some(child));
                Err(error.into())
            }
        }
    }

    /// Returns its ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns its pidfd to poll: it is readable when the process has ended, and all of its threads.
    #[must_use]
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Stops it, but not before its threads come out of the system calls that they are in. It may undo that.
    ///
    /// # Errors
    /// When it has ended and was waited for.
    pub fn stop(&self) -> Result<(), WorkerError> {
        Ok(pidfd_send_signal(&self.process, Signal::STOP)?)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it has ended and was waited for.
    pub fn resume(&self) -> Result<(), WorkerError> {
        Ok(pidfd_send_signal(&self.process, Signal::CONT)?)
    }

    /// Returns whether all of its threads have stopped, and none has gone on.
    ///
    /// # Errors
    /// When it has ended and was waited for.
    #[expect(clippy::disallowed_methods, reason = "does not wait: it says so (`NOHANG`)")]
    pub fn has_stopped(&self) -> Result<bool, WorkerError> {
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::PidFd(self.ended()), look)?.is_some())
    }

    /// Kills it. Linux frees what it has in its name, on a processor that others may want: so its process group has less of
    /// one from here on.
    pub fn kill(&self) {
        // It may have ended by itself, and been waited for: its ID may be another's then.
        if pidfd_send_signal(&self.process, Signal::KILL).is_err() {
            return;
        }
        let group = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        // The end of a process that has no group of its own takes what it takes.
        let _ = getpriority_process(None)
            .and_then(|own| setpriority_pgrp(group, own.saturating_add(DYING)));
    }

    /// Returns whether it has ended, and none of its threads reaches memory any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        // A process that Linux does not know has ended.
        is_readable(self.ended(), Instant::now()).unwrap_or(true)
    }

    /// Kills it, and returns how it has ended, if that is known in a moment.
    pub fn end(&mut self) -> Option<ExitStatus> {
        self.kill();
        let _ = is_readable(self.ended(), Instant::now() + LAST);
        self.child.as_mut()?.try_wait().ok()?
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        // Whoever serves others meanwhile drops only what has ended. The rest ends with its owner, and leaves nothing.
        let _ = is_readable(self.ended(), Instant::now() + PARTING);
        leave(self.child.take());
    }
}

/// Leaves a killed process to whoever does this next, unless it has ended.
#[expect(clippy::disallowed_methods, reason = "a lock that is held for looks that do not wait")]
fn leave(child: Option<Child>) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.extend(child);
    // One that Linux does not know has been waited for.
    left.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    fn sleeper() -> Process {
        let mut command = Command::new("sleep");
        Process::spawn(command.arg("1000").stdin(Stdio::null())).unwrap()
    }

    #[test]
    fn a_process_stops_goes_on_and_ends_and_nobody_waits_for_it() {
        let mut process = sleeper();
        assert!(!process.has_ended() && !process.has_stopped().unwrap());
        process.stop().unwrap();
        while !process.has_stopped().unwrap() {
            std::thread::yield_now();
        }
        // The look has changed nothing.
        assert!(process.has_stopped().unwrap() && !process.has_ended());
        process.resume().unwrap();
        assert!(!process.has_stopped().unwrap());
        process.kill();
        while !process.has_ended() {
            std::thread::yield_now();
        }
        assert_eq!(process.end().map(|status| status.success()), Some(false));
    }

    #[test]
    fn a_process_that_was_killed_leaves_processors_to_others() {
        let mut command = Command::new("sleep");
        let mut process =
            Process::spawn(command.arg("1000").process_group(0).stdin(Stdio::null())).unwrap();
        let nice = |process: &Process| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
            // `proc_pid_stat(5)`: the 19th field, of which the second is in parentheses.
            let (_, rest) = stat.rsplit_once(") ").unwrap();
            rest.split(' ').nth(16).unwrap().parse::<i32>().unwrap()
        };
        let before = nice(&process);
        process.kill();
        while !process.has_ended() {
            std::thread::yield_now();
        }
        assert_eq!(nice(&process), (before + DYING).min(19));
        assert!(process.end().is_some());
    }

    #[test]
    fn a_process_that_is_dropped_is_killed_and_leaves_no_zombie() {
        let process = sleeper();
        let stat = format!("/proc/{}/stat", process.id());
        drop(process);
        // Others of this program's tests may have other processes of this kind.
        while std::fs::exists(&stat).unwrap() {
            leave(None);
            std::thread::yield_now();
        }
    }
}
