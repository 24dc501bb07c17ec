// SPDX-License-Identifier: MIT OR Apache-2.0

//! Killed workers, until no thread of them exists any more.

use crate::gpu::workers::mailboxes::{ExitFlag, Mailboxes};
use crate::gpu::workers::roster::{Listed, Task};
use crate::gpu::workers::tenant::GuestWorkers;
use crate::gpu::workers::tenant_worker::TenantWorker;
use bellhop_worker::owner::{Role, Worker};
use rustix::event::{PollFd, PollFlags};
use std::sync::Arc;

/// An engine, and where it looks for the end of its worker.
type Waiter = (u32, Arc<ExitFlag>);

/// A worker that is no longer needed.
pub(super) struct Condemned {
    /// The process.
    pub(super) worker: Worker,
    /// What it was for.
    pub(super) role: Role,
    /// The guest that it worked for, which has not gone before the worker has.
    pub(super) _guest: Option<Arc<GuestWorkers>>,
}

impl From<Box<TenantWorker>> for Condemned {
    fn from(held: Box<TenantWorker>) -> Self {
        let TenantWorker { worker, tenant, .. } = *held;
        Self { worker, role: tenant.id.role, _guest: Some(Arc::clone(&tenant.guest)) }
    }
}

/// Killed workers that may still exist.
#[derive(Default)]
pub(super) struct Reaper(Vec<(Condemned, Option<Waiter>)>);

impl Reaper {
    /// Kills a worker. `engine` looks for its exit, if there is one.
    pub(super) fn kill(&mut self, condemned: Condemned, engine: Option<Waiter>) {
        condemned.worker.process().kill();
        self.0.push((condemned, engine));
    }

    /// What tools are told of them.
    pub(super) fn listed(&self) -> impl Iterator<Item = Listed> {
        let ending = Task::Does("ending");
        self.0.iter().map(move |(Condemned { worker, role, .. }, waiter)| Listed {
            pid: worker.id(),
            task: ending.clone(),
            role: *role,
            guest: None,
            space: None,
            engine: waiter.as_ref().map(|(engine, _)| *engine),
        })
    }

    /// What is readable when a worker is gone.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(|(Condemned { worker, .. }, _)| {
            PollFd::from_borrowed_fd(worker.process().ended(), PollFlags::IN)
        })
    }

    /// Buries workers that are gone, and tells their engines.
    pub(super) fn reap(&mut self, mailboxes: &Mailboxes) {
        self.0.retain(|(Condemned { worker, .. }, engine)| {
            if !worker.process().has_ended() {
                return true;
            }
            if let Some((engine, exit)) = engine {
                exit.set();
                mailboxes.call(*engine);
            }
            false
        });
    }
}
