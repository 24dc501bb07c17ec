// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which queue gets an engine's next turn.
//!
//! *Sockets* share the engine's time by weight, and the guests of each alike: see [`guest_order`]. Within a guest, groups
//! of processes share by weight, see [`guest_lines`], and within a group contexts are served by priority, see [`party_lines`]. Contexts of
//! equal priority take turns of one *quantum* of engine time each, however many queues they have. The queues of a context rotate
//! within its quantum.
//!
//! Only adding and removing a queue may allocate. A pick is O(log n) in the guests that have work and in the processes of one that
//! have, and O(1) in contexts and queues.

mod fair_order;
mod guest_lines;
mod guest_order;
mod party_lines;

use super::index_queue::{End, IndexQueue, Links, NONE};
use crate::gpu::shared::rank::{Party, Rank};
use bellhop_host_kmd::hardware::{GuestId, HwContextId, SocketId};
use guest_lines::GuestLines;
use guest_order::GuestOrder;
use std::collections::HashMap;
use std::time::Duration;

/// The queue that gets the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// The queue.
    pub queue: u32,
    /// Whether other queues wait for a turn.
    pub contested: bool,
}

/// A turn that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The turn's engine time, if it was measured.
    pub time: Duration,
    /// The weight of the queue's socket; not 0.
    pub weight: u32,
    /// The weight of the queue's process among those of its guest; not 0.
    pub party_weight: u32,
    /// The queue's rank, if it wants another turn.
    pub again: Option<Rank>,
}

/// Identifies a context. The system context has no ID.
type ContextKey = (GuestId, Option<HwContextId>);

/// A context with queues.
#[derive(Debug)]
struct ContextLine {
    key: ContextKey,
    /// Index of the context's guest.
    guest: u32,
    /// Index of its party among those of the guest; none if it is the system context.
    party: Option<u32>,
    /// The number of its queues.
    members: u32,
    /// Queues that wait for a turn.
    queues: IndexQueue,
    /// Whether the context is in one of its guest's lines.
    in_line: bool,
    /// The line that the context enters next.
    rank: Rank,
    /// Engine time that the context has used of its quantum.
    used: Duration,
}

impl ContextLine {
    fn new(key: ContextKey, guest: u32, party: Option<u32>) -> Self {
        Self {
            key,
            guest,
            party,
            members: 0,
            queues: IndexQueue::EMPTY,
            in_line: false,
            rank: Rank::System,
            used: Duration::ZERO,
        }
    }
}

/// The queues that wait for a turn, in order.
#[derive(Debug)]
pub struct Schedule {
    /// How long a context keeps the engine while others of equal priority in its guest wait.
    quantum: Duration,
    /// Index of each queue's context, by the queue's index on the run list.
    members: Vec<u32>,
    queue_links: Links,
    contexts: Vec<ContextLine>,
    context_links: Links,
    /// Index of each context that has queues.
    context_places: HashMap<ContextKey, u32>,
    /// Free indices of contexts.
    free_contexts: Vec<u32>,
    guests: Vec<GuestLines>,
    /// Index of each guest that has queues.
    guest_places: HashMap<GuestId, u32>,
    /// Indices of guests without queues.
    free_guests: Vec<u32>,
    /// Guests with a waiting queue. A guest that is being served is not in it.
    order: GuestOrder,
    /// The only queue that waits for a turn; it is in no line. Mostly one queue alone has work, and picking it
    /// then costs nothing. It enters its line before another queue does.
    sole: Option<u32>,
    /// The turn that goes on began with no other queue in line.
    alone: bool,
    /// The queue whose turn [`Self::end_alone`] ended last, if no other turn has ended since: its context has used
    /// nothing of its quantum.
    rested: u32,
}

impl Schedule {
    /// An empty schedule.
    pub fn new(quantum: Duration) -> Self {
        Self {
            quantum,
            members: Vec::new(),
            queue_links: Links::default(),
            contexts: Vec::new(),
            context_links: Links::default(),
            context_places: HashMap::new(),
            free_contexts: Vec::new(),
            guests: Vec::new(),
            guest_places: HashMap::new(),
            free_guests: Vec::new(),
            order: GuestOrder::default(),
            sole: None,
            alone: false,
            rested: NONE,
        }
    }

