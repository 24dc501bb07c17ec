// SPDX-License-Identifier: MIT OR Apache-2.0

//! Locks: allocations that stay where a CPU reaches them.

use super::VidMm;
use super::error::VidMmError;
use super::eviction::Need;
use super::segment::{LocalSegment, Place};
use crate::ddi::paging::AllocationId;
use bellhop_protocol::control::allocation::SegmentSet;

impl VidMm {
    /// Locks an allocation for a process where a CPU reaches it: in the BAR, or in the guest's own pages if it has
    /// some. It stays there until all locks are undone.
    pub(crate) fn lock(&mut self, process: u32, id: AllocationId) -> Result<Place, VidMmError> {
        self.touch(id)?;
        let allocation = self.get(id)?;
        let description = &allocation.description;
        let is_own = description.system.is_some();
        if !description.cpu_visible || !is_own && !description.supported.contains(SegmentSet::LOCAL)
        {
            return Err(VidMmError::NotLockable);
        }
        if description.notify_eviction && allocation.present {
            // While devices may access it, the driver may encode its bytes.
            return Err(VidMmError::InUse);
        }
        let is_local = matches!(allocation.place, Place::Local(..));
        if description.notify_eviction && !allocation.is_locked() && is_local {
            // The driver may have encoded its bytes.
            self.go_home(id)?;
        }
        let pinned = self.get(id)?;
        if pinned.pins > 0 && !matches!(pinned.place, Place::Local(LocalSegment::Visible, _)) {
            return Err(VidMmError::InUse);
        }
        let is_there = match self.get(id)?.place {
            Place::Home => is_own,
            Place::Local(segment, _) => !is_own && segment == LocalSegment::Visible,
            Place::Nowhere => false,
        };
        if !is_there {
            self.keep_backing(id)?;
            if is_own {
                self.go_home(id)?;
            } else {
                let begin = self.clock;
                let visible = LocalSegment::Visible;
                let range = self.take_room(process, id, visible, Need::Must, begin)?;
                let Some(range) = range else { return Err(self.why_not_locked(id)) };
                self.move_to(id, Place::Local(LocalSegment::Visible, range))?;
            }
        }
        self.change(id, |allocation| {
            let count = allocation.locks.entry(process).or_insert(0);
            *count = count.saturating_add(1);
            allocation.copied = false;
        })?;
        Ok(self.get(id)?.place)
    }

    fn why_not_locked(&self, id: AllocationId) -> VidMmError {
        let size = self.get(id).map_or(0, |allocation| allocation.description.size);
        if size > self.local[LocalSegment::Visible.index()].pool.length() {
            VidMmError::NeverFits(size)
        } else {
            VidMmError::NoRoom(size)
        }
    }

    /// Keeps a resident allocation of a local segment where it is, one more time: a display needs it there.
    pub(crate) fn pin(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        if !allocation.present || !matches!(allocation.place, Place::Local(..)) {
            return Err(VidMmError::InUse);
        }
        self.change(id, |allocation| allocation.pins += 1)
    }

    /// Undoes one [`Self::pin`].
    pub(crate) fn unpin(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let pins = self.get(id)?.pins.checked_sub(1).ok_or(VidMmError::Unbalanced)?;
        self.may_restore = true;
        self.change(id, |allocation| allocation.pins = pins)?;
        match self.get(id)?.place {
            // Its GPU was taken away while it was shown.
            Place::Local(segment, _) if pins == 0 && self.is_withdrawn(segment) => {
                self.send_home(id)
            }
            _ => Ok(()),
        }
    }

    /// Undoes one lock of a process.
    pub(crate) fn unlock(&mut self, process: u32, id: AllocationId) -> Result<(), VidMmError> {
        if !self.is_locked_by(process, id) {
            return Err(VidMmError::Unbalanced);
        }
        self.change(id, |allocation| {
            if let Some(count) = allocation.locks.get_mut(&process) {
                *count -= 1;
                if *count == 0 {
                    allocation.locks.remove(&process);
                }
            }
        })?;
        self.may_restore = true;
        Ok(())
    }
}
