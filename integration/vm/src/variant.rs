// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kinds of VM that are known to work, as data: they vary in properties that have broken drivers.

/// A VM to attach the device to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its purpose.
    pub description: &'static str,
    /// The guest's kernel.
    pub kernel: KernelSeries,
    /// Virtual processors.
    pub processors: u32,
    /// Guest memory in MiB.
    pub memory_mib: u32,
    /// The number of modules of at most 1 GiB that can be plugged in while it runs. The guest's kernel leaves them
    /// alone until told to use them.
    pub memory_slots: u32,
    /// Whether each device is behind a separate PCIe port, as in most VMs, and not on the root complex's bus.
    pub root_ports: bool,
    /// Whether the VM has an IOMMU: then the guest uses VFIO and MSI-X, else UIO and INTx.
    pub iommu: bool,
    /// Whether the guest's kernel may make huge pages: Linux makes none in VMs below 512 MiB.
    pub huge_pages: bool,
    /// Whether its guest can run VMs itself, on an emulated processor.
    pub nests: bool,
    /// The number of GPUs.
    pub devices: usize,
}

/// The source of the guest's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelSeries {
    /// Debian 13's own.
    Stable,
    /// The newest kernel for Debian 13, of another major version.
    Backports,
}

const PLAIN: Variant = Variant {
    name: "plain",
    description: "two processors, the device on the root bus, INTx interrupts",
    kernel: KernelSeries::Stable,
    processors: 2,
    memory_mib: 768,
    memory_slots: 0,
    root_ports: false,
    iommu: false,
    huge_pages: true,
    nests: false,
    devices: 1,
};

/// The VM that cloud-hypervisor runs.
pub const CLOUD_HYPERVISOR: Variant = Variant {
    name: "cloud-hypervisor",
    description: "one processor, everything shared in guest memory, no interrupts",
    processors: 1,
    memory_mib: 1024,
    ..PLAIN
};

/// A VM that emulates a machine with KVM.
pub const HOST: Variant = Variant {
    name: "host",
    description: "runs another VM, and has no GPU itself",
    memory_mib: 2560,
    nests: true,
    devices: 0,
    ..PLAIN
};

/// The VM whose services are what a host has installed.
pub const SERVICES: Variant = Variant {
    name: "services",
    description: "stands for a host, and has no GPU itself",
    memory_mib: 2560,
    devices: 0,
    ..PLAIN
};

/// All variants; the first is the default.
pub const VARIANTS: [Variant; 9] = [
    PLAIN,
    Variant {
        name: "root-port",
        description: "the device behind a PCIe root port",
        root_ports: true,
        ..PLAIN
    },
    Variant {
        name: "one-processor",
        description: "one processor, so that a thread that polls keeps all others waiting; no huge pages",
        processors: 1,
        huge_pages: false,
        ..PLAIN
    },
    Variant {
        name: "iommu",
        description: "a virtual IOMMU: VFIO and MSI-X interrupts",
        iommu: true,
        ..PLAIN
    },
    Variant {
        name: "large-memory",
        description: "3 GiB: guest memory in two pieces, around the hole below 4 GiB",
        memory_mib: 3072,
        ..PLAIN
    },
    Variant {
        name: "memory-slots",
        description: "slots in which memory can be plugged and unplugged while the VM runs",
        memory_slots: 3,
        ..PLAIN
    },
    Variant {
        name: "new-kernel",
        description: "Debian's newest kernel, of another major version",
        kernel: KernelSeries::Backports,
        ..PLAIN
    },
    Variant {
        name: "new-kernel-iommu",
        description: "Debian's newest kernel, with a virtual IOMMU and a root port",
        kernel: KernelSeries::Backports,
        root_ports: true,
        iommu: true,
        ..PLAIN
    },
    Variant {
        name: "two-devices",
        description: "two GPUs, each behind a root port",
        root_ports: true,
        devices: 2,
        ..PLAIN
    },
];

/// The variant of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Variant> {
    VARIANTS.iter().find(|variant| variant.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_and_no_two_are_the_same_vm() {
        for (index, variant) in VARIANTS.iter().enumerate() {
            assert_eq!(find(variant.name), Some(variant));
            let anonymous = |variant: &Variant| Variant { name: "", description: "", ..*variant };
            let same = |other: &Variant| anonymous(other) == anonymous(variant);
            assert_eq!(VARIANTS.iter().position(same), Some(index), "{}", variant.name);
        }
    }

    #[test]
    fn an_unknown_name_finds_nothing() {
        assert_eq!(find("mainframe"), None);
    }
}
