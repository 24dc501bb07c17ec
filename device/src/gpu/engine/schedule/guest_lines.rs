// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of a guest's contexts gets the next turn.
//!
//! The *system context* goes first: it pages, and its time is charged to the guest. Then *parties* share the guest's part by
//! weight: see [`fair_order`](super::fair_order). A party is the processes that the guest puts into one group: all, unless it says
//! otherwise. Within a party, contexts are served by priority: see [`party_lines`](super::party_lines).

use super::fair_order::FairOrder;
use super::party_lines::PartyLines;
use crate::gpu::engine::index_queue::{End, IndexQueue, Links};
use crate::gpu::shared::rank::{Party, Rank};
use bellhop_host_kmd::hardware::GuestId;
use std::collections::HashMap;
use std::time::Duration;

/// A party with queues on the engine.
#[derive(Debug)]
struct PartyPlace {
    party: Party,
    /// The number of its contexts with queues.
    members: u32,
    contexts: PartyLines,
}

/// A guest with queues on the engine.
#[derive(Debug)]
pub struct GuestLines {
    /// The guest.
    pub id: GuestId,
    /// The number of its queues.
    pub members: u32,
    /// The system context, while it waits.
    system: IndexQueue,
    /// Parties with a waiting context. One that is being served is not in it.
    order: FairOrder,
    parties: Vec<PartyPlace>,
    /// Index of each party that has contexts.
    places: HashMap<Party, u32>,
    /// Indices of parties without contexts.
    free: Vec<u32>,
    /// The number of contexts in line.
    waiting: u32,
}

impl GuestLines {
    /// A guest without queues.
    pub fn new(id: GuestId) -> Self {
        Self {
            id,
            members: 0,
            system: IndexQueue::EMPTY,
            order: FairOrder::default(),
            parties: Vec::new(),
            places: HashMap::new(),
            free: Vec::new(),
            waiting: 0,
        }
    }

    /// Adds a context of a party, or the system context. Returns the party's index.
    pub fn add_context(&mut self, party: Option<Party>) -> Option<u32> {
        let place = self.place(party?);
        self.parties[place as usize].members += 1;
        Some(place)
    }

    /// The index of a party, which is added if it is new.
    fn place(&mut self, party: Party) -> u32 {
        if let Some(place) = self.places.get(&party) {
            return *place;
        }
        let Self { order, parties, free, places, .. } = self;
        let new = PartyPlace { party, members: 0, contexts: PartyLines::new() };
        let place = match free.iter().rposition(|place| !order.has_place(*place)) {
            Some(index) => {
                let place = free.swap_remove(index);
                parties[place as usize] = new;
                place
            }
            None => {
                parties.push(new);
                parties.len() as u32 - 1
            }
        };
        order.add(place);
        places.insert(party, place);
        place
    }

    /// Forgets a context of the party with this index, or the system context. It is not in line.
    pub fn remove_context(&mut self, party: Option<u32>) {
        let Some(place) = party else { return };
        let Some(known) = self.parties.get_mut(place as usize) else { return };
        known.members -= 1;
        if known.members == 0 {
            self.places.remove(&known.party);
            self.free.push(place);
        }
    }

    /// Whether no context is in line.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Puts a context in line, among those of its party or as the system context.
    #[inline]
    pub fn push(
        &mut self,
        links: &mut Links,
        (party, rank): (Option<u32>, Rank),
        context: u32,
        end: End,
    ) {
        self.waiting += 1;
        let place = party.and_then(|place| Some((place, self.parties.get_mut(place as usize)?)));
        match (place, rank) {
            (Some((place, known)), Rank::Priority(priority)) => {
                known.contexts.push(links, priority, context, end);
                self.order.enter(place);
            }
            _ => self.system.push(links, context, end),
        }
    }

    /// Takes the context that gets the next turn out of its line. [`Self::end_turn`] puts its party back.
    pub fn pop(&mut self, links: &mut Links) -> Option<u32> {
        let context = match self.system.pop(links) {
            Some(context) => context,
            None => self.parties.get_mut(self.order.next()? as usize)?.contexts.pop(links)?,
        };
        self.waiting -= 1;
        Some(context)
    }

    /// A turn of the party with this index is over, in which it consumed so much time. Its weight is not 0. The system context's
    /// time is no party's.
    #[inline]
    pub fn end_turn(&mut self, party: Option<u32>, time: Duration, weight: u32) {
        let Some(place) = party else { return };
        if !time.is_zero() {
            self.order.charge(place, time, weight);
        }
        if self.parties.get(place as usize).is_some_and(|known| !known.contexts.is_empty()) {
            self.order.enter(place);
        }
    }

    /// Takes the contexts for which `stays` is false out of their lines.
    pub fn retain(&mut self, links: &mut Links, mut stays: impl FnMut(u32) -> bool) {
        let mut left = 0;
        let mut counted = |context| {
            let stays = stays(context);
            left += u32::from(stays);
            stays
        };
        self.system.retain(links, &mut counted);
        for (known, place) in self.parties.iter_mut().zip(0..) {
            known.contexts.retain(links, &mut counted);
            if known.contexts.is_empty() {
                self.order.leave(place);
            }
        }
        self.waiting = left;
    }

    /// Numbers of places for parties, and of parties with contexts.
    #[cfg(test)]
    pub fn known_parties(&self) -> (usize, usize) {
        (self.parties.len(), self.places.len())
    }
}
