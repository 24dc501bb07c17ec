// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control queue: requests of several threads, in flight concurrently.
//!
//! One of the threads that wait for replies, the leader, blocks until the device notifies it, and distributes the
//! replies. When the leader has its own reply, another thread takes over. A reply wakes the thread that it is for, a
//! slot that becomes free wakes one of those that wait for one, and a leader that ends wakes the next: so a request
//! wakes as many threads among a thousand that wait as it does alone.

use super::event_queue::{EventQueue, LOOK};
use super::virtqueue::{DESCRIPTOR_NEXT, DESCRIPTOR_WRITE, Descriptor, QueueAddresses, Virtqueue};
use super::{DmaMemory, Notifications, TransportError};
use bellhop_protocol::control::{MAX_REPLY_SIZE, MAX_REQUEST_SIZE};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use vm_memory::Bytes;

/// Maximum number of requests in flight; the next ones wait for a reply.
pub const MAX_IN_FLIGHT: usize = SLOTS as usize;
const SLOTS: u16 = 16;
/// Maximum number of them without a thread that waits for the reply. The threads of the others take those replies
/// too.
const POSTED: usize = SLOTS as usize / 2;
/// Room for a request: more than the device accepts, so that a program can see the refusal.
const REQUEST: usize = 2 * MAX_REQUEST_SIZE;
/// Index of the first descriptor that no slot uses, where a tester's own chain begins.
pub(crate) const RAW_INDEX: u16 = 2 * SLOTS;
/// Descriptors in the queue.
const QUEUE_SIZE: u16 = 64;

/// The control queue of a device.
pub struct ControlQueue<N> {
    notifications: N,
    /// Buffers by slot.
    buffers: Box<[Buffers]>,
    /// The event queue, in which a replacement device announces itself. It does not answer requests to the first
    /// device.
    events: Option<Arc<EventQueue<N>>>,
    state: Mutex<State>,
    conditions: Conditions,
}

/// What threads wait for that do not wait for the device, all under the state's lock. Whoever changes the state so that
/// a thread can go on notifies its condition before it gives the lock back, and a thread looks at the state again when it
/// wakes.
#[derive(Default)]
struct Conditions {
    /// A slot is free.
    free: Condvar,
    /// A slot's request has its reply, or its thread is to lead. One thread at most waits for each.
    slots: [Condvar; SLOTS as usize],
    raw: Condvar,
}

impl Conditions {
    fn of(&self, index: SlotIndex) -> &Condvar {
        match index {
            SlotIndex::Request(index) => &self.slots[usize::from(index % SLOTS)],
            SlotIndex::Raw => &self.raw,
        }
    }

    /// The queue ends or begins anew: this concerns every thread.
    fn notify_all(&self) {
        self.free.notify_all();
        self.slots.iter().chain([&self.raw]).for_each(Condvar::notify_all);
    }
}

/// A slot's memory.
struct Buffers {
    request: DmaMemory,
    reply: DmaMemory,
}

struct State {
    queue: Virtqueue,
    slots: [Slot; SLOTS as usize],
    raw: Slot,
    has_leader: bool,
    /// Why the queue is unusable until the next reset.
    end: Option<End>,
}

/// Why a queue does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The device is gone, or broke the rules.
    Stopped,
    /// Another device replaced it.
    Replaced,
}

impl End {
    fn of(error: &TransportError) -> Self {
        match error {
            TransportError::Replaced => Self::Replaced,
            _ => Self::Stopped,
        }
    }

    fn error(self) -> TransportError {
        match self {
            Self::Stopped => TransportError::Disconnected("it stopped answering earlier".into()),
            Self::Replaced => TransportError::Replaced,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    /// The device owns it.
    Offered,
    /// The device owns it, and no thread waits for the reply.
    Posted,
    /// The device wrote this many bytes.
    Done(u32),
    /// The queue was reset.
    Lost,
}

/// Identifies a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotIndex {
    Request(u16),
    Raw,
}

impl State {
    fn slot(&mut self, index: SlotIndex) -> &mut Slot {
        match index {
            SlotIndex::Request(index) => &mut self.slots[usize::from(index % SLOTS)],
            SlotIndex::Raw => &mut self.raw,
        }
    }

    fn free_slot(&self) -> Option<u16> {
        (0..SLOTS).find(|slot| self.slots[usize::from(*slot)] == Slot::Free)
    }

