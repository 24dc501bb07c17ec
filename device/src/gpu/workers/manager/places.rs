// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which socket's guests have a worker, where there are fewer places for workers than guests want.
//!
//! The guests of a socket count as one: whoever connects more of them to it has no more workers. Each socket whose guests
//! have or want a place has a *share*: an equal part of all places, at least one. A socket below its share is given a place
//! at the expense of the one that has most beyond its own. A socket that has its share gets more only while places are free;
//! else one of its own makes room. So no socket within its share loses a place to one beyond it.
//!
//! A worker that executes something is given up when it has done that: what it has accepted is nowhere else. Where that
//! takes long, since its guest is suspended, or has its own kernels wait behind others, the place counts no longer
//! against sockets below their shares: the worker is one more, beside all places. A socket never has more than its own
//! limit.
//!
//! Where there are more sockets than places, a share is one place, and they take turns: a worker is given up to a socket
//! without any once it has been there for a while, the one that was not used for longest first.

use bellhop_host_kmd::hardware::SocketId;
use std::collections::HashMap;

/// How many places there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// For the guests of all sockets.
    pub(super) all: usize,
    /// For the guests of each socket.
    pub(super) each: usize,
}

/// What becomes of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Its worker is being prepared.
    Prepared,
    /// An engine has its worker.
    Held {
        /// When it was used last; workers that execute something are last.
        used: u64,
        /// Whether the socket has had it for so long that another's turn may come.
        is_settled: bool,
    },
    /// The engine was asked to give it up.
    Leaving,
    /// The engine was asked so long ago that nobody waits for it.
    Overdue,
}

/// A place that a guest of a socket has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The socket whose guest has it.
    pub(super) socket: SocketId,
    /// What becomes of it.
    pub(super) state: State,
}

/// What comes of a guest's request for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It has one now.
    Takes,
    /// The place of this index is to be given up for it.
    GivenUp(usize),
    /// One is being given up for it.
    Awaits,
    /// Nothing can be given up for it now.
    Waits,
}

impl Limits {
    /// How many places each of so many sockets may have while all want some.
    pub(super) fn share(self, sockets: usize) -> usize {
        (self.all / sockets.max(1)).max(1)
    }

    /// Whether a socket has fewer places than its share.
    pub(super) fn is_below(self, places: &[Place], sockets: usize, socket: SocketId) -> bool {
        count(places, |place| place.socket == socket) < self.share(sockets)
    }

    /// What comes of a guest's request, where the guests of so many sockets have places or want some, and `awaited` of the places that
    /// are being given up are for others.
    pub(super) fn rule(
        self,
        places: &[Place],
        sockets: usize,
        awaited: usize,
        socket: SocketId,
    ) -> Ruling {
        let is_own = |place: &Place| place.socket == socket;
        let is_full = count(places, is_own) >= self.each;
        if !is_full && places.len() < self.all {
            return Ruling::Takes;
        }
        if is_full || !self.is_below(places, sockets, socket) {
            // Whoever has its share makes room itself.
            if places.iter().any(|place| is_own(place) && place.state == State::Leaving) {
                return Ruling::Awaits;
            }
            return give_up(oldest(places, is_own));
        }
        // What is overdue is beside all places.
        let active = count(places, |place| place.state != State::Overdue);
        if active < self.all {
            return Ruling::Takes;
        }
        if count(places, |place| place.state == State::Leaving) > awaited {
            return Ruling::Awaits;
        }
        let share = self.share(sockets);
        let mut kept: HashMap<SocketId, usize> = HashMap::new();
        for place in places.iter().filter(|place| !place.state.is_given_up()) {
            *kept.entry(place.socket).or_default() += 1;
        }
        let most = kept.values().copied().max().unwrap_or(0);
        if most > share {
            return give_up(oldest(places, |place| kept.get(&place.socket) == Some(&most)));
        }
        if sockets <= self.all {
            // Others were asked for as many as are missing.
            return Ruling::Waits;
        }
        give_up(oldest(places, |place| matches!(place.state, State::Held { is_settled: true, .. })))
    }
}

