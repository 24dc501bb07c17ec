// SPDX-License-Identifier: MIT OR Apache-2.0

//! What becomes of a worker that takes all that it gets. Outside the sandbox, its cgroup alone bounds it.

use std::io;
use std::process::{Command, Stdio};
use std::thread::{self, Builder};

/// Takes memory until there is none.
pub(super) fn hoard() -> ! {
    const PIECE: usize = 16 << 20;
    let mut all = Vec::new();
    loop {
        let mut piece = vec![0_u8; PIECE];
        piece.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        all.push(piece);
    }
}

/// Starts a process that outlives this one, and then threads until there can be no more. They stay. Returns why there is
/// not another one.
pub(super) fn swarm() -> io::Error {
    let mut child = Command::new("sleep");
    child.arg("1000000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = match child.spawn() {
        Ok(child) => child,
        Err(error) => return error,
    };
    // It does not end before this process does.
    thread::spawn(move || child.wait());
    loop {
        let idle = || {
            loop {
                thread::park();
            }
        };
        if let Err(error) = Builder::new().stack_size(1 << 16).spawn(idle) {
            return error;
        }
    }
}
