// SPDX-License-Identifier: MIT OR Apache-2.0

//! Limits on the state that the host keeps for one guest.

use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::snapshot;

/// Limits of one guest. Doorbells, fences and local memory have no limit here: the guest's BAR bounds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processes.
    pub processes: u32,
    /// Objects of all its processes together; at most 2^20 - 1, even if this is higher.
    pub handles: u32,
    /// Allocations among them.
    pub allocations: u32,
    /// HW queues among them, including those of contexts that submit to their node.
    pub hw_queues: u32,
    /// Pending fence waits.
    pub waits: u32,
    /// Mappings into GPU virtual address spaces.
    pub mappings: u32,
    /// Bytes that these mappings span, which bounds the page tables and the work to unmap them.
    pub mapped_bytes: u64,
    /// Extents of its system-memory allocations.
    pub extents: u32,
    /// Unfinished kernel-mode command buffers.
    pub submissions: u32,
    /// Entries of the allocation lists of these command buffers.
    pub listed_allocations: u32,
    /// Views of fences that other guests may have.
    pub cross_adapter_fences: u32,
    /// Waits, signals and submissions held in software queues.
    pub held: u32,
    /// Kernels among its objects, and those that are being compiled.
    pub kernels: u32,
    /// Video sessions among its objects.
    pub video_sessions: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: 256,
            handles: 1 << 16,
            allocations: 1 << 15,
            hw_queues: 1 << 14,
            waits: 1 << 16,
            mappings: 1 << 16,
            mapped_bytes: 16 << 30,
            extents: 1 << 20,
            submissions: 1 << 12,
            listed_allocations: 1 << 16,
            cross_adapter_fences: 64,
            held: 1 << 12,
            kernels: 256,
            video_sessions: 4,
        }
    }
}

/// Use of one limit.
#[derive(Debug)]
pub(crate) struct Quota {
    used: u64,
    limit: u64,
    what: &'static str,
}

impl Quota {
    /// Creates an unused quota of `limit`.
    pub(crate) fn new(limit: impl Into<u64>, what: &'static str) -> Self {
        Self { used: 0, limit: limit.into(), what }
    }

    /// Charges `amount`, or nothing if that exceeds the limit.
    pub(crate) fn charge(&mut self, amount: u64) -> Result<(), RequestError> {
        match self.used.checked_add(amount) {
            Some(used) if used <= self.limit => {
                self.used = used;
                Ok(())
            }
            _ => Err(RequestError::QuotaExceeded { what: self.what, limit: self.limit }),
        }
    }

    /// Refunds what was charged.
    pub(crate) fn refund(&mut self, amount: u64) {
        debug_assert!(amount <= self.used, "{} refunded more than charged", self.what);
        self.used = self.used.saturating_sub(amount);
    }

    /// Changes the limit. What is in use stays, even if it is more.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// The limit.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Describes the quota for tools.
    pub(crate) fn describe(&self) -> snapshot::Quota {
        snapshot::Quota { what: self.what.into(), used: self.used, limit: self.limit }
    }

    /// Whether everything is refunded.
    pub(crate) fn is_unused(&self) -> bool {
        self.used == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_gives_no_more_than_its_limit_and_takes_back_what_it_gave() {
        let mut quota = Quota::new(3u32, "things");
        quota.charge(2).unwrap();
        assert!(quota.charge(2).is_err());
        assert!(quota.charge(u64::MAX).is_err());
        quota.charge(1).unwrap();
        quota.set_limit(1);
        assert!(quota.charge(1).is_err());
        quota.refund(3);
        assert!(quota.is_unused());
        assert!(quota.charge(1).is_ok() && quota.charge(1).is_err());
    }
}
