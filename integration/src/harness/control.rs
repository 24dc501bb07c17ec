// SPDX-License-Identifier: MIT OR Apache-2.0

//! The actions of the host's administrator: the only file that knows the kernel's commands.

use crate::harness::board::Outcome;
use crate::harness::scenario::{Action, DeviceState, EngineState};
use bellhop_device::service::{
    Command, DevicePowerState, EnginePowerState, GuestId, KernelHandle, Served,
};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

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

    /// Has the host carry out an action, on this guest if it is about one, and waits until it is done.
    pub(super) fn carry_out(
        &self,
        action: &Action,
        guest: Option<usize>,
        limit: Duration,
    ) -> Outcome {
        let command = self.command(action, guest)?;
        let (answer, answered) = channel();
        let kernel = self.kernel.clone();
        // A device that a guest needs may take long to reach D3.
        let waiter = move || {
            // An error means that the receiver is gone.
            let _ = answer.send(kernel.command_blocking(command));
        };
        thread::Builder::new()
            .name("command".into())
            .spawn(waiter)
            .map_err(|error| error.to_string())?;
        match answered.recv_timeout(limit) {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(RecvTimeoutError::Timeout) => Err(format!("it was not done within {limit:?}")),
            Err(RecvTimeoutError::Disconnected) => Err("the host has stopped".into()),
        }
    }

    fn command(&self, action: &Action, guest: Option<usize>) -> Result<Command, String> {
        let guest = || self.guest(guest).ok_or("the guest is not there");
        Ok(match action {
            Action::DevicePower { state: DeviceState::D0, .. } => {
                Command::SetDevicePower(DevicePowerState::D0)
            }
            Action::DevicePower { state: DeviceState::D3, .. } => {
                Command::SetDevicePower(DevicePowerState::D3)
            }
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
    fn guest(&self, guest: Option<usize>) -> Option<GuestId> {
        self.sockets.get(guest?)?.guest()
    }
}
