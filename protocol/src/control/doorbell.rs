// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about doorbells.
//!
//! Source: user-mode work submission, "User-mode work submission APIs".

use super::{Handle, request};
use crate::doorbell::{ConnectionStatus, DoorbellPrivateData, RingTag};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `D3DKMTCreateDoorbell`: creates the one doorbell of a HW queue for user-mode submission. Its initial status is
/// `DISCONNECTED_RETRY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateDoorbell {
    /// The HW queue.
    pub hw_queue: Handle,
    /// Allocation of the [ring buffer](crate::ring); its size is the ring's size.
    pub ring_buffer: Handle,
    /// Allocation of the ring buffer control; both pointers in it must be 0.
    pub ring_control: Handle,
    /// Zero.
    pub flags: u64,
    /// Private driver data.
    pub private_data: DoorbellPrivateData,
}
crate::assert_layout!(
    CreateDoorbell, 48,
    hw_queue at 0, ring_buffer at 8, ring_control at 16, flags at 24, private_data at 32,
);
request!(CreateDoorbell, CREATE_DOORBELL -> CreateDoorbellReply);

impl CreateDoorbell {
    /// A doorbell with the usual private data.
    #[must_use]
    pub const fn new(hw_queue: Handle, ring_buffer: Handle, ring_control: Handle) -> Self {
        let private_data = DoorbellPrivateData { flags: 0, reserved: [0; 3] };
        Self { hw_queue, ring_buffer, ring_control, flags: 0, private_data }
    }
}

/// The new doorbell. The offsets hold for its life, whatever its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateDoorbellReply {
    /// The doorbell.
    pub doorbell: Handle,
    /// Offset in the BAR of the 64-bit doorbell word. In the global model all doorbells of a guest have one word.
    pub doorbell_offset: u64,
    /// Offset in the BAR of the status word.
    pub status_offset: u64,
    /// Offset in the BAR of `HwQueueProgressFenceLastQueuedValue`.
    pub last_queued_offset: u64,
    /// The upper half of every ring's value in the global model; 0 in the dedicated model, where the value is the
    /// write pointer.
    pub ring_tag: RingTag,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    CreateDoorbellReply, 40,
    doorbell at 0, doorbell_offset at 8, status_offset at 16, last_queued_offset at 24,
    ring_tag at 32, reserved at 36,
);

/// `D3DKMTConnectDoorbell`: gives the queue's doorbell a physical doorbell, and takes it from another queue if none
/// is free. Work that the ring already holds runs without another ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ConnectDoorbell {
    /// The HW queue.
    pub hw_queue: Handle,
}
crate::assert_layout!(ConnectDoorbell, 8, hw_queue at 0);
request!(ConnectDoorbell, CONNECT_DOORBELL -> ConnectDoorbellReply);

/// The result of connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ConnectDoorbellReply {
    /// `CONNECTED` or `CONNECTED_NOTIFY`.
    pub status: ConnectionStatus,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(ConnectDoorbellReply, 8, status at 0, reserved at 4);

/// `D3DKMTDestroyDoorbell`: afterwards the guest may destroy the ring's allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyDoorbell {
    /// The doorbell.
    pub doorbell: Handle,
}
crate::assert_layout!(DestroyDoorbell, 8, doorbell at 0);
request!(DestroyDoorbell, DESTROY_DOORBELL -> ());

/// `D3DKMTNotifyWorkSubmission`: tells the host of a ring that found status `CONNECTED_NOTIFY`. Harmless at any
/// other time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct NotifyWorkSubmission {
    /// The doorbell.
    pub doorbell: Handle,
}
crate::assert_layout!(NotifyWorkSubmission, 8, doorbell at 0);
request!(NotifyWorkSubmission, NOTIFY_WORK_SUBMISSION -> ());
