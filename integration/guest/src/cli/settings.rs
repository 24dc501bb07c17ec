// SPDX-License-Identifier: MIT OR Apache-2.0

//! `settings`: what a user of the guest changes by its agent, and which program has what.

use super::ending::Ending;
use crate::guest::Guest;
use crate::inspect::{Selection, snapshots};
use crate::output::{note, put_line};
use anyhow::Context as _;
use bellhop_guest_umd::agent::{AgentResult, Answered, PowerPolicy, WantedTopology, Wish};
use bellhop_guest_umd::{Adapter, Error, PlacementPolicy};
use bellhop_protocol::snapshot::{Process, Snapshot};
use bellhop_protocol::status::Status;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Settings of the guest.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The guest's agent does what is asked for (bellhop-guest agent). A program that shows something is asked for its consent,
and may refuse with a reason. Behind a broker, root and the broker's user may change settings and list programs.

Monitors show 8 bits of sRGB: there is no setting for colours.

Examples:
  settings topology clone
  settings mode 1=1920x1080@60
  settings rotation 0=90
  settings power-policy saving
  settings programs --json")]
pub struct SettingsArguments {
    #[command(subcommand)]
    setting: Setting,
    /// Print the result as one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, Subcommand)]
enum Setting {
    /// Change what the monitors show
    Topology {
        /// The monitors' arrangement
        #[arg(value_enum)]
        topology: Arrangement,
    },
    /// Change the mode of a monitor
    Mode {
        /// The connector's number, counted from 0, and one of its monitor's modes, such as 1=1920x1080@60
        #[arg(value_name = "CONNECTOR=WxH@R", value_parser = mode)]
        mode: WantedTopology,
    },
    /// Turn the picture of a monitor, counter-clockwise
    Rotation {
        /// The connector's number, counted from 0, and 0, 90, 180 or 270, such as 1=90
        #[arg(value_name = "CONNECTOR=DEGREES", value_parser = rotation)]
        rotation: WantedTopology,
    },
    /// Change how the guest uses power
    PowerPolicy {
        /// The policy
        #[arg(value_enum)]
        policy: Policy,
    },
    /// List the programs, and which GPUs and nodes each has
    Programs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Arrangement {
    /// A picture of its own on each monitor
    Extend,
    /// One picture on all monitors
    Clone,
    /// A picture on the first monitor
    Single,
    /// Nothing is shown
    Off,
    /// What the agent's own policy says
    Enumerate,
}

impl From<Arrangement> for WantedTopology {
    fn from(arrangement: Arrangement) -> Self {
        match arrangement {
            Arrangement::Extend => Self::Extend,
            Arrangement::Clone => Self::Clone,
            Arrangement::Single => Self::Single,
            Arrangement::Off => Self::Off,
            Arrangement::Enumerate => Self::Enumerate,
        }
    }
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

fn mode(text: &str) -> Result<WantedTopology, String> {
    match text.parse() {
        Ok(mode @ WantedTopology::Mode { .. }) => Ok(mode),
        _ => Err("write a connector's number and a mode, such as 1=1920x1080@60".into()),
    }
}

fn rotation(text: &str) -> Result<WantedTopology, String> {
    match text.parse() {
        Ok(rotation @ WantedTopology::Rotate { .. }) => Ok(rotation),
        _ => Err("write a connector's number and 0, 90, 180 or 270, such as 1=90".into()),
    }
}

/// What came of a request, as JSON.
#[derive(Serialize)]
struct Report {
    /// `done`, or why not: `failed`, `not_supported`, `no_agent`, `timed_out`, `agent_ended`, `busy`.
    result: String,
    /// The agent's words, or the device's in its place.
    text: String,
    /// What to do, unless it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

/// A program, and what it has.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    /// Its process on the device.
    process: u32,
    /// Its name, its process of the operating system and its user, where the broker knows them.
    program: Option<String>,
    pid: Option<u32>,
    user: Option<u32>,
    /// The GPUs and the nodes on which it has contexts.
    gpus: BTreeSet<u32>,
    nodes: BTreeSet<String>,
    /// HW queues.
    queues: usize,
}

impl SettingsArguments {
    /// Does it, and prints what came of it.
    pub(super) fn work(
        &self,
        guest: Arc<dyn Guest>,
        placement: PlacementPolicy,
    ) -> anyhow::Result<Ending> {
        let adapter = Adapter::open_with(guest, placement).context("cannot open the adapter")?;
        let wish = match self.setting {
            Setting::Topology { topology } => Wish::Topology(topology.into()),
            Setting::Mode { mode } => Wish::Topology(mode),
            Setting::Rotation { rotation } => Wish::Topology(rotation),
            Setting::PowerPolicy { policy } => Wish::PowerPolicy(match policy {
                Policy::Balanced => PowerPolicy::BALANCED,
                Policy::Performance => PowerPolicy::PERFORMANCE,
                Policy::Saving => PowerPolicy::SAVING,
            }),
            Setting::Programs => return self.list(&adapter),
        };
        let answered = adapter.ask_agent(wish).map_err(of_the_guest)?;
        self.tell(&answered)
    }