impl State {
    fn is_given_up(self) -> bool {
        matches!(self, Self::Leaving | Self::Overdue)
    }
}

fn count(places: &[Place], which: impl Fn(&Place) -> bool) -> usize {
    places.iter().filter(|place| which(place)).count()
}

/// The place, of those that `which` chooses, whose worker was not used for longest.
fn oldest(places: &[Place], which: impl Fn(&Place) -> bool) -> Option<usize> {
    let used = |(index, place): (usize, &Place)| match place.state {
        State::Held { used, .. } => Some((used, index)),
        _ => None,
    };
    let chosen = places.iter().enumerate().filter(|(_, place)| which(place));
    chosen.filter_map(used).min().map(|(_, index)| index)
}

fn give_up(place: Option<usize>) -> Ruling {
    place.map_or(Ruling::Waits, Ruling::GivenUp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const EXECUTING: u64 = u64::MAX;

    /// Places in words: the guest, and what becomes of it: when it was used last, `x` for one that executes; `n` behind
    /// it for one that is new; `p` prepared, `l` leaving, `o` overdue.
    fn places(words: &str) -> Vec<Place> {
        let place = |word: &str| {
            let (guest, state) = word.split_at(1);
            let (state, is_settled) = state.strip_suffix('n').map_or((state, true), |s| (s, false));
            let guest = SocketId(guest.bytes().next().unwrap().into());
            let state = match state {
                "p" => State::Prepared,
                "l" => State::Leaving,
                "o" => State::Overdue,
                "x" => State::Held { used: EXECUTING, is_settled },
                used => State::Held { used: used.parse().unwrap(), is_settled },
            };
            Place { socket: guest, state }
        };
        words.split_whitespace().map(place).collect()
    }

    /// What comes of a request of the guest `asks`, where the guests `others` want places too.
    fn rule((all, each): (usize, usize), held: &str, others: &str, asks: char) -> Ruling {
        let places = places(held);
        let named = others.bytes().chain([asks as u8]).map(u64::from);
        let guests: BTreeSet<_> = places.iter().map(|place| place.socket.0).chain(named).collect();
        Limits { all, each }.rule(&places, guests.len(), 0, SocketId(asks as u64))
    }

    #[test]
    fn a_share_is_an_equal_part_of_all_places_and_at_least_one() {
        let share = |all, guests| Limits { all, each: 9 }.share(guests);
        let expected = [(16, 1, 16), (16, 3, 5), (16, 16, 1), (16, 17, 1), (1, 9, 1), (4, 0, 4)];
        for (all, guests, places) in expected {
            assert_eq!(share(all, guests), places, "{all} places, {guests} guests");
        }
    }

    #[test]
    fn what_comes_of_a_request_follows_from_shares() {
        use Ruling::{Awaits, GivenUp, Takes, Waits};
        for (limits, held, others, asks, expected, why) in [
            ((2, 2), "", "", 'a', Takes, "places are free"),
            ((4, 2), "a1 a2", "", 'a', GivenUp(0), "its own limit: its oldest"),
            ((4, 2), "ax a2", "", 'a', GivenUp(1), "what executes is last"),
            ((4, 2), "ax ao", "", 'a', GivenUp(0), "what is overdue helps nobody"),
            ((4, 2), "ao ao", "", 'a', Waits, "its own, which nobody takes from it"),
            ((4, 2), "al a1", "", 'a', Awaits, "one of its own is on its way"),
            ((2, 2), "a5 b1", "", 'a', GivenUp(0), "b has its share, although its is older"),
            ((2, 2), "a1 a2", "", 'b', GivenUp(0), "a has more than its share"),
            ((2, 2), "a2 a1", "", 'b', GivenUp(1), "of a's, the oldest"),
            ((2, 2), "ax a9", "", 'b', GivenUp(1), "of a's, one that executes nothing"),
            ((2, 2), "ax ax", "", 'b', GivenUp(0), "all execute"),
            ((2, 2), "al a9", "", 'b', Awaits, "one is on its way"),
            ((2, 2), "ao a9", "", 'b', Takes, "a does not give it up in time"),
            ((2, 2), "ap a9", "", 'b', GivenUp(1), "what is prepared is given up when it is there"),
            ((2, 2), "ap ap", "", 'b', Waits, "what is prepared is given up when it is there"),
            ((6, 6), "a1 a2 a3 b4 b5 b6", "c", 'c', GivenUp(0), "both have one more than 2"),
            ((6, 6), "a4 a5 a6 b1 b2 b3", "c", 'c', GivenUp(3), "both have one more than 2"),
            ((6, 6), "b1 b2 a3 a4 a5 a6", "c", 'c', GivenUp(2), "a has most"),
            ((6, 6), "a1 a2 b3 b4 c5 c6", "", 'c', GivenUp(4), "all have their share"),
            ((5, 5), "a1 a2 b3 b4 c5", "", 'c', GivenUp(4), "c has its share, as others have more"),
            ((2, 2), "a1 b2", "", 'c', GivenUp(0), "more guests than places: the oldest"),
            ((2, 2), "a1n b2", "", 'c', GivenUp(1), "a has had it for a moment"),
            ((2, 2), "a1n b2n", "", 'c', Waits, "both have had it for a moment"),
            ((2, 2), "ao bo", "", 'c', Takes, "nobody gives one up in time"),
            ((1, 1), "ao", "", 'b', Takes, "a is suspended"),
            ((1, 1), "ao b1", "", 'b', GivenUp(1), "it has its own limit"),
            ((1, 2), "ao b1", "", 'b', GivenUp(1), "it has its share"),
        ] {
            assert_eq!(rule(limits, held, others, asks), expected, "{held}, {asks} asks: {why}");
        }
    }

    #[test]
    fn a_place_that_is_on_its_way_to_one_is_not_another_one_s() {
        let places = places("al a2 a3 a4");
        let limits = Limits { all: 4, each: 4 };
        let of = |awaited| limits.rule(&places, 3, awaited, SocketId(u64::from(b'c')));
        assert_eq!([of(0), of(1)], [Ruling::Awaits, Ruling::GivenUp(1)]);
    }

    /// Guests ask at random, and engines give up what they are asked for, or not. Whatever happens, nobody has more than
    /// its limit, nobody within its share loses a place to one that has its share, and who asks below its share waits
    /// for nobody who does not give up.
    #[test]
    fn whatever_guests_want_those_below_their_shares_come_to_have_them() {
        let mut word = 7_u64;
        let mut below = move |end: usize| {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (word >> 33) as usize % end
        };
        for _ in 0..300 {
            let limits = Limits { all: 1 + below(8), each: 1 + below(4) };
            let guests = 1 + below(limits.all);
            let stubborn = below(guests);
            let mut held: Vec<Place> = Vec::new();
            for step in 0..200_u64 {
                let guest = below(guests);
                let asks = SocketId(guest as u64);
                let had = count(&held, |place| place.socket == asks);
                match limits.rule(&held, guests, 0, asks) {
                    Ruling::Takes => {
                        let used = if guest == stubborn { EXECUTING } else { step };
                        let state = State::Held { used, is_settled: true };
                        held.push(Place { socket: asks, state });
                    }
                    Ruling::GivenUp(index) => {
                        let loser = held[index].socket;
                        let its = count(&held, |place| place.socket == loser);
                        let share = limits.share(guests);
                        assert!(loser == asks || (its > share && had < share), "{held:?}");
                        if loser.0 as usize == stubborn {
                            held[index].state = State::Overdue;
                        } else {
                            held.swap_remove(index);
                        }
                    }
                    Ruling::Awaits | Ruling::Waits => {
                        let is_stuck =
                            guest == stubborn || had >= limits.share(guests).min(limits.each);
                        assert!(is_stuck, "{asks:?} of {guests} waits: {limits:?} {held:?}");
                    }
                }
                assert!(count(&held, |place| place.socket == asks) <= limits.each);
            }
        }
    }
}
