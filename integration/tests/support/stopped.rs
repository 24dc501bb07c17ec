// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads of other processes that are kept from running. Unlike a stopped process, a traced one cannot be told to go on by
//! anybody else.

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::sync::mpsc::channel;
use std::thread;

/// What makes [`Stopped`] possible, for who skips a test for want of it.
pub const HOW: &str =
    "be root, or allow processes to trace their children (kernel.yama.ptrace_scope)";

/// Threads that do not run until this is dropped, by the thread that stopped them.
pub struct Stopped(BTreeSet<Pid>);

impl Stopped {
    /// Stops the thread of this name; `None` where processes may not be traced.
    pub fn thread(process: u32, name: &str) -> Option<Self> {
        let of_name = |thread: &Pid| {
            fs::read_to_string(format!("/proc/{process}/task/{thread}/comm"))
                .is_ok_and(|comm| comm.trim_end() == name)
        };
        let thread = threads(process).into_iter().find(of_name).expect("the thread");
        let mut stopped = Self(BTreeSet::new());
        stopped.stop(thread).then_some(stopped)
    }

    fn stop(&mut self, thread: Pid) -> bool {
        if ptrace::seize(thread, ptrace::Options::empty()).is_err() {
            return false;
        }
        ptrace::interrupt(thread).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        self.0.insert(thread)
    }
}

/// Stops all threads of a process until it is killed. Returns false where processes may not be traced.
pub fn hold(process: u32) -> bool {
    let (done, held) = channel();
    thread::spawn(move || {
        let mut stopped = Stopped(BTreeSet::new());
        // A thread that is not stopped yet may start others.
        while let Some(thread) = threads(process).difference(&stopped.0).next().copied() {
            if !stopped.stop(thread) {
                return done.send(false);
            }
        }
        let told = done.send(true);
        // A traced thread is gone once its tracer has waited for it, and so is its process.
        let own = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        while waitpid(None, Some(own)).is_ok() {}
        told
    });
    held.recv().unwrap()
}

/// The threads of a process.
fn threads(process: u32) -> BTreeSet<Pid> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = tasks.map(|task| task.unwrap().file_name());
    names.map(|name| Pid::from_raw(name.to_str().unwrap().parse().unwrap())).collect()
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for thread in &self.0 {
            // The process may have ended.
            let _ = ptrace::detach(*thread, None);
        }
    }
}
