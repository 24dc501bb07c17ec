// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events: one of the waiting threads reads the event queue for all of them.
//!
//! One waiting thread, the leader, blocks in the transport and distributes events; the others wait for the leader.
//! When the leader has its own event, another thread takes over.

use crate::error::{Error, QueueFault};
use crate::link::agent_events::{AgentEvent, PresenceChange};
use crate::link::display_events::{Inbox, Recent};
use crate::transport::{Transport, TransportError};
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::{Event, EventKind};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most events that are read without waiting.
const MOST_DRAINED: usize = 4096;

/// The cookie of no wait.
pub(crate) const NO_WAIT: u64 = 0;

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
    last_cookie: u64,
    /// Waits by cookie, and whether each is satisfied.
    waits: HashMap<u64, bool>,
    faults: HashMap<QueueKey, QueueFault>,
    /// Bytes that each process should evict, as last reported by the device.
    trims: HashMap<u32, u64>,
    /// What the displays of processes that have one opened have said.
    displays: HashMap<u32, Inbox>,
    /// What agents were told. A guest has one at most, and each process may try.
    agents: HashMap<u32, Recent<AgentEvent>>,
    /// That the device stops, or is started.
    presence: Recent<PresenceChange>,
}

/// A wait that an event will satisfy. Removed on drop.
pub(crate) struct Wait<'a> {
    pump: &'a EventPump,
    cookie: u64,
}

impl EventPump {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Locks the state. No code panics while it holds the lock, so the state behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a wait. Called before the request, so that its event finds the wait.
    pub(crate) fn begin_wait(&self) -> Wait<'_> {
        let mut state = self.lock();
        state.last_cookie += 1;
        let cookie = state.last_cookie;
        state.waits.insert(cookie, false);
        Wait { pump: self, cookie }
    }

    /// The fault of a lost queue. Reads events for a moment: a broker may be about to pass one on.
    pub(crate) fn fault(&self, process: u32, queue: Handle) -> Option<QueueFault> {
        let state = self.lock();
        let until = Instant::now() + Duration::from_millis(500);
        let done = |state: &mut State| state.faults.contains_key(&(process, queue)).then_some(());
        let (state, _) = self.read_events(state, until, done).ok()?;
        state.faults.get(&(process, queue)).copied()
    }

    /// The fault of a lost queue, if its event was already read.
    pub(crate) fn known_fault(&self, process: u32, queue: Handle) -> Option<QueueFault> {
        self.lock().faults.get(&(process, queue)).copied()
    }

    /// Removes a destroyed queue.
    pub(crate) fn forget(&self, process: u32, queue: Handle) {
        self.lock().faults.remove(&(process, queue));
    }

    /// Waits until the device asks a process to trim; returns the number of bytes.
    pub(crate) fn wait_for_trim(
        &self,
        process: u32,
        timeout: Duration,
    ) -> Result<Option<u64>, Error> {
        let done = |state: &mut State| state.trims.remove(&process);
        let state = self.lock();
        Ok(self.read_events(state, deadline(timeout), done)?.1)
    }

    /// From now on, keeps the events of a process's display.
    pub(crate) fn open_display(&self, process: u32) {
        self.lock().displays.entry(process).or_default();
    }

    /// Acts on what a process's display has said so far.
    pub(crate) fn with_display<R>(&self, process: u32, act: impl FnOnce(&mut Inbox) -> R) -> R {
        act(self.lock().displays.entry(process).or_default())
    }

    /// Waits until `take` finds what it looks for in what a process's display says. `None` if it never does.
    pub(crate) fn wait_for_display<R>(
        &self,
        process: u32,
        timeout: Duration,
        take: impl Fn(&mut Inbox) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        let done = |state: &mut State| take(state.displays.get_mut(&process)?);
        let state = self.lock();
        Ok(self.read_events(state, deadline(timeout), done)?.1)
    }

    /// From now on, keeps the events of a process that is the guest's agent.
    pub(crate) fn open_agent(&self, process: u32) {
        self.lock().agents.entry(process).or_default();
    }

    /// The process is no longer the agent.
    pub(crate) fn forget_agent(&self, process: u32) {
        self.lock().agents.remove(&process);
    }

    /// Waits for the agent's next event. `None` if none comes in time.
    pub(crate) fn wait_for_agent(
        &self,
        process: u32,
        timeout: Duration,
    ) -> Result<Option<AgentEvent>, Error> {
        let done = |state: &mut State| state.agents.get_mut(&process)?.pop();
        let state = self.lock();
        Ok(self.read_events(state, deadline(timeout), done)?.1)
    }

    /// Waits until the device stops or is started, unless that has happened. `None` if it does not happen in time.
    pub(crate) fn wait_for_presence(
        &self,
        timeout: Duration,
    ) -> Result<Option<PresenceChange>, Error> {
        let state = self.lock();
        Ok(self.read_events(state, deadline(timeout), |state| state.presence.pop())?.1)
    }

    /// Reads the events that are there, without waiting, unless another thread reads them.
    pub(crate) fn drain(&self) -> Result<(), Error> {
        let mut state = self.lock();
        // The bound holds a device that never stops.
        for _ in 0..MOST_DRAINED {
            if state.has_leader {
                break;
            }
            state.has_leader = true;
            drop(state);
            let event = self.transport.next_event(Some(Duration::ZERO));
            state = self.lock();
            state.has_leader = false;
            self.changed.notify_all();
            match event? {
                Some(event) => state.take(&event),
                None => break,
            }
        }
        Ok(())
    }

    /// Removes a process that ended.
    pub(crate) fn forget_process(&self, process: u32) {
        let mut state = self.lock();
        state.trims.remove(&process);
        state.displays.remove(&process);
        state.agents.remove(&process);
    }

    /// Reads events, or waits for the leader, until `done` returns a result or the deadline passes.
    fn read_events<'a, R>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Instant,
        done: impl Fn(&mut State) -> Option<R>,
    ) -> Result<(MutexGuard<'a, State>, Option<R>), TransportError> {
        loop {
            if let Some(result) = done(&mut state) {
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
            let event = event?;
            if let Some(event) = event {
                state.take(&event);
            }
        }
    }
}

