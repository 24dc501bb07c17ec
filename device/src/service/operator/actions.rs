// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the operator asks for, done: each change is logged with who asked, and remembered for tools.

use super::peer::Peer;
use super::setting::Setting;
use super::{Operated, OperatedSocket};
use crate::control_plane::end_of;
use bellhop_host_kmd::hardware::{GpuOrdinal, GuestId, Observe as _};
use bellhop_host_kmd::port::{AdapterId, Command};
use bellhop_protocol::operator::{Guests, OperatorAction, OperatorReply, ServedSocket};
use bellhop_protocol::screen::Connector;
use bellhop_protocol::snapshot::Change;
use std::sync::Arc;
use tracing::info;

/// One operator's connection.
pub(super) struct Operator {
    /// What it reaches.
    pub(super) operated: Arc<Operated>,
    /// Who it is.
    pub(super) peer: Peer,
}

/// What is done; or why not, and what to do instead.
pub(super) type Done = Result<OperatorReply, String>;

fn done(text: impl Into<String>) -> Done {
    Ok(OperatorReply::Done(text.into()))
}

impl Operator {
    /// Does what the operator wants.
    pub(super) async fn act(&self, action: OperatorAction) -> Done {
        match action {
            OperatorAction::Guests => Ok(OperatorReply::Guests(self.guests())),
            OperatorAction::Suspend { guest } => self.set_suspended(&guest, true).await,
            OperatorAction::Resume { guest } => self.set_suspended(&guest, false).await,
            OperatorAction::Fail { guest } => {
                let (of, guest) = self.guest(&guest)?;
                self.command(of, Command::FailGuest(guest)).await?;
                self.note_guest(of, guest, "failed", "yes");
                done(format!("guest {} has lost its devices", guest.0))
            }
            OperatorAction::Disconnect { guest } => {
                let place = self.find(&guest)?;
                let of = &self.operated.sockets[place];
                if !of.served.disconnect() {
                    return Err(format!("nobody is connected to {}", of.address));
                }
                self.log("disconnected", &of.address);
                done(format!("the connection to {} is ended", of.address))
            }
            OperatorAction::DevicePower { adapter, state } => {
                let kernel = self.adapter(adapter)?;
                let command = Command::SetDevicePower(state.into());
                kernel.command(command).await.map_err(|error| error.to_string())?;
                let state = format!("{state:?}");
                self.note_adapter(adapter, "power".into(), &state);
                done(format!("adapter {adapter} was taken to {state}"))
            }
            OperatorAction::EnginePower { adapter, node, state } => {
                let kernel = self.adapter(adapter)?;
                let command = Command::SetEnginePower { node, state: state.into() };
                kernel.command(command).await.map_err(|error| error.to_string())?;
                let state = format!("{state:?}");
                self.note_adapter(adapter, format!("engine {node}"), &state);
                done(format!("the engine of node {node} was asked for {state}"))
            }
            OperatorAction::Set { guest, key, value } => self.set(&guest, &key, &value),
            OperatorAction::Display { guest, connector, plugged } => {
                self.plug_display(&guest, connector, plugged)
            }
            OperatorAction::Gpu { guest, gpu, plugged } => {
                let (of, guest) = self.guest(&guest)?;
                let ordinal = GpuOrdinal(gpu);
                let command = if plugged {
                    Command::GiveGpu(guest, ordinal)
                } else {
                    Command::TakeGpu(guest, ordinal)
                };
                self.command(of, command).await?;
                let now = if plugged { "plugged" } else { "unplugged" };
                let (what, gpu) = match ordinal {
                    GpuOrdinal::MASTER => ("gpu".to_owned(), "the GPU".to_owned()),
                    _ => (format!("gpu {gpu}"), format!("GPU {gpu}")),
                };
                self.note_guest(of, guest, &what, now);
                done(format!("{gpu} of guest {} is {now}", guest.0))
            }
            OperatorAction::Agent { guest, wish } => {
                let (of, guest) = self.guest(&guest)?;
                let answer = super::agent::ask(&of.host.kernel, guest, wish).await?;
                self.note_guest(of, guest, "agent", &super::agent::describe(wish));
                done(answer)
            }
            OperatorAction::Drain { on } => {
                self.operated.gate.close(on);
                self.log(if on { "draining" } else { "not draining" }, "");
                done(if on { "no further guest is let in" } else { "guests are let in" })
            }
            OperatorAction::AwaitNoGuests => {
                self.operated.gate.emptied().await;
                done("no guest is connected")
            }
            OperatorAction::Stop => {
                self.log("stopping", "");
                // A full channel has an order to stop already.
                let _ = self.operated.stop.try_send(());
                done("the daemon ends")
            }
        }
    }

