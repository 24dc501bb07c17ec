// SPDX-License-Identifier: MIT OR Apache-2.0

//! The two virtqueues of one guest, as the kernel and the backend use them.
//!
//! Whoever touches a guest's memory may have to wait for the guest's VMM: it can punch a hole there, and a page fault
//! waits until the hole is complete. So replies and events are written by the guest's own thread, which serves nobody
//! else. The control plane and the guest's display put them into an outbox and wake that thread.

use super::chain::{self, WritablePart};
use super::ring::Ring;
use crate::control_plane::KernelHandle;
use crate::gpu::{EventFd, GuestEvents};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{GuestPort, RequestToken};
use bellhop_protocol::event::Event;
use bellhop_protocol::status::Status;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{debug, warn};
use zerocopy::IntoBytes;

/// Maximum number of events that wait for guest buffers: 2 MiB. A driver that follows the protocol never has more
/// pending events than waits and HW queues. A driver that never takes its events must not fill the host's memory.
const MAX_UNDELIVERED: usize = 32 << 10;

/// One guest's pending requests, and what is on its way to the guest.
pub(super) struct QueuePort {
    control: Arc<Ring>,
    events: Arc<Ring>,
    pending: Mutex<Pending>,
    outbox: Mutex<Outbox>,
    /// Events that wait for a buffer. Only threads that serve this guest alone take the lock, since it is held while
    /// the guest's memory is written.
    undelivered: Mutex<VecDeque<Event>>,
    /// Signaled when the outbox is no longer empty: wakes the guest's thread.
    wake: Arc<EventFd>,
    /// The front end's connection, if there is one.
    connection: Option<Arc<UnixStream>>,
}

impl fmt::Debug for QueuePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePort").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Pending {
    next: u64,
    replies: HashMap<RequestToken, WritablePart>,
}

/// What the guest's thread is to write, in the order in which it was sent. Replies are as few as the control queue has
/// descriptors.
#[derive(Default)]
struct Outbox {
    letters: VecDeque<Letter>,
    /// Events here and among those that wait for a buffer.
    events: usize,
}

enum Letter {
    Reply(RequestToken, Vec<u8>),
    Event(Event),
}

