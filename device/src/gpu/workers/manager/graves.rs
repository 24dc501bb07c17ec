// SPDX-License-Identifier: MIT OR Apache-2.0

//! Killed workers, until no thread of them exists any more.

use crate::gpu::workers::desk::{Desk, Grave};
use crate::gpu::workers::roster::{Listed, Task};
use bellhop_worker::owner::{Role, Worker};
use rustix::event::{PollFd, PollFlags};
use std::sync::Arc;

/// An engine, and where it looks for the end of its worker.
type Mourner = (u32, Arc<Grave>);

/// Killed workers that may still exist.
#[derive(Default)]
pub(super) struct Graves(Vec<(Worker, Role, Option<Mourner>)>);

impl Graves {
    /// Kills a worker. `engine` looks at its grave, if there is one.
    pub(super) fn dig(&mut self, worker: Worker, role: Role, engine: Option<Mourner>) {
        worker.process().kill();
        self.0.push((worker, role, engine));
    }

    /// What tools are told of them.
    pub(super) fn listed(&self) -> impl Iterator<Item = Listed> {
        let ending = Task::Does("ending");
        self.0.iter().map(move |(worker, role, mourner)| Listed {
            pid: worker.id(),
            task: ending.clone(),
            role: *role,
            guest: None,
            space: None,
            engine: mourner.as_ref().map(|(engine, _)| *engine),
        })
    }

    /// What is readable when a worker is gone.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0
            .iter()
            .map(|(worker, ..)| PollFd::from_borrowed_fd(worker.process().ended(), PollFlags::IN))
    }

    /// Buries workers that are gone, and tells their engines.
    pub(super) fn fill(&mut self, desk: &Desk) {
        self.0.retain(|(worker, _, engine)| {
            if !worker.process().has_ended() {
                return true;
            }
            if let Some((engine, grave)) = engine {
                grave.fill();
                desk.call(*engine);
            }
            false
        });
    }
}
