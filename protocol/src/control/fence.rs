// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about fences.

use super::{Handle, request};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// `D3DDDI_NATIVEFENCE_TYPE`.
    pub struct NativeFenceType: u32 {
        /// CPUs and GPU signal it and wait for it.
        DEFAULT = 0;
        /// Engines signal it and wait for it, and no CPU reaches it.
        INTRA_GPU = 1;
    }
}

bitflags! {
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct FenceFlags: u32 {
        /// Other processes, and other devices of its own, may open it ([`ShareNativeFence`]). Its values
        /// are then in pages without another fence's.
        const SHARED = 1 << 0;
        /// Other guests may open it too, as far as the host's policy allows: `CrossAdapter`. It is shared,
        /// and of the default type.
        const CROSS_ADAPTER = 1 << 2;
        /// It may be signaled with less than its CurrentValue: see
        /// [`SignalRule::Rewindable`](crate::handoff::fence::SignalRule::Rewindable). Not one that other
        /// guests may open. This flag is Bellhop's own.
        const REWINDABLE = 1 << 16;
    }
}

/// [`NativeFenceMapping::current_value_offset`] of a fence that no CPU reaches.
pub const NOT_PUBLISHED: u64 = u64::MAX;

/// `D3DKMTCreateNativeFence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateNativeFence {
    /// The device.
    pub device: Handle,
    /// CurrentValue to begin with.
    pub initial_value: u64,
    /// Who may do what with it.
    pub fence_type: NativeFenceType,
    /// [`FenceFlags`]
    pub flags: u32,
}
crate::assert_layout!(
    CreateNativeFence, 24, device at 0, initial_value at 8, fence_type at 16, flags at 20,
);
request!(CreateNativeFence, CREATE_NATIVE_FENCE -> OpenedFence);

impl CreateNativeFence {
    /// One of the default type that is not shared.
    #[must_use]
    pub const fn new(device: Handle, initial_value: u64) -> Self {
        Self { device, initial_value, fence_type: NativeFenceType::DEFAULT, flags: 0 }
    }
}

/// `D3DDDI_NATIVEFENCEMAPPING`: where a fence's values are to a process.
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

/// A fence that was created or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OpenedFence {
    /// The fence.
    pub fence: Handle,
    /// Where its values are.
    pub mapping: NativeFenceMapping,
    /// The process's slot for it, for packets.
    pub slot: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(OpenedFence, 40, fence at 0, mapping at 8, slot at 32, reserved at 36);

/// `D3DKMTCreateSynchronizationObject2` of a monitored fence, which needs no
/// [`NATIVE_FENCES`](crate::features::Features::NATIVE_FENCES): each signal of the GPU's interrupts the host,
/// and queues wait for it on the CPU only ([`WaitFromGpu`]). Its MonitoredValue has no address. It is
/// shared, opened, destroyed, waited for and signaled by the same requests as native ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateMonitoredFence {
    /// The device.
    pub device: Handle,
    /// CurrentValue to begin with.
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

/// `D3DKMTDestroySynchronizationObject`: this process's waits for it are never satisfied after. The fence
/// is gone when everybody who opened it has done so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyNativeFence {
    /// The fence.
    pub fence: Handle,
}
crate::assert_layout!(DestroyNativeFence, 8, fence at 0);
request!(DestroyNativeFence, DESTROY_NATIVE_FENCE -> ());

/// `D3DKMTShareObjects`, of one fence that was created as [`FenceFlags::SHARED`]: the same answer each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ShareNativeFence {
    /// The fence.
    pub fence: Handle,
}
crate::assert_layout!(ShareNativeFence, 8, fence at 0);
request!(ShareNativeFence, SHARE_NATIVE_FENCE -> NtHandle);

/// A name that any process of the guest can open a shared fence or allocation by (an NT handle), as long as
/// there is that; that of a [`FenceFlags::CROSS_ADAPTER`] fence any process of a guest that the host's policy names
/// together with all who have it. It cannot be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct NtHandle(pub u64);

/// `D3DKMTOpenNativeFenceFromNTHandle`. A process that has the fence open already gets its mapping again.
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

/// Most fences in one [`WaitForFences`] or [`SignalFences`].
pub const MAX_FENCE_LIST: u32 = 64;

/// A value of a fence: an entry of a list.
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
    /// How several fences are waited for (`D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct WaitFlags: u32 {
        /// For any of them, and not for all.
        const WAIT_ANY = 1 << 0;
    }
}

/// `D3DKMTWaitForSynchronizationObjectFromCpu`. A list of `count` [`FenceValue`]s follows, of any of the
/// process's fences, progress fences included. `SUCCESS` when the values are reached already; `PENDING`
/// when an event with that cookie will tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WaitForFences {
    /// Comes back in the event; the process's to choose.
    pub cookie: u64,
    /// [`WaitFlags`]
    pub flags: u32,
    /// How many fences there are in the list, 1 to [`MAX_FENCE_LIST`].
    pub count: u32,
}
crate::assert_layout!(WaitForFences, 16, cookie at 0, flags at 8, count at 12);
request!(WaitForFences, WAIT_FOR_FENCES -> ());

/// Takes the process's oldest wait with this cookie back. `INVALID_PARAMETER` when there is none: its
/// event is on its way then, or a fence that it needed was destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CancelWait {
    /// The cookie that the wait was given.
    pub cookie: u64,
}
crate::assert_layout!(CancelWait, 8, cookie at 0);
request!(CancelWait, CANCEL_WAIT -> ());

/// `D3DKMTSignalSynchronizationObjectFromCpu`: makes the values CurrentValues, all or none. A list of
/// `count` [`FenceValue`]s follows. No value may shrink (`INVALID_PARAMETER`), and progress fences are
/// their queues' alone to signal (`NOT_SUPPORTED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SignalFences {
    /// How many fences there are in the list, 1 to [`MAX_FENCE_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SignalFences, 8, count at 0, reserved at 4);
request!(SignalFences, SIGNAL_FENCES -> ());

/// `D3DKMTWaitForSynchronizationObjectFromGpu`: what is submitted to a queue in kernel mode after this is held
/// until all of the fences have these values, which the CPU sees to. A list of `count` [`FenceValue`]s
/// follows. Queues for user-mode submission wait with packets (`NOT_SUPPORTED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WaitFromGpu {
    /// The HW queue, or the context that submits to its node.
    pub queue: Handle,
    /// How many fences there are in the list, 1 to [`MAX_FENCE_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(WaitFromGpu, 16, queue at 0, count at 8, reserved at 12);
request!(WaitFromGpu, WAIT_FROM_GPU -> ());

/// `D3DKMTSignalSynchronizationObjectFromGpu`: makes the values CurrentValues when everything that the queue
/// was given before is done, and before anything that it is given after begins. A list of `count`
/// [`FenceValue`]s follows. For queues and contexts as [`WaitFromGpu`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SignalFromGpu {
    /// The HW queue, or the context that submits to its node.
    pub queue: Handle,
    /// How many fences there are in the list, 1 to [`MAX_FENCE_LIST`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SignalFromGpu, 16, queue at 0, count at 8, reserved at 12);
request!(SignalFromGpu, SIGNAL_FROM_GPU -> ());