/// No code panics while it holds one of these locks, so data behind a poisoned lock is consistent.
#[expect(
    clippy::disallowed_methods,
    reason = "a lock that is held for a few stores; guest memory is touched without it"
)]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QueuePort {
    pub(super) fn new(
        [control, events]: [Arc<Ring>; 2],
        wake: Arc<EventFd>,
        connection: Option<Arc<UnixStream>>,
    ) -> Self {
        let (pending, outbox, undelivered) = Default::default();
        Self { control, events, pending, outbox, undelivered, wake, connection }
    }

    /// Hands all waiting requests of the control queue to the kernel.
    pub(super) fn take_requests(&self, guest: GuestId, kernel: &KernelHandle) {
        for _ in 0..self.control.size() {
            let Some((writable, request)) = self.control.take() else { return };
            let request = match request {
                Ok(request) => request,
                Err(error) => {
                    debug!(guest = guest.0, %error, "unreadable request");
                    self.control.give_back(&writable, error.reply().as_bytes());
                    continue;
                }
            };
            let limit = self.control.size();
            let mut pending = lock(&self.pending);
            if pending.replies.len() >= usize::from(limit) {
                drop(pending);
                // Only a driver that offers a descriptor twice exceeds the limit.
                let reply =
                    chain::bare_reply(Status::INSUFFICIENT_RESOURCES, u64::from(writable.head));
                self.control.give_back(&writable, &reply);
                continue;
            }
            let token = RequestToken(pending.next);
            pending.next += 1;
            let room = writable.room;
            pending.replies.insert(token, writable);
            drop(pending);
            kernel.request(guest, token, request, room);
        }
    }

    /// Writes what is in the outbox into the guest's memory. Events that find no buffer wait for one.
    pub(super) fn hand_out(&self) {
        let letters = std::mem::take(&mut lock(&self.outbox).letters);
        let mut has_events = false;
        for letter in letters {
            match letter {
                Letter::Reply(token, reply) => self.answer(token, &reply),
                Letter::Event(event) => {
                    lock(&self.undelivered).push_back(event);
                    has_events = true;
                }
            }
        }
        if has_events {
            self.deliver_events();
        }
    }

    /// Writes waiting events into the guest's event buffers. While none waits, the driver need not kick for each
    /// buffer that it offers: a kick is a wake-up here, and leaves a VM there.
    pub(super) fn deliver_events(&self) {
        let mut undelivered = lock(&self.undelivered);
        if undelivered.len() > 1 {
            self.events.listen();
        }
        for _ in 0..self.events.size() {
            let Some(event) = undelivered.front() else { return self.events.hush() };
            let Some((writable, _)) = self.events.take() else {
                match self.events.listen() {
                    true => continue,
                    false => return,
                }
            };
            let written = self.events.give_back(&writable, event.as_bytes());
            if written == size_of::<Event>() as u32 {
                undelivered.pop_front();
                lock(&self.outbox).events -= 1;
            } else {
                debug!(head = writable.head, "an event buffer is too small or not in memory");
            }
        }
        // Buffers offered later come with their own kick.
        self.events.listen();
    }

    /// Whether an event waits for a buffer. Called by the guest's own thread.
    pub(super) fn needs_buffers(&self) -> bool {
        !lock(&self.undelivered).is_empty()
    }

    fn answer(&self, token: RequestToken, reply: &[u8]) {
        let Some(writable) = lock(&self.pending).replies.remove(&token) else {
            warn!(token = token.0, "a reply names no pending request");
            return;
        };
        self.control.give_back(&writable, reply);
    }

    fn reply(&self, token: RequestToken, reply: Vec<u8>) {
        self.post(&mut lock(&self.outbox), Letter::Reply(token, reply));
    }

    fn event(&self, event: Event) {
        let mut outbox = lock(&self.outbox);
        if outbox.events == MAX_UNDELIVERED {
            debug!(kind = %event.kind, "event lost: the guest offers no event buffer");
            return;
        }
        outbox.events += 1;
        self.post(&mut outbox, Letter::Event(event));
    }

    /// Wakes the guest's thread for the first of several letters; the thread takes all of them.
    fn post(&self, outbox: &mut Outbox, letter: Letter) {
        let is_first = outbox.letters.is_empty();
        outbox.letters.push_back(letter);
        if is_first {
            self.wake.signal();
        }
    }
}

impl GuestEvents for QueuePort {
    fn send(&self, event: Event) {
        self.event(event);
    }

