// SPDX-License-Identifier: MIT OR Apache-2.0

//! What wakes a program: the pipe of its events, and the guest's interrupts.
//!
//! The broker reads an event, and writes it into the pipe of the program that it concerns: two wake-ups. But a fence is in the
//! program's own memory, and has its value before the device interrupts. So a program that waits is woken by the interrupt
//! itself, at once with the broker, and looks; what it waited for is mostly there. If it is not, or the broker was faster to take
//! the interrupt, the pipe still tells.
//!
//! Interrupts are those of all the guest's programs. After so many without an event of its own a program leaves them alone.

use super::channel::{again, failed, gone};
use crate::transport::TransportError;
use bellhop_protocol::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use zerocopy::{FromZeros as _, IntoBytes as _};

/// Interrupts that wake a program between two events of its own: what other programs can cost it.
const MOST_INTERRUPTS: u32 = 64;

/// A program's end of both.
pub(super) struct Events {
    pipe: OwnedFd,
    interrupts: OwnedFd,
    /// Interrupts since the last event. Relaxed: it hands nothing over, and one more or less matters to nobody.
    since: AtomicU32,
}

impl Events {
    pub(super) fn new(pipe: OwnedFd, interrupts: OwnedFd) -> Self {
        Self { pipe, interrupts, since: AtomicU32::new(0) }
    }

    /// Waits for the next event; `None` when the time is over, or the device has interrupted the guest.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut both =
            [PollFd::new(&self.pipe, PollFlags::IN), PollFd::new(&self.interrupts, PollFlags::IN)];
        let is_woken = self.since.load(Ordering::Relaxed) < MOST_INTERRUPTS;
        let descriptors = if is_woken { &mut both[..] } else { &mut both[..1] };
        match poll(descriptors, timeout.as_ref()) {
            // An interrupted wait may return early.
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(TransportError::Io("poll", error.into())),
        }
        let [pipe, _] = &both;
        if pipe.revents().is_empty() {
            self.take_interrupt();
            return Ok(None);
        }
        self.since.store(0, Ordering::Relaxed);
        let mut event = Event::new_zeroed();
        let length = again(|| read(&self.pipe, event.as_mut_bytes()));
        match length.map_err(failed("cannot read the broker's events"))? {
            0 => Err(gone()),
            length if length == size_of::<Event>() => Ok(Some(event)),
            // The broker writes whole events.
            _ => Err(TransportError::Protocol("a piece of an event came from the broker".into())),
        }
    }

    /// Has the same interrupt wake this program no more.
    fn take_interrupt(&self) {
        self.since.fetch_add(1, Ordering::Relaxed);
        let mut taken = [MaybeUninit::<epoll::Event>::uninit()];
        // Whatever came of it, the pipe tells of events.
        let _ = epoll::wait(&self.interrupts, &mut taken[..], Some(&Timespec::default()));
    }

    /// Fails if the broker has closed the pipe.
    pub(super) fn check(&self) -> Result<(), TransportError> {
        let mut pipe = [PollFd::new(&self.pipe, PollFlags::empty())];
        match poll(&mut pipe, Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => Err(gone()),
            Err(error) => Err(TransportError::Io("poll", error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::write;
    use rustix::pipe::pipe;

    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    /// A program's end, the broker's end of the pipe, and the device's interrupt.
    fn events() -> (Events, OwnedFd, OwnedFd) {
        let (its, own) = pipe().unwrap();
        let interrupt = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&watch, &interrupt, epoll::EventData::new_u64(0), flags).unwrap();
        (Events::new(its, watch), own, interrupt)
    }

    fn raise(interrupt: &OwnedFd) {
        write(interrupt, &1u64.to_ne_bytes()).unwrap();
    }

    #[test]
    fn each_interrupt_wakes_a_program_once_and_nobody_takes_it_from_the_broker() {
        let (events, _own, interrupt) = events();
        for raised in 1..=3u64 {
            raise(&interrupt);
            assert!(events.next(LONG).unwrap().is_none());
            assert!(events.next(Some(Duration::ZERO)).unwrap().is_none());
            assert_eq!(events.since.load(Ordering::Relaxed), raised as u32, "it is told once");
        }
        let mut count = [0; 8];
        read(&interrupt, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 3);
    }

    #[test]
    fn an_event_is_read_before_interrupts_are_looked_at() {
        let (events, own, interrupt) = events();
        raise(&interrupt);
        write(&own, Event::new_zeroed().as_bytes()).unwrap();
        assert!(events.next(LONG).unwrap().is_some());
        assert!(events.next(LONG).unwrap().is_none());
    }

    #[test]
    fn interrupts_for_others_wake_a_program_so_often_until_it_has_an_event_of_its_own() {
        let (events, own, interrupt) = events();
        for _ in 0..MOST_INTERRUPTS {
            raise(&interrupt);
            assert!(events.next(LONG).unwrap().is_none());
        }
        raise(&interrupt);
        assert!(events.next(Some(Duration::from_millis(1))).unwrap().is_none());
        assert_eq!(events.since.load(Ordering::Relaxed), MOST_INTERRUPTS, "it was woken once more");
        write(&own, Event::new_zeroed().as_bytes()).unwrap();
        assert!(events.next(LONG).unwrap().is_some());
        // The one that it did not look at.
        assert!(events.next(LONG).unwrap().is_none());
    }

    #[test]
    fn the_end_of_the_broker_is_told_whatever_interrupts() {
        let (events, own, interrupt) = events();
        raise(&interrupt);
        drop(own);
        assert!(matches!(events.next(LONG), Err(TransportError::Disconnected(_))));
    }
}
