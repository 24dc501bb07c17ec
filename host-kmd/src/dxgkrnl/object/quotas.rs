// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's use of its limits.

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::handles::{MAX_HANDLES, ObjectKind};
use crate::dxgkrnl::object::limits::{Limits, Quota};
use bellhop_protocol::snapshot;

/// A limited quantity: a field of [`Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limited {
    /// [`Limits::processes`]
    Processes,
    /// [`Limits::handles`]
    Handles,
    /// [`Limits::allocations`]
    Allocations,
    /// [`Limits::hw_queues`]
    HwQueues,
    /// [`Limits::waits`]
    Waits,
    /// [`Limits::mappings`]
    Mappings,
    /// [`Limits::mapped_bytes`]
    MappedBytes,
    /// [`Limits::extents`]
    Extents,
    /// [`Limits::submissions`]
    Submissions,
    /// [`Limits::listed_allocations`]
    ListedAllocations,
    /// [`Limits::cross_adapter_fences`]
    CrossAdapterFences,
    /// [`Limits::held`]
    Held,
    /// [`Limits::kernels`]
    Kernels,
    /// [`Limits::video_sessions`]
    VideoSessions,
}

impl Limited {
    /// All limits, in declaration order.
    const ALL: [Self; 14] = [
        Self::Processes,
        Self::Handles,
        Self::Allocations,
        Self::HwQueues,
        Self::Waits,
        Self::Mappings,
        Self::MappedBytes,
        Self::Extents,
        Self::Submissions,
        Self::ListedAllocations,
        Self::CrossAdapterFences,
        Self::Held,
        Self::Kernels,
        Self::VideoSessions,
    ];

    /// The limit on objects of a kind besides [`Self::Handles`].
    fn of(kind: ObjectKind) -> Option<Self> {
        match kind {
            ObjectKind::Allocation => Some(Self::Allocations),
            ObjectKind::HwQueue => Some(Self::HwQueues),
            ObjectKind::GuestKernel => Some(Self::Kernels),
            ObjectKind::VideoSession => Some(Self::VideoSessions),
            ObjectKind::Device
            | ObjectKind::Context
            | ObjectKind::Doorbell
            | ObjectKind::NativeFence => None,
        }
    }

    /// The limit's quota, unused.
    fn quota(self, limits: &Limits) -> Quota {
        match self {
            Self::Processes => Quota::new(limits.processes, "processes"),
            Self::Handles => Quota::new(limits.handles.min(MAX_HANDLES), "handles"),
            Self::Allocations => Quota::new(limits.allocations, "allocations"),
            Self::HwQueues => Quota::new(limits.hw_queues, "hardware queues"),
            Self::Waits => Quota::new(limits.waits, "pending waits"),
            Self::Mappings => Quota::new(limits.mappings, "mappings"),
            Self::MappedBytes => Quota::new(limits.mapped_bytes, "mapped bytes"),
            Self::Extents => Quota::new(limits.extents, "extents"),
            Self::Submissions => Quota::new(limits.submissions, "submissions"),
            Self::ListedAllocations => {
                Quota::new(limits.listed_allocations, "entries of allocation lists")
            }
            Self::CrossAdapterFences => {
                Quota::new(limits.cross_adapter_fences, "cross-adapter fences")
            }
            Self::Held => Quota::new(limits.held, "held in software queues"),
            Self::Kernels => Quota::new(limits.kernels, "kernels"),
            Self::VideoSessions => Quota::new(limits.video_sessions, "video sessions"),
        }
    }
}

/// A guest's use of its [`Limits`].
#[derive(Debug)]
pub(crate) struct Quotas([Quota; Limited::ALL.len()]);

impl Quotas {
    /// Creates unused quotas.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(Limited::ALL.map(|limited| limited.quota(limits)))
    }

    /// Changes a limit. What is in use stays.
    pub(crate) fn set_limit(&mut self, limited: Limited, limit: u64) {
        self.0[limited as usize].set_limit(limit);
    }

    /// Charges `amount`, or nothing if that exceeds the limit.
    pub(crate) fn charge(&mut self, limited: Limited, amount: u64) -> Result<(), RequestError> {
        self.0[limited as usize].charge(amount)
    }

    /// Refunds what was charged.
    pub(crate) fn refund(&mut self, limited: Limited, amount: u64) {
        self.0[limited as usize].refund(amount);
    }

    /// Charges for one more object, or for nothing if a limit is reached.
    pub(crate) fn charge_object(&mut self, kind: ObjectKind) -> Result<(), RequestError> {
        if let Some(limited) = Limited::of(kind) {
            self.charge(limited, 1)?;
        }
        self.charge(Limited::Handles, 1).inspect_err(|_| {
            if let Some(limited) = Limited::of(kind) {
                self.refund(limited, 1);
            }
        })
    }

    /// Refunds what was charged for an object.
    pub(crate) fn refund_object(&mut self, kind: ObjectKind) {
        self.refund(Limited::Handles, 1);
        if let Some(limited) = Limited::of(kind) {
            self.refund(limited, 1);
        }
    }

    /// The most that a limit allows.
    pub(crate) fn limit(&self, limited: Limited) -> u64 {
        self.0[limited as usize].limit()
    }

    /// Describes the quotas for tools.
    pub(crate) fn describe(&self) -> impl Iterator<Item = snapshot::Quota> + '_ {
        self.0.iter().map(Quota::describe)
    }

    /// Whether everything is refunded.
    pub(crate) fn is_unused(&self) -> bool {
        self.0.iter().all(Quota::is_unused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_own_quota() {
        for (place, limited) in Limited::ALL.into_iter().enumerate() {
            assert_eq!(limited as usize, place);
            let mut quotas = Quotas::new(&Limits::default());
            quotas.charge(limited, 1).unwrap();
            let mut others = Limited::ALL.into_iter().filter(|other| *other != limited);
            assert!(others.all(|other| quotas.0[other as usize].is_unused()));
            assert!(!quotas.is_unused());
        }
    }

    #[test]
    fn an_object_is_charged_for_as_a_handle_and_as_its_kind_or_not_at_all() {
        let limits = Limits { handles: 1, allocations: 2, ..Limits::default() };
        let mut quotas = Quotas::new(&limits);
        quotas.charge_object(ObjectKind::Allocation).unwrap();
        assert!(quotas.charge_object(ObjectKind::Allocation).is_err());
        quotas.refund_object(ObjectKind::Allocation);
        assert!(quotas.is_unused(), "the refused one was charged for");
    }
}
