// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that the driver donated to the device, until the next reset.

use super::SystemMemory;
use bellhop_protocol::bar::AreaKind;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory of donated areas. The transport owns it, because only a reset of the device ends a donation.
#[derive(Default)]
pub struct Donations(Mutex<BTreeMap<AreaKind, Arc<dyn SystemMemory>>>);

impl Donations {
    /// Locks the map. No code panics while it holds the lock, so the map behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<AreaKind, Arc<dyn SystemMemory>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees all donated memory. Called after a reset of the device.
    pub fn clear(&self) {
        self.lock().clear();
    }

    pub(crate) fn contains(&self, kind: AreaKind) -> bool {
        self.lock().contains_key(&kind)
    }

    pub(crate) fn insert(&self, kind: AreaKind, memory: Arc<dyn SystemMemory>) {
        self.lock().insert(kind, memory);
    }

    pub(crate) fn all(&self) -> BTreeMap<AreaKind, Arc<dyn SystemMemory>> {
        self.lock().clone()
    }
}
