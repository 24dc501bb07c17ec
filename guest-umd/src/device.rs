//! Devices.

use crate::allocation::Allocation;
use crate::basic_context::BasicContext;
use crate::basic_plus_plus_context::BasicPlusPlusContext;
use crate::context::Context;
use crate::error::Error;
use crate::fence::{self, Fence};
use crate::paged::AllocationBuilder;
use crate::reservation::Reservation;
use crate::session::Session;
use crate::virtual_context::VirtualContext;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationKind, CloseAllocation, Evict, MAX_RESIDENCY_LIST, MakeResident, OpenAllocation,
    QueryVideoMemoryInfo, SegmentSet, VideoMemoryInfo,
};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::fence::{FenceFlags, NativeFenceType, NtHandle, WaitFlags};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// A device: what allocations, contexts and fences are created on. Clones are the same device,
/// which is destroyed with the last of them and of what was created on it.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    session: Arc<Session>,
    handle: Handle,
}

impl Device {
    pub(crate) fn create(session: Arc<Session>) -> Result<Self, Error> {
        let handle = session.call(&CreateDevice { reserved: 0 })?;
        Ok(Self(Arc::new(Inner { session, handle })))
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// The device's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.0.handle
    }

    /// Creates a context against a node (`D3DKMTCreateContextVirtual`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_context(&self, node: u32) -> Result<Context, Error> {
        Context::create(self.clone(), node)
    }

    /// Creates a context against a node, of the basic model (`D3DKMTCreateContext`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_basic_context(&self, node: u32) -> Result<BasicContext, Error> {
        BasicContext::create(self, node)
    }

    /// Creates a context against a node, of the basic++ model (`D3DKMTCreateContext`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_basic_plus_plus_context(&self, node: u32) -> Result<BasicPlusPlusContext, Error> {
        BasicPlusPlusContext::create(self, node)
    }

    /// Creates a context against a node, of the WDDM 2.0 model, which has no HW queues
    /// (`D3DKMTCreateContextVirtual`).
    ///
    /// # Errors
    /// When the device refuses, or the driver reaches no local memory.
    pub fn create_virtual_context(&self, node: u32) -> Result<VirtualContext, Error> {
        VirtualContext::create(self, node)
    }

    /// Creates an allocation of `size` bytes, a multiple of the page size
    /// (`D3DKMTCreateAllocation`).
    ///
    /// # Errors
    /// When there is not that much memory of this kind.
    pub fn create_allocation(
        &self,
        kind: AllocationKind,
        size: u64,
    ) -> Result<Arc<Allocation>, Error> {
        Allocation::create(self.clone(), kind, size)
    }

    /// Describes an allocation of `size` bytes, a multiple of the page size, that the device places and
    /// moves.
    pub fn allocation(&self, size: u64) -> AllocationBuilder {
        AllocationBuilder::new(self.clone(), size)
    }

    /// Lets this device make an allocation of another device of the process resident
    /// (`D3DKMTOpenResource`). [`Self::close_allocation`] undoes it.
    ///
    /// # Errors
    /// When it is open on this device already.
    pub fn open_allocation(&self, allocation: &Allocation) -> Result<(), Error> {
        let (device, allocation) = (self.handle(), allocation.handle());
        self.session().call(&OpenAllocation { device, allocation })
    }

    /// Undoes [`Self::open_allocation`], and everything that made it resident for this device.
    ///
    /// # Errors
    /// When it is not open on this device.
    pub fn close_allocation(&self, allocation: &Allocation) -> Result<(), Error> {
        let (device, allocation) = (self.handle(), allocation.handle());
        self.session().call(&CloseAllocation { device, allocation })
    }

    /// Opens by its name an allocation that another process of the guest has shared
    /// (`D3DKMTOpenResourceFromNtHandle`); see [`Allocation::share`]. It is neither resident for this
    /// device nor mapped in this process yet.
    ///
    /// # Errors
    /// When no allocation of this guest has that name, or it is open on this device.
    pub fn open_shared_allocation(&self, name: NtHandle) -> Result<Arc<Allocation>, Error> {
        Allocation::open(self.clone(), name)
    }

    /// Takes GPU virtual addresses, at `base` or, when that is 0, anywhere
    /// (`D3DKMTReserveGpuVirtualAddress`).
    ///
    /// # Errors
    /// When they are taken.
    pub fn reserve(&self, base: u64, size: u64) -> Result<Reservation, Error> {
        Reservation::new(self.clone(), base, size)
    }

    /// One segment as the process sees it (`D3DKMTQueryVideoMemoryInfo`).
    ///
    /// # Errors
    /// When it is not one segment.
    pub fn video_memory_info(&self, segment: SegmentSet) -> Result<VideoMemoryInfo, Error> {
        self.session().call(&QueryVideoMemoryInfo { segment: segment.bits(), reserved: 0 })
    }

    /// Waits until the process has more local memory than its budget, and returns how many bytes it
    /// should evict; `None` when the time is over. Each request to trim is returned once.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn wait_for_trim(&self, timeout: Duration) -> Result<Option<u64>, Error> {
        let session = self.session();
        session.link.events.wait_for_trim(session.process(), timeout)
    }

    /// Makes allocations resident, all or none (`D3DKMTMakeResident`); the GPU reaches them when this
    /// returns. Of paged ones it is counted how often.
    ///
    /// # Errors
    /// When they do not fit.
    pub fn make_resident(&self, allocations: &[&Allocation]) -> Result<(), Error> {
        for (index, list) in allocations.chunks(MAX_RESIDENCY_LIST as usize).enumerate() {
            let (device, count) = (self.handle(), list.len() as u32);
            let handles: Vec<_> = list.iter().map(|allocation| allocation.handle()).collect();
            let request = MakeResident { device, count, reserved: 0 };
            let resident = self.session().call_with_list(&request, handles.as_bytes());
            if let Err(error) = resident {
                // Each list is all or none; those before this one are not to stay. If that fails the
                // device is gone, or it has evicted them.
                let before = allocations.get(..index * MAX_RESIDENCY_LIST as usize);
                let _ = self.evict(before.unwrap_or_default());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Evicts allocations (`D3DKMTEvict`). The GPU does not reach those that nobody needs resident any
    /// more when this returns, and faults where it tries; bytes and addresses stay.
    ///
    /// # Errors
    /// When a doorbell needs one of them, or a paged one is not resident on this device.
    pub fn evict(&self, allocations: &[&Allocation]) -> Result<(), Error> {
        for list in allocations.chunks(MAX_RESIDENCY_LIST as usize) {
            let (device, count) = (self.handle(), list.len() as u32);
            let handles: Vec<_> = list.iter().map(|allocation| allocation.handle()).collect();
            let request = Evict { device, count, reserved: 0 };
            self.session().call_with_list(&request, handles.as_bytes())?;
        }
        Ok(())
    }

    /// Creates a native fence (`D3DKMTCreateNativeFence`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        let fence_type = NativeFenceType::DEFAULT;
        Fence::create(self.clone(), initial_value, fence_type, FenceFlags::empty())
    }

    /// The same, to be shared with other processes: see [`Fence::share`].
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_shared_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        Fence::create(self.clone(), initial_value, NativeFenceType::DEFAULT, FenceFlags::SHARED)
    }

    /// Creates a fence that other guests of the host may open too, this VM's own on another adapter among
    /// them, as far as the host's policy allows ([`Fence::share`], [`Self::open_fence`]).
    ///
    /// # Errors
    /// When the device refuses: unless the host's policy names this guest.
    pub fn create_cross_adapter_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        let flags = FenceFlags::SHARED | FenceFlags::CROSS_ADAPTER;
        Fence::create(self.clone(), initial_value, NativeFenceType::DEFAULT, flags)
    }

    /// Creates a native fence that may be signaled with less than its value. A wait for what it had
    /// lasts until it has that again.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_rewindable_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        let flags = FenceFlags::REWINDABLE;
        Fence::create(self.clone(), initial_value, NativeFenceType::DEFAULT, flags)
    }

    /// Creates a monitored fence (`D3DKMTCreateSynchronizationObject2`), which is there without native
    /// fences too.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_monitored_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        Fence::create_monitored(self.clone(), initial_value, FenceFlags::empty())
    }

    /// The same, to be shared with other processes: see [`Fence::share`].
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_shared_monitored_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        Fence::create_monitored(self.clone(), initial_value, FenceFlags::SHARED)
    }

    /// A cross-adapter fence as a monitored one. Guests that have native fences open it as one.
    ///
    /// # Errors
    /// As [`Self::create_cross_adapter_fence`].
    pub fn create_cross_adapter_monitored_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        let flags = FenceFlags::SHARED | FenceFlags::CROSS_ADAPTER;
        Fence::create_monitored(self.clone(), initial_value, flags)
    }

    /// Creates a fence that engines signal and wait for and no CPU reaches, in local memory.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_intra_gpu_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        let fence_type = NativeFenceType::INTRA_GPU;
        Fence::create(self.clone(), initial_value, fence_type, FenceFlags::empty())
    }

    /// Opens a fence that was shared (`D3DKMTOpenNativeFenceFromNTHandle`).
    ///
    /// # Errors
    /// When there is no such fence.
    pub fn open_fence(&self, nt_handle: NtHandle) -> Result<Fence, Error> {
        Fence::open(self.clone(), nt_handle)
    }

    /// Waits until all of several fences, or any of them, have reached their values, blocked
    /// (`D3DKMTWaitForSynchronizationObjectFromCpu`). At most
    /// [`MAX_FENCE_LIST`](bellhop_protocol::control::fence::MAX_FENCE_LIST) fences of this process.
    ///
    /// # Errors
    /// When the time is over, or a queue is lost whose progress fence is among them.
    pub fn wait_for_fences(
        &self,
        fences: &[(&Fence, u64)],
        flags: WaitFlags,
        timeout: Duration,
    ) -> Result<(), Error> {
        fence::wait(self, fences, flags, timeout)
    }

    /// Signals fences of this process from the CPU, all or none
    /// (`D3DKMTSignalSynchronizationObjectFromCpu`); as many as in [`Self::wait_for_fences`].
    ///
    /// # Errors
    /// When one is further already, or is the progress fence of a queue.
    pub fn signal_fences(&self, fences: &[(&Fence, u64)]) -> Result<(), Error> {
        fence::signal(self, fences)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A device that cannot be reached has forgotten it already.
        let _ = self.session.call(&DestroyDevice { device: self.handle });
    }
}
