// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whose workers are.

use crate::allowance::Allowance;
use crate::gpu::shared::partition::{Partition, Stay};
use bellhop_host_kmd::hardware::{AddressSpaceId, GuestId, SocketId};
use bellhop_worker::owner::Role;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A tenant's number: that of an address space for kernels, of a session for video. Never used again in its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId {
    /// What its workers are for.
    pub role: Role,
    /// Its number in that role.
    pub number: u64,
}

/// What all workers of a guest share.
#[derive(Debug)]
pub struct GuestWorkers {
    /// The guest.
    pub id: GuestId,
    /// Its socket, whose guests have workers together.
    pub socket: SocketId,
    /// The workers that may be started for it, and for the other guests of its socket.
    pub starts: Arc<Allowance>,
    /// The processor time that compiling may take for them.
    pub compiling: Arc<Allowance>,
    /// Bytes of the guest's memory that its workers may reach.
    reach: AtomicU64,
    /// Held until the last process that worked for the guest has ended.
    _stay: Option<Stay>,
}

impl GuestWorkers {
    /// A guest without workers.
    pub fn new(partition: &Partition, Allowances { starts, compiling }: Allowances) -> Self {
        let (id, socket) = (partition.id(), partition.account().id());
        let (reach, _stay) = (AtomicU64::new(0), partition.stay().cloned());
        Self { id, socket, starts, compiling, reach, _stay }
    }

    /// Control plane: the guest has so much memory. Relaxed, as in [`Self::reach`]: it hands nothing over, and the order that
    /// has a worker started comes after it.
    pub fn set_reach(&self, bytes: u64) {
        self.reach.store(bytes, Ordering::Relaxed);
    }

    /// Manager: bytes of the guest's memory that its workers may reach.
    pub fn reach(&self) -> u64 {
        self.reach.load(Ordering::Relaxed)
    }
}

/// What may be done for the guests of a socket.
#[derive(Debug, Clone, Default)]
pub struct Allowances {
    /// The workers that may be started.
    pub starts: Arc<Allowance>,
    /// The processor time that compiling may take, in units of [`COMPILING_UNIT`].
    pub compiling: Arc<Allowance>,
}

/// The processor time that an allowance for compiling has many of.
pub const COMPILING_UNIT: Duration = Duration::from_millis(1);

/// What has workers of its own, one on each engine that needs one.
#[derive(Debug)]
pub struct Tenant {
    /// Its number.
    pub id: TenantId,
    /// The address space whose memory its workers reach.
    pub space: AddressSpaceId,
    /// Its guest.
    pub guest: Arc<GuestWorkers>,
    has_ended: AtomicBool,
    is_lost: AtomicBool,
}

impl Tenant {
    /// A tenant without workers.
    pub fn new(id: TenantId, space: AddressSpaceId, guest: Arc<GuestWorkers>) -> Self {
        let (has_ended, is_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { id, space, guest, has_ended, is_lost }
    }

    /// Control plane: the tenant is about to be destroyed. Relaxed: the order or the ticket that follows hands it over.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Engine: its worker is gone, with all that it remembered. Relaxed: only the engine that has its worker asks.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Engine: whether a worker of it that remembered something is gone.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Whether the tenant is destroyed.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}
