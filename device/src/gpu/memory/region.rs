// SPDX-License-Identifier: MIT OR Apache-2.0

//! Mappings of guests' memory, which are unmapped on a thread of its own.
//!
//! A front end can make unmapping wait: while it punches a hole into the file, Linux lets nobody change the list of the
//! file's mappings. An engine or the control plane may be the last to use a mapping, so neither unmaps it.

use std::ops::Deref;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock};
use std::thread::Builder;
use vm_memory::MmapRegion;

/// Where mappings go that nobody uses; `None` if Linux gives the process no thread.
static UNMAPPER: LazyLock<Option<Sender<Arc<MmapRegion>>>> = LazyLock::new(|| {
    let (sender, mappings) = channel();
    let unmap = move || mappings.into_iter().for_each(drop);
    match Builder::new().name("unmapper".into()).spawn(unmap) {
        Ok(_) => Some(sender),
        Err(error) => {
            tracing::warn!(%error, "no thread unmaps guests' memory; engines do, which a front end can delay");
            None
        }
    }
});

/// A mapping. Whoever drops it last leaves the unmapping to another thread.
#[derive(Debug, Clone)]
pub struct Region {
    // Dropped in this order, so that the keeper has the last reference of all regions.
    mapping: Arc<MmapRegion>,
    keeper: Arc<Keeper>,
}

/// The reference that outlives those of all regions.
#[derive(Debug)]
struct Keeper(Option<Arc<MmapRegion>>, Option<Sender<Arc<MmapRegion>>>);

impl Region {
    /// Whether both are the same mapping.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keeper, &other.keeper)
    }
}

impl From<Arc<MmapRegion>> for Region {
    fn from(mapping: Arc<MmapRegion>) -> Self {
        let keeper = Arc::new(Keeper(Some(Arc::clone(&mapping)), UNMAPPER.clone()));
        Self { mapping, keeper }
    }
}

impl From<MmapRegion> for Region {
    fn from(mapping: MmapRegion) -> Self {
        Arc::new(mapping).into()
    }
}

impl Deref for Region {
    type Target = MmapRegion;

    #[inline]
    fn deref(&self) -> &MmapRegion {
        &self.mapping
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let (Some(mapping), Some(unmapper)) = (self.0.take(), &self.1) {
            // Fails only if that thread panicked: the mapping is dropped here then.
            let _ = unmapper.send(mapping);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_drops_a_mapping_last_hands_it_over_instead_of_unmapping_it() {
        let (unmapper, mappings) = channel();
        let mapping = Arc::new(MmapRegion::new(0x1000).unwrap());
        let keeper = Arc::new(Keeper(Some(Arc::clone(&mapping)), Some(unmapper)));
        let first = Region { mapping, keeper };
        let second = first.clone();
        drop(first);
        assert!(mappings.try_recv().is_err(), "it is still used");
        std::thread::spawn(move || drop(second)).join().unwrap();
        let last = mappings.try_recv().unwrap();
        assert_eq!(Arc::strong_count(&last), 1, "nobody else has it");
    }

    #[test]
    fn what_nobody_uses_is_unmapped() {
        let mapping = Arc::new(MmapRegion::<()>::new(0x1000).unwrap());
        let gone = Arc::downgrade(&mapping);
        drop(Region::from(mapping));
        while gone.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}
