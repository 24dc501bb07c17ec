// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop ctl`.

use crate::operator::{OPERATOR_SOCKET, OperatorClient};
use anyhow::bail;
use bellhop_guest::output;
use bellhop_protocol::operator::{
    DevicePower, EnginePower, Guests, OperatorAction, PowerPolicy, ServedSocket, WantedTopology,
    Wish,
};
use bellhop_protocol::snapshot::Change;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  bellhop ctl guests                           who is attached, and what was changed
  bellhop ctl suspend 3                        nothing of guest 3 executes
  bellhop ctl set vm0.sock weight=400 kernels=8
  bellhop ctl display unplug 3 HDMI-1
  bellhop ctl agent 3 topology extend          asks bellhop-guest agent in the guest
  bellhop ctl drain --stop                     before an update: ends when no guest is left

GUEST is an id of `bellhop ctl guests`, or the guest's socket: its path or its file name. Where a socket
has several connections, vm0.sock means all its guests, and vm0.sock#2 the one of connection 2.")]
pub(super) struct CtlArguments {
    /// The operator's socket of the bellhopd
    #[arg(long, value_name = "PATH", default_value = OPERATOR_SOCKET, global = true)]
    socket: PathBuf,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: CtlCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum CtlCommand {
    /// List the sockets, their guests, and what was changed of them
    Guests,
    /// Have nothing of a guest execute; its queues keep everything
    ///
    /// Holds for the guest's socket until `resume`: also after the guest has reset its device or connected again.
    Suspend(Guest),
    /// Undo `suspend`
    Resume(Guest),
    /// Put all devices of a guest in error, as after a hang
    Fail(Guest),
    /// End a guest's connection
    Disconnect(Guest),
    /// Change weights and limits of a guest: keys of [guest] in the configuration
    ///
    /// Holds for the guest's socket until the daemon ends.
    Set {
        #[command(flatten)]
        guest: Guest,
        /// The keys and their values, such as weight=400
        #[arg(value_name = "KEY=VALUE", required = true)]
        settings: Vec<Setting>,
    },
    /// Change power states
    Power {
        #[command(subcommand)]
        what: PowerCommand,
    },
    /// Plug the monitors of guests
    Display {
        #[command(subcommand)]
        what: DisplayCommand,
    },
    /// Take a guest's GPU away, or bring it back
    Gpu {
        #[command(subcommand)]
        what: GpuCommand,
    },
    /// Ask the agent in a guest for something (bellhop-guest agent)
    Agent {
        #[command(flatten)]
        guest: Guest,
        #[command(subcommand)]
        what: AgentCommand,
    },
    /// Let no further guest in, and wait until the last has gone
    Drain {
        /// Then end the daemon
        #[arg(long)]
        stop: bool,
        /// Do not wait
        #[arg(long, conflicts_with = "stop")]
        no_wait: bool,
        /// Let guests in again
        #[arg(long, conflicts_with_all = ["stop", "no_wait"])]
        cancel: bool,
    },
    /// End the daemon now, and so all its guests' connections
    Stop,
}

#[derive(Debug, Clone, Args)]
struct Guest {
    /// The guest: its id, or its socket's path or file name, perhaps with #NUMBER for one of several connections
    #[arg(value_name = "GUEST")]
    guest: String,
}

#[derive(Debug, Clone, Subcommand)]
enum PowerCommand {
    /// The power of an adapter
    Device {
        /// The state
        #[arg(value_enum)]
        state: DeviceState,
        /// The adapter's number
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        adapter: u32,
    },
    /// The power of an engine; one with work stays in F0
    Engine {
        /// The engine's node
        node: u32,
        /// The state
        #[arg(value_enum)]
        state: EngineState,
        /// The adapter's number
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        adapter: u32,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DeviceState {
    /// Powered
    D0,
    /// Without power, until a guest needs it
    D3,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EngineState {
    /// Powered
    F0,
    /// Without power, until it has work
    F1,
}

#[derive(Debug, Clone, Subcommand)]
enum DisplayCommand {
    /// Plug a monitor in
    Plug(Monitor),
    /// Unplug a monitor
    Unplug(Monitor),
}

#[derive(Debug, Clone, Args)]
struct Monitor {
    #[command(flatten)]
    guest: Guest,
    /// The connector, as `bellhop screen list` names it [default: the first]
    #[arg(default_value = "", hide_default_value = true)]
    connector: String,
}

#[derive(Debug, Clone, Subcommand)]
enum GpuCommand {
    /// Bring a guest's GPU back
    Plug(OneGpu),
    /// Take a guest's GPU away: what it executes is lost, and it takes nothing new
    Unplug(OneGpu),
}

#[derive(Debug, Clone, Args)]
struct OneGpu {
    #[command(flatten)]
    guest: Guest,
    /// The GPU's ordinal in its chain; the master takes all along
    #[arg(default_value_t = 0, hide_default_value = true, value_name = "GPU")]
    gpu: u8,
}

#[derive(Debug, Clone, Subcommand)]
enum AgentCommand {
    /// Change what the guest's monitors show
    Topology {
        /// extend, clone, single, off, enumerate, a mode of a connector such as 1=1920x1080@60, or its rotation such
        /// as 1=90
        topology: WantedTopology,
    },
    /// Change how the guest uses power
    PowerPolicy {
        /// The policy
        #[arg(value_enum)]
        policy: Policy,
    },
    /// Stop the device in the guest, and its clients
    Stop,
    /// Start the device in the guest, and its clients
    Start,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Policy {
    /// As the host's configuration says
    Balanced,
    /// The adapter keeps its power
    Performance,
    /// The adapter powers down as soon as it is idle, if all guests want that
    Saving,
}

/// A key and its value.
#[derive(Debug, Clone)]
struct Setting {
    key: String,
    value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as weight=400")?;
        Ok(Self { key: key.trim().to_owned(), value: value.trim().to_owned() })
    }
}

/// What is printed as JSON when something is done.
#[derive(Serialize)]
struct Report {
    done: Vec<String>,
}

impl CtlArguments {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut client = OperatorClient::connect(&self.socket)?;
        if let CtlCommand::Guests = self.command {
            let guests = client.guests()?;
            let text = if self.json {
                serde_json::to_string_pretty(&guests)? + "\n"
            } else {
                table(&guests)
            };
            return Ok(output::put(text)?);
        }
        let mut done = Vec::new();
        for action in self.command.actions() {
            done.push(match &action {
                OperatorAction::AwaitNoGuests => {
                    OperatorClient::connect_patiently(&self.socket)?.operate(action)?
                }
                _ => client.operate(action)?,
            });
        }
        if done.is_empty() {
            bail!("there is nothing to do");
        }
        let text = if self.json {
            serde_json::to_string(&Report { done })? + "\n"
        } else {
            done.join("\n") + "\n"
        };
        Ok(output::put(text)?)
    }
}

impl CtlCommand {
    /// What the daemon is asked for, in order.
    fn actions(self) -> Vec<OperatorAction> {
        match self {
            Self::Guests => Vec::new(),
            Self::Suspend(Guest { guest }) => vec![OperatorAction::Suspend { guest }],
            Self::Resume(Guest { guest }) => vec![OperatorAction::Resume { guest }],
            Self::Fail(Guest { guest }) => vec![OperatorAction::Fail { guest }],
            Self::Disconnect(Guest { guest }) => vec![OperatorAction::Disconnect { guest }],
            Self::Set { guest, settings } => {
                let set = |Setting { key, value }| OperatorAction::Set {
                    guest: guest.guest.clone(),
                    key,
                    value,
                };
                settings.into_iter().map(set).collect()
            }
            Self::Power { what: PowerCommand::Device { state, adapter } } => {
                let state = match state {
                    DeviceState::D0 => DevicePower::D0,
                    DeviceState::D3 => DevicePower::D3,
                };
                vec![OperatorAction::DevicePower { adapter, state }]
            }
            Self::Power { what: PowerCommand::Engine { node, state, adapter } } => {
                let state = match state {
                    EngineState::F0 => EnginePower::F0,
                    EngineState::F1 => EnginePower::F1,
                };
                vec![OperatorAction::EnginePower { adapter, node, state }]
            }
            Self::Display { what } => {
                let (Monitor { guest: Guest { guest }, connector }, plugged) = match what {
                    DisplayCommand::Plug(monitor) => (monitor, true),
                    DisplayCommand::Unplug(monitor) => (monitor, false),
                };
                vec![OperatorAction::Display { guest, connector, plugged }]
            }
            Self::Gpu { what } => {
                let (OneGpu { guest: Guest { guest }, gpu }, plugged) = match what {
                    GpuCommand::Plug(gpu) => (gpu, true),
                    GpuCommand::Unplug(gpu) => (gpu, false),
                };
                vec![OperatorAction::Gpu { guest, gpu, plugged }]
            }
            Self::Agent { guest: Guest { guest }, what } => {
                let wish = match what {
                    AgentCommand::Topology { topology } => Wish::Topology(topology),
                    AgentCommand::PowerPolicy { policy } => Wish::PowerPolicy(match policy {
                        Policy::Balanced => PowerPolicy::Balanced,
                        Policy::Performance => PowerPolicy::Performance,
                        Policy::Saving => PowerPolicy::Saving,
                    }),
                    AgentCommand::Stop => Wish::Stop,
                    AgentCommand::Start => Wish::Start,
                };
                vec![OperatorAction::Agent { guest, wish }]
            }
            Self::Drain { cancel: true, .. } => vec![OperatorAction::Drain { on: false }],
            Self::Drain { stop, no_wait, .. } => {
                let mut actions = vec![OperatorAction::Drain { on: true }];
                if !no_wait {
                    actions.push(OperatorAction::AwaitNoGuests);
                }
                if stop {
                    actions.push(OperatorAction::Stop);
                }
                actions
            }
            Self::Stop => vec![OperatorAction::Stop],
        }
    }
}

fn table(guests: &Guests) -> String {
    let mut text = String::new();
    let mut sockets = guests.sockets.iter().peekable();
    while let Some(of) = sockets.next() {
        let guest = match (of.guest, of.connected) {
            (Some(guest), _) => format!("guest {guest}"),
            (None, true) => "connected".to_owned(),
            (None, false) => "no guest".to_owned(),
        };
        let ServedSocket { socket, adapter, connection, .. } = of;
        let connection = connection.map_or_else(String::new, |number| format!("#{number}"));
        let pid = of.pid.map_or_else(String::new, |pid| format!("  PID {pid}"));
        let suspended = if of.suspended { "  SUSPENDED" } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{guest}  {socket}{connection}  adapter {adapter}{pid}{suspended}");
        // Those of a socket stand under its last connection.
        if sockets.peek().is_some_and(|next| next.socket == *socket && next.connection.is_some()) {
            continue;
        }
        for Change { what, now, uid, pid, command, .. } in &of.changes {
            let _ = writeln!(text, "    {what}: {now}, by uid {uid} ({command}, PID {pid})");
        }
    }
    if guests.draining {
        text.push_str("No further guest is let in.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_a_line_and_its_socket_s_changes_stand_once() {
        let change = Change { what: "weight".into(), now: "7".into(), ..Change::default() };
        let of = |connection: Option<u32>, guest| ServedSocket {
            socket: "/run/a.sock".into(),
            connections: 2,
            connection,
            guest,
            connected: connection.is_some(),
            changes: vec![change.clone()],
            ..ServedSocket::default()
        };
        let sockets = vec![of(Some(0), Some(5)), of(Some(1), None), ServedSocket::default()];
        let text = table(&Guests { draining: false, sockets });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("guest 5  /run/a.sock#0  adapter 0"), "{text}");
        assert!(lines[1].starts_with("connected  /run/a.sock#1"), "{text}");
        assert!(lines[2].trim_start().starts_with("weight: 7"), "{text}");
        let alone = table(&Guests { draining: false, sockets: vec![of(None, None)] });
        assert!(alone.starts_with("no guest  /run/a.sock  adapter 0\n"), "{alone}");
    }

    #[test]
    fn draining_waits_and_then_stops() {
        let drain = |stop, no_wait, cancel| CtlCommand::Drain { stop, no_wait, cancel }.actions();
        let (on, off) = (OperatorAction::Drain { on: true }, OperatorAction::Drain { on: false });
        let (wait, stop) = (OperatorAction::AwaitNoGuests, OperatorAction::Stop);
        assert_eq!(drain(true, false, false), [on.clone(), wait.clone(), stop]);
        assert_eq!(drain(false, false, false), [on.clone(), wait]);
        assert_eq!(drain(false, true, false), [on]);
        assert_eq!(drain(false, false, true), [off]);
    }
}
