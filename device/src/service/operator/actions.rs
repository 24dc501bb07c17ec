// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the operator asks for, done: each change is logged with who asked, and remembered for tools.

use super::peer::Peer;
use super::setting::Setting;
use super::{Operated, OperatedSocket};
use crate::control_plane::end_of;
use bellhop_host_kmd::hardware::{FrontEnd, GpuOrdinal, GuestId, Observe as _};
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

/// What the operator means.
struct Target {
    /// The socket's place in the list.
    socket: usize,
    /// The connection's place at the socket; `None` for all of the socket's guests.
    place: Option<u32>,
}

/// What is done; or why not, and what to do instead.
pub(super) type Done = Result<OperatorReply, String>;

fn done(text: impl Into<String>) -> Done {
    Ok(OperatorReply::Done(text.into()))
}

/// A socket's connections, or the socket if nobody is connected.
fn describe(of: &OperatedSocket) -> Vec<ServedSocket> {
    let info = of.host.standing.info();
    let front_ends = of.served.front_ends();
    let bare = ServedSocket {
        socket: of.address.clone(),
        adapter: of.adapter,
        connections: of.host.connections,
        suspended: info.is_suspended,
        changes: info.changes,
        ..ServedSocket::default()
    };
    if front_ends.is_empty() {
        return vec![bare];
    }
    let connection = |(place, front_end): (u32, FrontEnd)| ServedSocket {
        connection: front_end.connection,
        guest: info.guests.get(&place).map(|guest| guest.0),
        connected: true,
        pid: front_end.pid,
        suspended: info.is_suspended || info.suspended.contains(&place),
        ..bare.clone()
    };
    front_ends.into_iter().map(connection).collect()
}

