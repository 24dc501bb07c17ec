// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where programs come from: a broker, the executable of the programs, and the users that they are of.

use super::program::Program;
use crate::conformance::behaviour::{Mismatch, Place, require};
use crate::conformance::scene::TIMEOUT;
use bellhop_guest_umd::transport::broker::Broker;
use bellhop_guest_umd::transport::{Transport, TransportError};
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::control::adapter::{EngineType, NodeMetadata};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Users without privileges.
const USERS: [u32; 3] = [65_534, 65_533, 65_532];

/// How programs are started.
#[derive(Debug, Clone)]
pub struct Start {
    /// The executable, which every user may execute.
    pub executable: PathBuf,
    /// What makes it `bellhop-guest`.
    pub words: Vec<OsString>,
    /// The broker's socket.
    pub broker: PathBuf,
    /// Whether programs are of several users.
    pub several_users: bool,
}

/// A broker, and what its device has.
pub(in crate::conformance) struct Stage {
    start: Start,
    nodes: Vec<NodeMetadata>,
    /// The suite's own connection: it tells when the device goes.
    own: Arc<Broker>,
    shown: Mutex<Option<String>>,
}

impl Stage {
    pub(in crate::conformance) fn new(start: Start) -> Result<Self, Error> {
        let own = Broker::connect(&start.broker)?;
        let nodes = Adapter::open(Arc::clone(&own) as Arc<dyn Transport>)?.nodes()?;
        Ok(Self { start, nodes, own, shown: Mutex::default() })
    }

    /// A process of the suite's own, which may do what concerns the whole guest.
    pub(super) fn adapter(&self) -> Result<Adapter, Error> {
        Adapter::open(Arc::clone(&self.own) as Arc<dyn Transport>)
    }

    /// The nodes of the device.
    pub(super) fn nodes(&self) -> &[NodeMetadata] {
        &self.nodes
    }

    /// The first node of a type, on a GPU.
    pub(super) fn node(&self, engine_type: EngineType, gpu: u8) -> Result<u32, Mismatch> {
        let is_it = |node: &&NodeMetadata| node.engine_type == engine_type && node.gpu() == gpu;
        let found = (0..).zip(&self.nodes).find(|(_, node)| is_it(node));
        let missing = || Mismatch::NotOffered(format!("GPU {gpu} has no {engine_type} node"));
        found.map(|(ordinal, _)| ordinal).ok_or_else(missing)
    }

    /// Whether programs are of several users.
    pub(super) fn has_users(&self) -> bool {
        self.start.several_users
    }

    /// Fails with "not offered" unless programs are of several users.
    pub(super) fn needs_users(&self) -> Result<(), Mismatch> {
        if self.has_users() {
            return Ok(());
        }
        Err(Mismatch::NotOffered("programs of other users can be started by root alone".into()))
    }

    /// A program of the user of this number, if there is a place for it.
    pub(super) fn try_program(&self, user: usize) -> Result<Option<Program>, Mismatch> {
        let Start { executable, words, broker, several_users } = &self.start;
        let mut command = Command::new(executable);
        command.args(words).arg("--broker").arg(broker).arg("program");
        // The suite's own arguments may be in these.
        command.env_remove("BELLHOP_SOCKET").env_remove("BELLHOP_BROKER");
        if *several_users {
            let user = USERS[user % USERS.len()];
            command.uid(user).gid(user);
        }
        Program::start(command)
    }

    /// A program of the user of this number. The place of a program that ended is free when the broker has ended what it
    /// had on the device, which may take as long as a hang.
    pub(super) fn program(&self, user: usize) -> Result<Program, Mismatch> {
        let start = Instant::now();
        loop {
            if let Some(program) = self.try_program(user)? {
                return Ok(program);
            }
            require!(start.elapsed() < TIMEOUT, "the broker has no place for a program");
        }
    }

    /// Two programs of two users, each with a process on the device.
    pub(super) fn pair(&self) -> Result<[Program; 2], Mismatch> {
        let mut pair = [self.program(0)?, self.program(1)?];
        for program in &mut pair {
            program.introduction()?;
        }
        Ok(pair)
    }

    /// Shows a count beside the verdict, for people.
    pub(super) fn show(&self, counted: String) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
    }
}

impl Place for Stage {
    fn take_shown(&self) -> Option<String> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    // These behaviours want nothing else.
    fn is_part(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), TransportError> {
        self.own.check()
    }
}
