// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs of other people's, built outside the workspace.

use crate::support::stranger::{Source, Stranger};
use crate::support::{self, Daemon, bellhop, run};
use std::process::Command;

const FENCE: &str = "the GPU's fence is 1\n";
const COPY: &str = "the GPU copied: hello\n";

fn see_both_programs(source: &Source) -> Stranger {
    let (stranger, daemon) = (Stranger::build(source), Daemon::start(1));
    let beside = |program| run(Command::new(program).env("BELLHOP_SOCKET", daemon.socket(0)));
    assert_eq!(beside(stranger.first()), FENCE);
    assert_eq!(beside(stranger.copy()), COPY);
    stranger
}

/// In a container, too.
#[test]
fn a_crate_outside_the_workspace_uses_the_library_by_path() {
    let stranger = see_both_programs(&Source::Path);
    if support::is_here("podman", "no container runs a program of somebody else's") {
        let mut container = bellhop();
        let printed = run(container.args(["container", "--guest-binary"]).arg(stranger.first()));
        assert_eq!(printed, FENCE);
    }
}

#[test]
fn a_crate_outside_the_workspace_uses_the_library_by_git() {
    see_both_programs(&Source::Git);
}
