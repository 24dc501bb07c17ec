//! VMMs, as far as a vhost-user device can tell them apart. A profile is data.

/// A VMM.
#[derive(Debug, PartialEq, Eq)]
pub struct VmmProfile {
    /// Its name.
    pub name: &'static str,
    /// Whether it has shared-memory regions, and how many a device may have. Their sizes must add
    /// up to a power of two.
    pub shared_memory_regions: u32,
    /// Entries of the memory table, guest memory included. Every mapping into a shared-memory
    /// region takes one.
    pub memory_slots: usize,
    /// Whether it dies of a mapping that comes while the device is not started.
    pub dies_of_early_mappings: bool,
}

/// QEMU 11 with `vhost-user-test-device-pci` behind a PCIe root port.
pub const QEMU: VmmProfile = VmmProfile {
    name: "qemu",
    shared_memory_regions: 1,
    memory_slots: 8,
    dies_of_early_mappings: true,
};

/// A VMM that has no shared-memory regions.
pub const WITHOUT_SHARED_MEMORY: VmmProfile = VmmProfile {
    name: "without-shared-memory",
    shared_memory_regions: 0,
    memory_slots: 32,
    dies_of_early_mappings: false,
};

/// All of them.
pub const VMMS: [&VmmProfile; 2] = [&QEMU, &WITHOUT_SHARED_MEMORY];
