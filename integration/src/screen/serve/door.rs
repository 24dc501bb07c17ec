// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who stands at a server's door: connections that have not logged in.
//!
//! They are strangers, so what they cost is bounded. There are few places, and a newcomer always gets one: who has said
//! nothing makes room first, and who has waited longest of those that came from one place in numbers. Who sends wrong
//! passwords is turned away for a while, which doubles each time; and wrong passwords from everywhere together are few a
//! second, since a program may come from many addresses.

use bellhop_device::allowance::{Allowance, Rate};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Most connections at the door, and most of them from one place.
pub(super) const PLACES: usize = 16;
const PLACES_OF_ONE: usize = 4;
/// Wrong passwords from one place that cost it no time: a person mistypes.
const FREE: u32 = 3;
/// How long the next wrong password turns a place away, and how long one does at most.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// How long a wrong password counts.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Most places whose wrong passwords are remembered. The oldest is forgotten for another; what all places may do
/// together stays bounded.
const GUESSERS: usize = 256;
/// Wrong passwords from everywhere.
const OF_ALL: Rate = Rate { interval: Duration::from_secs(1), burst: 20 };
/// Lines about what strangers do.
const LINES: Rate = Rate { interval: Duration::from_secs(10), burst: 5 };

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// An address.
    Address(IpAddr),
    /// This machine's user, on a Unix socket.
    User(u32),
}

/// A connection at the door.
#[derive(Debug)]
struct Waiting<C> {
    number: u64,
    place: Place,
    has_spoken: bool,
    connection: C,
}

/// What is remembered of a place.
#[derive(Debug, Clone, Copy)]
struct Guesser {
    /// Wrong passwords.
    wrong: u32,
    /// When the last one was sent.
    last: Duration,
    /// When the place may try again.
    next: Duration,
}

/// See the module. Times are of one clock.
#[derive(Debug)]
pub(super) struct Door<C> {
    /// In the order in which they came.
    waiting: Vec<Waiting<C>>,
    guessers: BTreeMap<Place, Guesser>,
    /// When the wrong passwords so far are paid for, of which [`OF_ALL`] has one cost an interval.
    paid_at: Duration,
    lines: Allowance,
    left_out: u64,
}

impl<C> Default for Door<C> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            guessers: BTreeMap::new(),
            paid_at: Duration::ZERO,
            lines: Allowance::default(),
            left_out: 0,
        }
    }
}

impl<C> Door<C> {
    /// A connection comes. Returns the one that makes room for it, if one has to.
    ///
    /// # Errors
    /// If it is turned away: for how long.
    pub(super) fn arrive(
        &mut self,
        number: u64,
        place: Place,
        connection: C,
        now: Duration,
    ) -> Result<Option<C>, Duration> {
        let until = self.guessers.get(&place).map_or(Duration::ZERO, |guesser| guesser.next);
        // One more than those that are not paid for yet must fit into a burst.
        let credit = OF_ALL.interval.saturating_mul(OF_ALL.burst.saturating_sub(1));
        let until = until.max(self.paid_at.saturating_sub(credit));
        if let Some(left) = until.checked_sub(now).filter(|left| !left.is_zero()) {
            return Err(left);
        }
        let expelled = self.who_makes_room(place).map(|at| self.waiting.remove(at).connection);
        self.waiting.push(Waiting { number, place, has_spoken: false, connection });
        Ok(expelled)
    }

    /// Which connection goes for another from this place.
    fn who_makes_room(&self, place: Place) -> Option<usize> {
        let of = |place: Place| self.waiting.iter().filter(|one| one.place == place).count();
        let from = if of(place) >= PLACES_OF_ONE {
            place
        } else if self.waiting.len() >= PLACES {
            // The first of those that came from where most came from.
            let most = self.waiting.iter().map(|one| of(one.place)).max()?;
            self.waiting.iter().find(|one| of(one.place) == most)?.place
        } else {
            return None;
        };
        let position = |is_it: &dyn Fn(&Waiting<C>) -> bool| {
            self.waiting.iter().position(|one| one.place == from && is_it(one))
        };
        position(&|one| !one.has_spoken).or_else(|| position(&|_| true))
    }

    /// A connection has said something.
    pub(super) fn has_spoken(&mut self, number: u64) {
        if let Some(one) = self.waiting.iter_mut().find(|one| one.number == number) {
            one.has_spoken = true;
        }
    }

