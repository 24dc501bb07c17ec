// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about power.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::power::{
    DevicePowerState, EnginePowerState, GpuPowerInfo, PowerInfo, QueryGpuPower, QueryPower,
    SetDevicePower, SetEnginePower,
};
use bellhop_protocol::features::Features;

impl ProcessAccess<'_> {
    /// Returns the state of the device and of an engine.
    pub(crate) fn query_power(&mut self, request: QueryPower) -> Handled<PowerInfo> {
        zero("reserved", request.reserved)?;
        let info = self.power.info(request.node);
        info.map(Answer::Done).ok_or(RequestError::parameter("node", request.node.into()))
    }

    /// Returns the state of a GPU of the chain.
    pub(crate) fn query_gpu_power(&mut self, request: QueryGpuPower) -> Handled<GpuPowerInfo> {
        zero("reserved", request.reserved)?;
        let gpu = self.gpu("gpu", request.gpu)?;
        let info = self.gpu_power.info(gpu, self.now);
        info.map(Answer::Done).ok_or(RequestError::parameter("gpu", request.gpu.into()))
    }

    fn check_power_control(&self) -> Result<(), RequestError> {
        if self.guest.features().contains(Features::POWER_CONTROL) {
            Ok(())
        } else {
            Err(RequestError::NotSupported("changing power states"))
        }
    }

    /// The guest changes the device's state.
    pub(crate) fn set_device_power(&mut self, request: SetDevicePower) -> Handled<()> {
        zero("reserved", request.reserved)?;
        self.check_power_control()?;
        match request.state {
            DevicePowerState::D0 | DevicePowerState::D3 => Ok(Answer::DevicePower(request.state)),
            state => Err(RequestError::parameter("state", state.0.into())),
        }
    }

    /// The guest changes an engine's state.
    pub(crate) fn set_engine_power(&mut self, request: SetEnginePower) -> Handled<()> {
        self.check_power_control()?;
        self.node(request.node)?;
        match request.state {
            EnginePowerState::F0 | EnginePowerState::F1 => {
                Ok(Answer::EnginePower(request.node, request.state))
            }
            state => Err(RequestError::parameter("state", state.0.into())),
        }
    }
}
