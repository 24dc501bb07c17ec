// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about power.

use crate::ddi::Miniport;
use crate::dxgkrnl::kernel::actions::nodes;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::power::gpus::GpuPower;
use crate::dxgkrnl::power::state::Power;
use crate::hardware::Platform;
use bellhop_protocol::control::power::{
    DevicePowerState, EnginePowerState, GpuPowerInfo, PowerInfo, QueryGpuPower, QueryPower,
    SetDevicePower, SetEnginePower,
};
use bellhop_protocol::features::Features;
use std::time::Duration;

/// Returns the state of the device and of an engine.
pub(crate) fn query_power(power: &Power, request: QueryPower) -> Handled<PowerInfo> {
    zero("reserved", request.reserved)?;
    let info = power.info(request.node);
    info.map(Answer::Done).ok_or(RequestError::parameter("node", request.node.into()))
}

/// Returns the state of a GPU of the chain.
pub(crate) fn query_gpu_power(
    gpu_power: &GpuPower,
    platform: &dyn Platform,
    now: Duration,
    request: QueryGpuPower,
) -> Handled<GpuPowerInfo> {
    zero("reserved", request.reserved)?;
    let gpu = nodes::gpu(platform, "gpu", request.gpu)?;
    let info = gpu_power.info(gpu, now);
    info.map(Answer::Done).ok_or(RequestError::parameter("gpu", request.gpu.into()))
}

fn check_power_control(guest: &Guest) -> Result<(), RequestError> {
    if guest.features().contains(Features::POWER_CONTROL) {
        Ok(())
    } else {
        Err(RequestError::NotSupported("changing power states"))
    }
}

/// The guest changes the device's state.
pub(crate) fn set_device_power(guest: &Guest, request: SetDevicePower) -> Handled<()> {
    zero("reserved", request.reserved)?;
    check_power_control(guest)?;
    match request.state {
        DevicePowerState::D0 | DevicePowerState::D3 => Ok(Answer::DevicePower(request.state)),
        state => Err(RequestError::parameter("state", state.0.into())),
    }
}

/// The guest changes an engine's state.
pub(crate) fn set_engine_power(
    guest: &Guest,
    miniport: &dyn Miniport,
    request: SetEnginePower,
) -> Handled<()> {
    check_power_control(guest)?;
    nodes::node(guest, miniport, request.node)?;
    match request.state {
        EnginePowerState::F0 | EnginePowerState::F1 => {
            Ok(Answer::EnginePower(request.node, request.state))
        }
        state => Err(RequestError::parameter("state", state.0.into())),
    }
}