    /// A connection is no longer at the door. Returns whether it was: it has not made room for another.
    pub(super) fn leave(&mut self, number: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|one| one.number != number);
        self.waiting.len() < before
    }

    /// A wrong password has come from a place.
    pub(super) fn wrong_password(&mut self, place: Place, now: Duration) {
        self.paid_at = self.paid_at.max(now).saturating_add(OF_ALL.interval);
        self.guessers.retain(|_, guesser| now.saturating_sub(guesser.last) < REMEMBERED);
        if self.guessers.len() >= GUESSERS && !self.guessers.contains_key(&place) {
            let oldest = self.guessers.iter().min_by_key(|(_, guesser)| guesser.last);
            if let Some(oldest) = oldest.map(|(place, _)| *place) {
                self.guessers.remove(&oldest);
            }
        }
        let fresh = Guesser { wrong: 0, last: now, next: now };
        let guesser = self.guessers.entry(place).or_insert(fresh);
        guesser.wrong = guesser.wrong.saturating_add(1);
        guesser.last = now;
        if let Some(beyond) = guesser.wrong.checked_sub(FREE + 1) {
            let wait = FIRST.saturating_mul(1 << beyond.min(16)).min(LONGEST);
            guesser.next = now.saturating_add(wait);
        }
    }

    /// The right password has come from a place: earlier mistakes are forgiven.
    pub(super) fn right_password(&mut self, place: Place) {
        self.guessers.remove(&place);
    }

    /// Whether a line about a stranger may be written, and how many were left out before it.
    pub(super) fn line(&mut self, now: Duration) -> Option<u64> {
        if self.lines.take(now, LINES).is_err() {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn place(number: u8) -> Place {
        Place::Address([127, 0, 0, number].into())
    }

    /// Connections that arrive at once, each from the place with its number. Returns who made room, by number.
    fn arrive(door: &mut Door<u64>, places: &[u8]) -> Vec<u64> {
        let expelled = places.iter().zip(1..).filter_map(|(from, number)| {
            door.arrive(number, place(*from), number, Duration::ZERO).unwrap()
        });
        expelled.collect()
    }

    #[test]
    fn the_silent_of_one_place_make_room_for_each_other_and_for_nobody_else() {
        let mut door = Door::default();
        assert_eq!(arrive(&mut door, &[1, 2, 1, 1, 1, 1, 1]), [1, 3]);
        door.has_spoken(4);
        let late = door.arrive(8, place(1), 8, Duration::ZERO).unwrap();
        assert_eq!(late, Some(5), "who has spoken stays");
        assert!(door.leave(4) && !door.leave(5) && !door.leave(4));
    }

    #[test]
    fn a_newcomer_gets_a_place_whoever_has_the_others() {
        let mut door = Door::default();
        let crowd: Vec<u8> = (0..PLACES as u8).map(|number| 1 + number / 4).collect();
        assert!(arrive(&mut door, &crowd).is_empty());
        assert_eq!(door.arrive(100, place(9), 100, Duration::ZERO), Ok(Some(1)));
        (2..=16).for_each(|number| door.has_spoken(number));
        // None of a crowd of places is silent: the first of the largest goes.
        assert_eq!(door.arrive(101, place(10), 101, Duration::ZERO), Ok(Some(5)));
        assert_eq!(door.waiting.len(), PLACES);
    }

    #[test]
    fn wrong_passwords_turn_their_place_away_for_longer_each_time_and_no_other() {
        let mut door = Door::default();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for number in 0..12 {
            if let Err(wait) = door.arrive(number, place(1), number, now) {
                waits.push(wait.as_secs());
                assert!(door.arrive(100, place(2), 100, now).is_ok());
                now += wait;
                assert!(door.arrive(number, place(1), number, now).is_ok());
            }
            door.leave(number);
            door.wrong_password(place(1), now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        door.right_password(place(1));
        assert!(door.arrive(200, place(1), 200, now).is_ok());
    }

    #[test]
    fn a_place_that_was_patient_begins_anew() {
        let mut door = Door::<()>::default();
        (0..5).for_each(|_| door.wrong_password(place(1), Duration::ZERO));
        door.wrong_password(place(2), REMEMBERED);
        door.wrong_password(place(1), REMEMBERED);
        assert_eq!(door.guessers[&place(1)].wrong, 1);
    }

    #[test]
    fn guesses_from_ever_new_places_are_few_a_second_and_few_are_remembered() {
        let mut door = Door::default();
        let mut tried = 0;
        for millisecond in 0..10_000u64 {
            let now = Duration::from_millis(millisecond);
            let bytes = (millisecond as u32).to_be_bytes();
            let from = Place::Address([127, bytes[1], bytes[2], bytes[3]].into());
            if door.arrive(millisecond, from, (), now).is_ok() {
                tried += 1;
                door.leave(millisecond);
                door.wrong_password(from, now);
            }
        }
        // A burst, and one for each second.
        assert!((29..=30).contains(&tried), "{tried} of 10,000");
        let now = 10_000 * SECOND;
        for number in 0..1000u32 {
            door.wrong_password(Place::User(number), now);
        }
        assert_eq!(door.guessers.len(), GUESSERS);
    }

    #[test]
    fn lines_about_strangers_are_few_and_those_left_out_are_counted() {
        let mut door = Door::<()>::default();
        let written = (0..100).filter(|_| door.line(Duration::ZERO).is_some()).count();
        assert_eq!((written, door.line(60 * SECOND)), (5, Some(95)));
    }
}
