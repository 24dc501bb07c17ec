// SPDX-License-Identifier: MIT OR Apache-2.0

//! The virtio configuration space, which a driver reads before it sets up the device.

use crate::features::Version;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First bytes of the configuration space, `"BLHPvGPU"`: they tell a Bellhop device from any other device with its
/// virtio id.
pub const CONFIG_MAGIC: u64 = u64::from_le_bytes(*b"BLHPvGPU");

/// The virtio device id suggested to a VMM. QEMU's `vhost-user-test-device` accepts only ids that it has a name
/// for, and no Linux guest driver claims 39.
pub const VIRTIO_DEVICE_ID: u32 = 39;

/// Shared-memory region id of the BAR.
pub const BAR_SHMID: u8 = 0;

/// Index of the virtqueue that carries [requests](crate::control).
pub const CONTROL_QUEUE: u16 = 0;
/// Index of the virtqueue that carries [events](crate::event).
pub const EVENT_QUEUE: u16 = 1;
/// Number of virtqueues of the device.
pub const QUEUE_COUNT: u16 = 2;
/// Largest size, in descriptors, of either virtqueue.
pub const MAX_QUEUE_SIZE: u16 = 256;

/// The configuration space. Read-only for the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ConfigSpace {
    /// [`CONFIG_MAGIC`].
    pub magic: u64,
    /// Version of the protocol that the device speaks.
    pub version: Version,
    /// Number of nodes (kinds of engine) of the adapter.
    pub node_count: u32,
    /// Size of the BAR in bytes, a power of two.
    pub bar_size: u64,
    /// Maximum number of doorbells (and HW queues for user-mode submission) per guest.
    pub doorbell_count: u32,
    /// Maximum number of native fences per guest.
    pub fence_count: u32,
    /// The [features](crate::features::Features) that the device offers.
    pub features: u64,
    /// Zero.
    pub reserved: [u64; 3],
}
crate::assert_layout!(
    ConfigSpace, 64,
    magic at 0, version at 8, node_count at 12, bar_size at 16, doorbell_count at 24,
    fence_count at 28, features at 32, reserved at 40,
);
