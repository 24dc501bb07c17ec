//! Allocations that the device places and moves: how one is described, and how a program gets at its
//! bytes.

use crate::allocation::Allocation;
use crate::areas::Place;
use crate::device::Device;
use crate::error::Error;
use crate::transport::SystemMemory;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, Extent, Lock, NOT_IN_BAR,
    OpenSharedAllocation, OpenedAllocation, PRIORITY_NORMAL, SegmentSet, SetAllocationPriority,
    ShareAllocation, Unlock,
};
use bellhop_protocol::control::fence::NtHandle;
use std::sync::Arc;
use vm_memory::{Bytes, VolatileMemory, VolatileSlice};
use zerocopy::IntoBytes;

/// Describes a paged allocation. It may be in local memory and in system memory and has normal
/// priority, unless that is changed here.
#[must_use = "an allocation is made by `create`"]
pub struct AllocationBuilder {
    device: Device,
    request: CreateAllocation,
    flags: AllocationFlags,
    own_pages: bool,
}

impl AllocationBuilder {
    pub(crate) fn new(device: Device, size: u64) -> Self {
        let request = CreateAllocation {
            supported_segments: (SegmentSet::LOCAL | SegmentSet::SYSTEM).bits(),
            priority: PRIORITY_NORMAL,
            ..CreateAllocation::fixed(device.handle(), AllocationKind::PAGED, size, 0)
        };
        Self { device, request, flags: AllocationFlags::CACHED, own_pages: false }
    }

    /// Where it may be resident.
    pub fn segments(mut self, supported: SegmentSet) -> Self {
        self.request.supported_segments = supported.bits();
        self
    }

    /// Where it should be resident: one of the segments that it supports.
    pub fn preferred(mut self, segment: SegmentSet) -> Self {
        self.request.preferred_segment = segment.bits();
        self
    }

    /// The local segments that it may be evicted to before it goes to system memory.
    pub fn eviction(mut self, segments: SegmentSet) -> Self {
        self.request.eviction_segments = segments.bits();
        self
    }

    /// It can be locked.
    pub fn cpu_visible(mut self) -> Self {
        self.flags |= AllocationFlags::CPU_VISIBLE;
        self
    }

    /// A copy of it is always kept in system memory: it leaves local memory without a transfer unless it
    /// was written there.
    pub fn permanent_system_memory(mut self) -> Self {
        self.flags |= AllocationFlags::PERMANENT_SYSTEM_MEM;
        self
    }

    /// Engines access it by physical address: it is contiguous wherever it is resident.
    pub fn accessed_physically(mut self) -> Self {
        self.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
        self
    }

    /// Other processes may open it by its name: see [`Allocation::share`]. It cannot be of own pages then.
    pub fn shared(mut self) -> Self {
        self.flags |= AllocationFlags::SHARED;
        self
    }

    /// Its part of system memory is the guest's own pages.
    pub fn own_pages(mut self) -> Self {
        self.own_pages = true;
        self
    }

    /// Its priority: a higher one is evicted later.
    pub fn priority(mut self, priority: u32) -> Self {
        self.request.priority = priority;
        self
    }

    /// Private driver data.
    pub fn private_data(mut self, data: u32) -> Self {
        self.request.private_data = data;
        self
    }

    /// Creates it (`D3DKMTCreateAllocation`). It is not resident, and takes no memory of the device's.
    ///
    /// # Errors
    /// When segments and flags do not go together, or there is no memory for its own pages.
    pub fn create(self) -> Result<Arc<Allocation>, Error> {
        let session = self.device.session();
        let transport = &session.link.transport;
        let memory = match self.own_pages {
            true => Some(transport.allocate(self.request.size)?),
            false => None,
        };
        let extents: &[Extent] = memory.as_ref().map_or(&[], |memory| memory.extents());
        let (extent_count, flags) = (extents.len() as u32, self.flags.bits());
        let request = CreateAllocation { extent_count, flags, ..self.request };
        let reply = session.call_with_list(&request, extents.as_bytes())?;
        let size = request.size;
        let memory = memory.map(Arc::from);
        Ok(Allocation::paged(self.device.clone(), reply.allocation, size, memory))
    }
}

