// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which guest gets the next turn.
//!
//! Each guest has a virtual time that advances by the engine time it consumed, divided by its weight, and the guest
//! with the least virtual time is next (start-time fair queueing). A guest that was idle continues at the virtual time
//! of the others: idling saves nothing up.
//!
//! A guest that loses its last waiting queue before its turn keeps its place in the order, and is passed over when the
//! place comes up. So what one guest destroys is not searched for among all others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A unit of weight: a guest of this weight is charged the time as it is.
const UNIT_WEIGHT: u128 = 1 << 20;

/// Where a guest is.
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
    /// Places, least virtual time first: one for each guest that is not out. Empty when nobody waits.
    order: BinaryHeap<Reverse<(u128, u32)>>,
    /// Guests that wait.
    waiting: usize,
    /// The virtual time of the guest that was served last.
    clock: u128,
}

impl GuestOrder {
    /// Makes a guest known whose index has no place in the order.
    pub fn add(&mut self, guest: u32) {
        while self.guests.len() <= guest as usize {
            self.guests.push(GuestTime { virtual_time: 0, place: Place::Out });
        }
        self.guests[guest as usize].virtual_time = 0;
        // Room for all guests, so that no turn allocates.
        self.order.reserve(self.guests.len() - self.order.len());
    }

    /// Whether the index has a place in the order, which no other guest may get.
    pub fn has_place(&self, guest: u32) -> bool {
        self.guests.get(guest as usize).is_some_and(|known| known.place != Place::Out)
    }

    /// Whether no guest waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// A guest has work. It may have had before.
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

    /// A guest that may wait has no work any more.
    pub fn leave(&mut self, guest: u32) {
        let Some(known) = self.guests.get_mut(guest as usize) else { return };
        if known.place == Place::Waits {
            known.place = Place::Left;
            self.waiting -= 1;
            self.clear_if_nobody_waits();
        }
    }

    /// Takes the guest whose turn it is out of the order.
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

    /// A guest consumed engine time; its weight is not 0.
    #[inline]
    pub fn charge(&mut self, guest: u32, time: Duration, weight: u32) {
        if let Some(known) = self.guests.get_mut(guest as usize) {
            // A guest that comes later continues from here, also when this one was alone.
            self.clock = self.clock.max(known.virtual_time);
            known.virtual_time += time.as_nanos() * UNIT_WEIGHT / u128::from(weight.max(1));
        }
    }

    /// Gives up the places of guests that left: each leave gave one, so this is no more than what leaves paid for.
    fn clear_if_nobody_waits(&mut self) {
        if self.waiting > 0 {
            return;
        }
        for Reverse((_, guest)) in self.order.drain() {
            #[cfg(test)]
            super::looks::note();
            self.guests[guest as usize].place = Place::Out;
        }
    }
}