    /// Adds a queue to one of the guest's contexts, of a process of this party, or to its system context if `of` is `None`. The
    /// queue's index is not in use. Returns whether it is the only queue of the guest's socket.
    pub fn add(
        &mut self,
        queue: u32,
        (guest, socket): (GuestId, SocketId),
        of: Option<(HwContextId, Party)>,
    ) -> bool {
        let (guest, is_only) = self.guest_place(guest, socket);
        let (context, party) = of.unzip();
        let lines = &mut self.guests[guest as usize];
        lines.members += 1;
        let key = (lines.id, context);
        let place = self.context_place(key, guest, party);
        self.contexts[place as usize].members += 1;
        if self.members.len() <= queue as usize {
            self.members.resize(queue as usize + 1, NONE);
        }
        self.members[queue as usize] = place;
        self.queue_links.add(queue);
        is_only
    }

    /// The index of a guest, which is added if it is new, and whether its socket had no queue.
    fn guest_place(&mut self, id: GuestId, socket: SocketId) -> (u32, bool) {
        if let Some(place) = self.guest_places.get(&id) {
            return (*place, false);
        }
        let Self { guests, free_guests, order, .. } = self;
        let place = match free_guests.iter().rposition(|place| !order.has_place(*place)) {
            Some(free) => free_guests.swap_remove(free),
            None => guests.len() as u32,
        };
        match guests.get_mut(place as usize) {
            Some(lines) => *lines = GuestLines::new(id),
            None => guests.push(GuestLines::new(id)),
        }
        let is_only = order.add(place, socket);
        self.guest_places.insert(id, place);
        (place, is_only)
    }

    /// The index of a context, which is added if it is new.
    fn context_place(&mut self, key: ContextKey, guest: u32, party: Option<Party>) -> u32 {
        if let Some(place) = self.context_places.get(&key) {
            return *place;
        }
        let party = self.guests[guest as usize].add_context(party);
        let context = ContextLine::new(key, guest, party);
        let place = match self.free_contexts.pop() {
            Some(place) => {
                self.contexts[place as usize] = context;
                place
            }
            None => {
                self.contexts.push(context);
                let place = self.contexts.len() as u32 - 1;
                self.context_links.add(place);
                place
            }
        };
        self.context_places.insert(key, place);
        place
    }