    /// A request whose thread waits for its reply.
    fn waiting(&self) -> Option<SlotIndex> {
        let index = (0..SLOTS).find(|slot| self.slots[usize::from(*slot)] == Slot::Offered);
        let raw = (self.raw == Slot::Offered).then_some(SlotIndex::Raw);
        index.map(SlotIndex::Request).or(raw)
    }

    /// Takes all chains that the device has returned, and wakes who waits for them.
    fn collect(&mut self, conditions: &Conditions) -> Result<(), TransportError> {
        while let Some(used) = self.queue.take_used()? {
            let index = match used.head {
                RAW_INDEX => SlotIndex::Raw,
                head if head < RAW_INDEX && head % 2 == 0 => SlotIndex::Request(head / 2),
                head => {
                    let problem = format!("it returned descriptor {head}, which begins no request");
                    return Err(TransportError::Protocol(problem));
                }
            };
            let slot = self.slot(index);
            if *slot == Slot::Posted {
                *slot = Slot::Free;
                conditions.free.notify_one();
            } else {
                *slot = Slot::Done(used.written);
                conditions.of(index).notify_one();
            }
        }
        Ok(())
    }
}

impl<N: Notifications> ControlQueue<N> {
    /// Number of descriptors in the queue.
    pub const SIZE: u16 = QUEUE_SIZE;

    /// Creates a queue. `memory` allocates each buffer separately, by its size in bytes, so that the guest needs no
    /// large piece.
    ///
    /// # Errors
    /// If `memory` fails.
    pub fn new(
        memory: impl Fn(usize) -> Result<DmaMemory, TransportError>,
        notifications: N,
    ) -> Result<Self, TransportError> {
        let queue = Virtqueue::new(memory(Virtqueue::memory_size(QUEUE_SIZE))?, QUEUE_SIZE)?;
        let buffers = |_| Ok(Buffers { request: memory(REQUEST)?, reply: memory(MAX_REPLY_SIZE)? });
        let buffers = (0..SLOTS).map(buffers).collect::<Result<_, TransportError>>()?;
        let slots = [Slot::Free; SLOTS as usize];
        let state = State { queue, slots, raw: Slot::Free, has_leader: false, end: None };
        let (state, conditions) = (Mutex::new(state), Conditions::default());
        Ok(Self { notifications, buffers, events: None, state, conditions })
    }

    /// Makes waits end if the event queue announces a replacement device.
    #[must_use]
    pub fn beside(self, events: &Arc<EventQueue<N>>) -> Self {
        Self { events: Some(Arc::clone(events)), ..self }
    }

    /// The addresses of the queue for the device.
    #[must_use]
    pub fn addresses(&self) -> QueueAddresses {
        self.lock().queue.addresses()
    }

    /// The notifications that the queue uses.
    #[must_use]
    pub fn notifications(&self) -> &N {
        &self.notifications
    }

    /// Locks the state. No code panics while it holds the lock, so the state behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties the queue; requests in flight are lost. The device must not use the queue.
    ///
    /// # Errors
    /// Never fails for an existing queue.
    pub fn reset(&self) -> Result<(), TransportError> {
        self.lose(None)?.queue.reset()
    }

    /// Fails requests in flight, and later ones until [`Self::reset`]. Called when the device is stopped; the
    /// device must not use the queue.
    ///
    /// # Errors
    /// Never fails for an existing queue.
    pub fn close(&self) -> Result<(), TransportError> {
        self.lose(Some(End::Stopped)).map(|_| ())
    }

    /// Drops requests in flight.
    fn lose(&self, end: Option<End>) -> Result<MutexGuard<'_, State>, TransportError> {
        let mut state = self.lock();
        let State { slots, raw, .. } = &mut *state;
        for slot in slots.iter_mut().chain([raw]) {
            *slot = match *slot {
                Slot::Offered => Slot::Lost,
                Slot::Posted => Slot::Free,
                other => other,
            };
        }
        state.end = end;
        self.conditions.notify_all();
        // The leader waits for the device, not for a condition.
        self.notifications.wake()?;
        Ok(state)
    }

    fn buffers(&self, slot: u16) -> Result<&Buffers, TransportError> {
        let missing = || TransportError::Protocol(format!("there is no slot {slot}"));
        self.buffers.get(usize::from(slot)).ok_or_else(missing)
    }

