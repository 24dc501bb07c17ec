// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about power.
//!
//! Source: user-mode work submission, "Engine F-state transitions" and "Engine D-state
//! transitions".

use super::request;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// Whether the device has power (`DEVICE_POWER_STATE`).
    pub struct DevicePowerState: u32 {
        /// It has.
        D0 = 1;
        /// It has none: contexts are suspended, doorbells disconnected, rings evicted.
        D3 = 4;
    }
}

open_enum! {
    /// Whether a node's engine has power: its component's F-state.
    pub struct EnginePowerState: u32 {
        /// It has.
        F0 = 0;
        /// It has none, until a doorbell of one of its queues is connected or one of them is given
        /// work in kernel mode.
        F1 = 1;
    }
}

/// What state the device and one of its engines are in, and when they change by themselves.
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

/// Power of the device and of one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PowerInfo {
    /// The device's state.
    pub device: DevicePowerState,
    /// The engine's state.
    pub engine: EnginePowerState,
    /// How often the device has gone to D3 since the daemon started.
    pub device_transitions: u64,
    /// How often the engine has gone to F1.
    pub engine_transitions: u64,
    /// After how long without work the engine asks to go to F1, in milliseconds; 0: it does not ask, and
    /// the host takes it there.
    pub engine_idle_ms: u32,
    /// How long after the last engine the device goes to D3, in milliseconds; 0 is never.
    pub device_idle_ms: u32,
}
crate::assert_layout!(
    PowerInfo, 32,
    device at 0, engine at 4, device_transitions at 8, engine_transitions at 16,
    engine_idle_ms at 24, device_idle_ms at 28,
);

/// Changes the device's power state. The reply comes when it has changed. Needs
/// [`Features::POWER_CONTROL`](crate::features::Features::POWER_CONTROL): it concerns every guest.
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

/// Changes an engine's power state, as its own idleness does. An engine that has work stays in F0:
/// [`QueryPower`] tells. Needs
/// [`Features::POWER_CONTROL`](crate::features::Features::POWER_CONTROL).
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