    fn guests(&self) -> Guests {
        let describe = |of: &OperatedSocket| {
            let info = of.host.standing.info();
            let front_end = info.guest.and_then(|guest| of.host.gpu.front_end(guest));
            ServedSocket {
                socket: of.address.clone(),
                adapter: of.adapter,
                guest: info.guest.map(|guest| guest.0),
                connected: of.served.is_connected(),
                pid: front_end.and_then(|front_end| front_end.pid),
                suspended: info.is_suspended,
                changes: info.changes,
            }
        };
        Guests {
            draining: self.operated.gate.is_closed(),
            sockets: self.operated.sockets.iter().map(describe).collect(),
        }
    }

    /// The place of the socket that a name means: a guest's id, the socket's path, or its file name.
    fn find(&self, name: &str) -> Result<usize, String> {
        let sockets = &self.operated.sockets;
        let is_it = |of: &OperatedSocket| match name.parse::<u64>() {
            Ok(id) => of.host.standing.info().guest == Some(GuestId(id)),
            Err(_) => of.address == name || of.address.rsplit('/').next() == Some(name),
        };
        let mut found = (0..).zip(sockets).filter(|(_, of)| is_it(of)).map(|(place, _)| place);
        match (found.next(), found.next()) {
            (Some(place), None) => Ok(place),
            (Some(_), Some(_)) => {
                Err(format!("several sockets are named {name:?}; name one by its path"))
            }
            (None, _) => {
                let name_of = |of: &OperatedSocket| match of.host.standing.info().guest {
                    Some(GuestId(id)) => format!("{id} ({})", of.address),
                    None => of.address.clone(),
                };
                let names: Vec<_> = sockets.iter().map(name_of).collect();
                Err(format!("there is no guest {name:?}; name one of these: {}", names.join(", ")))
            }
        }
    }

    /// The guest that a name means, which is attached.
    fn guest(&self, name: &str) -> Result<(&OperatedSocket, GuestId), String> {
        let of = &self.operated.sockets[self.find(name)?];
        let guest = of.host.standing.info().guest;
        let nobody = || {
            format!("no guest is attached to {}; a guest is when its driver has begun", of.address)
        };
        Ok((of, guest.ok_or_else(nobody)?))
    }

    fn adapter(&self, adapter: u32) -> Result<crate::control_plane::KernelHandle, String> {
        let adapters = self.operated.gpus.len();
        if adapter as usize >= adapters {
            return Err(format!("there is no adapter {adapter}; the last one is {}", adapters - 1));
        }
        Ok(self.operated.kernel.of(AdapterId(adapter)))
    }

    async fn command(&self, of: &OperatedSocket, command: Command) -> Result<(), String> {
        of.host.kernel.command(command).await.map_err(|error| error.to_string())
    }

    async fn set_suspended(&self, name: &str, suspended: bool) -> Done {
        let of = &self.operated.sockets[self.find(name)?];
        let (standing, kernel) = (&of.host.standing, &of.host.kernel);
        if let Some(command) = standing.set_suspended(kernel, suspended) {
            // Fails only if the guest has just gone; the next one is suspended nevertheless.
            let _ = end_of(command).await;
        }
        let now = if suspended { "yes" } else { "no" };
        self.log(if suspended { "suspended" } else { "resumed" }, &of.address);
        standing.note(kernel, self.change(of, "suspended".into(), now));
        let state = if suspended { "suspended" } else { "resumed" };
        done(match standing.info().guest {
            Some(guest) => format!("guest {} is {state}", guest.0),
            None => format!("guests of {} are {state}", of.address),
        })
    }