    /// Sends a request and waits for its reply. Returns the reply's length in bytes.
    ///
    /// # Errors
    /// If the request is too long, or the device is gone or breaks the queue's rules.
    pub fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        if request.len() > REQUEST {
            return Err(TransportError::OutOfMemory(request.len() as u64));
        }
        let mut state = self.lock();
        let slot = loop {
            if let Some(end) = state.end {
                return Err(end.error());
            }
            match state.free_slot() {
                Some(slot) => break slot,
                None => {
                    let free = &self.conditions.free;
                    state = free.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        let head = self.write_chain(&mut state, slot, request)?;
        let index = SlotIndex::Request(slot);
        let (state, written) = self.exchange(state, index, head)?;
        let length = (written as usize).min(MAX_REPLY_SIZE).min(reply.len());
        read(&self.buffers(slot)?.reply, &mut reply[..length])?;
        // Another thread may use the buffer from now on.
        self.release(state, index);
        Ok(length)
    }

    /// Sends a request without waiting for its reply, unless many such requests are in flight.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub fn post(&self, request: &[u8]) -> Result<(), TransportError> {
        let mut state = self.lock();
        if let Some(end) = state.end {
            return Err(end.error());
        }
        let posted =
            |state: &State| state.slots.iter().filter(|slot| **slot == Slot::Posted).count();
        if posted(&state) == POSTED {
            // There may be no other thread to take their replies.
            if let Err(error) = state.collect(&self.conditions) {
                return Err(self.end(&mut state, error));
            }
        }
        let may_post = posted(&state) < POSTED && request.len() <= REQUEST;
        let Some(slot) = state.free_slot().filter(|_| may_post) else {
            drop(state);
            return self.request(request, &mut [0; MAX_REPLY_SIZE]).map(drop);
        };
        let head = self.write_chain(&mut state, slot, request)?;
        *state.slot(SlotIndex::Request(slot)) = Slot::Posted;
        if state.queue.offer(head)? {
            self.notifications.kick()?;
        }
        Ok(())
    }

    /// Writes a request into a slot, with descriptors for request and reply. Returns the index of the first.
    fn write_chain(
        &self,
        state: &mut State,
        slot: u16,
        request: &[u8],
    ) -> Result<u16, TransportError> {
        let Buffers { request: request_buffer, reply: reply_buffer } = self.buffers(slot)?;
        write(request_buffer, request)?;
        let head = 2 * slot;
        let readable = Descriptor {
            address: request_buffer.address(),
            length: request.len() as u32,
            flags: DESCRIPTOR_NEXT,
            next: head + 1,
        };
        let writable = Descriptor {
            address: reply_buffer.address(),
            length: MAX_REPLY_SIZE as u32,
            flags: DESCRIPTOR_WRITE,
            next: 0,
        };
        state.queue.write_descriptor(head, readable)?;
        state.queue.write_descriptor(head + 1, writable)?;
        Ok(head)
    }

    /// Offers descriptors unchanged, valid or not. Writes them to the table from
    /// [`RAW_INDEX`](crate::raw::RAW_INDEX) on, where the chain begins; `next` fields are indices of the table.
    /// Returns the number of bytes that the device claims to have written.
    ///
    /// # Errors
    /// If there are too many descriptors, another such chain is in flight, or the device is gone or breaks the
    /// queue's rules.
    #[cfg(feature = "raw")]
    pub fn offer_raw(&self, descriptors: &[Descriptor]) -> Result<u32, TransportError> {
        let mut state = self.lock();
        if state.raw != Slot::Free || descriptors.len() > usize::from(QUEUE_SIZE - RAW_INDEX) {
            return Err(TransportError::OutOfMemory(descriptors.len() as u64));
        }
        for (index, descriptor) in (RAW_INDEX..).zip(descriptors) {
            state.queue.write_descriptor(index, *descriptor)?;
        }
        let (state, written) = self.exchange(state, SlotIndex::Raw, RAW_INDEX)?;
        self.release(state, SlotIndex::Raw);
        Ok(written)
    }

    /// Gives a slot back. Its thread may have been the leader, or woken to lead: if nobody leads, another is woken.
    fn release(&self, mut state: MutexGuard<'_, State>, index: SlotIndex) {
        *state.slot(index) = Slot::Free;
        self.conditions.free.notify_one();
        if !state.has_leader
            && let Some(next) = state.waiting()
        {
            self.conditions.of(next).notify_one();
        }
    }

    /// The queue is unusable because of this.
    fn end(&self, state: &mut State, error: TransportError) -> TransportError {
        state.end = Some(End::of(&error));
        self.conditions.notify_all();
        error
    }

    /// Offers a chain and waits until it returns.
    fn exchange<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        index: SlotIndex,
        head: u16,
    ) -> Result<(MutexGuard<'a, State>, u32), TransportError> {
        *state.slot(index) = Slot::Offered;
        let offered = state.queue.offer(head);
        let kick = |notify| if notify { self.notifications.kick() } else { Ok(()) };
        if let Err(error) = offered.and_then(kick) {
            // The device may have it, and no thread waits for the reply.
            *state.slot(index) = Slot::Posted;
            return Err(error);
        }
        loop {
            let end = state.end;
            match (*state.slot(index), end) {
                (Slot::Done(written), _) => return Ok((state, written)),
                (Slot::Lost, _) => {
                    self.release(state, index);
                    return Err(TransportError::Disconnected("it was reset".into()));
                }
                (Slot::Free | Slot::Offered | Slot::Posted, Some(end)) => {
                    self.release(state, index);
                    return Err(end.error());
                }
                (Slot::Free | Slot::Offered | Slot::Posted, None) => {}
            }
            if state.has_leader {
                let own = self.conditions.of(index);
                state = own.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.has_leader = true;
            drop(state);
            let waited = self.wait();
            state = self.lock();
            state.has_leader = false;
            if let Err(error) = waited.and_then(|()| state.collect(&self.conditions)) {
                let error = self.end(&mut state, error);
                self.release(state, index);
                return Err(error);
            }
        }
    }

    /// Waits until something may have come back, and checks that the device is still there.
    fn wait(&self) -> Result<(), TransportError> {
        let has_come = || self.lock().queue.has_used();
        match &self.events {
            // Replies come first: the device may have answered before it went away.
            Some(events) if !self.notifications.wait(Some(LOOK), &has_come)? => events.check(),
            Some(_) => Ok(()),
            None => self.notifications.wait(None, &has_come).map(drop),
        }
    }
}

fn write(buffer: &DmaMemory, bytes: &[u8]) -> Result<(), TransportError> {
    let failed = |error| TransportError::Protocol(format!("guest memory: {error}"));
    buffer.bytes()?.write_slice(bytes, 0).map_err(failed)
}

fn read(buffer: &DmaMemory, bytes: &mut [u8]) -> Result<(), TransportError> {
    let failed = |error| TransportError::Protocol(format!("guest memory: {error}"));
    buffer.bytes()?.read_slice(bytes, 0).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::testing::memory;
    use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
    use std::time::Duration;

    /// Where the device sees the queue.
    const BASE: u64 = 0x1000;

    /// A device that answers every request with as many bytes as the request's first byte says.
    struct Device {
        memory: DmaMemory,
        answered: AtomicU16,
        kicks: Mutex<Vec<u16>>,
        is_wrong: bool,
        /// Most requests that it answers before it notifies.
        at_once: u16,
    }

    impl Device {
        fn word(&self, offset: usize) -> u16 {
            self.memory.bytes().unwrap().load(offset, Ordering::Acquire).unwrap()
        }

        /// Number of offered chains.
        fn offered(&self) -> u16 {
            self.word(usize::from(QUEUE_SIZE) * 16 + 2)
        }

        fn answer(&self, used: usize) {
            let bytes = self.memory.bytes().unwrap();
            let answered = self.answered.load(Ordering::Relaxed);
            let left = self.offered().wrapping_sub(answered).min(self.at_once);
            let end = answered.wrapping_add(left);
            while self.answered.load(Ordering::Relaxed) != end {
                let answered = self.answered.fetch_add(1, Ordering::Relaxed);
                let place = usize::from(answered % QUEUE_SIZE);
                let head = self.word(usize::from(QUEUE_SIZE) * 16 + 4 + 2 * place);
                let request: u64 = bytes.load(16 * usize::from(head), Ordering::Relaxed).unwrap();
                let length: u8 = bytes.read_obj((request - BASE) as usize).unwrap();
                let head = if self.is_wrong { u32::MAX } else { head.into() };
                bytes.write_obj([head, length.into()], used + 4 + 8 * place).unwrap();
                bytes.store(answered.wrapping_add(1), used + 2, Ordering::Release).unwrap();
            }
        }
    }

    struct Bell {
        device: Arc<Device>,
        used: usize,
    }

    impl Notifications for Bell {
        fn kick(&self) -> Result<(), TransportError> {
            self.device.kicks.lock().unwrap().push(self.device.offered());
            Ok(())
        }

        fn wait(&self, _: Option<Duration>, _: &dyn Fn() -> bool) -> Result<bool, TransportError> {
            self.device.answer(self.used);
            Ok(true)
        }

        fn wake(&self) -> Result<(), TransportError> {
            Ok(())
        }
    }

    fn queue(is_wrong: bool) -> (Arc<Device>, ControlQueue<Bell>) {
        queue_of(is_wrong, u16::MAX)
    }

    fn queue_of(is_wrong: bool, at_once: u16) -> (Arc<Device>, ControlQueue<Bell>) {
        let memory = memory(BASE, 4 << 20);
        let taken = AtomicUsize::new(0);
        let give_out = |length: usize| {
            let length = length.next_multiple_of(4096);
            memory.part(taken.fetch_add(length, Ordering::Relaxed), length)
        };
        let used = Virtqueue::new(memory.clone(), QUEUE_SIZE).unwrap().addresses().used - BASE;
        let (answered, kicks) = (AtomicU16::new(0), Mutex::new(Vec::new()));
        let device =
            Arc::new(Device { memory: memory.clone(), answered, kicks, is_wrong, at_once });
        let bell = Bell { device: Arc::clone(&device), used: used as usize };
        (device, ControlQueue::new(give_out, bell).unwrap())
    }

    #[test]
    fn a_posted_request_does_not_wait_and_takes_one_kick() {
        let (device, queue) = queue(false);
        queue.post(&[0]).unwrap();
        assert_eq!((device.offered(), device.answered.load(Ordering::Relaxed)), (1, 0));
        assert_eq!(*device.kicks.lock().unwrap(), [1]);
    }

    #[test]
    fn posted_requests_leave_slots_for_requests_that_wait() {
        let (device, queue) = queue(false);
        for _ in 0..POSTED {
            queue.post(&[0]).unwrap();
        }
        assert_eq!(device.answered.load(Ordering::Relaxed), 0);
        let mut reply = [0; 8];
        for round in 1..20 {
            // One more than may be posted: it waits, and the slots of the others are free afterwards.
            for _ in 0..=POSTED {
                queue.post(&[0]).unwrap();
            }
            assert_eq!(queue.request(&[5], &mut reply).unwrap(), 5);
            assert_eq!(device.answered.load(Ordering::Relaxed), device.offered(), "{round}");
        }
    }

    #[test]
    fn more_threads_than_slots_each_get_their_own_replies_however_leaders_change() {
        let (device, queue) = queue_of(false, 1);
        let rounds = 200;
        let threads = 2 * SLOTS as u8 + 1;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let queue = &queue;
                scope.spawn(move || {
                    let length = 8 + thread;
                    for round in 0..rounds {
                        let mut reply = [0; 64];
                        let written = queue.request(&[length], &mut reply).unwrap();
                        assert_eq!(written, usize::from(length));
                        // Posted ones take slots, whose replies whoever leads takes.
                        if thread == 0 && round % 8 == 0 {
                            queue.post(&[0]).unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(device.offered(), u16::from(threads) * rounds + rounds / 8);
    }

    #[test]
    fn the_end_of_a_queue_ends_the_wait_of_every_thread() {
        let (_, queue) = queue_of(false, 0);
        std::thread::scope(|scope| {
            let request = || queue.request(&[1], &mut [0; 8]).unwrap_err();
            let threads: Vec<_> = (0..3 * SLOTS).map(|_| scope.spawn(request)).collect();
            while queue.lock().free_slot().is_some() {
                std::thread::yield_now();
            }
            queue.close().unwrap();
            for thread in threads {
                assert!(matches!(thread.join().unwrap(), TransportError::Disconnected(_)));
            }
        });
    }

    #[test]
    fn a_reset_frees_the_slots_of_what_was_posted() {
        let (device, queue) = queue(false);
        for _ in 0..3 {
            for _ in 0..POSTED {
                queue.post(&[0]).unwrap();
            }
            queue.reset().unwrap();
        }
        assert_eq!(device.answered.load(Ordering::Relaxed), 0);
        queue.close().unwrap();
        assert!(matches!(queue.post(&[0]), Err(TransportError::Disconnected(_))));
    }

    #[test]
    fn a_device_that_answers_a_posted_request_wrongly_is_gone() {
        let (device, queue) = queue(true);
        for _ in 0..POSTED {
            queue.post(&[0]).unwrap();
        }
        device.answer(queue.notifications().used);
        assert!(matches!(queue.post(&[0]), Err(TransportError::Protocol(_))));
        assert!(matches!(queue.post(&[0]), Err(TransportError::Disconnected(_))));
    }
}