impl Allocation {
    /// Opens by its name an allocation that another process has shared.
    pub(crate) fn open(device: Device, nt_handle: NtHandle) -> Result<Arc<Self>, Error> {
        let request = OpenSharedAllocation { device: device.handle(), nt_handle };
        let OpenedAllocation { allocation, size } = device.session().call(&request)?;
        Ok(Self::opened(device, allocation, size))
    }

    /// The name that processes of the guest can open it by ([`Device::open_shared_allocation`]) as long as
    /// one has it (`D3DKMTShareObjects`).
    ///
    /// # Errors
    /// When it was not created to be shared.
    pub fn share(&self) -> Result<NtHandle, Error> {
        self.device().session().call(&ShareAllocation { allocation: self.handle() })
    }

    /// Keeps the bytes where the program reaches them (`D3DKMTLock2`), until what is returned is
    /// dropped. The GPU goes on to reach them.
    ///
    /// # Errors
    /// When it cannot be locked, or there is no room where it would have to be.
    pub fn lock_bytes(self: &Arc<Self>) -> Result<LockedBytes, Error> {
        let session = self.device().session();
        let offset = session.call(&Lock { allocation: self.handle() })?.bar_offset;
        let mut locked = LockedBytes { allocation: Arc::clone(self), memory: None };
        let memory = match (offset, self.own_pages()) {
            (NOT_IN_BAR, Some(memory)) => Memory::Own(Arc::clone(memory)),
            (NOT_IN_BAR, None) => return Err(Error::BadReply(RequestCode::LOCK)),
            // Whatever the device answered, accesses are to memory that exists.
            (offset, _) => match session.areas()?.place(offset, self.size()) {
                Ok(place) => Memory::Local(place),
                Err(_) => return Err(Error::BadReply(RequestCode::LOCK)),
            },
        };
        locked.memory = Some(memory);
        Ok(locked)
    }

    /// Sets the priority of a paged allocation (`D3DKMTSetAllocationPriority`).
    ///
    /// # Errors
    /// When it is not paged.
    pub fn set_priority(&self, priority: u32) -> Result<(), Error> {
        let request = SetAllocationPriority { allocation: self.handle(), priority, reserved: 0 };
        self.device().session().call(&request)
    }
}

enum Memory {
    Local(Place),
    Own(Arc<dyn SystemMemory>),
}

/// The bytes of an allocation that is locked. Dropped, it is unlocked.
pub struct LockedBytes {
    allocation: Arc<Allocation>,
    memory: Option<Memory>,
}

impl LockedBytes {
    /// All bytes.
    ///
    /// # Errors
    /// None for bytes that were locked.
    pub fn slice(&self) -> Result<VolatileSlice<'_>, Error> {
        let bad = || Error::BadReply(RequestCode::LOCK);
        match self.memory.as_ref().ok_or_else(bad)? {
            Memory::Local(place) => place.slice(),
            Memory::Own(memory) => {
                memory.region().get_slice(memory.offset(), memory.len()).map_err(|_| bad())
            }
        }
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// When they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let outside = |_| self.allocation.out_of_range(offset, bytes.len());
        self.slice()?.write_slice(bytes, offset).map_err(outside)
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// When there are not that many.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let length = bytes.len();
        let outside = |_| self.allocation.out_of_range(offset, length);
        self.slice()?.read_slice(bytes, offset).map_err(outside)
    }
}

impl Drop for LockedBytes {
    fn drop(&mut self) {
        // A device that cannot be reached has forgotten it already.
        let request = Unlock { allocation: self.allocation.handle() };
        let _ = self.allocation.device().session().call(&request);
    }
}
