// SPDX-License-Identifier: MIT OR Apache-2.0

//! A virtqueue as the front end set it up.

use super::calls::{Call, Calls};
use super::chain::{self, ChainError, WritablePart};
use super::event::FrontEndEvent;
use bellhop_protocol::config::MAX_QUEUE_SIZE;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use virtio_queue::{Error as QueueError, Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};

/// Guest memory, which the front end may replace.
pub type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A virtqueue. Only threads that serve its guest alone use it, since the guest's VMM can make them wait in its memory.
pub struct Ring {
    memory: Memory,
    call: Arc<Call>,
    state: Mutex<RingState>,
}

struct RingState {
    /// Set with the first kick, cleared when the queue is stopped.
    queue: Queue,
    is_enabled: bool,
    kick: Option<Arc<FrontEndEvent>>,
    /// The driver was asked not to kick.
    is_quiet: bool,
}

impl Ring {
    /// A queue before the front end sets it up.
    ///
    /// # Errors
    /// Never fails, since [`MAX_QUEUE_SIZE`] is a valid size.
    pub fn new(memory: Memory, calls: Arc<Calls>) -> Result<Self, QueueError> {
        let queue = Queue::new(MAX_QUEUE_SIZE)?;
        let state = RingState { queue, is_enabled: false, kick: None, is_quiet: false };
        Ok(Self { memory, call: Arc::new(Call::new(calls)), state: Mutex::new(state) })
    }

    /// No code panics while it holds the lock, so its content is consistent.
    #[expect(clippy::disallowed_methods, reason = "a lock of the guest's own thread")]
    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the number of entries. Returns false if the number is not a power of two or exceeds the maximum.
    pub fn set_size(&self, size: u32) -> bool {
        let mut state = self.lock();
        let fits = size.is_power_of_two() && size <= u32::from(state.queue.max_size());
        if fits {
            state.queue.set_size(size as u16);
        }
        fits
    }

    /// Sets the guest-physical addresses of the queue's three parts.
    ///
    /// # Errors
    /// If an address is misaligned or outside guest memory.
    pub fn set_addresses(&self, table: u64, available: u64, used: u64) -> Result<(), QueueError> {
        let mut state = self.lock();
        state.queue.try_set_desc_table_address(GuestAddress(table))?;
        state.queue.try_set_avail_ring_address(GuestAddress(available))?;
        state.queue.try_set_used_ring_address(GuestAddress(used))?;
        // The front end gives only the next entry to take. The next entry to return is in the ring, where the
        // driver or the previous device left it.
        let next = state.queue.used_idx(&*self.memory.memory(), Ordering::Relaxed)?;
        state.queue.set_next_used(next.0);
        Ok(())
    }

    /// Sets the next entry to take.
    pub fn set_next_available(&self, index: u16) {
        self.lock().queue.set_next_avail(index);
    }

    /// The next entry to take.
    pub fn next_available(&self) -> u16 {
        self.lock().queue.next_avail()
    }

    /// The next entry to return.
    pub fn next_used(&self) -> u16 {
        self.lock().queue.next_used()
    }

    /// Sets the next entry to return, if the ring holds an older value.
    pub fn set_next_used(&self, index: u16) {
        self.lock().queue.set_next_used(index);
    }

    /// Sets the descriptor that becomes readable when the driver kicks. Starts the queue if it is stopped.
    pub fn set_kick(&self, kick: Option<FrontEndEvent>) {
        let mut state = self.lock();
        state.kick = kick.map(Arc::new);
        state.start();
    }

    /// Sets the eventfd to signal when an entry is returned.
    pub fn set_call(&self, call: Option<FrontEndEvent>) {
        self.call.set(call);
        self.lock().start();
    }

    /// Starts the queue without a kick.
    pub fn set_ready(&self) {
        self.lock().queue.set_ready(true);
    }

    /// Sets whether entries may be taken and returned while the queue is started.
    pub fn set_enabled(&self, is_enabled: bool) {
        self.lock().is_enabled = is_enabled;
    }

    /// Stops the queue: entries are no longer taken or returned.
    pub fn stop(&self) {
        let memory = self.memory.memory();
        let mut state = self.lock();
        if std::mem::take(&mut state.is_quiet) {
            // Another device may go on with the queue, and expects kicks. It looks at the queue when it starts.
            let _ = state.queue.enable_notification(&*memory);
        }
        state.queue.set_ready(false);
    }

    /// Drops the kick and call of a stopped queue.
    pub fn forget(&self) {
        self.call.set(None);
        self.lock().kick = None;
    }

    /// The kick to watch: `None` unless the queue is started and enabled.
    pub fn watched_kick(&self) -> Option<Arc<FrontEndEvent>> {
        let state = self.lock();
        state.kick.clone().filter(|_| state.is_enabled && state.queue.ready())
    }

    /// The notification of the driver.
    pub fn call(&self) -> &Arc<Call> {
        &self.call
    }

    /// The descriptor that becomes readable when the driver kicks.
    pub fn kick(&self) -> Option<Arc<FrontEndEvent>> {
        self.lock().kick.clone()
    }

    /// Returns whether the queue is started and holds a chain.
    pub fn has_work(&self) -> bool {
        let state = self.lock();
        state.queue.ready()
            && state
                .queue
                .avail_idx(&*self.memory.memory(), Ordering::Acquire)
                .is_ok_and(|available| available.0 != state.queue.next_avail())
    }

    /// Maximum number of chains in the queue, and so the most to process per kick: chains offered later come with
    /// their own kick. Without this bound a guest could keep a thread busy for ever. With overlapping rings it
    /// would not even have to offer chains: each returned chain becomes an offered one.
    pub fn size(&self) -> u16 {
        self.lock().queue.size()
    }

    /// Asks the driver for no kicks: chains that it offers from now on are found when they are needed.
    pub(super) fn hush(&self) {
        let memory = self.memory.memory();
        let mut state = self.lock();
        if !state.is_quiet && state.queue.ready() {
            // Where the device cannot write, the driver kicks.
            state.is_quiet = state.queue.disable_notification(&*memory).is_ok();
        }
    }

    /// Asks the driver for kicks again. Returns whether it offered chains, perhaps before it could see that.
    pub(super) fn listen(&self) -> bool {
        let memory = self.memory.memory();
        let mut state = self.lock();
        state.is_quiet = false;
        // The fence between the flag and the look at the index pairs with that of the driver's `Virtqueue::offer`.
        state.is_enabled
            && state.queue.ready()
            && state.queue.enable_notification(&*memory).unwrap_or(false)
    }

    /// Takes the next chain, if the queue is started, enabled and not empty.
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

    /// Returns a chain with `bytes` in it to the driver and signals the call; returns how many bytes fitted.
    pub(super) fn give_back(&self, writable: &WritablePart, bytes: &[u8]) -> u32 {
        let memory = self.memory.memory();
        let written = writable.write(&memory, bytes);
        let mut state = self.lock();
        // If the queue was stopped since the chain was taken, the queue belongs to the next driver.
        if !state.queue.ready() {
            return written;
        }
        if let Err(error) = state.queue.add_used(&*memory, writable.head, written) {
            // A guest can place its rings where the device cannot write.
            tracing::debug!(%error, "cannot return a descriptor to the guest");
            return written;
        }
        self.call.make();
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
