// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of several members gets the next turn: of sockets, or of the guests of one.
//!
//! A member's virtual time advances by the engine time that it consumed, divided by its weight. The member with the
//! least virtual time goes next (start-time fair queueing). A member that was idle continues at the virtual time of
//! the others: it does not save time up.
//!
//! A member that loses its last waiting queue before its turn keeps its place in the order, and is skipped when the
//! place comes up. So, when a member destroys a queue, the engine does not search the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A member of this weight is charged the time as it is.
const UNIT_WEIGHT: u128 = 1 << 20;

/// A member's place in the order.
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
struct MemberTime {
    virtual_time: u128,
    place: Place,
}

/// Members in the order of their turns, by index.
#[derive(Debug, Default)]
pub struct FairOrder {
    members: Vec<MemberTime>,
    /// Places, least virtual time first: one for each member that is not out. Empty if no member waits.
    order: BinaryHeap<Reverse<(u128, u32)>>,
    /// The number of members that wait.
    waiting: usize,
    /// The virtual time of the last member that was served.
    clock: u128,
}

impl FairOrder {
    /// Adds a member. Its index has no place in the order.
    pub fn add(&mut self, member: u32) {
        while self.members.len() <= member as usize {
            self.members.push(MemberTime { virtual_time: 0, place: Place::Out });
        }
        self.members[member as usize].virtual_time = 0;
        // Room for all members, so that turns do not allocate.
        self.order.reserve(self.members.len() - self.order.len());
    }

    /// Whether the index still has a place in the order. No other member may get it then.
    pub fn has_place(&self, member: u32) -> bool {
        self.members.get(member as usize).is_some_and(|known| known.place != Place::Out)
    }

    /// Whether no member waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// A member has work. Returns false if it had some before.
    #[inline]
    pub fn enter(&mut self, member: u32) -> bool {
        let Some(known) = self.members.get_mut(member as usize) else { return false };
        match known.place {
            Place::Waits => return false,
            Place::Left => {}
            Place::Out => {
                known.virtual_time = known.virtual_time.max(self.clock);
                self.order.push(Reverse((known.virtual_time, member)));
            }
        }
        known.place = Place::Waits;
        self.waiting += 1;
        true
    }

    /// A member has no more work. Returns whether it waited.
    pub fn leave(&mut self, member: u32) -> bool {
        let Some(known) = self.members.get_mut(member as usize) else { return false };
        let waited = known.place == Place::Waits;
        if waited {
            known.place = Place::Left;
            self.waiting -= 1;
            self.clear_if_nobody_waits();
        }
        waited
    }

    /// Takes the member with the next turn out of the order.
    pub fn next(&mut self) -> Option<u32> {
        loop {
            let Reverse((virtual_time, member)) = self.order.pop()?;
            let known = self.members.get_mut(member as usize)?;
            if std::mem::replace(&mut known.place, Place::Out) == Place::Waits {
                self.clock = virtual_time;
                self.waiting -= 1;
                self.clear_if_nobody_waits();
                return Some(member);
            }
        }
    }

    /// A member consumed engine time. Its weight is not 0.
    #[inline]
    pub fn charge(&mut self, member: u32, time: Duration, weight: u32) {
        if let Some(known) = self.members.get_mut(member as usize) {
            // A member that comes later continues from here, even if this member was alone.
            self.clock = self.clock.max(known.virtual_time);
            known.virtual_time += time.as_nanos() * UNIT_WEIGHT / u128::from(weight.max(1));
        }
    }

    /// A member consumed engine time beside its turns. Its weight is not 0. If it waits for a turn, it gets that as before;
    /// the ones that follow come later.
    pub fn charge_aside(&mut self, member: u32, time: Duration, weight: u32) {
        if let Some(known) = self.members.get_mut(member as usize) {
            // A member that was idle saves no time up.
            let from = known.virtual_time.max(self.clock);
            known.virtual_time = from + time.as_nanos() * UNIT_WEIGHT / u128::from(weight.max(1));
        }
    }

    /// Releases the places of members that left. Each leave left one, so the cost is proportional to the leaves.
    fn clear_if_nobody_waits(&mut self) {
        if self.waiting > 0 {
            return;
        }
        for Reverse((_, member)) in self.order.drain() {
            #[cfg(test)]
            crate::gpu::engine::visits::note();
            self.members[member as usize].place = Place::Out;
        }
    }
}
