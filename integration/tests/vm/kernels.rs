// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels of a real guest's own, on files of the host's.

use crate::support::kernels::{Doubling, worker};
use crate::support::{run, vms};

#[test]
fn a_kernel_s_files_go_into_the_vm_and_its_output_comes_back() {
    let (Some(vm), Some(_)) = (vms(), worker("no guest in a VM runs kernels")) else { return };
    let doubling = Doubling::new();
    let mut vm = vm();
    run(doubling.ask(vm.args(["--vulkan", "debian-13", "--"])));
    doubling.assert_done();
}