/// The guests that are attached to a socket, by their ids and with the names that mean them.
fn names_of_guests(of: &OperatedSocket) -> Vec<String> {
    let name = |(place, guest): (u32, GuestId)| {
        if of.host.connections > 1 {
            format!("{} ({}#{place})", guest.0, of.address)
        } else {
            format!("{} ({})", guest.0, of.address)
        }
    };
    of.host.standing.info().guests.into_iter().map(name).collect()
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
                let target = self.find(&guest)?;
                let (of, name) = (self.socket(&target), self.name(&target));
                let ended = of.served.disconnect(target.place);
                if ended == 0 {
                    return Err(format!("nobody is connected to {name}"));
                }
                self.log("disconnected", &name);
                done(match ended {
                    1 => format!("the connection to {name} is ended"),
                    _ => format!("the {ended} connections to {name} are ended"),
                })
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
        Guests {
            draining: self.operated.gate.is_closed(),
            sockets: self.operated.sockets.iter().flat_map(describe).collect(),
        }
    }

    fn socket(&self, target: &Target) -> &OperatedSocket {
        &self.operated.sockets[target.socket]
    }

    /// A target's name, for people.
    fn name(&self, target: &Target) -> String {
        let of = self.socket(target);
        match target.place.filter(|_| of.host.connections > 1) {
            Some(place) => format!("{}#{place}", of.address),
            None => of.address.clone(),
        }
    }

    /// What a name means: a guest's id; a socket's path or file name; or one of its connections, with its number.
    fn find(&self, name: &str) -> Result<Target, String> {
        let sockets = &self.operated.sockets;
        if let Ok(id) = name.parse::<u64>() {
            let found = sockets.iter().enumerate().find_map(|(socket, of)| {
                let guests = of.host.standing.info().guests;
                let (place, _) = guests.into_iter().find(|(_, guest)| guest.0 == id)?;
                Some(Target { socket, place: Some(place) })
            });
            return found.ok_or_else(|| self.none_such(name));
        }
        let is_it = |of: &OperatedSocket, name: &str| {
            of.address == name || of.address.rsplit('/').next() == Some(name)
        };
        let numbered = name.rsplit_once('#');
        let numbered = numbered.and_then(|(name, number)| Some((name, number.parse().ok()?)));
        // A socket's own name may look as if it had a number.
        let (name_of_socket, place) = match numbered {
            Some((name_of_socket, place)) if !sockets.iter().any(|of| is_it(of, name)) => {
                (name_of_socket, Some(place))
            }
            _ => (name, None),
        };
        let mut found = (0..).zip(sockets).filter(|(_, of)| is_it(of, name_of_socket));
        match (found.next(), found.next()) {
            (Some((socket, of)), None) => {
                let most = of.host.connections;
                if place.is_some_and(|place| place >= most) {
                    return Err(format!(
                        "{} has {most} connections (guest.connections), numbered from 0",
                        of.address
                    ));
                }
                Ok(Target { socket, place })
            }
            (Some(_), Some(_)) => {
                Err(format!("several sockets are named {name:?}; name one by its path"))
            }
            (None, _) => Err(self.none_such(name)),
        }
    }

    fn none_such(&self, name: &str) -> String {
        let names = self.operated.sockets.iter().flat_map(|of| {
            let guests = names_of_guests(of);
            if guests.is_empty() { vec![of.address.clone()] } else { guests }
        });
        let names: Vec<_> = names.collect();
        format!("there is no guest {name:?}; name one of these: {}", names.join(", "))
    }

    /// The guest that a name means, which is attached.
    fn guest(&self, name: &str) -> Result<(&OperatedSocket, GuestId), String> {
        let target = self.find(name)?;
        let of = self.socket(&target);
        let guests = of.host.standing.info().guests;
        let mut meant = guests.iter().filter(|(at, _)| target.place.is_none_or(|of| of == **at));
        match (meant.next(), meant.next()) {
            (Some((_, guest)), None) => Ok((of, *guest)),
            (None, _) => Err(format!(
                "no guest is attached to {}; a guest is when its driver has begun",
                self.name(&target)
            )),
            (Some(_), Some(_)) => Err(format!(
                "several guests are attached to {}; name one of these: {}",
                of.address,
                names_of_guests(of).join(", ")
            )),
        }
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
        let target = self.find(name)?;
        let (of, name) = (self.socket(&target), self.name(&target));
        let (standing, kernel) = (&of.host.standing, &of.host.kernel);
        let change = self.change(of, "suspended".into(), if suspended { "yes" } else { "no" });
        let word = if suspended { "suspended" } else { "resumed" };
        // Where a socket has one guest at a time, all of them are meant: whoever connects anew is no other.
        let place = target.place.filter(|_| of.host.connections > 1);
        let commands = match place {
            None => standing.set_suspended(kernel, suspended),
            Some(place) if of.served.front_ends().contains_key(&place) => {
                standing.set_place_suspended(kernel, place, suspended).into_iter().collect()
            }
            Some(_) => return Err(format!("nobody is connected to {name}")),
        };
        for command in commands {
            // Fails only if the guest has just gone; the next one is suspended nevertheless.
            let _ = end_of(command).await;
        }
        self.log(word, &name);
        let guests = standing.info().guests;
        let Some(place) = place else {
            standing.note(kernel, change);
            return done(match (guests.len(), guests.values().next()) {
                (1, Some(guest)) => format!("guest {} is {word}", guest.0),
                _ => format!("guests of {} are {word}", of.address),
            });
        };
        if !suspended && standing.info().is_suspended {
            return done(format!("{name} stays suspended: all guests of {} are", of.address));
        }
        match guests.get(&place) {
            Some(guest) => {
                kernel.note(Some(*guest), change);
                done(format!("guest {} is {word}, until it disconnects", guest.0))
            }
            None => done(format!("{name} is {word}, until it disconnects")),
        }
    }

    fn set(&self, name: &str, key: &str, value: &str) -> Done {
        let setting = Setting::parse(key, value)?;
        // Where a socket has several guests, they have what is set together.
        let Target { socket: place, .. } = self.find(name)?;
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
