// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of workers.

use crate::allowance::Rate;
use bellhop_protocol::control::kernel::KernelCaps;
use bellhop_worker::owner::Role;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How a worker is started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments before `serve`.
    pub arguments: Vec<OsString>,
    /// Variables of its environment, besides the daemon's.
    pub environment: Vec<(OsString, OsString)>,
}

/// Variables by which a service manager and the daemon speak. They do not concern a worker.
const DAEMONS: [&str; 6] = [
    "NOTIFY_SOCKET",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Variables by which a user has layers loaded into programs with Vulkan. A worker's sandbox has no room for what layers do.
const LAYERS: [&str; 2] = ["VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE"];

impl WorkerProgram {
    /// The command that starts a worker.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for variable in DAEMONS.iter().chain(&LAYERS) {
            command.env_remove(variable);
        }
        // So that all of its threads can be had at once, to lower their priority.
        command.process_group(0);
        command.args(&self.arguments).envs(self.environment.iter().map(|(k, v)| (k, v)));
        command
    }
}

/// How workers of a role are started, and how many there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleConfig {
    /// What they are for.
    pub role: Role,
    /// How a worker is started.
    pub worker: WorkerProgram,
    /// The Vulkan device's index in the list; 0 for a role without Vulkan.
    pub device: u32,
    /// Most workers that engines have. A role that remembers refuses another one, others make room.
    pub workers: u32,
    /// Most workers that engines have for a guest.
    pub workers_per_guest: u32,
    /// Most bytes of a worker's own memory.
    pub memory: u64,
    /// Processors that a worker may use.
    pub threads: u32,
}

/// What has the video sessions of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VideoConfig {
    /// How a session's worker is started. There are at most as many sessions as workers.
    pub role: RoleConfig,
    /// How often a worker may be started for the guests of a socket.
    pub starts: Rate,
    /// Most sessions of a guest.
    pub sessions_per_guest: u32,
}

/// What all workers of an adapter are started by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkersConfig {
    /// The roles that the adapter has, each once.
    pub roles: Vec<RoleConfig>,
    /// How often a worker may be started for the guests of a socket.
    pub starts: Rate,
    /// The processor time, in milliseconds, that compiling kernels may take for the guests of a socket.
    pub compiling: Rate,
    /// How long compiling a kernel may take.
    pub compile_timeout: Duration,
}

impl WorkersConfig {
    /// The configuration of a role, if the adapter has it.
    #[must_use]
    pub fn of(&self, role: Role) -> Option<&RoleConfig> {
        self.roles.iter().find(|config| config.role == role)
    }
}

/// What runs guests' kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelsConfig {
    /// How a worker is started.
    pub worker: WorkerProgram,
    /// The Vulkan device's index in the list.
    pub device: u32,
    /// What guests are told. If it says that there are no kernels, nothing is ever started.
    pub caps: KernelCaps,
    /// Most workers that execute kernels. One that is ready for the next process, and those that compile, come on top.
    pub workers: u32,
    /// Most workers that execute a guest's kernels.
    pub workers_per_guest: u32,
    /// Most kernels of a guest.
    pub kernels_per_guest: u32,
    /// Most bytes of a worker's own memory.
    pub memory: u64,
    /// Processors that a worker may use.
    pub threads: u32,
    /// How often a worker may be started for the guests of a socket, to execute or to compile.
    pub starts: Rate,
    /// The processor time, in milliseconds, that compiling kernels may take for the guests of a socket.
    pub compiling: Rate,
    /// How long compiling a kernel may take.
    pub compile_timeout: Duration,
}

impl KernelsConfig {
    /// How its workers are started.
    #[must_use]
    pub fn role(&self) -> RoleConfig {
        RoleConfig {
            role: Role::Kernels,
            worker: self.worker.clone(),
            device: self.device,
            workers: self.workers,
            workers_per_guest: self.workers_per_guest,
            memory: self.memory,
            threads: self.threads,
        }
    }

    /// No kernels, for a reason that guests are told.
    #[must_use]
    pub fn none(missing: &str) -> Self {
        Self {
            worker: WorkerProgram::default(),
            device: 0,
            caps: KernelCaps::none(missing),
            workers: 0,
            workers_per_guest: 0,
            kernels_per_guest: 0,
            memory: 0,
            threads: 0,
            starts: Rate::new(0, 0),
            compiling: Rate::new(0, 0),
            compile_timeout: Duration::ZERO,
        }
    }
}
