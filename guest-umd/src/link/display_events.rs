// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the event queue says about displays, kept for each process until its program looks.
//!
//! Source: Windows KMD overview, "Interrupt" and "Flip/Present".

use crate::link::agent_events::wanted;
use bellhop_protocol::control::agent::topology::WantedTopology;
use bellhop_protocol::event::{Event, EventKind, FlipOutcome, InputKind};
use std::collections::VecDeque;
use std::time::Duration;

/// Most events of a kind that are kept. The oldest are forgotten: a program that does not look wants none of them.
const MOST: usize = 1024;

/// A monitor began a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vsync {
    /// The source.
    pub source: u32,
    /// VSYNCs of the source since the commit.
    pub count: u64,
    /// The flip that is shown, 0 for none.
    pub flip: u64,
    /// When, in ticks of the clock that [`Adapter::gpu_clock`](crate::Adapter::gpu_clock) reads.
    pub time: u64,
}

/// A flip has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flipped {
    /// The source.
    pub source: u32,
    /// The flip.
    pub flip: u64,
    /// How it ended.
    pub outcome: FlipOutcome,
    /// VSYNCs of the source since the commit.
    pub count: u64,
    /// When, in ticks of the clock that [`Adapter::gpu_clock`](crate::Adapter::gpu_clock) reads.
    pub time: u64,
}

/// A monitor was plugged in or unplugged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotPlug {
    /// The child: the connector's number.
    pub child: u32,
    /// Whether a monitor is plugged in now.
    pub is_connected: bool,
    /// Grows with each plug and unplug.
    pub generation: u32,
}

/// What somebody did who watches a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A key went down or up.
    Key {
        /// The source.
        source: u32,
        /// The key, as X11 numbers them.
        keysym: u32,
        /// Whether it went down.
        is_down: bool,
    },
    /// The pointer moved, or a button of it did.
    Pointer {
        /// The source.
        source: u32,
        /// From the left of the source, in pixels.
        x: u32,
        /// From the top of the source, in pixels.
        y: u32,
        /// The pressed buttons, one bit each: bit 0 is the left one.
        buttons: u16,
    },
}

impl HotPlug {
    pub(super) fn of(event: &Event) -> Self {
        Self {
            child: event.object as u32,
            is_connected: event.value == 1,
            generation: event.cookie as u32,
        }
    }
}

impl Input {
    fn of(event: &Event) -> Option<Self> {
        let (source, data) = (event.object as u32, event.cookie);
        match InputKind(event.value as u32) {
            InputKind::KEY => {
                Some(Self::Key { source, keysym: (data >> 1) as u32, is_down: data & 1 == 1 })
            }
            InputKind::POINTER => Some(Self::Pointer {
                source,
                x: (data >> 32) as u32,
                y: (data >> 16) as u32 & 0xFFFF,
                buttons: data as u16,
            }),
            // A later minor version may have more.
            _ => None,
        }
    }
}

/// The guest's agent wants monitors to show something else, and asks who shows something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopologyWanted {
    /// What is answered.
    pub request: ConsentRequest,
    /// What monitors shall show.
    pub wanted: WantedTopology,
    /// How long the program has for its answer: after that, its sources are taken.
    pub within: Duration,
}

/// Names a question of the agent's, which is answered once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsentRequest(pub(crate) u64);

impl TopologyWanted {
    /// The event; `None` if it is a later version's.
    fn of(event: &Event) -> Option<Self> {
        let within = Duration::from_millis(event.value >> 32);
        Some(Self { request: ConsentRequest(event.cookie), wanted: wanted(event)?, within })
    }
}

