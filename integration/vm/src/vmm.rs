// SPDX-License-Identifier: MIT OR Apache-2.0

//! The VMMs that can run a VM.

/// The VMM that runs a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Vmm {
    /// QEMU, fetched from Debian where this machine has none that is new enough
    Qemu,
    /// cloud-hypervisor from PATH, or the one that $BELLHOP_CLOUD_HYPERVISOR names; needs KVM
    CloudHypervisor,
}
