// SPDX-License-Identifier: MIT OR Apache-2.0

//! The bytes of a paged allocation while it is locked.

use crate::error::Error;
use crate::link::areas::Place;
use crate::memory::allocation::Allocation;
use crate::transport::SystemMemory;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::allocation::{Lock, NOT_IN_BAR, Unlock};
use std::sync::Arc;
use vm_memory::{Bytes, VolatileMemory, VolatileSlice};

impl Allocation {
    /// Keeps the bytes accessible to the program (`D3DKMTLock2`) until the result is dropped. The GPU can access
    /// them as well.
    ///
    /// # Errors
    /// [`Error::Refused`] if the allocation is not CPU-visible, or there is no room in a segment that the CPU can
    /// access.
    pub fn lock_bytes(self: &Arc<Self>) -> Result<LockedBytes, Error> {
        let session = self.device().session();
        let offset = session.call(&Lock { allocation: self.handle() })?.bar_offset;
        let mut locked = LockedBytes { allocation: Arc::clone(self), memory: None };
        let memory = match (offset, self.own_pages()) {
            (NOT_IN_BAR, Some(memory)) => Memory::Own(Arc::clone(memory)),
            (NOT_IN_BAR, None) => return Err(Error::BadReply(RequestCode::LOCK)),
            // Whatever the device replied, the driver accesses only memory that exists.
            (offset, _) => match session.areas()?.place(offset, self.size()) {
                Ok(place) => Memory::Local(place),
                Err(_) => return Err(Error::BadReply(RequestCode::LOCK)),
            },
        };
        locked.memory = Some(memory);
        Ok(locked)
    }
}

enum Memory {
    Local(Place),
    Own(Arc<dyn SystemMemory>),
}

/// The bytes of a locked allocation. Unlocked on drop.
pub struct LockedBytes {
    allocation: Arc<Allocation>,
    memory: Option<Memory>,
}

impl LockedBytes {
    /// All bytes.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn slice(&self) -> Result<VolatileSlice<'_>, Error> {
        let bad = || Error::BadReply(RequestCode::LOCK);
        match self.memory.as_ref().ok_or_else(bad)? {
            Memory::Local(place) => place.slice(),
            Memory::Own(memory) => {
                memory.region().get_slice(memory.offset(), memory.len()).map_err(|_| bad())
            }
        }
    }

    /// Copies bytes in, from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let outside = |_| self.allocation.out_of_range(offset, bytes.len());
        self.slice()?.write_slice(bytes, offset).map_err(outside)
    }

    /// Copies bytes out, from byte `offset` on.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let length = bytes.len();
        let outside = |_| self.allocation.out_of_range(offset, length);
        self.slice()?.read_slice(bytes, offset).map_err(outside)
    }
}

impl Drop for LockedBytes {
    fn drop(&mut self) {
        // An unreachable device has already forgotten it.
        let request = Unlock { allocation: self.allocation.handle() };
        let _ = self.allocation.device().session().call(&request);
    }
}
