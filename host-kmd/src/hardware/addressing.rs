// SPDX-License-Identifier: MIT OR Apache-2.0

//! How GPU virtual addresses are translated.

/// The translation of GPU virtual addresses to memory addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VirtualAddressingModel {
    /// Through the GPU's own page tables, bypassing any IOMMU.
    GpuMmu,
    /// Through an IOMMU, with one domain per process (`GpuVaIoMmu`).
    GpuVaIoMmu,
    /// Through the GPU's page tables and then an IOMMU, with one domain for all processes of a guest
    /// (`GpuVaIoMmuGlobal`). Ours: page-table entries hold guest-physical addresses, which the guest's memory table
    /// translates.
    #[default]
    GpuVaIoMmuGlobal,
}

impl VirtualAddressingModel {
    /// Whether system memory is mapped in an IOMMU while the GPU may reach it. "The notification is sent only when
    /// the device supports GpuVaIoMmu or GpuVaIoMmuGlobal virtual addressing models."
    #[must_use]
    pub const fn has_io_mmu(self) -> bool {
        matches!(self, Self::GpuVaIoMmu | Self::GpuVaIoMmuGlobal)
    }
}

/// Bytes that a page-table entry maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// 4 KiB.
    Small,
    /// 64 KiB: address and GPU virtual address are multiples of it.
    Large,
}

impl PageSize {
    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Small => 4 << 10,
            Self::Large => 64 << 10,
        }
    }
}
