// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest has used of its limits.

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::handles::ObjectKind;
use crate::dxgkrnl::object::limits::Quota;

/// What a guest has used of its [`Limits`].
#[derive(Debug)]
pub(crate) struct Quotas {
    /// [`Limits::processes`]
    pub(crate) processes: Quota,
    /// [`Limits::handles`]
    pub(crate) handles: Quota,
    /// [`Limits::allocations`]
    pub(crate) allocations: Quota,
    /// [`Limits::hw_queues`]
    pub(crate) hw_queues: Quota,
    /// [`Limits::waits`]
    pub(crate) waits: Quota,
    /// [`Limits::mappings`]
    pub(crate) mappings: Quota,
    /// [`Limits::mapped_bytes`]
    pub(crate) mapped_bytes: Quota,
    /// [`Limits::extents`]
    pub(crate) extents: Quota,
    /// [`Limits::submissions`]
    pub(crate) submissions: Quota,
    /// [`Limits::listed_allocations`]
    pub(crate) listed_allocations: Quota,
    /// [`Limits::cross_adapter_fences`]
    pub(crate) cross_adapter_fences: Quota,
    /// [`Limits::held`]
    pub(crate) held: Quota,
}

impl Quotas {
    /// The limit that objects of a kind have beside that of [`Limits::handles`].
    pub(crate) fn of(&mut self, kind: ObjectKind) -> Option<&mut Quota> {
        match kind {
            ObjectKind::Allocation => Some(&mut self.allocations),
            ObjectKind::HwQueue => Some(&mut self.hw_queues),
            ObjectKind::Device
            | ObjectKind::Context
            | ObjectKind::Doorbell
            | ObjectKind::NativeFence => None,
        }
    }

    /// Charges for one more object, or for nothing when there may be no more.
    pub(crate) fn charge_object(&mut self, kind: ObjectKind) -> Result<(), RequestError> {
        if let Some(quota) = self.of(kind) {
            quota.charge(1)?;
        }
        self.handles.charge(1).inspect_err(|_| {
            if let Some(quota) = self.of(kind) {
                quota.refund(1);
            }
        })
    }

    /// Gives back what was charged for an object.
    pub(crate) fn refund_object(&mut self, kind: ObjectKind) {
        self.handles.refund(1);
        if let Some(quota) = self.of(kind) {
            quota.refund(1);
        }
    }
}