    /// Whether no queue is in line.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sole.is_none() && self.order.is_empty()
    }

    /// Puts a queue in line that is in none. `rank` returns a queue's rank, which takes effect when its context is
    /// next put in line. A queue that stays alone needs none.
    #[inline]
    pub fn push(&mut self, queue: u32, rank: impl Fn(u32) -> Rank) {
        match self.sole.take() {
            None if self.order.is_empty() => self.sole = Some(queue),
            sole => self.push_beside(sole, queue, rank),
        }
    }

    /// Adds a queue to others, one of which may have been alone until now.
    #[inline(never)]
    fn push_beside(&mut self, sole: Option<u32>, queue: u32, rank: impl Fn(u32) -> Rank) {
        for queue in sole.into_iter().chain([queue]) {
            self.put_in_line(queue, rank(queue));
        }
    }

    fn put_in_line(&mut self, queue: u32, rank: Rank) {
        let Some(place) = self.members.get(queue as usize).copied() else { return };
        let Some(context) = self.contexts.get_mut(place as usize) else { return };
        context.rank = rank;
        context.queues.push(&mut self.queue_links, queue, End::Back);
        self.line_up(place, End::Back);
    }

    /// Lines up a context that has queues, if it is in no line, and puts its guest in the order.
    #[inline]
    fn line_up(&mut self, place: u32, end: End) {
        let Some(context) = self.contexts.get_mut(place as usize) else { return };
        let Some(lines) = self.guests.get_mut(context.guest as usize) else { return };
        if !context.in_line {
            context.in_line = true;
            lines.push(&mut self.context_links, (context.party, context.rank), place, end);
        }
        self.order.enter(context.guest);
    }

    /// Takes the queue with the next turn out of its line. [`Self::end_turn`] follows, before anything else.
    #[inline]
    pub fn next(&mut self) -> Option<Pick> {
        if let Some(queue) = self.sole.take() {
            self.alone = true;
            return Some(Pick { queue, contested: false });
        }
        self.next_in_line()
    }

    fn next_in_line(&mut self) -> Option<Pick> {
        self.alone = false;
        let lines = self.guests.get_mut(self.order.next()? as usize)?;
        let place = lines.pop(&mut self.context_links)?;
        let context = &mut self.contexts[place as usize];
        context.in_line = false;
        let queue = context.queues.pop(&mut self.queue_links)?;
        let alone = lines.is_empty() && self.order.is_empty() && context.queues.is_empty();
        Some(Pick { queue, contested: !alone })
    }

    /// As [`Self::end_turn`], for an untimed turn after which the queue is not runnable. Does nothing and returns
    /// false if other queues were in line when the turn began.
    #[inline]
    pub fn end_alone(&mut self, queue: u32) -> bool {
        if self.alone && self.rested != queue {
            self.rest(queue);
        }
        self.alone
    }

    /// A queue's context begins a quantum.
    #[inline(never)]
    fn rest(&mut self, queue: u32) {
        let place = self.members.get(queue as usize).copied().unwrap_or(NONE);
        if let Some(context) = self.contexts.get_mut(place as usize) {
            context.used = Duration::ZERO;
            self.rested = queue;
        }
    }

    /// Ends the turn that [`Self::next`] gave to a queue, and charges its time to its guest and its context.
    #[inline]
    pub fn end_turn(&mut self, queue: u32, ended: Ended) {
        let Ended { time, weight, party_weight, again } = ended;
        self.rested = NONE;
        let Some(place) = self.members.get(queue as usize).copied() else { return };
        let Some(context) = self.contexts.get_mut(place as usize) else { return };
        let guest = context.guest;
        let mut end = End::Front;
        context.used += time;
        self.order.end_turn(guest, time, weight);
        if let Some(lines) = self.guests.get_mut(guest as usize) {
            lines.end_turn(context.party, time, party_weight);
        }
        if context.used >= self.quantum {
            // The next quantum is shorter by the excess of this one, so that long turns gain nothing. But a part is
            // left, so that the next context in line gets a turn.
            let least = self.quantum.saturating_sub(Duration::from_nanos(1));
            context.used = context.used.saturating_sub(self.quantum).min(least);
            end = End::Back;
        }
        if let Some(rank) = again {
            let lines = self.guests.get(guest as usize);
            let is_sole = self.order.is_empty()
                && context.queues.is_empty()
                && lines.is_none_or(GuestLines::is_empty);
            if is_sole {
                self.sole = Some(queue);
                return;
            }
            context.rank = rank;
            context.queues.push(&mut self.queue_links, queue, end);
        }
        if !context.queues.is_empty() {
            return self.line_up(place, end);
        }
        context.used = Duration::ZERO;
        // Others of the guest may be in line.
        if self.guests.get(guest as usize).is_some_and(|lines| !lines.is_empty()) {
            self.order.enter(guest);
        }
    }

    /// Charges time that the engine spent for a guest between two turns. The weight of its socket is not 0.
    pub fn charge_aside(&mut self, guest: GuestId, time: Duration, weight: u32) {
        if let Some(place) = self.guest_places.get(&guest) {
            self.order.charge_aside(*place, time, weight);
        }
    }

    /// Takes the queues for which `stays_in_line` is false out of their lines.
    pub fn retain(&mut self, mut stays_in_line: impl FnMut(u32) -> bool) {
        self.sole = self.sole.filter(|queue| stays_in_line(*queue));
        for (lines, guest) in self.guests.iter_mut().zip(0..) {
            lines.retain(&mut self.context_links, |place| {
                let context = &mut self.contexts[place as usize];
                context.queues.retain(&mut self.queue_links, &mut stays_in_line);
                context.in_line = !context.queues.is_empty();
                context.in_line
            });
            if lines.is_empty() {
                self.order.leave(guest);
            }
        }
    }

    /// Forgets a queue, which may be in line. Only walks lines of the queue's own guest.
    pub fn remove(&mut self, queue: u32) {
        self.sole = self.sole.filter(|sole| *sole != queue);
        self.rested = NONE;
        let Some(place) = self.members.get_mut(queue as usize) else { return };
        let place = std::mem::replace(place, NONE);
        let Some(context) = self.contexts.get_mut(place as usize) else { return };
        let lines = &mut self.guests[context.guest as usize];
        context.queues.retain(&mut self.queue_links, |other| other != queue);
        if context.in_line && context.queues.is_empty() {
            context.in_line = false;
            lines.retain(&mut self.context_links, |other| other != place);
            if lines.is_empty() {
                self.order.leave(context.guest);
            }
        }
        context.members -= 1;
        lines.members -= 1;
        if context.members == 0 {
            self.context_places.remove(&context.key);
            lines.remove_context(context.party);
            self.free_contexts.push(place);
        }
        if lines.members == 0 {
            self.guest_places.remove(&lines.id);
            self.order.remove(context.guest);
            self.free_guests.push(context.guest);
        }
    }
}

#[cfg(test)]
mod tests;
