//! Contexts.

use crate::device::Device;
use crate::error::Error;
use crate::fallback_queue::FallbackQueue;
use crate::kernel_mode_queue::KernelModeQueue;
use crate::user_mode_queue::UserModeQueue;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SetContextSchedulingPriority, SuspendContext,
};
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::doorbell::DoorbellPrivateData;
use std::sync::Arc;

/// A context against one node. Clones are the same context, which is destroyed with the last of
/// them and of its HW queues.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    device: Device,
    handle: Handle,
    node: u32,
}

impl Context {
    pub(crate) fn create(device: Device, node: u32) -> Result<Self, Error> {
        let request = CreateContext { device: device.handle(), node, engine_affinity: 0 };
        let handle = device.session().call(&request)?;
        Ok(Self(Arc::new(Inner { device, handle, node })))
    }

    /// The device that it was created on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The context's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.0.handle
    }

    /// The node that executes its HW queues.
    #[must_use]
    pub fn node(&self) -> u32 {
        self.0.node
    }

    /// Creates a HW queue for user-mode submission, with a ring of `ring_size` bytes, a power of
    /// two from 4 KiB to 16 MiB, and a doorbell that is not connected yet.
    ///
    /// # Errors
    /// When the device refuses, or user-mode submission was not negotiated.
    pub fn create_user_mode_queue(&self, ring_size: u64) -> Result<UserModeQueue, Error> {
        let kind = self.device().session().link.placements.rings;
        self.create_user_mode_queue_in(kind, ring_size)
    }

    /// The same with the ring in memory of this kind.
    ///
    /// # Errors
    /// As [`Self::create_user_mode_queue`].
    pub fn create_user_mode_queue_in(
        &self,
        ring_kind: AllocationKind,
        ring_size: u64,
    ) -> Result<UserModeQueue, Error> {
        let (private_data, more) = (DoorbellPrivateData::default(), HwQueueFlags::empty());
        UserModeQueue::create(self.clone(), ring_kind, ring_size, private_data, more)
    }

    /// The same that may execute for as long as it likes without making progress (`DisableGpuTimeout`). It
    /// has its share of the engine, is pre-empted as others are, and ends when it is destroyed.
    ///
    /// # Errors
    /// As [`Self::create_user_mode_queue`], and when the host does not let the guest have such queues.
    pub fn create_user_mode_queue_without_timeout(
        &self,
        ring_size: u64,
    ) -> Result<UserModeQueue, Error> {
        let kind = self.device().session().link.placements.rings;
        let (private_data, more) =
            (DoorbellPrivateData::default(), HwQueueFlags::DISABLE_GPU_TIMEOUT);
        UserModeQueue::create(self.clone(), kind, ring_size, private_data, more)
    }

    /// The same with private data for the host's kernel-mode driver.
    ///
    /// # Errors
    /// As [`Self::create_user_mode_queue`], and when the driver does not take the data.
    pub fn create_user_mode_queue_with(
        &self,
        ring_size: u64,
        private_data: DoorbellPrivateData,
    ) -> Result<UserModeQueue, Error> {
        let kind = self.device().session().link.placements.rings;
        let more = HwQueueFlags::empty();
        UserModeQueue::create(self.clone(), kind, ring_size, private_data, more)
    }

    /// Creates a HW queue for user-mode submission where there is such a thing, which goes on in
    /// kernel mode when it is lost.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_fallback_queue(&self, ring_size: u64) -> Result<FallbackQueue, Error> {
        FallbackQueue::create(self.clone(), ring_size)
    }

    /// Suspends the context: nothing of it executes when this returns, whatever is submitted, until
    /// [`Self::resume`].
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn suspend(&self) -> Result<(), Error> {
        self.device().session().call(&SuspendContext { context: self.handle() })
    }

    /// Resumes the context.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn resume(&self) -> Result<(), Error> {
        self.device().session().call(&ResumeContext { context: self.handle() })
    }

    /// Says how urgent the context's work is beside that of the guest's other contexts, -7 to 7;
    /// greater comes first. A new context has 0.
    ///
    /// # Errors
    /// When there is no such priority, or the device cannot be reached.
    pub fn set_scheduling_priority(&self, priority: i32) -> Result<(), Error> {
        let request =
            SetContextSchedulingPriority { context: self.handle(), priority, reserved: 0 };
        self.device().session().call(&request)
    }

    /// Creates a HW queue for kernel-mode submission.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_kernel_mode_queue(&self) -> Result<KernelModeQueue, Error> {
        KernelModeQueue::create(self.clone(), HwQueueFlags::empty())
    }

    /// The same that may execute for as long as it likes without making progress: see
    /// [`Self::create_user_mode_queue_without_timeout`].
    ///
    /// # Errors
    /// When the device refuses, or the host does not let the guest have such queues.
    pub fn create_kernel_mode_queue_without_timeout(&self) -> Result<KernelModeQueue, Error> {
        KernelModeQueue::create(self.clone(), HwQueueFlags::DISABLE_GPU_TIMEOUT)
    }

    /// The same with a monitored fence as its progress fence, which packets of other queues cannot wait
    /// for, whether there are native fences or not.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_kernel_mode_queue_with_monitored_progress(
        &self,
    ) -> Result<KernelModeQueue, Error> {
        KernelModeQueue::create_with_monitored_progress(self.clone())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A device that cannot be reached has forgotten it already.
        let _ = self.device.session().call(&DestroyContext { context: self.handle });
    }
}
