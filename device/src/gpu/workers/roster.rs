// SPDX-License-Identifier: MIT OR Apache-2.0

//! The workers as tools see them. The manager writes down what each is for; everything else is read from where it is when
//! a tool asks, so that engines do nothing for it.

use super::tenant_worker::LastUse;
use bellhop_host_kmd::hardware::{AddressSpaceId, GuestId, WorkerDescription};
use bellhop_worker::owner::Role;
use std::fs;
use std::sync::Arc;

/// All workers.
pub type Roster = Vec<Listed>;

/// A worker, and what it is for.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its process id.
    pub pid: u32,
    /// What it is for.
    pub role: Role,
    /// What the manager has it for.
    pub task: Task,
    /// Its guest.
    pub guest: Option<GuestId>,
    /// Its address space.
    pub space: Option<AddressSpaceId>,
    /// The engine that has it, or is to have it.
    pub engine: Option<u32>,
}

/// What a worker is for.
#[derive(Debug, Clone)]
pub enum Task {
    /// It does what this word says, in the words of a snapshot.
    Does(&'static str),
    /// An engine executes packets with it.
    Runs(Arc<LastUse>),
}

impl Listed {
    /// What a tool is told now.
    pub fn describe(&self) -> WorkerDescription {
        let Self { pid, role, task, guest, space, engine } = self;
        let Status { is_stopped, memory, shared } = Status::read(*pid);
        let state = match task {
            Task::Does(state) => state,
            Task::Runs(last_use) if !last_use.is_executing() => "idle",
            Task::Runs(_) if is_stopped => "stopped",
            Task::Runs(_) => "running",
        };
        let (guest, space, node) = (*guest, *space, *engine);
        WorkerDescription {
            pid: *pid,
            role: role.name(),
            state,
            guest,
            space,
            node,
            memory,
            shared,
        }
    }
}

/// What a tool is told of the worker of a security node, which has none of the roles and no guest.
pub fn describe_keeper(pid: u32, node: u32) -> WorkerDescription {
    let Status { memory, shared, .. } = Status::read(pid);
    let (guest, space, node) = (None, None, Some(node));
    WorkerDescription { pid, role: "security", state: "keys", guest, space, node, memory, shared }
}

/// What Linux says of a process.
#[derive(Debug, Default)]
struct Status {
    is_stopped: bool,
    memory: Option<u64>,
    shared: Option<u64>,
}

impl Status {
    /// Nothing is known of a process that has ended, or that the host hides.
    #[expect(
        clippy::disallowed_methods,
        reason = "whoever inspects: a file of the kernel in memory"
    )]
    fn read(pid: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/status"));
        Self::parse(&text.unwrap_or_default())
    }

    /// Takes what it needs of a `/proc/PID/status`; proc_pid_status(5).
    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
            values.next().map(str::trim)
        };
        let bytes = |name: &str| {
            let kib: u64 = value(name)?.strip_suffix(" kB")?.parse().ok()?;
            Some(kib.saturating_mul(1024))
        };
        Self {
            is_stopped: value("State:").is_some_and(|state| state.starts_with('T')),
            memory: bytes("RssAnon:"),
            shared: bytes("RssShmem:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_memory_are_those_that_linux_writes() {
        let text = "State:\tT (stopped)\nRssAnon:\t     124 kB\nRssShmem:\t       8 kB\n";
        let status = Status::parse(text);
        assert!(status.is_stopped);
        assert_eq!((status.memory, status.shared), (Some(126_976), Some(8_192)));
        assert!(!Status::parse("State:\tS (sleeping)\n").is_stopped);
        assert_eq!(Status::parse("RssAnon:\tmuch\n").memory, None);
    }

    #[test]
    fn memory_is_read_where_linux_has_it() {
        // Tests beside this one give memory back at any moment, so that only a lower bound holds.
        let much = vec![1_u8; 64 << 20];
        let own = Status::read(std::process::id());
        assert!(own.memory.unwrap() >= much.len() as u64, "{own:?}");
        assert!(!own.is_stopped && own.shared.is_some());
        // No process has this number: the greatest is 2^22.
        assert_eq!(Status::read(u32::MAX).memory, None);
    }
}
