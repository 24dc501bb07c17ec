// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations, and the CPU's access to their bytes.

use crate::device::Device;
use crate::error::Error;
use crate::link::areas::Place;
use crate::link::words::Words;
use crate::transport::SystemMemory;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{
    AllocationKind, CloseAllocation, CreateAllocation, DestroyAllocation, Extent,
};
use bellhop_protocol::control::{Handle, RequestCode};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vm_memory::{Bytes, VolatileMemory, VolatileSlice};
use zerocopy::IntoBytes;

const NOT_LOCKED: Error = Error::NotAvailable("a paged allocation that is not locked");

impl Device {
    /// Creates an allocation that never moves (`D3DKMTCreateAllocation`). `size` is in bytes, a multiple of the
    /// page size.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] for local memory that the CPU cannot access; [`Error::Refused`] or
    /// [`Error::Transport`] if there is not enough memory of this kind.
    pub fn create_allocation(
        &self,
        kind: AllocationKind,
        size: u64,
    ) -> Result<Arc<Allocation>, Error> {
        let session = self.session();
        let system = match kind {
            AllocationKind::SYSTEM => Some(session.link.transport.allocate(size)?),
            _ => None,
        };
        // The driver must be able to access what it puts into local memory.
        let areas = session.areas();
        if system.is_none() && areas.is_err() {
            return Err(Error::NotAvailable("CPU-visible local memory"));
        }
        let extents: &[Extent] = system.as_ref().map_or(&[], |memory| memory.extents());
        let request = CreateAllocation::fixed(self.handle(), kind, size, extents.len() as u32);
        let reply = session.call_with_list(&request, extents.as_bytes())?;
        let memory = match system {
            Some(memory) => Memory::System(Arc::from(memory)),
            // Whatever the device replied, the driver accesses only memory that exists.
            None => match areas?.place(reply.bar_offset, size) {
                Ok(place) => Memory::Local(place),
                Err(_) => {
                    session.call(&DestroyAllocation { allocation: reply.allocation })?;
                    return Err(Error::BadReply(RequestCode::CREATE_ALLOCATION));
                }
            },
        };
        let (handle, is_opened) = (reply.allocation, false);
        let device = self.clone();
        Ok(Arc::new(Allocation { device, handle, size, memory, is_opened }))
    }
}

/// Memory that the driver and the GPU can access. Destroyed on drop.
///
/// The GPU may write it at any time, so there are no references into it: a program copies bytes in and out, or
/// accesses words atomically.
pub struct Allocation {
    device: Device,
    handle: Handle,
    size: u64,
    memory: Memory,
    /// Whether this is an opened allocation, which other processes or devices may also have.
    is_opened: bool,
}

enum Memory {
    Local(Place),
    System(Arc<dyn SystemMemory>),
    /// The device moves it. Its system memory may be the guest's own pages.
    Paged(Option<Arc<dyn SystemMemory>>),
}

impl Allocation {
    /// An allocation that the device moves.
    pub(crate) fn paged(
        device: Device,
        handle: Handle,
        size: u64,
        memory: Option<Arc<dyn SystemMemory>>,
    ) -> Arc<Self> {
        Arc::new(Self { device, handle, size, memory: Memory::Paged(memory), is_opened: false })
    }

    /// An opened allocation, which the device moves.
    pub(crate) fn opened(device: Device, handle: Handle, size: u64) -> Arc<Self> {
        Arc::new(Self { device, handle, size, memory: Memory::Paged(None), is_opened: true })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The guest's own pages of a paged allocation.
    pub(crate) fn own_pages(&self) -> Option<&Arc<dyn SystemMemory>> {
        match &self.memory {
            Memory::Paged(memory) => memory.as_ref(),
            _ => None,
        }
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

    /// Names the allocation for people, as [`Device::set_name`](crate::Device::set_name) names a device.
    ///
    /// # Errors
    /// As [`Device::set_name`](crate::Device::set_name).
    pub fn set_name(&self, name: &str) -> Result<(), Error> {
        self.device.session().set_name(self.handle, name)
    }

    fn bytes(&self) -> Option<VolatileSlice<'_>> {
        let size = usize::try_from(self.size).ok()?;
        match &self.memory {
            Memory::Local(place) => place.slice().ok(),
            Memory::System(memory) => memory.region().get_slice(memory.offset(), size).ok(),
            Memory::Paged(_) => None,
        }
    }

    /// All bytes of an allocation that never moves.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] for a paged allocation: see [`Self::lock_bytes`].
    #[inline]
    pub fn lock(&self) -> Result<VolatileSlice<'_>, Error> {
        self.bytes().ok_or(NOT_LOCKED)
    }

    pub(crate) fn out_of_range(&self, offset: usize, length: usize) -> Error {
        let end = offset.saturating_add(length);
        Error::OutOfRange { offset, end, size: self.size as usize }
    }

    /// Copies bytes in, from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if they do not fit, and as [`Self::lock`].
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.lock()?.write_slice(bytes, offset).map_err(|_| self.out_of_range(offset, bytes.len()))
    }

    /// Copies bytes out, from byte `offset` on.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let length = bytes.len();
        self.lock()?.read_slice(bytes, offset).map_err(|_| self.out_of_range(offset, length))
    }

    /// All words of an allocation that never moves, with the checks done once.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn words(&self) -> Result<Words, Error> {
        match &self.memory {
            Memory::Local(place) => place.words(),
            Memory::System(memory) => {
                let length = self.size as usize;
                let words = Words::new(Arc::clone(memory.region()), memory.offset(), length);
                words.ok_or_else(|| self.out_of_range(0, length))
            }
            Memory::Paged(_) => Err(NOT_LOCKED),
        }
    }

    /// The 64-bit word at byte `offset`, a multiple of 8.
    ///
    /// # Errors
    /// As [`Self::write`].
    #[inline]
    pub fn word(&self, offset: usize) -> Result<&AtomicU64, Error> {
        // The word borrows from the mapping, which lives as long as the allocation.
        let outside = || self.out_of_range(offset, size_of::<u64>());
        if (offset as u64).checked_add(8).is_none_or(|end| end > self.size) {
            return Err(outside());
        }
        match &self.memory {
            Memory::Local(place) => place.word(offset),
            Memory::System(memory) => {
                memory.region().get_atomic_ref(memory.offset() + offset).map_err(|_| outside())
            }
            Memory::Paged(_) => Err(NOT_LOCKED),
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // After the reply no engine can access the memory, which belongs to the driver again. An unreachable device
        // has no engines.
        let (session, allocation) = (self.device.session(), self.handle);
        let ended = if self.is_opened {
            session.call(&CloseAllocation { device: self.device.handle(), allocation })
        } else {
            session.call(&DestroyAllocation { allocation })
        };
        let (Memory::System(memory) | Memory::Paged(Some(memory))) = &self.memory else { return };
        if let Err(Error::Refused { .. }) = ended {
            // The GPU may still write the memory, so it is never reused.
            std::mem::forget(Arc::clone(memory));
        }
    }
}

/// `bytes` rounded up to whole pages.
pub(crate) fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_SIZE)
}
