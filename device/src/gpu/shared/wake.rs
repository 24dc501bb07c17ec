// SPDX-License-Identifier: MIT OR Apache-2.0

//! Wake-ups of an engine: its attention, and kicks of the guests with doorbells that it watches.
//!
//! A guest that finds its engine asleep kicks its event queue. The kick wakes the engines that watch its doorbells, and
//! nothing else: the first submission after a pause costs one wake-up. An engine that wakes looks at all its doorbells, so
//! a kick need not say which one rang. An engine waits on the kicks of a guest from before it first asks that guest to
//! notify, and a kick between two sleeps ends the next one, so no ring is lost. A driver that sends
//! `NOTIFY_WORK_SUBMISSION` instead is served by the control plane, at the cost of three wake-ups.

use super::event::Event;
use super::partition::Partition;
use bellhop_host_kmd::hardware::GuestId;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

/// The identifier of the event; guest ids begin at 1.
const EVENT: u64 = 0;
/// Maximum number of events to take from the kernel at once.
const READY: usize = 8;

/// The events that an engine sleeps on.
#[derive(Debug)]
pub struct Wake {
    event: Event,
    epoll: OwnedFd,
}

/// Why an engine's sleep was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// By [`Wake::signal`].
    Signaled,
    /// By a guest's kick.
    Kicked,
    /// By neither: the time is over.
    TimedOut,
    /// By something to read: see [`Wake::wait_beside`].
    Readable,
}

impl Wake {
    /// Nothing has woken the engine yet.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        let (event, epoll) = (Event::new()?, epoll::create(epoll::CreateFlags::CLOEXEC)?);
        epoll::add(&epoll, &event, epoll::EventData::new_u64(EVENT), epoll::EventFlags::IN)?;
        Ok(Self { event, epoll })
    }

    /// Wakes the engine, once per sleep.
    pub fn signal(&self) {
        self.event.signal();
    }

    /// Engine: sleeps until it is woken, and clears the signal.
    #[expect(clippy::disallowed_methods, reason = "an engine without work: until there is some")]
    pub fn wait(&self, until: Option<Instant>) -> Woken {
        let mut ready = [const { MaybeUninit::uninit() }; READY];
        loop {
            match epoll::wait(&self.epoll, ready.as_mut_slice(), left(until).as_ref()) {
                Err(Errno::INTR) => {}
                Ok(([], _)) => return Woken::TimedOut,
                Ok((ready, _)) if ready.iter().all(|event| event.data.u64() != EVENT) => {
                    return Woken::Kicked;
                }
                Ok(_) => {
                    self.event.clear();
                    return Woken::Signaled;
                }
                Err(error) => {
                    tracing::error!(%error, "an engine cannot sleep");
                    return Woken::Signaled;
                }
            }
        }
    }

    /// As [`Self::wait`], or until a socket can be read or its other end is closed.
    #[expect(
        clippy::disallowed_methods,
        reason = "an engine whose worker computes: until the worker, a guest or a thread wants it, or 10 ms"
    )]
    pub fn wait_beside(&self, socket: BorrowedFd<'_>, until: Instant) -> Woken {
        loop {
            let epoll = PollFd::new(&self.epoll, PollFlags::IN);
            let mut ready = [PollFd::new(&socket, PollFlags::IN), epoll];
            match poll(&mut ready, left(Some(until)).as_ref()) {
                Err(Errno::INTR) => {}
                Ok(0) => return Woken::TimedOut,
                Ok(_) if !ready[0].revents().is_empty() => return Woken::Readable,
                // It says more than Linux then finds, if what was signaled was taken meanwhile.
                Ok(_) => match self.wait(Some(Instant::now())) {
                    Woken::TimedOut => {}
                    woken => return woken,
                },
                Err(error) => {
                    tracing::error!(%error, "an engine cannot sleep beside its worker");
                    return Woken::TimedOut;
                }
            }
        }
    }

    fn add(&self, kick: BorrowedFd<'_>, guest: u64) -> io::Result<()> {
        // Edge-triggered: nobody takes the kick, since several engines may wait on it. But the guest's thread does while
        // an event waits for a buffer, perhaps before the engine runs. So the descriptor is also polled for writing,
        // which is always possible, and there is something to report even then: the kernel drops an edge with nothing
        // left to report.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, kick, epoll::EventData::new_u64(guest), flags)?)
    }

    fn remove(&self, kick: BorrowedFd<'_>) {
        // The guest has the same open file, so closing this descriptor would not suffice.
        if let Err(error) = epoll::delete(&self.epoll, kick) {
            tracing::debug!(%error, "cannot stop a guest's kicks from waking an engine");
        }
    }
}

