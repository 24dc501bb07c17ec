// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about power.
//!
//! Source: user-mode work submission, "Engine F-state transitions" and "Engine D-state
//! transitions".

use super::request;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// The device's power state (`DEVICE_POWER_STATE`).
    pub struct DevicePowerState: u32 {
        /// Powered.
        D0 = 1;
        /// Without power: contexts are suspended, doorbells disconnected, rings evicted.
        D3 = 4;
    }
}

open_enum! {
    /// The power state of a node's engine: its component's F-state.
    pub struct EnginePowerState: u32 {
        /// Powered.
        F0 = 0;
        /// Without power, until a doorbell of one of its queues is connected or one of its queues gets work in
        /// kernel mode.
        F1 = 1;
    }
}

/// Queries the power states of the device and of one engine, and when they change by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryPower {
    /// The node's ordinal.
    pub node: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(QueryPower, 8, node at 0, reserved at 4);
request!(QueryPower, QUERY_POWER -> PowerInfo);

/// Power states of the device and of one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PowerInfo {
    /// The device's state.
    pub device: DevicePowerState,
    /// The engine's state.
    pub engine: EnginePowerState,
    /// Number of the device's transitions to D3 since the daemon started.
    pub device_transitions: u64,
    /// Number of the engine's transitions to F1.
    pub engine_transitions: u64,
    /// Idle time after which the engine asks to go to F1, in milliseconds; 0: it does not ask, and the host takes
    /// it there.
    pub engine_idle_ms: u32,
    /// Time between the last engine's transition to F1 and the device's to D3, in milliseconds; 0 is never.
    pub device_idle_ms: u32,
}
crate::assert_layout!(
    PowerInfo, 32,
    device at 0, engine at 4, device_transitions at 8, engine_transitions at 16,
    engine_idle_ms at 24, device_idle_ms at 28,
);

/// Queries the power of a GPU of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryGpuPower {
    /// The ordinal of the GPU: 0 is the master's.
    pub gpu: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(QueryGpuPower, 8, gpu at 0, reserved at 4);
request!(QueryGpuPower, QUERY_GPU_POWER -> GpuPowerInfo);

/// [`GpuPowerInfo::flags`]: the GPU has power only while something needs it.
pub const GPU_POWER_WHEN_NEEDED: u32 = 1 << 0;

/// Power of a GPU. Times are of the host's control plane, and begin with the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct GpuPowerInfo {
    /// The GPU's state: D3 also while the device is in D3.
    pub state: DevicePowerState,
    /// [`GPU_POWER_WHEN_NEEDED`]
    pub flags: u32,
    /// Number of its transitions to D0.
    pub d0_entries: u64,
    /// Number of its transitions to D3.
    pub d3_entries: u64,
    /// Time in D0, in nanoseconds.
    pub d0_time: u64,
    /// Time in the state that it is in, in nanoseconds.
    pub state_time: u64,
}
crate::assert_layout!(
    GpuPowerInfo, 40,
    state at 0, flags at 4, d0_entries at 8, d3_entries at 16, d0_time at 24, state_time at 32,
);

/// Changes the device's power state. The reply comes after the change. Needs
/// [`Features::POWER_CONTROL`](crate::features::Features::POWER_CONTROL), because it affects every guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetDevicePower {
    /// The state.
    pub state: DevicePowerState,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SetDevicePower, 8, state at 0, reserved at 4);
request!(SetDevicePower, SET_DEVICE_POWER -> ());

/// Changes an engine's power state, as the engine's idleness does. An engine that has work stays in F0; use
/// [`QueryPower`] to find out. Needs [`Features::POWER_CONTROL`](crate::features::Features::POWER_CONTROL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetEnginePower {
    /// The node's ordinal.
    pub node: u32,
    /// The state.
    pub state: EnginePowerState,
}
crate::assert_layout!(SetEnginePower, 8, node at 0, state at 4);
request!(SetEnginePower, SET_ENGINE_POWER -> ());
