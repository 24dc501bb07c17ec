//! Allocations and their GPU virtual addresses.

use crate::areas::Place;
use crate::device::Device;
use crate::error::Error;
use crate::transport::SystemMemory;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{
    AllocationKind, CloseAllocation, CreateAllocation, DestroyAllocation, Extent,
};
use bellhop_protocol::control::gpu_va::{FreeGpuVirtualAddress, MapGpuVirtualAddress, Protection};
use bellhop_protocol::control::{Handle, RequestCode};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vm_memory::{Bytes, VolatileMemory, VolatileSlice};
use zerocopy::IntoBytes;

/// Memory that both the driver and the GPU can reach. Destroyed when dropped.
///
/// The GPU may write it at any time, so there are no references into it: bytes are copied in and
/// out.
pub struct Allocation {
    device: Device,
    handle: Handle,
    size: u64,
    memory: Memory,
    /// Whether it was opened, on this device alone: other devices of the process may have it, too.
    is_opened: bool,
}

enum Memory {
    Local(Place),
    System(Arc<dyn SystemMemory>),
    /// It moves; its part of system memory may be the guest's own.
    Paged(Option<Arc<dyn SystemMemory>>),
}

impl Allocation {
    pub(crate) fn create(
        device: Device,
        kind: AllocationKind,
        size: u64,
    ) -> Result<Arc<Self>, Error> {
        let session = device.session();
        let system = match kind {
            AllocationKind::SYSTEM => Some(session.link.transport.allocate(size)?),
            _ => None,
        };
        // Local memory is of no use to a driver that cannot reach it.
        let areas = session.areas();
        if system.is_none() && areas.is_err() {
            return Err(Error::NotAvailable("CPU-visible local memory"));
        }
        let extents: &[Extent] = system.as_ref().map_or(&[], |memory| memory.extents());
        let request = CreateAllocation::fixed(device.handle(), kind, size, extents.len() as u32);
        let reply = session.call_with_list(&request, extents.as_bytes())?;
        let memory = match system {
            Some(memory) => Memory::System(Arc::from(memory)),
            // Whatever the device answered, accesses below are to memory that exists.
            None => match areas?.place(reply.bar_offset, size) {
                Ok(place) => Memory::Local(place),
                Err(_) => {
                    session.call(&DestroyAllocation { allocation: reply.allocation })?;
                    return Err(Error::BadReply(RequestCode::CREATE_ALLOCATION));
                }
            },
        };
        let (handle, is_opened) = (reply.allocation, false);
        Ok(Arc::new(Self { device, handle, size, memory, is_opened }))
    }

    /// One that the device moves.
    pub(crate) fn paged(
        device: Device,
        handle: Handle,
        size: u64,
        memory: Option<Arc<dyn SystemMemory>>,
    ) -> Arc<Self> {
        Arc::new(Self { device, handle, size, memory: Memory::Paged(memory), is_opened: false })
    }

    /// One that another process has, too, and that the device moves.
    pub(crate) fn opened(device: Device, handle: Handle, size: u64) -> Arc<Self> {
        Arc::new(Self { device, handle, size, memory: Memory::Paged(None), is_opened: true })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The guest's own pages of an allocation that is paged.
    pub(crate) fn own_pages(&self) -> Option<&Arc<dyn SystemMemory>> {
        match &self.memory {
            Memory::Paged(memory) => memory.as_ref(),
            _ => None,
        }
    }

    /// Evicts the allocation: the GPU does not reach it when this returns, and faults where it tries;
    /// bytes and addresses stay.
    ///
    /// # Errors
    /// When a doorbell needs it.
    pub fn evict(&self) -> Result<(), Error> {
        self.device.evict(&[self])
    }

    /// Makes an evicted allocation resident.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn make_resident(&self) -> Result<(), Error> {
        self.device.make_resident(&[self])
    }