impl State {
    fn take(&mut self, event: &Event) {
        match event.kind {
            EventKind::FENCE_SIGNALED => {
                // An abandoned wait is no longer listed.
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
            EventKind::VSYNC | EventKind::FLIPPED | EventKind::INPUT => {
                if let Some(inbox) = self.displays.get_mut(&event.process) {
                    inbox.put(event);
                }
            }
            EventKind::CHILD_STATUS_CHANGED => {
                self.displays.values_mut().for_each(|inbox| inbox.put(event));
                if let Some(told) = AgentEvent::of(event) {
                    self.agents.values_mut().for_each(|inbox| inbox.push(told));
                }
            }
            EventKind::PRESENCE_CHANGED => {
                PresenceChange::of(event).into_iter().for_each(|change| self.presence.push(change));
            }
            EventKind::CONSENT_WANTED => {
                if let Some(inbox) = self.displays.get_mut(&event.process) {
                    inbox.put(event);
                }
            }
            EventKind::SOURCES_CHANGED if !self.agents.contains_key(&event.process) => {
                if let Some(inbox) = self.displays.get_mut(&event.process) {
                    inbox.put(event);
                }
            }
            // A later minor version may send events that this driver does not need.
            _ => {
                if let Some(inbox) = self.agents.get_mut(&event.process)
                    && let Some(told) = AgentEvent::of(event)
                {
                    inbox.replace(told, |before| {
                        let of =
                            |event: &AgentEvent| matches!(event, AgentEvent::SourcesOfPrograms(_));
                        of(before) && of(&told)
                    });
                }
            }
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

    /// Waits for the event, for the loss of one of `queues`, or until `are_there` finds the fences reached: the
    /// device may notify the driver before it sends the event, and then no thread waits for the event.
    pub(crate) fn finish(
        &self,
        queues: &[QueueKey],
        timeout: Duration,
        are_there: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let deadline = deadline(timeout);
        let done = |state: &mut State| {
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
