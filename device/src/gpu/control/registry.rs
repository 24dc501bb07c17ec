// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control plane's registry: guests, address spaces, queues, and the queue that each doorbell watches.

use crate::gpu::memory::page_table::AddressSpace;
use crate::gpu::shared::chip::Chip;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use crate::gpu::shared::watching::WatchedAt;
use bellhop_host_kmd::hardware::{AddressSpaceId, GpuOrdinal, GuestId, HwQueueId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// All objects by id.
#[derive(Debug)]
pub struct Registry {
    /// The guests.
    pub guests: BTreeMap<GuestId, Arc<Partition>>,
    /// The guests' address spaces.
    pub spaces: HashMap<AddressSpaceId, (GuestId, Arc<AddressSpace>)>,
    /// The guests' queues.
    pub queues: HashMap<HwQueueId, Arc<HwQueue>>,
    /// Destroyed address spaces with page tables that queued paging buffers may still write, each with the fence of
    /// the last such buffer.
    parked: Vec<(GuestId, u64, Arc<AddressSpace>)>,
    /// The queues of the guests' system contexts.
    pub system_queues: HashMap<GuestId, Arc<HwQueue>>,
    /// The queue that each physical doorbell watches.
    doorbells: Vec<Option<Arc<HwQueue>>>,
    /// Queues that are connected to their guests' global doorbells.
    global: HashMap<HwQueueId, Arc<HwQueue>>,
    gpu: GpuOrdinal,
    last_id: u64,
}

impl Registry {
    /// A GPU's registry without guests, address spaces and queues.
    pub fn new(gpu: GpuOrdinal, physical_doorbells: u32) -> Self {
        Self {
            guests: BTreeMap::new(),
            spaces: HashMap::new(),
            queues: HashMap::new(),
            parked: Vec::new(),
            system_queues: HashMap::new(),
            doorbells: (0..physical_doorbells).map(|_| None).collect(),
            global: HashMap::new(),
            gpu,
            last_id: 0,
        }
    }

    /// A new id of an address space: one that no GPU of the chain has, and never 0.
    pub fn new_space_id(&mut self) -> AddressSpaceId {
        AddressSpaceId(self.new_queue_id().0)
    }

    /// A new id of a queue, never 0.
    pub fn new_queue_id(&mut self) -> HwQueueId {
        self.last_id += 1;
        HwQueueId::of(self.gpu, self.last_id)
    }

    /// Destroys an address space. Its page tables are freed once all queued paging buffers of its guest are
    /// complete.
    pub fn park(&mut self, guest: GuestId, space: Arc<AddressSpace>) {
        // A slave does not hear of the master's paging.
        self.unpark();
        let queued = self.guests.get(&guest).and_then(|guest| guest.paging().last_queued());
        if let Some(fence) = queued {
            self.parked.push((guest, fence, space));
        }
    }

    /// Frees the parked address spaces with a reached fence.
    pub fn unpark(&mut self) {
        let guests = &self.guests;
        self.parked.retain(|(guest, fence, _)| {
            guests.get(guest).is_some_and(|guest| guest.paging().completed() < *fence)
        });
    }

    /// Makes a physical doorbell watch a queue's page, or nothing. Returns false if the doorbell does not exist.
    pub fn set_watch(&mut self, chip: &Chip, doorbell: u32, queue: Option<Arc<HwQueue>>) -> bool {
        let Some(watched) = self.doorbells.get_mut(doorbell as usize) else { return false };
        if let Some(queue) = &queue {
            queue.use_doorbell(chip.connects.another());
        }
        if let Some(before) = std::mem::replace(watched, queue.clone()) {
            watch(chip, &before, None);
        }
        if let Some(queue) = queue {
            let is_moved = queue.partition.rotation().is_some();
            let at = if is_moved { WatchedAt::Physical(doorbell) } else { WatchedAt::OwnPage };
            watch(chip, &queue, Some(at));
        }
        true
    }

    /// The physical doorbell that watches a queue.
    pub fn doorbell_of(&self, queue: HwQueueId) -> Option<u32> {
        let watches = |watched: &Option<Arc<HwQueue>>| {
            watched.as_ref().is_some_and(|watched| watched.id == queue)
        };
        self.doorbells.iter().position(watches)?.try_into().ok()
    }

    /// Connects a queue to its guest's global doorbell.
    pub fn watch_global(&mut self, chip: &Chip, queue: Arc<HwQueue>) {
        watch(chip, &queue, Some(WatchedAt::Global));
        self.global.insert(queue.id, queue);
    }

    /// Disconnects a queue from its guest's global doorbell. Returns false if it was not connected.
    pub fn unwatch_global(&mut self, chip: &Chip, queue: HwQueueId) -> bool {
        let Some(queue) = self.global.remove(&queue) else { return false };
        watch(chip, &queue, None);
        true
    }

    /// Removes a queue, and frees the doorbell that watches it. Its engine knows the queue until it quiesces.
    pub fn remove_queue(&mut self, chip: &Chip, queue: HwQueueId) -> bool {
        let Some(queue) = self.queues.remove(&queue) else { return false };
        queue.membership.destroy();
        if queue.is_system() {
            self.system_queues.remove(&queue.partition.id());
        }
        let mut was_watched = self.global.remove(&queue.id).is_some();
        for watched in &mut self.doorbells {
            was_watched |= watched.take_if(|watched| watched.id == queue.id).is_some();
        }
        if was_watched {
            watch(chip, &queue, None);
        }
        if let Some(port) = chip.engines.get(queue.engine as usize) {
            port.kick(&queue);
        }
        true
    }

    /// Removes a guest and all its remaining objects. Returns the guest, so that its memory is not unmapped under the
    /// registry's lock.
    pub fn remove_guest(&mut self, chip: &Chip, guest: GuestId) -> Option<Arc<Partition>> {
        let queues = self.queues.values().filter(|queue| queue.partition.id() == guest);
        for queue in queues.map(|queue| queue.id).collect::<Vec<_>>() {
            self.remove_queue(chip, queue);
        }
        if let Some(partition) = self.guests.get(&guest) {
            partition.stop_rotation();
        }
        self.spaces.retain(|_, (owner, _)| *owner != guest);
        let removed = self.guests.remove(&guest);
        self.unpark();
        removed
    }
}

/// Makes the engine of a queue watch for rings at this place; `None` stops it.
fn watch(chip: &Chip, queue: &Arc<HwQueue>, at: Option<WatchedAt>) {
    if let Some(port) = chip.engines.get(queue.engine as usize) {
        port.change_watch(queue, at);
    }
}
