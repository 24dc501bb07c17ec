// SPDX-License-Identifier: MIT OR Apache-2.0

//! What all threads of a run know of each other.

use crate::harness::scenario::layout::Layout;
use crate::harness::scenario::{Scenario, Status};
use bellhop_protocol::control::Handle;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// What came of something that was to be done; the error says why it was not.
pub(super) type Outcome = Result<(), String>;

/// What the thread that makes events happen is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// An event's condition is met.
    Met {
        /// The event.
        event: usize,
    },
    /// A guest has done all that it had to do.
    GuestDone,
}

/// A condition that a queue looks out for.
#[derive(Debug)]
struct Watch {
    event: usize,
    awaited: Awaited,
    is_met: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Completed(u64),
    Status(Status),
}

/// What others see of a queue.
#[derive(Debug, Default)]
struct Post {
    completed: AtomicU64,
    /// The number of the last submission.
    reached: AtomicU64,
    /// The HW queue's handle, 0 where there is none.
    handle: AtomicU64,
    has_ended: AtomicBool,
    /// Who waits for bad packets to be submitted.
    bad_packets: Mutex<VecDeque<Sender<Outcome>>>,
    watches: Vec<Watch>,
}

/// What everybody sees.
#[derive(Debug)]
pub(super) struct Board {
    posts: Vec<Post>,
    /// Events that have happened.
    happened: Vec<AtomicBool>,
    /// The duration is over: queues without a number of submissions come to their end.
    is_over: AtomicBool,
    /// Everything comes to its end, done or not.
    is_given_up: AtomicBool,
    signals: Sender<Signal>,
    workers: Mutex<Vec<Thread>>,
}

/// No code panics while it holds one of these locks, so what one guards is whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    pub(super) fn new(scenario: &Scenario, layout: &Layout, signals: Sender<Signal>) -> Arc<Self> {
        let mut posts: Vec<Post> = layout.lanes.iter().map(|_| Post::default()).collect();
        for (event, spec) in scenario.event.iter().enumerate() {
            let Some(condition) = &spec.when else { continue };
            let lanes = layout.lanes(condition.queue.as_deref().unwrap_or_default());
            let awaited = match (condition.completed, condition.status) {
                (Some(completed), _) => Awaited::Completed(completed),
                (None, Some(status)) => Awaited::Status(status),
                (None, None) => continue,
            };
            if let Some(post) = lanes.first().and_then(|lane| posts.get_mut(*lane)) {
                post.watches.push(Watch { event, awaited, is_met: AtomicBool::new(false) });
            }
        }
        Arc::new(Self {
            posts,
            happened: scenario.event.iter().map(|_| AtomicBool::new(false)).collect(),
            is_over: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            signals,
            workers: Mutex::default(),
        })
    }

    pub(super) fn signal(&self, signal: Signal) {
        // An error means that nothing happens any more.
        let _ = self.signals.send(signal);
    }

    fn meet(&self, lane: usize, is_met: impl Fn(Awaited) -> bool) {
        for watch in self.posts.get(lane).map_or(&[][..], |post| &post.watches) {
            if is_met(watch.awaited) && !watch.is_met.swap(true, Ordering::AcqRel) {
                self.signal(Signal::Met { event: watch.event });
            }
        }
    }

    /// A queue has completed this number of submissions, and submitted up to number `reached`.
    pub(super) fn post_progress(&self, lane: usize, completed: u64, reached: u64) {
        let Some(post) = self.posts.get(lane) else { return };
        post.completed.store(completed, Ordering::Release);
        post.reached.store(reached, Ordering::Release);
        self.meet(
            lane,
            |awaited| matches!(awaited, Awaited::Completed(count) if completed >= count),
        );
    }

    /// A queue was created.
    pub(super) fn post_handle(&self, lane: usize, handle: Handle) {
        if let Some(post) = self.posts.get(lane) {
            post.handle.store(handle.0, Ordering::Release);
        }
    }

    /// The queue that was created last, if one was.
    pub(super) fn handle(&self, lane: usize) -> Option<Handle> {
        let handle = self.posts.get(lane)?.handle.load(Ordering::Acquire);
        (handle != 0).then_some(Handle(handle))
    }

    /// A queue's doorbell reads this.
    pub(super) fn post_status(&self, lane: usize, status: Status) {
        self.meet(lane, |awaited| awaited == Awaited::Status(status));
    }

    /// Whether an event waits for what a queue's doorbell reads.
    pub(super) fn is_status_watched(&self, lane: usize) -> bool {
        let is_status = |watch: &Watch| {
            matches!(watch.awaited, Awaited::Status(_)) && !watch.is_met.load(Ordering::Relaxed)
        };
        self.posts.get(lane).is_some_and(|post| post.watches.iter().any(is_status))
    }

    /// Nothing more is submitted to a queue.
    pub(super) fn post_end(&self, lane: usize) {
        let Some(post) = self.posts.get(lane) else { return };
        post.has_ended.store(true, Ordering::Release);
        for waiter in lock(&post.bad_packets).drain(..) {
            // An error means that the receiver is gone.
            let _ = waiter.send(Err("the queue had ended".into()));
        }
    }

    pub(super) fn has_ended(&self, lane: usize) -> bool {
        self.posts.get(lane).is_none_or(|post| post.has_ended.load(Ordering::Acquire))
    }

    pub(super) fn completed(&self, lane: usize) -> u64 {
        self.posts.get(lane).map_or(0, |post| post.completed.load(Ordering::Acquire))
    }

    pub(super) fn reached(&self, lane: usize) -> u64 {
        self.posts.get(lane).map_or(0, |post| post.reached.load(Ordering::Acquire))
    }

    /// Submissions that were completed, of all queues.
    pub(super) fn all_completed(&self) -> u64 {
        (0..self.posts.len()).map(|lane| self.completed(lane)).sum()
    }

    /// Asks for a bad packet in a queue.
    pub(super) fn order_bad_packet(&self, lane: usize, waiter: Sender<Outcome>) {
        let Some(post) = self.posts.get(lane) else { return };
        lock(&post.bad_packets).push_back(waiter);
        if self.has_ended(lane) {
            self.post_end(lane);
        }
        self.wake();
    }

    /// The waiter for a bad packet in a queue, if there is one.
    pub(super) fn take_bad_packet(&self, lane: usize) -> Option<Sender<Outcome>> {
        lock(&self.posts.get(lane)?.bad_packets).pop_front()
    }

    pub(super) fn post_event(&self, event: usize) {
        if let Some(happened) = self.happened.get(event) {
            happened.store(true, Ordering::Release);
            self.wake();
        }
    }

    pub(super) fn has_happened(&self, event: usize) -> bool {
        self.happened.get(event).is_none_or(|happened| happened.load(Ordering::Acquire))
    }

    /// The duration is over.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// All threads stop, whatever is left to do.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
        self.end();
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// The calling thread wants to be woken by what happens here.
    pub(super) fn register(&self) {
        lock(&self.workers).push(std::thread::current());
    }

    /// It does not any more.
    pub(super) fn unregister(&self) {
        let own = std::thread::current().id();
        lock(&self.workers).retain(|thread| thread.id() != own);
    }

    /// Wakes every thread that waits for something to happen here.
    pub(super) fn wake(&self) {
        lock(&self.workers).iter().for_each(Thread::unpark);
    }
}
