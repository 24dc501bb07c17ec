// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which guest gets the next turn.
//!
//! Sockets share the engine by weight, and the guests of one socket share its part alike: see
//! [`fair_order`](super::fair_order). So whoever connects more guests to a socket gets no more of the engine, and what
//! one of them leaves goes to the others of its socket first.

use super::fair_order::FairOrder;
use bellhop_host_kmd::hardware::SocketId;
use std::collections::HashMap;
use std::time::Duration;

/// The weight of each guest among those of its socket.
const ALIKE: u32 = 1;

/// The guests of a socket.
#[derive(Debug)]
struct SocketLine {
    id: SocketId,
    /// The number of guests with queues.
    members: u32,
    /// Those that wait.
    guests: FairOrder,
}

/// Guests in the order of their turns, by index.
#[derive(Debug, Default)]
pub struct GuestOrder {
    /// Sockets with a guest that waits. One whose guest is being served is not in it.
    sockets: FairOrder,
    lines: Vec<SocketLine>,
    /// Index of each guest's socket.
    of_guests: Vec<u32>,
    /// Index of each socket that has guests with queues.
    places: HashMap<SocketId, u32>,
    /// Indices of sockets without guests.
    free: Vec<u32>,
    /// The number of guests that wait.
    waiting: usize,
}

impl GuestOrder {
    /// Adds a guest. Its index has no place in the order. Returns whether it is the only one of its socket.
    pub fn add(&mut self, guest: u32, socket: SocketId) -> bool {
        let place = self.socket_place(socket);
        let line = &mut self.lines[place as usize];
        line.members += 1;
        line.guests.add(guest);
        if self.of_guests.len() <= guest as usize {
            self.of_guests.resize(guest as usize + 1, place);
        }
        self.of_guests[guest as usize] = place;
        line.members == 1
    }

    /// The index of a socket, which is added if it is new.
    fn socket_place(&mut self, id: SocketId) -> u32 {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let Self { sockets, free, lines, .. } = self;
        let line = SocketLine { id, members: 0, guests: FairOrder::default() };
        let place = match free.iter().rposition(|place| !sockets.has_place(*place)) {
            Some(index) => {
                let place = free.swap_remove(index);
                lines[place as usize] = line;
                place
            }
            None => {
                lines.push(line);
                lines.len() as u32 - 1
            }
        };
        sockets.add(place);
        self.places.insert(id, place);
        place
    }

    /// Forgets a guest that has no queue any more.
    pub fn remove(&mut self, guest: u32) {
        let Some((place, line)) = self.line(guest) else { return };
        line.members -= 1;
        if line.members == 0 {
            let id = line.id;
            self.places.remove(&id);
            self.free.push(place);
        }
    }

    fn line(&mut self, guest: u32) -> Option<(u32, &mut SocketLine)> {
        let place = *self.of_guests.get(guest as usize)?;
        Some((place, self.lines.get_mut(place as usize)?))
    }

    /// Whether the index still has a place in the order. No other guest may get it then.
    pub fn has_place(&self, guest: u32) -> bool {
        let place = self.of_guests.get(guest as usize);
        let line = place.and_then(|place| self.lines.get(*place as usize));
        line.is_some_and(|line| line.guests.has_place(guest))
    }

    /// Whether no guest waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// A guest has work. It may have had some before.
    #[inline]
    pub fn enter(&mut self, guest: u32) {
        let Some((place, line)) = self.line(guest) else { return };
        if line.guests.enter(guest) {
            self.waiting += 1;
            self.sockets.enter(place);
        }
    }

    /// A guest, which may wait, has no more work.
    pub fn leave(&mut self, guest: u32) {
        let Some((place, line)) = self.line(guest) else { return };
        if line.guests.leave(guest) {
            let is_empty = line.guests.is_empty();
            self.waiting -= 1;
            if is_empty {
                self.sockets.leave(place);
            }
        }
    }

    /// Takes the guest with the next turn out of the order, with its socket. [`Self::end_turn`] puts the socket back.
    pub fn next(&mut self) -> Option<u32> {
        let place = self.sockets.next()?;
        let guest = self.lines.get_mut(place as usize)?.guests.next()?;
        self.waiting -= 1;
        Some(guest)
    }

    /// A guest's turn is over, in which it consumed so much time. The weight of its socket is not 0.
    #[inline]
    pub fn end_turn(&mut self, guest: u32, time: Duration, weight: u32) {
        let Some((place, line)) = self.line(guest) else { return };
        let others_wait = !line.guests.is_empty();
        if !time.is_zero() {
            line.guests.charge(guest, time, ALIKE);
            self.sockets.charge(place, time, weight);
        }
        if others_wait {
            self.sockets.enter(place);
        }
    }

    /// Numbers of places for sockets, and of sockets with queues.
    #[cfg(test)]
    pub fn known_sockets(&self) -> (usize, usize) {
        (self.lines.len(), self.places.len())
    }

    /// A guest consumed engine time beside its turns. The weight of its socket is not 0. A turn that it waits for, it gets
    /// as before; the ones that follow come later.
    pub fn charge_aside(&mut self, guest: u32, time: Duration, weight: u32) {
        if let Some((place, line)) = self.line(guest) {
            line.guests.charge_aside(guest, time, ALIKE);
            self.sockets.charge_aside(place, time, weight);
        }
    }
}
