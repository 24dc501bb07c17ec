// SPDX-License-Identifier: MIT OR Apache-2.0

//! User-space access to a PCI device: through VFIO, or through sysfs and UIO.

use super::TransportError;
use super::address::{Attachment, PciAddress};
use super::capability::{CONFIG_SIZE, Window};
use super::uio::Uio;
use super::vfio::Vfio;
use crate::transport::{BarMapping, MemoryType};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use vm_memory::MmapRegion;

/// A device in this process's exclusive use.
pub(super) enum Access {
    Vfio(Vfio),
    Uio(Uio),
}

impl Access {
    /// Opens the device through the kernel driver bound to it.
    pub(super) fn open(address: PciAddress) -> Result<Self, TransportError> {
        match Attachment::of(address)? {
            Attachment::Vfio => Vfio::open(address).map(Self::Vfio),
            Attachment::Uio => Uio::open(address).map(Self::Uio),
        }
    }

    pub(super) fn attachment(&self) -> Attachment {
        match self {
            Self::Vfio(_) => Attachment::Vfio,
            Self::Uio(_) => Attachment::Uio,
        }
    }

    /// The PCI configuration space.
    pub(super) fn config_space(&self) -> Result<[u8; CONFIG_SIZE], TransportError> {
        match self {
            Self::Vfio(vfio) => Ok(vfio.config_space()),
            Self::Uio(uio) => uio.config_space(),
        }
    }

    /// Maps whole pages of a BAR that holds registers.
    pub(super) fn map(&self, window: Window) -> Result<MmapRegion, TransportError> {
        match self {
            Self::Vfio(vfio) => vfio.map(window),
            Self::Uio(uio) => uio.map(window),
        }
    }

    /// Maps a shared-memory region, write-combining if the kernel allows.
    pub(super) fn map_shared_memory(&self, window: Window) -> Result<BarMapping, TransportError> {
        let (region, memory_type) = match self {
            Self::Vfio(vfio) => (vfio.map(window)?, MemoryType::Uncached),
            Self::Uio(uio) => uio.map_shared_memory(window)?,
        };
        Ok(BarMapping { region: Arc::new(region), memory_type })
    }

    /// A descriptor that is readable when the device interrupts; `None` if it cannot interrupt.
    pub(super) fn interrupt(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Vfio(vfio) => Some(vfio.interrupt()),
            Self::Uio(uio) => uio.interrupt(),
        }
    }

    /// Takes an interrupt, if there is one. `read_status` reads the interrupt status, which a level-triggered
    /// interrupt needs before it is enabled again.
    pub(super) fn take_interrupt(
        &self,
        read_status: impl FnOnce() -> Result<(), TransportError>,
    ) -> Result<bool, TransportError> {
        match self {
            Self::Vfio(vfio) => vfio.take_interrupt(),
            Self::Uio(uio) => uio.take_interrupt(read_status),
        }
    }
}
