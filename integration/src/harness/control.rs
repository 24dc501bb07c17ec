// SPDX-License-Identifier: MIT OR Apache-2.0

//! The actions of the host's administrator: the only file that knows the kernel's commands.

use crate::harness::board::Outcome;
use crate::harness::scenario::plan::Target;
use crate::harness::scenario::{Action, DeviceState, EngineState};
use bellhop_device::service::{
    Command, DevicePowerState, EnginePowerState, GuestId, KernelHandle, Served,
};
use std::sync::mpsc::Sender;
use std::thread;

/// The host of a run.
pub(super) struct Control {
    kernel: KernelHandle,
    /// The served socket of each guest.
    sockets: Vec<Served>,
}

impl Control {
    pub(super) fn new(kernel: KernelHandle, sockets: Vec<Served>) -> Self {
        Self { kernel, sockets }
    }

    /// Has the host carry out an action, and answer when it is done.
    pub(super) fn begin(
        &self,
        action: &Action,
        target: Target,
        answer: Sender<Outcome>,
    ) -> Outcome {
        let command = self.command(action, target)?;
        let kernel = self.kernel.clone();
        // A device that a guest needs may take long to reach D3.
        let waiter = move || {
            // An error means that the receiver is gone.
            let _ =
                answer.send(kernel.command_blocking(command).map_err(|error| error.to_string()));
        };
        let thread = thread::Builder::new().name("command".into());
        thread.spawn(waiter).map(drop).map_err(|error| error.to_string())
    }

    fn command(&self, action: &Action, target: Target) -> Result<Command, String> {
        let guest = || self.guest(target).ok_or("the guest is not there");
        Ok(match action {
            Action::DevicePower { state, .. } => Command::SetDevicePower(match state {
                DeviceState::D0 => DevicePowerState::D0,
                DeviceState::D3 => DevicePowerState::D3,
            }),
            Action::EnginePower { node, state, .. } => {
                let state = match state {
                    EngineState::F0 => EnginePowerState::F0,
                    EngineState::F1 => EnginePowerState::F1,
                };
                Command::SetEnginePower { node: *node, state }
            }
            Action::SuspendGuest { .. } => Command::SuspendGuest(guest()?),
            Action::ResumeGuest { .. } => Command::ResumeGuest(guest()?),
            Action::DisconnectGuest { .. } => Command::DisconnectGuest(guest()?),
            Action::FailGuest { .. } => Command::FailGuest(guest()?),
            _ => return Err("the host cannot do this".into()),
        })
    }

    /// The kernel's id for a guest of the scenario; it changes with each reset.
    fn guest(&self, target: Target) -> Option<GuestId> {
        let Target::Guest(guest) = target else { return None };
        self.sockets[guest].guest()
    }
}