    fn tell(&self, answered: &Answered) -> anyhow::Result<Ending> {
        let Answered { result, text } = answered;
        let advice = advice(*result);
        if self.json {
            let result = result.name().unwrap_or("unknown").to_lowercase();
            put_line(serde_json::to_string(&Report { result, text: text.clone(), advice })?)?;
        } else if let Some(advice) = advice {
            note(format_args!("bellhop-guest: {text}; {advice}"));
        } else {
            put_line(text)?;
        }
        Ok(Ending::of(*result == AgentResult::DONE))
    }

    fn list(&self, adapter: &Adapter) -> anyhow::Result<Ending> {
        let own = adapter.process();
        let snapshots = snapshots(&mut &*adapter, Selection::default());
        let snapshots = snapshots.map_err(|error| match error.downcast::<Error>() {
            Ok(error) => of_the_guest(error),
            Err(error) => error,
        })?;
        let rows: Vec<Row> = snapshots.iter().flat_map(|all| rows(all, own)).collect();
        if self.json {
            put_line(serde_json::to_string(&serde_json::json!({ "programs": rows }))?)?;
        } else if rows.is_empty() {
            put_line("no other program has the device")?;
        } else {
            rows.iter().try_for_each(put_line)?;
        }
        Ok(Ending::Succeeded)
    }
}

/// What to do when a wish did not come true.
fn advice(result: AgentResult) -> Option<&'static str> {
    Some(match result {
        AgentResult::DONE => return None,
        AgentResult::NO_AGENT => {
            "start one: systemctl enable --now bellhop-agent, or bellhop-guest agent"
        }
        AgentResult::FAILED => "nothing was changed",
        AgentResult::BUSY => "ask again when those are answered",
        AgentResult::TIMED_OUT | AgentResult::AGENT_ENDED => {
            "look at what it said (journalctl -u bellhop-agent), restart it, and ask again"
        }
        _ => "another program is the guest's agent; bellhop-guest agent does it",
    })
}

/// Says who may ask, where the broker has refused it.
fn of_the_guest(error: Error) -> anyhow::Error {
    match error {
        Error::Refused { status: Status::NOT_SUPPORTED, .. } => anyhow::anyhow!(
            "behind a broker, only root and the broker's user change settings or list programs: ask as root, with sudo"
        ),
        error => error.into(),
    }
}

/// The programs of a snapshot but this one.
fn rows(snapshot: &Snapshot, own: u32) -> Vec<Row> {
    let nodes = &snapshot.nodes;
    let name = |node: u32| {
        let found = nodes.iter().find(|of| of.ordinal == node);
        found.map_or(format!("node {node}"), |node| node.name.clone())
    };
    let row = |process: &Process| {
        let contexts = || process.devices.iter().flat_map(|device| &device.contexts);
        let program = process.program.as_ref();
        Row {
            process: process.id,
            program: program.map(|program| program.command.clone()),
            pid: program.map(|program| program.pid),
            user: program.map(|program| program.user),
            gpus: contexts().map(|context| context.gpu).collect(),
            nodes: contexts().map(|context| name(context.node)).collect(),
            queues: contexts().map(|context| context.hw_queues.len()).sum(),
        }
    };
    let processes = snapshot.guests.iter().flat_map(|guest| &guest.processes);
    processes.filter(|process| process.id != own).map(row).collect()
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.program, self.pid, self.user) {
            (Some(program), Some(pid), Some(user)) => {
                write!(f, "{program} (process {pid} of user {user}): ")?;
            }
            _ => write!(f, "process {} of the device: ", self.process)?,
        }
        if self.nodes.is_empty() {
            return f.write_str("nothing that executes");
        }
        let list = |all: Vec<String>| all.join(", ");
        let gpus = list(self.gpus.iter().map(u32::to_string).collect());
        let nodes = list(self.nodes.iter().cloned().collect());
        write!(f, "GPU {gpus}; {nodes}; queues: {}", self.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::snapshot::{Context, Device, Guest, HwQueue, Program};

    #[test]
    fn a_program_s_line_says_who_it_is_and_what_it_has() {
        let context = |node, gpu| Context {
            node,
            gpu,
            hw_queues: vec![HwQueue::default()],
            ..Context::default()
        };
        let program = Program { user: 7, pid: 9, command: "cat".into() };
        let device = Device { contexts: vec![context(0, 0), context(3, 1)], ..Device::default() };
        let busy =
            Process { id: 2, program: Some(program), devices: vec![device], ..Process::default() };
        let [own, idle] = [1, 3].map(|id| Process { id, ..Process::default() });
        let guest = Guest { processes: vec![own, busy, idle], ..Guest::default() };
        let snapshot = Snapshot { guests: vec![guest], ..Snapshot::default() };
        let lines: Vec<_> = rows(&snapshot, 1).iter().map(Row::to_string).collect();
        assert_eq!(
            lines,
            [
                "cat (process 9 of user 7): GPU 0, 1; node 0, node 3; queues: 2",
                "process 3 of the device: nothing that executes"
            ]
        );
    }

    #[test]
    fn each_result_but_done_says_what_to_do() {
        for result in AgentResult::ALL {
            assert_eq!(advice(*result).is_none(), *result == AgentResult::DONE, "{result:?}");
        }
    }

    #[test]
    fn a_mode_is_no_rotation_and_a_rotation_is_no_mode() {
        assert!(mode("1=640x480@60").is_ok() && rotation("1=270").is_ok());
        assert!(mode("1=90").is_err() && rotation("1=640x480").is_err() && mode("off").is_err());
    }
}
