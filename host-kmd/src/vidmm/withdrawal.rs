// SPDX-License-Identifier: MIT OR Apache-2.0

//! Withdrawal: the private memory of a GPU that is taken away from the guest, and comes back.
//!
//! No content is lost: what is there goes home first. What may be resident at home stays resident, so that other GPUs work
//! on with it; what may not is unmapped until the GPU is back. Its process is not suspended meanwhile: packets that name it
//! are page faults, and those that do not go on.
//!
//! Source: Windows KMD overview, "MGPU" ("detachable graphics").

use super::VidMm;
use super::error::VidMmError;
use super::segment::{LocalSegment, Place};
use crate::ddi::paging::AllocationId;
use crate::hardware::GpuOrdinal;

impl VidMm {
    /// A GPU's private memory is taken away: its allocations go home. Those that a display shows stay until it does not.
    pub(crate) fn withdraw(&mut self, gpu: GpuOrdinal) {
        let segment = LocalSegment::Private(gpu);
        let Some(local) = self.local.get_mut(segment.index()) else { return };
        if std::mem::replace(&mut local.is_withdrawn, true) {
            return;
        }
        let is_concerned = |id: &AllocationId| {
            let allocation = self.allocations.get(id);
            allocation.is_some_and(|allocation| match allocation.place {
                Place::Local(of, _) => of == segment && allocation.pins == 0,
                _ => allocation.taken.is_some() && allocation.description.gpu == gpu,
            })
        };
        let concerned: Vec<_> = self.allocations.keys().copied().filter(is_concerned).collect();
        for id in concerned {
            if let Err(error) = self.send_home(id) {
                tracing::error!(%error, ?id, "an allocation stays in memory that is taken away");
            }
        }
    }

    /// Moves an allocation out of memory that is taken away.
    pub(super) fn send_home(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        let allocation = self.get(id)?;
        if !allocation.lives_at_home() && allocation.present {
            self.unmap_all(id)?;
            self.hold_all(id)?;
        }
        // Nobody is suspended until it is back, either.
        self.change(id, |allocation| allocation.taken = None)?;
        if let Place::Local(..) = self.get(id)?.place {
            self.go_home(id)?;
        }
        let begin = self.clock + 1;
        let allocation = self.get(id)?;
        if allocation.is_wanted() && !allocation.present {
            // Into another segment, if it supports one that has room.
            match self.make_present(id, begin) {
                Ok(())
                | Err(VidMmError::NoGpu | VidMmError::NoRoom(_) | VidMmError::NeverFits(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A GPU's private memory is back: what its devices want resident returns, as far as there is room, now or when
    /// there is.
    pub(crate) fn reinstate(&mut self, gpu: GpuOrdinal) {
        let segment = LocalSegment::Private(gpu);
        let Some(local) = self.local.get_mut(segment.index()) else { return };
        if !std::mem::replace(&mut local.is_withdrawn, false) {
            return;
        }
        let lacks = |id: &AllocationId| {
            let allocation = self.allocations.get(id);
            allocation.is_some_and(|allocation| {
                allocation.description.gpu == gpu && allocation.is_wanted() && !allocation.present
            })
        };
        let lacking: Vec<_> = self.allocations.keys().copied().filter(lacks).collect();
        // What exceeds a budget comes last: what others may count on would take its room again at once.
        let (within, over): (Vec<_>, Vec<_>) = lacking.into_iter().partition(|id| {
            self.allocations.get(id).is_some_and(|allocation| {
                let size = allocation.description.size;
                self.is_within_budget(allocation.payer(), segment, size)
            })
        });
        for id in within.into_iter().chain(over) {
            let begin = self.clock + 1;
            if self.make_present(id, begin).is_err() {
                // From now on it is one that was taken away for want of room.
                let taken = self.change(id, |allocation| allocation.taken = Some(allocation.place));
                if let Err(error) = taken {
                    tracing::error!(%error, ?id, "an allocation is gone");
                }
            }
        }
        self.may_restore = true;
    }
}