    fn set(&self, name: &str, key: &str, value: &str) -> Done {
        let setting = Setting::parse(key, value)?;
        let place = self.find(name)?;
        let of = &self.operated.sockets[place];
        let (gpu, kernel, standing) = (&of.host.gpu, &of.host.kernel, &of.host.standing);
        let rates = &self.operated.rates;
        let log = |change: fn(&mut (u32, u32), u32), to| {
            let rate = rates.change(place, 0, |rate| change(rate, to));
            if rates.log.set_rate(&of.address, rate) {
                Ok(())
            } else {
                Err(format!("the log has no share for {}", of.address))
            }
        };
        let workers = |change: fn(&mut (u32, u32), u32), to| {
            gpu.set_worker_starts(&of.address, rates.change(place, 1, |rate| change(rate, to)));
        };
        match setting {
            Setting::Weight(weight) => standing.set_weight(gpu, weight),
            Setting::DoorbellShare(share) => {
                let all = of.physical_doorbells;
                if share > all {
                    return Err(format!(
                        "guest.physical_doorbells_reserved is {share}; it must be 0 to {all}, which the adapter has"
                    ));
                }
                standing.set_doorbell_share(gpu, share);
            }
            Setting::Limit(limit, most) => standing.set_limit(kernel, limit, most),
            Setting::LogLines(lines) => log(|rate, to| rate.0 = to, lines)?,
            Setting::LogBurst(burst) => log(|rate, to| rate.1 = to, burst)?,
            Setting::WorkerStarts(starts) => workers(|rate, to| rate.0 = to, starts),
            Setting::WorkerStartBurst(burst) => workers(|rate, to| rate.1 = to, burst),
        }
        let key = key.strip_prefix("guest.").unwrap_or(key);
        self.log(&format!("set {key} to {value}"), &of.address);
        standing.note(kernel, self.change(of, key.to_owned(), value));
        done(format!("guest.{key} of {} is {value}", of.address))
    }

    fn plug_display(&self, name: &str, connector: String, plugged: bool) -> Done {
        let guest = if name.is_empty() { 0 } else { self.guest(name)?.1.0 };
        let (guest, connector) =
            self.operated.screens.plug(&Connector { guest, name: connector }, plugged)?;
        let now = if plugged { "plugged" } else { "unplugged" };
        let (of, guest) = self.guest(&guest.to_string())?;
        self.note_guest(of, guest, &format!("display {connector}"), now);
        done(format!("the monitor of {connector} of guest {} is {now}", guest.0))
    }

    fn log(&self, what: &str, socket: &str) {
        let Peer { uid, pid, command, .. } = &self.peer;
        info!(uid, pid, command, socket, "the operator has a change: {what}");
    }

    fn change(&self, of: &OperatedSocket, what: String, now: &str) -> Change {
        self.change_at(what, now, of.host.gpu.gpu_clock())
    }

    fn change_at(&self, what: String, now: &str, time: u64) -> Change {
        let Peer { uid, pid, command, .. } = &self.peer;
        Change { what, now: now.to_owned(), uid: *uid, pid: *pid, command: command.clone(), time }
    }

    /// Logs a change of a guest, and remembers it while the guest is attached.
    fn note_guest(&self, of: &OperatedSocket, guest: GuestId, what: &str, now: &str) {
        self.log(&format!("{what}: {now}"), &of.address);
        of.host.kernel.note(Some(guest), self.change(of, what.to_owned(), now));
    }

    /// Logs a change of an adapter, and remembers it.
    fn note_adapter(&self, adapter: u32, what: String, now: &str) {
        self.log(&format!("{what} of adapter {adapter}: {now}"), "");
        let time = self.operated.gpus.get(adapter as usize).map_or(0, |gpu| gpu.gpu_clock());
        let kernel = self.operated.kernel.of(AdapterId(adapter));
        kernel.note(None, self.change_at(what, now, time));
    }
}
