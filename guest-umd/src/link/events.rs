// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events: one waiting thread reads the event queue for all.
//!
//! Of the threads that wait, the leader blocks in the transport, and hands out what comes; the others
//! wait for the leader. When the leader has its own event, another thread takes its place.

use crate::error::{Error, QueueFault};
use crate::transport::{Transport, TransportError};
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::{Event, EventKind};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A queue, by its process and its handle.
type QueueKey = (u32, Handle);

pub(crate) struct EventPump {
    transport: Arc<dyn Transport>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    has_leader: bool,
    next_cookie: u64,
    /// Waits by cookie, and whether each is satisfied.
    waits: HashMap<u64, bool>,
    faults: HashMap<QueueKey, QueueFault>,
    /// Bytes that each process should evict, as the device last said.
    trims: HashMap<u32, u64>,
}

/// A wait that an event will satisfy. Forgotten when dropped.
pub(crate) struct Wait<'a> {
    pump: &'a EventPump,
    cookie: u64,
}

impl EventPump {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Locks the state. No code panics while it holds the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a wait. Called before the device is asked, so that its event finds the wait.
    pub(crate) fn begin_wait(&self) -> Wait<'_> {
        let mut state = self.lock();
        state.next_cookie += 1;
        let cookie = state.next_cookie;
        state.waits.insert(cookie, false);
        Wait { pump: self, cookie }
    }

    /// Why a queue is lost. Reads events for a moment, since the status word may be ahead of the event.
    pub(crate) fn fault(&self, process: u32, queue: Handle) -> Option<QueueFault> {
        let state = self.lock();
        // The device sends the event right after it stores the status.
        let until = Instant::now() + Duration::from_millis(500);
        let done = |state: &State| state.faults.contains_key(&(process, queue)).then_some(());
        let (state, _) = self.read_events(state, until, done).ok()?;
        state.faults.get(&(process, queue)).copied()
    }

    /// Why a queue is lost, if the event was read already.
    pub(crate) fn known_fault(&self, process: u32, queue: Handle) -> Option<QueueFault> {
        self.lock().faults.get(&(process, queue)).copied()
    }

    /// Forgets a queue that was destroyed.
    pub(crate) fn forget(&self, process: u32, queue: Handle) {
        self.lock().faults.remove(&(process, queue));
    }

    /// Waits until the device asks a process to trim; returns how many bytes.
    pub(crate) fn wait_for_trim(
        &self,
        process: u32,
        timeout: Duration,
    ) -> Result<Option<u64>, Error> {
        let done = |state: &State| state.trims.contains_key(&process).then_some(());
        let state = self.lock();
        let (mut state, _) = self.read_events(state, deadline(timeout), done)?;
        Ok(state.trims.remove(&process))
    }

    /// Forgets a process that ended.
    pub(crate) fn forget_process(&self, process: u32) {
        self.lock().trims.remove(&process);
    }

    /// Reads events, or waits for the leader, until `done` says so or the time is over.
    fn read_events<'a, R>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Instant,
        done: impl Fn(&State) -> Option<R>,
    ) -> Result<(MutexGuard<'a, State>, Option<R>), TransportError> {
        loop {
            if let Some(result) = done(&state) {
                return Ok((state, Some(result)));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok((state, None));
            }
            if state.has_leader {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.has_leader = true;
            drop(state);
            let event = self.transport.next_event(Some(left));
            state = self.lock();
            state.has_leader = false;
            self.changed.notify_all();
            if let Some(event) = event? {
                state.take(&event);
            }
        }
    }
}

impl State {
    fn take(&mut self, event: &Event) {
        match event.kind {
            EventKind::FENCE_SIGNALED => {
                // A wait that was given up is forgotten.
                if let Some(satisfied) = self.waits.get_mut(&event.cookie) {
                    *satisfied = true;
                }
            }
            EventKind::HW_QUEUE_ERROR => {
                let key = (event.process, Handle(event.object));
                self.faults.insert(key, QueueFault::from(event));
            }
            EventKind::TRIM_RESIDENCY => {
                self.trims.insert(event.process, event.value);
            }
            // A later minor version may send events that this driver does not need.
            _ => {}
        }
    }
}

/// The instant `timeout` from now.
fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + Duration::from_secs(1 << 30))
}

impl Wait<'_> {
    /// The number by which requests and events name the wait.
    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Waits for the event, for the loss of one of `queues`, or until a look at the fences says that they are
    /// there: the device may notify the driver of that before it sends the event, which no thread waits for then.
    pub(crate) fn finish(
        &self,
        queues: &[QueueKey],
        timeout: Duration,
        are_there: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let deadline = deadline(timeout);
        let done = |state: &State| {
            if state.waits.get(&self.cookie) == Some(&true) || are_there() {
                return Some(Ok(()));
            }
            let lost = queues.iter().find_map(|key| Some((key.1, *state.faults.get(key)?)));
            lost.map(|(queue, fault)| Err(Error::QueueLost { queue, fault: Some(fault) }))
        };
        let state = self.pump.lock();
        let result = self.pump.read_events(state, deadline, done)?.1;
        result.unwrap_or(Err(Error::Timeout { value: 0, current: 0 }))
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.pump.lock().waits.remove(&self.cookie);
    }
}
