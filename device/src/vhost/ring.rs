//! A virtqueue as the front end has set it up.

use super::calls::Calls;
use super::chain::{self, ChainError, WritablePart};
use super::event::FrontEndEvent;
use bellhop_protocol::config::MAX_QUEUE_SIZE;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use virtio_queue::{Error as QueueError, Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};

/// Guest memory as it is at any time.
pub type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A virtqueue. Several threads use it: the guest's own and the control plane.
pub struct Ring {
    memory: Memory,
    calls: Arc<Calls>,
    state: Mutex<RingState>,
}

struct RingState {
    /// Ready from the first kick that is set on until it is stopped.
    queue: Queue,
    is_enabled: bool,
    kick: Option<Arc<FrontEndEvent>>,
    call: Option<FrontEndEvent>,
}

impl Ring {
    /// A queue that no front end has set up yet.
    ///
    /// # Errors
    /// None, since [`MAX_QUEUE_SIZE`] is a size.
    pub fn new(memory: Memory, calls: Arc<Calls>) -> Result<Self, QueueError> {
        let queue = Queue::new(MAX_QUEUE_SIZE)?;
        let state = RingState { queue, is_enabled: false, kick: None, call: None };
        Ok(Self { memory, calls, state: Mutex::new(state) })
    }

    /// No code panics while it holds the lock, so what is in it is whole.
    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets its number of entries. False when that is no power of two, or more than there may be.
    pub fn set_size(&self, size: u32) -> bool {
        let mut state = self.lock();
        let fits = size.is_power_of_two() && size <= u32::from(state.queue.max_size());
        if fits {
            state.queue.set_size(size as u16);
        }
        fits
    }

    /// Sets where it is: the guest-physical addresses of its three parts.
    ///
    /// # Errors
    /// When one is misaligned, or not in memory.
    pub fn set_addresses(&self, table: u64, available: u64, used: u64) -> Result<(), QueueError> {
        let mut state = self.lock();
        state.queue.try_set_desc_table_address(GuestAddress(table))?;
        state.queue.try_set_avail_ring_address(GuestAddress(available))?;
        state.queue.try_set_used_ring_address(GuestAddress(used))?;
        // The front end says only what is next to be taken. What is next to be given back stands in the ring, where
        // the driver, or the device before, left it.
        let next = state.queue.used_idx(&*self.memory.memory(), Ordering::Relaxed)?;
        state.queue.set_next_used(next.0);
        Ok(())
    }

    /// Sets which entry is taken next.
    pub fn set_next_available(&self, index: u16) {
        self.lock().queue.set_next_avail(index);
    }

    /// Which entry is taken next.
    pub fn next_available(&self) -> u16 {
        self.lock().queue.next_avail()
    }

    /// Which entry is given back next.
    pub fn next_used(&self) -> u16 {
        self.lock().queue.next_used()
    }

    /// Sets which entry is given back next, for those who know better than the ring.
    pub fn set_next_used(&self, index: u16) {
        self.lock().queue.set_next_used(index);
    }

    /// Sets what becomes readable when the driver kicks it. It is started then, if it is not yet.
    pub fn set_kick(&self, kick: Option<FrontEndEvent>) {
        let mut state = self.lock();
        state.kick = kick.map(Arc::new);
        state.start();
    }

    /// Sets what to signal when something was given back.
    pub fn set_call(&self, call: Option<FrontEndEvent>) {
        let mut state = self.lock();
        state.call = call;
        state.start();
    }

    /// Starts it without a kick.
    pub fn set_ready(&self) {
        self.lock().queue.set_ready(true);
    }

    /// Whether entries may be taken and given back, while it is started.
    pub fn set_enabled(&self, is_enabled: bool) {
        self.lock().is_enabled = is_enabled;
    }

    /// Stops it: nothing is taken and given back from now on.
    pub fn stop(&self) {
        self.lock().queue.set_ready(false);
    }

    /// Forgets kick and call of one that is stopped.
    pub fn forget(&self) {
        let mut state = self.lock();
        (state.kick, state.call) = (None, None);
    }

    /// What becomes readable when the driver kicks it, while it is started and enabled.
    pub fn watched_kick(&self) -> Option<Arc<FrontEndEvent>> {
        let state = self.lock();
        state.kick.clone().filter(|_| state.is_enabled && state.queue.ready())
    }

    /// What becomes readable when the driver kicks it.
    pub fn kick(&self) -> Option<Arc<FrontEndEvent>> {
        self.lock().kick.clone()
    }

    /// Whether it is started and the driver has put something into it.
    pub fn has_work(&self) -> bool {
        let state = self.lock();
        state.queue.ready()
            && state
                .queue
                .avail_idx(&*self.memory.memory(), Ordering::Acquire)
                .is_ok_and(|available| available.0 != state.queue.next_avail())
    }

    /// Most chains that it can hold: all that were offered before somebody looks. What is offered after that comes
    /// with a kick of its own, so whoever looks takes no more. A guest could go on offering for ever, and one whose
    /// rings overlap need not even do that: each chain that is given back is another that is offered.
    pub fn size(&self) -> u16 {
        self.lock().queue.size()
    }

    /// Takes the next chain off it, if it is started and enabled and holds one.
    pub(super) fn take(&self) -> Option<(WritablePart, Result<Vec<u8>, ChainError>)> {
        let memory = self.memory.memory();
        let mut state = self.lock();
        if !state.is_enabled {
            return None;
        }
        let taken = state.queue.iter(memory.clone()).ok()?.next()?;
        drop(state);
        Some(chain::read(&memory, taken))
    }

    /// Gives a chain back with `bytes` in it, and tells the driver; returns how many fitted.
    pub(super) fn give_back(&self, writable: &WritablePart, bytes: &[u8]) -> u32 {
        let memory = self.memory.memory();
        let written = writable.write(&memory, bytes);
        let mut state = self.lock();
        // It may have been stopped since the chain was taken; it is the next driver's then.
        if !state.queue.ready() {
            return written;
        }
        if let Err(error) = state.queue.add_used(&*memory, writable.head, written) {
            // A guest can set its rings up so that they cannot be written.
            tracing::debug!(%error, "cannot give a descriptor back to the guest");
            return written;
        }
        if let Some(call) = &state.call
            && let Err(error) = self.calls.signal(call.as_fd())
        {
            tracing::debug!(%error, "cannot tell the guest that a descriptor was given back");
        }
        written
    }
}

impl RingState {
    fn start(&mut self) {
        if self.kick.is_some() {
            self.queue.set_ready(true);
        }
    }
}
