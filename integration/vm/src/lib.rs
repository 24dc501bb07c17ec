// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest in a real VM: stock QEMU, Debian's kernel, and the guest program as its only task.

mod accelerator;
pub mod attachment;
mod cache;
mod cloud_hypervisor;
mod debian;
mod environment;
mod in_qemu;
mod initramfs;
mod kernel;
pub mod keyboard;
mod machine;
mod monitor;
mod nested;
mod options;
mod progress;
mod qemu;
mod trace;
pub mod variant;
mod vmm;

pub use accelerator::Accelerator;
pub use environment::Sources;
pub use options::{Options, Outcome, STOOD_STILL};
pub use vmm::Vmm;

/// Boots a VM, has it do its task, and waits for it. The VM has ended when this returns.
///
/// # Errors
/// When it cannot be set up or started, or does not complete the task.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    match (options.vmm, options.nested) {
        (Vmm::Qemu, _) => in_qemu::run(options),
        (Vmm::CloudHypervisor, false) => cloud_hypervisor::run(options),
        (Vmm::CloudHypervisor, true) => nested::run(options),
    }
}
