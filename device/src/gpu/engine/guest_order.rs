// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which guest gets the next turn.
//!
//! A guest's virtual time advances by the engine time that it consumed, divided by its weight. The guest with the
//! least virtual time goes next (start-time fair queueing). A guest that was idle continues at the virtual time of
//! the others: it does not save time up.
//!
//! A guest that loses its last waiting queue before its turn keeps its place in the order, and is skipped when the
//! place comes up. So, when a guest destroys a queue, the engine does not search the other guests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A guest of this weight is charged the time as it is.
const UNIT_WEIGHT: u128 = 1 << 20;

/// A guest's place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It has no work, or is being served.
    Out,
    /// It waits for its turn.
    Waits,
    /// It has a place in the order, but no work.
    Left,
}

#[derive(Debug)]
struct GuestTime {
    virtual_time: u128,
    place: Place,
}

/// Guests in the order of their turns, by index.
#[derive(Debug, Default)]
pub struct GuestOrder {
    guests: Vec<GuestTime>,
    /// Places, least virtual time first: one for each guest that is not out. Empty if no guest waits.
    order: BinaryHeap<Reverse<(u128, u32)>>,
    /// The number of guests that wait.
    waiting: usize,
    /// The virtual time of the last guest that was served.
    clock: u128,
}

impl GuestOrder {
    /// Adds a guest. Its index has no place in the order.
    pub fn add(&mut self, guest: u32) {
        while self.guests.len() <= guest as usize {
            self.guests.push(GuestTime { virtual_time: 0, place: Place::Out });
        }
        self.guests[guest as usize].virtual_time = 0;
        // Room for all guests, so that turns do not allocate.
        self.order.reserve(self.guests.len() - self.order.len());
    }

    /// Whether the index still has a place in the order. No other guest may get it then.
    pub fn has_place(&self, guest: u32) -> bool {
        self.guests.get(guest as usize).is_some_and(|known| known.place != Place::Out)
    }

    /// Whether no guest waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// A guest has work. It may have had some before.
    #[inline]
    pub fn enter(&mut self, guest: u32) {
        let Some(known) = self.guests.get_mut(guest as usize) else { return };
        match known.place {
            Place::Waits => return,
            Place::Left => {}
            Place::Out => {
                known.virtual_time = known.virtual_time.max(self.clock);
                self.order.push(Reverse((known.virtual_time, guest)));
            }
        }
        known.place = Place::Waits;
        self.waiting += 1;
    }

    /// A guest, which may wait, has no more work.
    pub fn leave(&mut self, guest: u32) {
        let Some(known) = self.guests.get_mut(guest as usize) else { return };
        if known.place == Place::Waits {
            known.place = Place::Left;
            self.waiting -= 1;
            self.clear_if_nobody_waits();
        }
    }

    /// Takes the guest with the next turn out of the order.
    pub fn next(&mut self) -> Option<u32> {
        loop {
            let Reverse((virtual_time, guest)) = self.order.pop()?;
            let known = self.guests.get_mut(guest as usize)?;
            if std::mem::replace(&mut known.place, Place::Out) == Place::Waits {
                self.clock = virtual_time;
                self.waiting -= 1;
                self.clear_if_nobody_waits();
                return Some(guest);
            }
        }
    }

    /// A guest consumed engine time. Its weight is not 0.
    #[inline]
    pub fn charge(&mut self, guest: u32, time: Duration, weight: u32) {
        if let Some(known) = self.guests.get_mut(guest as usize) {
            // A guest that comes later continues from here, even if this guest was alone.
            self.clock = self.clock.max(known.virtual_time);
            known.virtual_time += time.as_nanos() * UNIT_WEIGHT / u128::from(weight.max(1));
        }
    }

    /// A guest consumed engine time beside its turns. Its weight is not 0. If it waits for a turn, it gets that as before;
    /// the ones that follow come later.
    pub fn charge_aside(&mut self, guest: u32, time: Duration, weight: u32) {
        if let Some(known) = self.guests.get_mut(guest as usize) {
            // A guest that was idle saves no time up.
            let from = known.virtual_time.max(self.clock);
            known.virtual_time = from + time.as_nanos() * UNIT_WEIGHT / u128::from(weight.max(1));
        }
    }

    /// Releases the places of guests that left. Each leave left one, so the cost is proportional to the leaves.
    fn clear_if_nobody_waits(&mut self) {
        if self.waiting > 0 {
            return;
        }
        for Reverse((_, guest)) in self.order.drain() {
            #[cfg(test)]
            super::visits::note();
            self.guests[guest as usize].place = Place::Out;
        }
    }
}
