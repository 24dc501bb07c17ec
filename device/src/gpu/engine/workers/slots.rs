// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which tenants have a worker on an engine, and which wait for one.

use super::engine_worker::EngineWorker;
use crate::gpu::workers::mailboxes::Failure;
use crate::gpu::workers::tenant::{Tenant, TenantId};
use crate::gpu::workers::tenant_worker::TenantWorker;
use bellhop_host_kmd::hardware::HwQueueId;
use std::collections::HashMap;
use std::sync::Arc;

/// A tenant's worker on this engine.
#[derive(Debug)]
enum Slot {
    /// The manager was asked for it, for this queue.
    Asked(Arc<Tenant>, HwQueueId),
    /// The manager has none, for this reason. The queue that it was asked for is told.
    Failed(Arc<Tenant>, HwQueueId, Failure),
    /// It is here.
    Here(Box<EngineWorker>),
}

/// Whether a tenant has a worker for a queue.
pub(super) enum Admission {
    /// It has one, which executes nothing.
    Idle,
    /// It has none, and none was asked for.
    Missing,
    /// It is being prepared, executes another queue's packets, or has yet to forget memory.
    Waits,
    /// There is none.
    Failed(Failure),
}

/// The workers of an engine's tenants.
#[derive(Debug, Default)]
pub(super) struct Slots(HashMap<TenantId, Slot>);

impl Slots {
    /// Whether a tenant's worker can execute something of a queue's.
    pub(super) fn admit(&mut self, tenant: TenantId, queue: HwQueueId) -> Admission {
        match self.0.get_mut(&tenant) {
            None => Admission::Missing,
            Some(Slot::Asked(..)) => Admission::Waits,
            Some(Slot::Failed(_, asked, failure)) => {
                let (is_own, failure) = (*asked == queue, *failure);
                self.0.remove(&tenant);
                // For another queue, the next try may succeed.
                if is_own { Admission::Failed(failure) } else { Admission::Missing }
            }
            Some(Slot::Here(own)) if own.is_busy() || own.owes_since().is_some() => {
                own.waited_for = true;
                Admission::Waits
            }
            Some(Slot::Here(_)) => Admission::Idle,
        }
    }

    /// The manager is asked for a worker, for this queue.
    pub(super) fn ask(&mut self, tenant: &Arc<Tenant>, queue: HwQueueId) {
        self.0.insert(tenant.id, Slot::Asked(Arc::clone(tenant), queue));
    }

    /// The manager has prepared a worker.
    pub(super) fn arrive(&mut self, held: Box<TenantWorker>) {
        self.0.insert(held.tenant.id, Slot::Here(Box::new(EngineWorker::new(held))));
    }

    /// The manager has no worker for a tenant.
    pub(super) fn fail(&mut self, tenant: TenantId, failure: Failure) {
        if let Some(slot) = self.0.get_mut(&tenant)
            && let Slot::Asked(tenant, queue) = slot
        {
            *slot = Slot::Failed(Arc::clone(tenant), *queue, failure);
        }
    }

    /// Forgets failures of tenants that are destroyed.
    pub(super) fn forget_failures(&mut self) {
        self.0.retain(|_, slot| match slot {
            Slot::Failed(tenant, ..) => !tenant.has_ended(),
            _ => true,
        });
    }

    /// A tenant's worker, if it is here.
    pub(super) fn get(&self, tenant: TenantId) -> Option<&EngineWorker> {
        match self.0.get(&tenant) {
            Some(Slot::Here(own)) => Some(own),
            _ => None,
        }
    }

    /// A tenant's worker, if it is here.
    pub(super) fn get_mut(&mut self, tenant: TenantId) -> Option<&mut EngineWorker> {
        match self.0.get_mut(&tenant) {
            Some(Slot::Here(own)) => Some(own),
            _ => None,
        }
    }

    /// Takes a tenant's worker out, if it is here.
    pub(super) fn take(&mut self, tenant: TenantId) -> Option<Box<EngineWorker>> {
        match self.0.remove(&tenant)? {
            Slot::Here(own) => Some(own),
            other => {
                self.0.insert(tenant, other);
                None
            }
        }
    }

    /// The workers that are here.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TenantId, &EngineWorker)> {
        self.0.iter().filter_map(|(tenant, slot)| match slot {
            Slot::Here(own) => Some((*tenant, &**own)),
            _ => None,
        })
    }

    /// The workers that are here.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (TenantId, &mut EngineWorker)> {
        self.0.iter_mut().filter_map(|(tenant, slot)| match slot {
            Slot::Here(own) => Some((*tenant, &mut **own)),
            _ => None,
        })
    }

    /// Whether no tenant has a worker or waits for one.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
