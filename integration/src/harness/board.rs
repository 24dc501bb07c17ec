// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state that all threads of a run share.

use crate::harness::flag::Flag;
use crate::harness::scenario::layout::Layout;
use crate::harness::scenario::{Scenario, Status};
use bellhop_protocol::control::Handle;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// The outcome of an action; the error says why it did not happen.
pub(super) type Outcome = Result<(), String>;

/// A message to the director, the thread that triggers events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// An event's condition is met.
    Met {
        /// The event.
        event: usize,
    },
    /// A guest has done all of its work.
    GuestDone,
}

/// A condition that a queue watches for.
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

/// A queue's state, as other threads see it.
#[derive(Debug, Default)]
struct Post {
    completed: AtomicU64,
    /// The number of the last submission.
    reached: AtomicU64,
    /// The HW queue's handle, 0 where there is none.
    handle: AtomicU64,
    ended: Flag,
    /// The waiters for bad packets to be submitted.
    bad_packets: Mutex<VecDeque<Sender<Outcome>>>,
    watches: Vec<Watch>,
}

/// The state of a run that all threads see.
#[derive(Debug)]
pub(super) struct Board {
    posts: Vec<Post>,
    /// Events that have happened.
    happened: Vec<Flag>,
    /// The duration is over: queues without a number of submissions end.
    over: Flag,
    /// All work ends, done or not.
    given_up: Flag,
    signals: Sender<Signal>,
    workers: Mutex<Vec<Thread>>,
}

/// No code panics while it holds one of these locks, so the data of a poisoned one is whole.
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
            if let Some(lane) = lanes.first() {
                posts[*lane].watches.push(Watch { event, awaited, is_met: AtomicBool::new(false) });
            }
        }
        Arc::new(Self {
            posts,
            happened: scenario.event.iter().map(|_| Flag::default()).collect(),
            over: Flag::default(),
            given_up: Flag::default(),
            signals,
            workers: Mutex::default(),
        })
    }

    pub(super) fn signal(&self, signal: Signal) {
        // An error means that the director has ended.
        let _ = self.signals.send(signal);
    }

    fn meet(&self, lane: usize, is_met: impl Fn(Awaited) -> bool) {
        for watch in &self.posts[lane].watches {
            if is_met(watch.awaited) && !watch.is_met.swap(true, Ordering::AcqRel) {
                self.signal(Signal::Met { event: watch.event });
            }
        }
    }

    /// Records that a queue has completed this number of submissions, and submitted up to number `reached`.
    pub(super) fn post_progress(&self, lane: usize, completed: u64, reached: u64) {
        let post = &self.posts[lane];
        post.completed.store(completed, Ordering::Release);
        post.reached.store(reached, Ordering::Release);
        self.meet(
            lane,
            |awaited| matches!(awaited, Awaited::Completed(count) if completed >= count),
        );
    }

    /// Records that a queue was created.
    pub(super) fn post_handle(&self, lane: usize, handle: Handle) {
        self.posts[lane].handle.store(handle.0, Ordering::Release);
    }

    /// The handle of the lane's last queue, if one was created.
    pub(super) fn handle(&self, lane: usize) -> Option<Handle> {
        let handle = self.posts[lane].handle.load(Ordering::Acquire);
        (handle != 0).then_some(Handle(handle))
    }

    /// Records the status that a queue's doorbell reads.
    pub(super) fn post_status(&self, lane: usize, status: Status) {
        self.meet(lane, |awaited| awaited == Awaited::Status(status));
    }

    /// Whether an event waits for a status of a queue's doorbell.
    pub(super) fn is_status_watched(&self, lane: usize) -> bool {
        let is_status = |watch: &Watch| {
            matches!(watch.awaited, Awaited::Status(_)) && !watch.is_met.load(Ordering::Relaxed)
        };
        self.posts[lane].watches.iter().any(is_status)
    }

    /// Records that a queue ended: it gets no more submissions.
    pub(super) fn post_end(&self, lane: usize) {
        let post = &self.posts[lane];
        post.ended.raise();
        for waiter in lock(&post.bad_packets).drain(..) {
            // An error means that the receiver is gone.
            let _ = waiter.send(Err("the queue had ended".into()));
        }
    }

    pub(super) fn has_ended(&self, lane: usize) -> bool {
        self.posts[lane].ended.is_raised()
    }

    pub(super) fn completed(&self, lane: usize) -> u64 {
        self.posts[lane].completed.load(Ordering::Acquire)
    }

    pub(super) fn reached(&self, lane: usize) -> u64 {
        self.posts[lane].reached.load(Ordering::Acquire)
    }

    /// Completed submissions of all queues.
    pub(super) fn all_completed(&self) -> u64 {
        (0..self.posts.len()).map(|lane| self.completed(lane)).sum()
    }

    /// Requests a bad packet in a queue.
    pub(super) fn order_bad_packet(&self, lane: usize, waiter: Sender<Outcome>) {
        lock(&self.posts[lane].bad_packets).push_back(waiter);
        if self.has_ended(lane) {
            self.post_end(lane);
        }
        self.wake();
    }

    /// Takes a waiter for a bad packet in a queue, if there is one.
    pub(super) fn take_bad_packet(&self, lane: usize) -> Option<Sender<Outcome>> {
        lock(&self.posts[lane].bad_packets).pop_front()
    }

    pub(super) fn post_event(&self, event: usize) {
        self.happened[event].raise();
        self.wake();
    }

    pub(super) fn has_happened(&self, event: usize) -> bool {
        self.happened[event].is_raised()
    }

    /// Ends the duration.
    pub(super) fn end(&self) {
        self.over.raise();
        self.wake();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_raised()
    }

    /// Stops all threads, whatever work is left.
    pub(super) fn give_up(&self) {
        self.given_up.raise();
        self.end();
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.is_raised()
    }

    /// Has the calling thread woken by changes of the board.
    pub(super) fn register(&self) {
        lock(&self.workers).push(std::thread::current());
    }

    /// Undoes [`Self::register`].
    pub(super) fn unregister(&self) {
        let own = std::thread::current().id();
        lock(&self.workers).retain(|thread| thread.id() != own);
    }

    /// Wakes every registered thread.
    pub(super) fn wake(&self) {
        lock(&self.workers).iter().for_each(Thread::unpark);
    }
}