/// The time that is left. One that does not fit counts as none.
fn left(until: Option<Instant>) -> Option<Timespec> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    left.and_then(|left| Timespec::try_from(left).ok())
}

/// The guests with kicks that wake an engine.
#[derive(Debug, Default)]
pub struct Kicking(HashMap<GuestId, Kicker>);

#[derive(Debug, Default)]
struct Kicker {
    /// Number of its doorbells that the engine watches.
    doorbells: usize,
    /// Whether its kicks wake the engine.
    wakes: bool,
}

impl Kicking {
    /// Engine: counts a watched doorbell of the guest, so that the guest's kicks wake the engine.
    pub fn add(&mut self, wake: &Wake, guest: &Partition) {
        let kicker = self.0.entry(guest.id()).or_default();
        kicker.doorbells += 1;
        if let Some(kick) = guest.kick()
            && !kicker.wakes
        {
            match wake.add(kick, guest.id().0) {
                Ok(()) => kicker.wakes = true,
                // Linux is out of memory, or has no more watches for the user. A ring would find nobody awake.
                Err(error) => {
                    let guest_id = guest.id().0;
                    tracing::error!(guest = guest_id, %error, "the guest's kicks cannot wake an engine; its connection ends");
                    guest.hang_up();
                }
            }
        }
    }

    /// Engine: uncounts a watched doorbell. Kicks of a guest without any no longer wake it.
    pub fn remove(&mut self, wake: &Wake, guest: &Partition) {
        let Entry::Occupied(mut kicker) = self.0.entry(guest.id()) else { return };
        kicker.get_mut().doorbells -= 1;
        if kicker.get().doorbells == 0 {
            let kicker = kicker.remove();
            if let Some(kick) = guest.kick().filter(|_| kicker.wakes) {
                wake.remove(kick);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(1))
    }

    #[test]
    fn a_signal_wakes_once_and_a_kick_wakes_once_whether_or_not_it_was_taken() {
        let wake = Wake::new().unwrap();
        let kick = Event::new().unwrap();
        wake.add(kick.as_fd(), 7).unwrap();
        wake.signal();
        assert_eq!([wake.wait(None), wake.wait(soon())], [Woken::Signaled, Woken::TimedOut]);
        kick.signal();
        assert_eq!([wake.wait(None), wake.wait(soon())], [Woken::Kicked, Woken::TimedOut]);
        kick.signal();
        kick.clear();
        assert_eq!([wake.wait(None), wake.wait(soon())], [Woken::Kicked, Woken::TimedOut]);
        kick.signal();
        wake.signal();
        assert_eq!([wake.wait(None), wake.wait(soon())], [Woken::Signaled, Woken::TimedOut]);
        wake.remove(kick.as_fd());
        kick.signal();
        assert_eq!(wake.wait(soon()), Woken::TimedOut);
    }

    #[test]
    fn beside_a_socket_each_of_the_three_wakes() {
        let wake = Wake::new().unwrap();
        let (kick, socket) = (Event::new().unwrap(), Event::new().unwrap());
        wake.add(kick.as_fd(), 7).unwrap();
        let wait = || wake.wait_beside(socket.as_fd(), soon().unwrap());
        // The kick is reported when it is added, since it can be written.
        assert_eq!([wait(), wait()], [Woken::Kicked, Woken::TimedOut]);
        kick.signal();
        assert_eq!([wait(), wait()], [Woken::Kicked, Woken::TimedOut]);
        wake.signal();
        assert_eq!([wait(), wait()], [Woken::Signaled, Woken::TimedOut]);
        socket.signal();
        kick.signal();
        assert_eq!([wait(), wait()], [Woken::Readable; 2]);
        socket.clear();
        assert_eq!([wait(), wait()], [Woken::Kicked, Woken::TimedOut]);
    }
}
