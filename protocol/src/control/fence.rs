// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about fences.

use super::{Handle, request};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// `D3DDDI_NATIVEFENCE_TYPE`.
    pub struct NativeFenceType: u32 {
        /// CPUs and the GPU signal it and wait for it.
        DEFAULT = 0;
        /// Engines signal it and wait for it; no CPU can access it.
        INTRA_GPU = 1;
    }
}

bitflags! {
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct FenceFlags: u32 {
        /// Other processes, and other devices of its own process, may open it ([`ShareNativeFence`]). No other
        /// fence's values lie in the pages of its values.
        const SHARED = 1 << 0;
        /// `CrossAdapter`: other guests may open it too, as far as the host's policy allows. It is shared and of
        /// the default type.
        const CROSS_ADAPTER = 1 << 2;
        /// It may be signaled with less than its CurrentValue: see
        /// [`SignalRule::Rewindable`](crate::handoff::fence::SignalRule::Rewindable). Excludes `CROSS_ADAPTER`.
        /// Specific to Bellhop.
        const REWINDABLE = 1 << 16;
    }
}

/// [`NativeFenceMapping::current_value_offset`] of a fence that no CPU can access.
pub const NOT_PUBLISHED: u64 = u64::MAX;

/// `D3DKMTCreateNativeFence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateNativeFence {
    /// The device.
    pub device: Handle,
    /// The initial CurrentValue.
    pub initial_value: u64,
    /// Which processors may use it.
    pub fence_type: NativeFenceType,
    /// [`FenceFlags`]
    pub flags: u32,
}
crate::assert_layout!(
    CreateNativeFence, 24, device at 0, initial_value at 8, fence_type at 16, flags at 20,
);
request!(CreateNativeFence, CREATE_NATIVE_FENCE -> OpenedFence);

impl CreateNativeFence {
    /// A request for an unshared fence of the default type.
    #[must_use]
    pub const fn new(device: Handle, initial_value: u64) -> Self {
        Self { device, initial_value, fence_type: NativeFenceType::DEFAULT, flags: 0 }
    }
}

/// `D3DDDI_NATIVEFENCEMAPPING`: where a process finds a fence's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct NativeFenceMapping {
    /// Offset in the BAR of the published CurrentValue (`CurrentValueCpuVa`), or [`NOT_PUBLISHED`].
    pub current_value_offset: u64,
    /// GPU virtual address of CurrentValue, which packets may read and write.
    pub current_value_gpu_va: u64,
    /// GPU virtual address of MonitoredValue, which packets may read.
    pub monitored_value_gpu_va: u64,
}
crate::assert_layout!(
    NativeFenceMapping, 24,
    current_value_offset at 0, current_value_gpu_va at 8, monitored_value_gpu_va at 16,
);

/// A created or opened fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OpenedFence {
    /// The fence.
    pub fence: Handle,
    /// Where its values are.
    pub mapping: NativeFenceMapping,
    /// The process's slot for the fence, which packets name.
    pub slot: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(OpenedFence, 40, fence at 0, mapping at 8, slot at 32, reserved at 36);

/// `D3DKMTCreateSynchronizationObject2` of a monitored fence, which needs no
/// [`NATIVE_FENCES`](crate::features::Features::NATIVE_FENCES): each GPU signal interrupts the host, and queues
/// wait for it on the CPU only ([`WaitFromGpu`]). Its MonitoredValue has no address. The requests that share, open,
/// destroy, wait for and signal native fences serve monitored fences too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateMonitoredFence {
    /// The device.
    pub device: Handle,
    /// The initial CurrentValue.
    pub initial_value: u64,
    /// [`FenceFlags`]
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    CreateMonitoredFence, 24, device at 0, initial_value at 8, flags at 16, reserved at 20,
);
request!(CreateMonitoredFence, CREATE_MONITORED_FENCE -> OpenedFence);

/// `D3DKMTDestroySynchronizationObject`: this process's waits for it will never be satisfied. The fence ends when
/// all processes that opened it have destroyed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyNativeFence {
    /// The fence.
    pub fence: Handle,
}
crate::assert_layout!(DestroyNativeFence, 8, fence at 0);
request!(DestroyNativeFence, DESTROY_NATIVE_FENCE -> ());