    /// The allocation's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The allocation's size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    fn bytes(&self) -> Option<VolatileSlice<'_>> {
        let size = usize::try_from(self.size).ok()?;
        match &self.memory {
            Memory::Local(place) => place.slice().ok(),
            Memory::System(memory) => memory.region().get_slice(memory.offset(), size).ok(),
            Memory::Paged(_) => None,
        }
    }

    /// All bytes of an allocation that stays where it is.
    ///
    /// # Errors
    /// When it is paged: see [`Self::lock_bytes`].
    #[inline]
    pub fn lock(&self) -> Result<VolatileSlice<'_>, Error> {
        self.bytes().ok_or(Error::NotAvailable("a paged allocation that is not locked"))
    }

    pub(crate) fn out_of_range(&self, offset: usize, length: usize) -> Error {
        let end = offset.saturating_add(length);
        Error::OutOfRange { offset, end, size: self.size as usize }
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// When they do not fit.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.lock()?.write_slice(bytes, offset).map_err(|_| self.out_of_range(offset, bytes.len()))
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// When there are not that many.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let length = bytes.len();
        self.lock()?.read_slice(bytes, offset).map_err(|_| self.out_of_range(offset, length))
    }

    /// The 64-bit word at an offset that is a multiple of 8.
    ///
    /// # Errors
    /// When it lies outside.
    #[inline]
    pub fn word(&self, offset: usize) -> Result<&AtomicU64, Error> {
        // The slice borrows from the mapping, which lives as long as this does.
        let outside = || self.out_of_range(offset, size_of::<u64>());
        if (offset as u64).checked_add(8).is_none_or(|end| end > self.size) {
            return Err(outside());
        }
        match &self.memory {
            Memory::Local(place) => place.word(offset),
            Memory::System(memory) => {
                memory.region().get_atomic_ref(memory.offset() + offset).map_err(|_| outside())
            }
            Memory::Paged(_) => Err(Error::NotAvailable("a paged allocation that is not locked")),
        }
    }

    /// Maps all of it where the host chooses (`D3DKMTMapGpuVirtualAddress`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn map(self: &Arc<Self>, protection: Protection) -> Result<GpuMapping, Error> {
        self.map_at(0, 0, self.size, protection)
    }

    /// Maps a part of it at `base`; all four are in bytes and multiples of the page size.
    ///
    /// # Errors
    /// When the range is taken or the device refuses.
    pub fn map_at(
        self: &Arc<Self>,
        base: u64,
        offset: u64,
        size: u64,
        protection: Protection,
    ) -> Result<GpuMapping, Error> {
        let request = MapGpuVirtualAddress {
            allocation: self.handle,
            base,
            offset,
            size,
            protection: protection.bits(),
            reserved: 0,
        };
        let gpu_va = self.device.session().call(&request)?.gpu_va;
        Ok(GpuMapping { allocation: Arc::clone(self), gpu_va, size })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // The memory is the driver's again only when no engine can reach it, which the reply
        // tells; a device that cannot be reached has no engines.
        let (session, allocation) = (self.device.session(), self.handle);
        let ended = match self.is_opened {
            true => session.call(&CloseAllocation { device: self.device.handle(), allocation }),
            false => session.call(&DestroyAllocation { allocation }),
        };
        let (Memory::System(memory) | Memory::Paged(Some(memory))) = &self.memory else { return };
        if let Err(Error::Refused { .. }) = ended {
            // The GPU may go on to write it: nobody else may have it.
            std::mem::forget(Arc::clone(memory));
        }
    }
}

/// An allocation's GPU virtual addresses. Freed when dropped.
pub struct GpuMapping {
    allocation: Arc<Allocation>,
    gpu_va: u64,
    size: u64,
}

impl GpuMapping {
    /// GPU virtual address of the first byte.
    #[must_use]
    pub fn gpu_va(&self) -> u64 {
        self.gpu_va
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What is mapped.
    #[must_use]
    pub fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }
}

impl Drop for GpuMapping {
    fn drop(&mut self) {
        let request = FreeGpuVirtualAddress { gpu_va: self.gpu_va, size: self.size };
        // A device that cannot be reached has forgotten it already.
        let _ = self.allocation.device.session().call(&request);
    }
}

/// `bytes` rounded up to whole pages.
pub(crate) fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_SIZE)
}
