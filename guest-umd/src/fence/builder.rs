// SPDX-License-Identifier: MIT OR Apache-2.0

//! The description of a fence before its creation.

use crate::device::Device;
use crate::error::Error;
use crate::fence::object::Fence;
use bellhop_protocol::control::fence::{
    CreateMonitoredFence, CreateNativeFence, FenceFlags, NativeFenceType,
};
use bellhop_protocol::features::Features;
use std::marker::PhantomData;

/// The kinds of fence that a [`FenceBuilder`] creates. Each has only the methods that may follow it.
pub mod kind {
    /// A native fence that only grows.
    #[derive(Debug)]
    pub enum Native {}
    /// A native fence that may be signaled with less than its value.
    #[derive(Debug)]
    pub enum Rewindable {}
    /// A native fence that only engines signal and wait for.
    #[derive(Debug)]
    pub enum IntraGpu {}
    /// A monitored fence.
    #[derive(Debug)]
    pub enum Monitored {}
    /// A native or monitored fence that other guests of the host may open.
    #[derive(Debug)]
    pub enum CrossAdapter {}
}

/// Describes a fence. Initially a native fence for this process alone: [`Device::fence`].
///
/// The type parameter tracks the kind of fence, so that only valid combinations compile: a cross-adapter fence, for
/// example, is never rewindable.
///
/// ```compile_fail,E0599
/// # fn f(device: &bellhop_guest_umd::Device) {
/// device.fence(0).rewindable().cross_adapter();
/// # }
/// ```
#[must_use = "`create` makes the fence"]
pub struct FenceBuilder<K = kind::Native> {
    device: Device,
    initial_value: u64,
    /// The type of a native fence; `None` for a monitored one.
    native: Option<NativeFenceType>,
    flags: FenceFlags,
    kind: PhantomData<K>,
}

impl Device {
    /// Describes a fence with this initial value.
    pub fn fence(&self, initial_value: u64) -> FenceBuilder {
        FenceBuilder {
            device: self.clone(),
            initial_value,
            native: Some(NativeFenceType::DEFAULT),
            flags: FenceFlags::empty(),
            kind: PhantomData,
        }
    }

    /// Creates a native fence for this process (`D3DKMTCreateNativeFence`):
    /// [`fence(initial_value).create()`](FenceBuilder::create).
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if native fences were not negotiated; [`Error::Refused`] if the device has no room
    /// for another fence.
    pub fn create_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        self.fence(initial_value).create()
    }
}

impl FenceBuilder<kind::Native> {
    /// Lets the fence be signaled with less than its value. A wait for an earlier, higher value lasts until the
    /// fence reaches it again. A Bellhop extension.
    pub fn rewindable(mut self) -> FenceBuilder<kind::Rewindable> {
        self.flags |= FenceFlags::REWINDABLE;
        self.becomes()
    }

    /// Keeps the fence on the GPU, in local memory: engines signal it and wait for it, and no CPU can read it
    /// (`D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU`).
    pub fn intra_gpu(mut self) -> FenceBuilder<kind::IntraGpu> {
        self.native = Some(NativeFenceType::INTRA_GPU);
        self.becomes()
    }

    /// Makes it a monitored fence (`D3DKMTCreateSynchronizationObject2`), which needs no native fences. Packets can
    /// signal it but not wait for it.
    pub fn monitored(mut self) -> FenceBuilder<kind::Monitored> {
        self.native = None;
        self.becomes()
    }
}

/// Fences that other processes of the guest may open.
macro_rules! can_be_shared {
    ($($kind:ident),*) => {$(
        impl FenceBuilder<kind::$kind> {
            /// Lets other processes of the guest open the fence by its name ([`Fence::share`]).
            pub fn shared(mut self) -> Self {
                self.flags |= FenceFlags::SHARED;
                self
            }
        }
    )*};
}
can_be_shared!(Native, Rewindable, IntraGpu, Monitored);

/// Fences that other guests may open.
macro_rules! can_cross_adapters {
    ($($kind:ident),*) => {$(
        impl FenceBuilder<kind::$kind> {
            /// Lets other guests of the host open the fence by its name ([`Fence::share`], [`Device::open_fence`]),
            /// including this VM on another adapter, as far as the host's policy allows. Guests that have native
            /// fences open it as one.
            pub fn cross_adapter(mut self) -> FenceBuilder<kind::CrossAdapter> {
                self.flags |= FenceFlags::SHARED | FenceFlags::CROSS_ADAPTER;
                self.becomes()
            }
        }
    )*};
}
can_cross_adapters!(Native, Monitored);

impl<K> FenceBuilder<K> {
    fn becomes<L>(self) -> FenceBuilder<L> {
        let Self { device, initial_value, native, flags, .. } = self;
        FenceBuilder { device, initial_value, native, flags, kind: PhantomData }
    }

    /// Creates the fence.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] for a native fence if native fences were not negotiated. [`Error::Refused`] if the
    /// device has no room for another fence, does not offer intra-GPU fences, or its policy does not name this
    /// guest and the fence is a cross-adapter fence.
    pub fn create(self) -> Result<Fence, Error> {
        let Self { device, initial_value, native, flags, .. } = self;
        let (session, flags) = (device.session(), flags.bits());
        let opened = match native {
            Some(_) if !session.link.features.contains(Features::NATIVE_FENCES) => {
                return Err(Error::NotAvailable("native fences"));
            }
            Some(fence_type) => {
                let device = device.handle();
                session.call(&CreateNativeFence { device, initial_value, fence_type, flags })?
            }
            None => {
                let device = device.handle();
                session.call(&CreateMonitoredFence { device, initial_value, flags, reserved: 0 })?
            }
        };
        Ok(Fence::own(device, opened))
    }
}