/// A queue that forgets its oldest entries.
#[derive(Debug)]
pub(crate) struct Recent<T>(VecDeque<T>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Recent<T> {
    /// Adds an entry, and forgets the oldest if there are too many.
    pub(super) fn push(&mut self, entry: T) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }

    /// Adds an entry, in place of the newest one if that is such a one, too.
    pub(super) fn replace(&mut self, entry: T, is_such: impl Fn(&T) -> bool) {
        self.0.pop_back_if(|newest| is_such(newest));
        self.push(entry);
    }

    /// Takes the oldest entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    /// Takes the oldest entry of which this is true.
    pub(crate) fn take(&mut self, is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let place = self.0.iter().position(is_wanted)?;
        self.0.remove(place)
    }

    /// Forgets all entries of which this is true.
    pub(crate) fn forget(&mut self, mut is_unwanted: impl FnMut(&T) -> bool) {
        self.0.retain(|entry| !is_unwanted(entry));
    }
}

/// The events of a process's display that its program has not looked at.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) vsyncs: Recent<Vsync>,
    pub(crate) flips: Recent<Flipped>,
    pub(crate) hot_plugs: Recent<HotPlug>,
    pub(crate) input: Recent<Input>,
    pub(crate) consents: Recent<TopologyWanted>,
    /// Whether the agent has taken sources of the process.
    pub(crate) is_taken: bool,
    /// The last number that a flip of the process got.
    last_flip: u64,
}

impl Inbox {
    /// A number for a flip, which no other of the process has.
    pub(crate) fn next_flip(&mut self) -> u64 {
        self.last_flip += 1;
        self.last_flip
    }

    /// Keeps an event of the process's, or of no process.
    pub(super) fn put(&mut self, event: &Event) {
        let Event { kind, object, value, cookie, time, outcome, .. } = *event;
        let (source, count) = (object as u32, cookie);
        match kind {
            EventKind::VSYNC => self.vsyncs.push(Vsync { source, count, flip: value, time }),
            EventKind::FLIPPED => {
                self.flips.push(Flipped { source, flip: value, outcome, count, time });
            }
            EventKind::CHILD_STATUS_CHANGED => self.hot_plugs.push(HotPlug::of(event)),
            EventKind::INPUT => {
                Input::of(event).into_iter().for_each(|input| self.input.push(input))
            }
            EventKind::CONSENT_WANTED => {
                TopologyWanted::of(event).into_iter().for_each(|asked| self.consents.push(asked));
            }
            EventKind::SOURCES_CHANGED => self.is_taken = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn event(kind: EventKind, value: u64, cookie: u64) -> Event {
        Event { kind, object: 2, value, cookie, ..Event::new_zeroed() }
    }

    #[test]
    fn input_is_read_as_the_protocol_lays_it_out() {
        let mut inbox = Inbox::default();
        // The key "a" goes down; the pointer at 1919, 1079 with buttons 1 and 3; something unknown.
        inbox.put(&event(EventKind::INPUT, 1, 0x61 << 1 | 1));
        inbox.put(&event(EventKind::INPUT, 2, 1919 << 32 | 1079 << 16 | 5));
        inbox.put(&event(EventKind::INPUT, 3, 0));
        let key = Input::Key { source: 2, keysym: 0x61, is_down: true };
        let pointer = Input::Pointer { source: 2, x: 1919, y: 1079, buttons: 5 };
        assert_eq!([inbox.input.pop(), inbox.input.pop()], [Some(key), Some(pointer)]);
        assert_eq!(inbox.input.pop(), None);
    }

    #[test]
    fn a_program_that_does_not_look_has_the_newest_events_only() {
        let mut inbox = Inbox::default();
        (1..=MOST as u64 + 3).for_each(|count| inbox.put(&event(EventKind::VSYNC, 0, count)));
        assert_eq!(inbox.vsyncs.pop().map(|vsync| vsync.count), Some(4));
        inbox.vsyncs.forget(|vsync| vsync.count < 9);
        assert_eq!(inbox.vsyncs.take(|vsync| vsync.count > 9).map(|vsync| vsync.count), Some(10));
        assert_eq!(inbox.vsyncs.pop().map(|vsync| vsync.count), Some(9));
        assert_eq!([inbox.next_flip(), inbox.next_flip()], [1, 2]);
    }
}
