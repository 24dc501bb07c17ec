// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs of other people's, in VMs.

use crate::support::stranger::{Source, Stranger};
use crate::support::{run, vms};

#[test]
fn a_crate_outside_the_workspace_runs_in_a_vm() {
    let Some(vm) = vms() else { return };
    let stranger = Stranger::build(&Source::Path);
    for (program, printed) in
        [(stranger.first(), "the GPU's fence is 1\n"), (stranger.copy(), "the GPU copied: hello\n")]
    {
        assert_eq!(run(vm().arg("--guest-binary").arg(program)), printed);
    }
}
