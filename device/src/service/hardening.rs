// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "prctl, and memory that is mapped to see whether it may be")]

//! The daemon makes no code, and gives up that it could. Workers compile kernels, so they do not inherit this.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::sync::OnceLock;
use tracing::debug;

/// Whether this process may have made no code from its start.
static REFUSED: OnceLock<bool> = OnceLock::new();

/// Returns whether this process, and so its workers, may make no code: for instance because of `MemoryDenyWriteExecute=`
/// of its unit. What [`give_up_code`] gave up does not count.
pub(super) fn is_code_refused() -> bool {
    *REFUSED.get_or_init(|| !can_make_code())
}

fn can_make_code() -> bool {
    let (length, code) = (4096, ProtFlags::WRITE | ProtFlags::EXEC);
    // SAFETY: a new mapping where nothing is; it is unmapped below, and nothing refers to it.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, code, MapFlags::PRIVATE) };
    if let Ok(memory) = mapped {
        // SAFETY: as above.
        let _ = unsafe { munmap(memory, length) };
    }
    mapped.is_ok()
}

/// Gives up that this process could make code, but not for processes that it starts. Returns whether Linux can do
/// that: from 6.6 on.
pub(super) fn give_up_code() -> bool {
    is_code_refused();
    let flags = libc::PR_MDWE_REFUSE_EXEC_GAIN | libc::PR_MDWE_NO_INHERIT;
    let none: libc::c_ulong = 0;
    // SAFETY: takes numbers, and changes no memory. The program makes no code.
    let result =
        unsafe { libc::prctl(libc::PR_SET_MDWE, libc::c_ulong::from(flags), none, none, none) };
    if result != 0 {
        // Linux before 6.6, or the unit has given it up for all processes.
        let error = std::io::Error::last_os_error();
        debug!(%error, "this Linux cannot forbid the daemon, and it alone, to make code");
    }
    result == 0
}

#[cfg(test)]
#[path = "../../../integration/tests/support/left_out.rs"]
mod left_out;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Tells this test's own process that it is the worker.
    const WORKER: &str = "BELLHOP_TEST_WORKER";

    #[test]
    fn the_daemon_gives_up_code_for_itself_and_not_for_its_workers() {
        if std::env::var_os(WORKER).is_some() {
            assert!(can_make_code());
            return;
        }
        if !give_up_code() {
            return left_out::skip(
                "this Linux is older than 6.6",
                "the daemon may make code",
                "run a newer Linux",
            );
        }
        assert!(!can_make_code() && !is_code_refused());
        let name = std::thread::current().name().unwrap().to_owned();
        let worker = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name])
            .env(WORKER, "")
            .output()
            .unwrap();
        assert!(worker.status.success(), "{worker:?}");
        let ran = String::from_utf8_lossy(&worker.stdout);
        assert!(ran.contains("1 passed"), "{ran}");
    }
}