    fn hang_up(&self) {
        if let Some(connection) = &self.connection {
            // Fails if the connection has already ended.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// The kernel's reference to the port, kept until the guest is detached.
pub(super) struct KernelPort(pub(super) Arc<QueuePort>);

impl GuestPort for KernelPort {
    fn reply(&self, token: RequestToken, reply: Vec<u8>) {
        self.0.reply(token, reply);
    }

    fn event(&self, event: Event) {
        self.0.event(event);
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::Calls;
    use super::*;
    use crate::control_plane;
    use bellhop_protocol::config::MAX_QUEUE_SIZE;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;
    use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
    use zerocopy::FromZeros;

    /// Only an endless loop takes this long.
    const HANG: Duration = Duration::from_secs(30);
    const TABLE: u64 = 0;
    /// Address of both the available and the used ring, so that they share their index.
    const RINGS: u64 = 0x1000;
    const INDEX: u64 = RINGS + 2;
    const FLAG_WRITE: u16 = 2;

    /// Both queues in one place, where each returned chain offers another one: the used index stays five ahead of
    /// the next chain.
    fn endless_port() -> (Arc<QueuePort>, GuestMemoryAtomic<GuestMemoryMmap>) {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x4000)]).unwrap();
        memory.write_obj(FLAG_WRITE, GuestAddress(TABLE + 12)).unwrap();
        memory.write_obj(5u16, GuestAddress(INDEX)).unwrap();
        let memory = GuestMemoryAtomic::new(memory);
        let calls = Arc::new(Calls::new().unwrap());
        let [control, events] = [(); 2].map(|()| {
            let ring = Ring::new(memory.clone(), Arc::clone(&calls)).unwrap();
            assert!(ring.set_size(MAX_QUEUE_SIZE.into()));
            ring.set_addresses(TABLE, RINGS, RINGS).unwrap();
            ring.set_ready();
            ring.set_enabled(true);
            Arc::new(ring)
        });
        (Arc::new(QueuePort::new([control, events], wake(), None)), memory)
    }

    fn wake() -> Arc<EventFd> {
        Arc::new(EventFd::new().unwrap())
    }

    /// Sends an event, and does what the guest's thread does then.
    fn send_event(port: &Arc<QueuePort>) {
        KernelPort(Arc::clone(port)).event(Event::new_zeroed());
        port.hand_out();
    }

    fn ends(work: impl FnOnce() + Send + 'static) {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            work();
            done.send(()).unwrap();
        });
        ended.recv_timeout(HANG).expect("this ends");
    }

    /// The used ring of a driver's event queue, whose first word says whether the device wants kicks.
    const USED: u64 = 0x2000;
    const NO_KICKS: u16 = 1;

    /// A driver's event queue without buffers.
    fn event_port() -> (Arc<QueuePort>, GuestMemoryAtomic<GuestMemoryMmap>) {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x4000)]).unwrap();
        let memory = GuestMemoryAtomic::new(memory);
        let calls = Arc::new(Calls::new().unwrap());
        let [control, events] =
            [(); 2].map(|()| Arc::new(Ring::new(memory.clone(), Arc::clone(&calls)).unwrap()));
        events.set_addresses(TABLE, RINGS, USED).unwrap();
        events.set_ready();
        events.set_enabled(true);
        (Arc::new(QueuePort::new([control, events], wake(), None)), memory)
    }

    /// The driver's part: offers its `number`th buffer, counted from 0.
    fn offer(memory: &GuestMemoryAtomic<GuestMemoryMmap>, number: u16) {
        let memory = memory.memory();
        let (length, flags) = (size_of::<Event>() as u32, FLAG_WRITE);
        let descriptor = TABLE + 16 * u64::from(number);
        memory.write_obj(0x3000u64, GuestAddress(descriptor)).unwrap();
        memory.write_obj(length, GuestAddress(descriptor + 8)).unwrap();
        memory.write_obj(flags, GuestAddress(descriptor + 12)).unwrap();
        memory.write_obj(number, GuestAddress(INDEX + 2 + 2 * u64::from(number))).unwrap();
        memory.write_obj(number + 1, GuestAddress(INDEX)).unwrap();
    }

    /// Events that were delivered, and whether the device wants kicks.
    fn seen(memory: &GuestMemoryAtomic<GuestMemoryMmap>) -> (u16, bool) {
        let memory = memory.memory();
        let flags: u16 = memory.read_obj(GuestAddress(USED)).unwrap();
        (memory.read_obj(GuestAddress(USED + 2)).unwrap(), flags & NO_KICKS == 0)
    }

    #[test]
    fn a_driver_is_to_kick_only_while_an_event_waits_for_a_buffer() {
        let (port, memory) = event_port();
        send_event(&port);
        send_event(&port);
        assert_eq!(seen(&memory), (0, true));
        offer(&memory, 0);
        port.deliver_events();
        assert_eq!(seen(&memory), (1, true), "one event waits still");
        offer(&memory, 1);
        port.deliver_events();
        assert_eq!(seen(&memory), (2, false));
        // No kick comes with this one.
        offer(&memory, 2);
        send_event(&port);
        assert_eq!(seen(&memory), (3, false));
        send_event(&port);
        assert_eq!(seen(&memory), (3, true));
    }

    #[test]
    fn a_queue_that_stops_is_left_to_the_next_device_with_kicks() {
        let (port, memory) = event_port();
        offer(&memory, 0);
        send_event(&port);
        assert_eq!(seen(&memory), (1, false));
        port.events.stop();
        assert_eq!(seen(&memory), (1, true));
    }

    #[test]
    fn what_is_sent_touches_no_memory_of_the_guest_s_until_its_thread_hands_it_out() {
        let (port, memory) = event_port();
        offer(&memory, 0);
        let kernel = KernelPort(Arc::clone(&port));
        let is_awake = || {
            let now = rustix::event::Timespec::default();
            let mut wake = [PollFd::new(&port.wake, PollFlags::IN)];
            poll(&mut wake, Some(&now)).unwrap() == 1
        };
        assert!(!is_awake() && lock(&port.outbox).letters.is_empty());
        // Its thread stands in its memory meanwhile, and holds what it holds then.
        let stands = lock(&port.undelivered);
        for _ in 0..=MAX_UNDELIVERED {
            kernel.event(Event::new_zeroed());
        }
        assert!(is_awake() && !lock(&port.outbox).letters.is_empty());
        assert_eq!((lock(&port.outbox).letters.len(), seen(&memory)), (MAX_UNDELIVERED, (0, true)));
        drop(stands);
        port.hand_out();
        assert_eq!(lock(&port.outbox).events, MAX_UNDELIVERED - 1);
        assert_eq!(seen(&memory), (1, true));
    }

    #[test]
    fn a_reply_is_written_once_and_in_its_own_chain() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x4000)]).unwrap();
        let memory = GuestMemoryAtomic::new(memory);
        let calls = Arc::new(Calls::new().unwrap());
        let [control, events] =
            [(); 2].map(|()| Arc::new(Ring::new(memory.clone(), Arc::clone(&calls)).unwrap()));
        control.set_addresses(TABLE, RINGS, USED).unwrap();
        control.set_ready();
        control.set_enabled(true);
        let port = Arc::new(QueuePort::new([control, events], wake(), None));
        let (kernel, _mailbox) = control_plane::channel();
        offer(&memory, 0);
        port.take_requests(GuestId(1), &kernel);
        // The second one names no pending request.
        for _ in 0..2 {
            KernelPort(Arc::clone(&port)).reply(RequestToken(0), vec![7; 16]);
        }
        assert_eq!(seen(&memory).0, 0);
        port.hand_out();
        assert_eq!(seen(&memory).0, 1);
        let reply: [u8; 16] = memory.memory().read_obj(GuestAddress(0x3000)).unwrap();
        assert_eq!(reply, [7; 16]);
    }

    fn index(memory: &GuestMemoryAtomic<GuestMemoryMmap>) -> u16 {
        memory.memory().read_obj(GuestAddress(INDEX)).unwrap()
    }

    #[test]
    fn requests_that_offer_themselves_again_are_taken_once_around_the_queue() {
        let (port, memory) = endless_port();
        let (kernel, _mailbox) = control_plane::channel();
        // Without room, every chain is answered at once.
        for token in 0..u64::from(MAX_QUEUE_SIZE) {
            let writable = WritablePart::default();
            lock(&port.pending).replies.insert(RequestToken(u64::MAX - token), writable);
        }
        ends(move || port.take_requests(GuestId(1), &kernel));
        assert_eq!(index(&memory), 5 + MAX_QUEUE_SIZE);
    }

    #[test]
    fn buffers_that_are_too_small_for_an_event_delay_no_guest() {
        let (port, memory) = endless_port();
        ends(move || send_event(&port));
        assert_eq!(index(&memory), 5 + MAX_QUEUE_SIZE);
    }
}