/// `D3DKMTShareObjects`, of one fence that was created as [`FenceFlags::SHARED`]. Always returns one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ShareNativeFence {
    /// The fence.
    pub fence: Handle,
}
crate::assert_layout!(ShareNativeFence, 8, fence at 0);
request!(ShareNativeFence, SHARE_NATIVE_FENCE -> NtHandle);

/// The name (an NT handle) of a shared fence or allocation, by which any process of the guest can open it while it
/// exists. A [`FenceFlags::CROSS_ADAPTER`] fence can also be opened by processes of other guests, if the host's
/// policy names their guest together with all guests that have the fence. Names cannot be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct NtHandle(pub u64);

/// `D3DKMTOpenNativeFenceFromNTHandle`. A process that has the fence open gets its existing mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OpenNativeFence {
    /// The device to open it on.
    pub device: Handle,
    /// The fence's name.
    pub nt_handle: NtHandle,
}
crate::assert_layout!(OpenNativeFence, 16, device at 0, nt_handle at 8);
request!(OpenNativeFence, OPEN_NATIVE_FENCE -> OpenedFence);

/// Maximum number of fences in one [`WaitForFences`] or [`SignalFences`].
pub const MAX_FENCE_LIST: u32 = 64;

/// A fence and a value: an entry of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FenceValue {
    /// The fence.
    pub fence: Handle,
    /// Its value.
    pub value: u64,
}
crate::assert_layout!(FenceValue, 16, fence at 0, value at 8);

bitflags! {
    /// How a wait treats several fences (`D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct WaitFlags: u32 {
        /// Wait for any of them instead of all.
        const WAIT_ANY = 1 << 0;
    }
}

/// `D3DKMTWaitForSynchronizationObjectFromCpu`. A list of `count` [`FenceValue`]s follows, of any of the process's
/// fences, including progress fences. `SUCCESS` if the values are reached; `PENDING` if an event with this cookie
/// will follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WaitForFences {
    /// Chosen by the process and returned in the event.
    pub cookie: u64,
    /// [`WaitFlags`]
    pub flags: u32,
    /// Number of fences in the list, 1 to [`MAX_FENCE_LIST`].
    pub count: u32,
}
crate::assert_layout!(WaitForFences, 16, cookie at 0, flags at 8, count at 12);
request!(WaitForFences, WAIT_FOR_FENCES -> ());

/// Cancels the process's oldest wait with this cookie. `INVALID_PARAMETER` if there is none: its event is then on
/// its way, or a fence that it needed was destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CancelWait {
    /// The cookie of the wait.
    pub cookie: u64,
}
crate::assert_layout!(CancelWait, 8, cookie at 0);
request!(CancelWait, CANCEL_WAIT -> ());

/// `D3DKMTSignalSynchronizationObjectFromCpu`: sets the CurrentValues, all or none. A list of `count`
/// [`FenceValue`]s follows. No value may shrink (`INVALID_PARAMETER`), and only its queue may signal a progress
/// fence (`NOT_SUPPORTED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SignalFences {
    /// Number of fences in the list, 1 to [`MAX_FENCE_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SignalFences, 8, count at 0, reserved at 4);
request!(SignalFences, SIGNAL_FENCES -> ());

/// `D3DKMTWaitForSynchronizationObjectFromGpu`: holds later kernel-mode submissions of a queue until all fences
/// have these values, which the CPU checks. A list of `count` [`FenceValue`]s follows. Queues for user-mode
/// submission wait with packets instead (`NOT_SUPPORTED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WaitFromGpu {
    /// The HW queue, or the context that submits to its node.
    pub queue: Handle,
    /// Number of fences in the list, 1 to [`MAX_FENCE_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(WaitFromGpu, 16, queue at 0, count at 8, reserved at 12);
request!(WaitFromGpu, WAIT_FROM_GPU -> ());

/// `D3DKMTSignalSynchronizationObjectFromGpu`: sets the CurrentValues after all earlier work of the queue is done
/// and before any later work begins. A list of `count` [`FenceValue`]s follows. The kinds of queues and contexts
/// are those of [`WaitFromGpu`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SignalFromGpu {
    /// The HW queue, or the context that submits to its node.
    pub queue: Handle,
    /// Number of fences in the list, 1 to [`MAX_FENCE_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SignalFromGpu, 16, queue at 0, count at 8, reserved at 12);
request!(SignalFromGpu, SIGNAL_FROM_GPU -> ());
