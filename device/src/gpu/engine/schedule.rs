// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which queue gets the next turn of an engine.
//!
//! *Guests* share the engine's time by weight. Each guest has a virtual time that advances by the engine time
//! it consumed, divided by its weight, and the guest with the least virtual time is next (start-time fair
//! queueing). A guest that was idle continues at the virtual time of the others: idling saves nothing up.
//!
//! Within a guest, the *system context* is next: it pages, and its time is charged to the guest. Then comes
//! the highest *priority*. While lower priorities wait, one turn in every [`PATIENCE`] goes to one of them, in
//! rotation, so that none starves. Contexts of one priority take turns of one *quantum* of engine time each,
//! however many queues they have, and the queues of a context rotate within its quantum.
//!
//! Only adding and removing a queue may allocate. A pick is O(log n) in the guests that have work, and O(1)
//! in contexts and queues.

use super::index_queue::{End, Line, Links, NONE};
use crate::gpu::shared::rank::{LINES, Rank, SYSTEM};
use bellhop_host_kmd::hardware::{GuestId, HwContextId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

/// While lower priorities wait, one of them gets one turn in this many.
pub const PATIENCE: u32 = 8;

/// A unit of weight: a guest of this weight is charged the time as it is.
const UNIT_WEIGHT: u128 = 1 << 20;

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
    /// Engine time that the turn took, as far as it was measured.
    pub time: Duration,
    /// The weight of the queue's guest; not 0.
    pub weight: u32,
    /// The queue's rank, if it wants another turn.
    pub again: Option<Rank>,
}

/// The key of a context. The system context has no id.
type ContextKey = (GuestId, Option<HwContextId>);

/// A context that has queues.
#[derive(Debug)]
struct ContextLine {
    key: ContextKey,
    /// Index of its guest.
    guest: u32,
    /// How many of its queues are known.
    members: u32,
    /// Queues that wait for a turn.
    queues: Line,
    /// Whether the context is in one of its guest's lines.
    in_line: bool,
    /// The line that the context enters next.
    rank: Rank,
    /// Engine time that it used of its quantum.
    used: Duration,
}

impl ContextLine {
    fn new(key: ContextKey, guest: u32) -> Self {
        Self {
            key,
            guest,
            members: 0,
            queues: Line::EMPTY,
            in_line: false,
            rank: Rank::System,
            used: Duration::ZERO,
        }
    }
}

/// A guest that has queues.
#[derive(Debug)]
struct GuestLines {
    id: GuestId,
    /// How many of its queues are known.
    members: u32,
    virtual_time: u128,
    /// Whether the guest is in `order`.
    in_order: bool,
    /// Its contexts.
    lines: [Line; LINES],
    /// Which lines are not empty.
    waiting: u32,
    /// Turns in a row that the highest priority got while lower ones waited.
    passed_over: u32,
    /// The lower priority that got a turn last.
    served: u32,
}

impl GuestLines {
    fn new(id: GuestId) -> Self {
        Self {
            id,
            members: 0,
            virtual_time: 0,
            in_order: false,
            lines: [Line::EMPTY; LINES],
            waiting: 0,
            passed_over: 0,
            served: 0,
        }
    }

    /// Takes contexts out of line.
    fn retain(&mut self, links: &mut Links, mut stays: impl FnMut(u32) -> bool) {
        for (line, index) in self.lines.iter_mut().zip(0..) {
            line.retain(links, &mut stays);
            self.waiting &= !(u32::from(line.is_empty()) << index);
        }
        self.in_order = self.waiting != 0;
    }

    /// The line whose turn it is; one is not empty.
    fn choose(&mut self) -> usize {
        let highest = self.waiting.ilog2();
        let lower = self.waiting & !(1 << highest);
        if highest as usize == SYSTEM {
            return SYSTEM;
        }
        if lower == 0 {
            self.passed_over = 0;
            return highest as usize;
        }
        self.passed_over += 1;
        if self.passed_over < PATIENCE {
            return highest as usize;
        }
        self.passed_over = 0;
        // Downwards from the last, and then from the top again, so that each lower priority is served.
        let below = lower & ((1 << self.served) - 1);
        self.served = if below == 0 { lower } else { below }.ilog2();
        self.served as usize
    }
}

/// The queues that wait for a turn.
#[derive(Debug)]
pub struct Schedule {
    /// How long a context keeps the engine while others of its guest and its priority wait.
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
    /// Guests with a waiting queue, least virtual time first. A guest that is being served is not in it.
    order: BinaryHeap<Reverse<(u128, u32)>>,
    /// The virtual time of the guest that was served last.
    clock: u128,
    /// The only queue that waits for a turn; it is in no line. Mostly one queue alone has work, and picking it
    /// then costs nothing. It enters its line before another queue does.
    sole: Option<(u32, Rank)>,
    /// The turn that goes on began with no other queue in line.
    alone: bool,
}

impl Schedule {
    /// No queue waits.
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
            order: BinaryHeap::new(),
            clock: 0,
            sole: None,
            alone: false,
        }
    }

    /// Takes a queue in, of one of the guest's contexts, or its system context if of none. Its index is in
    /// no use.
    pub fn add(&mut self, queue: u32, guest: GuestId, context: Option<HwContextId>) {
        let guest = self.guest_place(guest);
        let place = self.context_place((self.guests[guest as usize].id, context), guest);
        self.guests[guest as usize].members += 1;
        self.contexts[place as usize].members += 1;
        if self.members.len() <= queue as usize {
            self.members.resize(queue as usize + 1, NONE);
        }
        self.members[queue as usize] = place;
        self.queue_links.add(queue);
    }

    /// Where a guest is, which is made known if it is not.
    fn guest_place(&mut self, id: GuestId) -> u32 {
        let known = self.guests.iter().position(|lines| lines.id == id && lines.members > 0);
        let free = || self.guests.iter().position(|lines| lines.members == 0);
        let place = match known.or_else(free) {
            Some(place) => place,
            None => {
                self.guests.push(GuestLines::new(id));
                // Room for all guests, so that no turn allocates.
                self.order.reserve(self.guests.len() - self.order.len());
                self.guests.len() - 1
            }
        };
        if self.guests[place].members == 0 {
            self.guests[place] = GuestLines::new(id);
        }
        place as u32
    }

    /// Where a context is, which is made known if it is not.
    fn context_place(&mut self, key: ContextKey, guest: u32) -> u32 {
        let Self { contexts, context_links, context_places, free_contexts, .. } = self;
        *context_places.entry(key).or_insert_with(|| {
            let context = ContextLine::new(key, guest);
            match free_contexts.pop() {
                Some(place) => {
                    contexts[place as usize] = context;
                    place
                }
                None => {
                    contexts.push(context);
                    let place = contexts.len() as u32 - 1;
                    context_links.add(place);
                    place
                }
            }
        })
    }

    /// Whether some queue is in line.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sole.is_none() && self.order.is_empty()
    }

    /// Puts a queue in line that is in none. Its rank counts from when its context is next put in line.
    #[inline]
    pub fn push(&mut self, queue: u32, rank: Rank) {
        match self.sole.take() {
            None if self.order.is_empty() => self.sole = Some((queue, rank)),
            sole => self.push_beside(sole, queue, rank),
        }
    }

    /// Adds a queue beside others, one of which may have been alone until now.
    #[inline(never)]
    fn push_beside(&mut self, sole: Option<(u32, Rank)>, queue: u32, rank: Rank) {
        for (queue, rank) in sole.into_iter().chain([(queue, rank)]) {
            self.put_in_line(queue, rank);
        }
    }

    fn put_in_line(&mut self, queue: u32, rank: Rank) {
        let Some(place) = self.members.get(queue as usize).copied() else { return };
        let Some(context) = self.contexts.get_mut(place as usize) else { return };
        context.rank = rank;
        context.queues.push(&mut self.queue_links, queue, End::Back);
        self.line_up(place, End::Back);
    }

    /// Puts a context that has queues in line, if it is in none, and its guest in order.
    #[inline]
    fn line_up(&mut self, place: u32, end: End) {
        let Some(context) = self.contexts.get_mut(place as usize) else { return };
        let Some(lines) = self.guests.get_mut(context.guest as usize) else { return };
        if !context.in_line {
            context.in_line = true;
            let line = context.rank.line();
            lines.waiting |= 1 << line;
            lines.lines[line].push(&mut self.context_links, place, end);
        }
        let guest = context.guest;
        self.enter_order(guest);
    }

    /// Puts a guest among those that have a context in line, if it has and is not there.
    #[inline]
    fn enter_order(&mut self, guest: u32) {
        let Some(lines) = self.guests.get_mut(guest as usize) else { return };
        if lines.waiting != 0 && !lines.in_order {
            lines.in_order = true;
            lines.virtual_time = lines.virtual_time.max(self.clock);
            self.order.push(Reverse((lines.virtual_time, guest)));
        }
    }

    /// Takes the queue whose turn it is out of line. [`Self::end_turn`] follows, before anything else.
    #[inline]
    pub fn next(&mut self) -> Option<Pick> {
        if let Some((queue, _)) = self.sole.take() {
            self.alone = true;
            return Some(Pick { queue, contested: false });
        }
        self.next_in_line()
    }

    fn next_in_line(&mut self) -> Option<Pick> {
        self.alone = false;
        let Reverse((virtual_time, guest)) = self.order.pop()?;
        self.clock = virtual_time;
        let lines = &mut self.guests[guest as usize];
        lines.in_order = false;
        let chosen = lines.choose();
        let place = lines.lines[chosen].pop(&mut self.context_links)?;
        if lines.lines[chosen].is_empty() {
            lines.waiting &= !(1 << chosen);
        }
        let context = &mut self.contexts[place as usize];
        context.in_line = false;
        let queue = context.queues.pop(&mut self.queue_links)?;
        let alone = lines.waiting == 0 && self.order.is_empty() && context.queues.is_empty();
        Some(Pick { queue, contested: !alone })
    }

    /// As [`Self::end_turn`], for a turn of no measured time after which the queue waits for none; false, and
    /// nothing is done, where other queues were in line when it began.
    #[inline]
    pub fn end_alone(&mut self, queue: u32) -> bool {
        let place = self.members.get(queue as usize).copied().unwrap_or(NONE);
        match self.contexts.get_mut(place as usize) {
            Some(context) if self.alone => {
                context.used = Duration::ZERO;
                true
            }
            _ => false,
        }
    }

    /// The turn that [`Self::next`] gave to a queue is over. Its time is its guest's and its context's.
    #[inline]
    pub fn end_turn(&mut self, queue: u32, ended: Ended) {
        let Ended { time, weight, again } = ended;
        let Some(place) = self.members.get(queue as usize).copied() else { return };
        let Some(context) = self.contexts.get_mut(place as usize) else { return };
        let guest = context.guest;
        let mut end = End::Front;
        if !time.is_zero() {
            context.used += time;
            if let Some(lines) = self.guests.get_mut(guest as usize) {
                // A guest that comes later continues from here, also when this one was alone.
                self.clock = self.clock.max(lines.virtual_time);
                lines.virtual_time += time.as_nanos() * UNIT_WEIGHT / u128::from(weight.max(1));
            }
        }
        if context.used >= self.quantum {
            // The next quantum is shorter by what the turn took too much, so that long turns gain nothing; but
            // a part is left, so that the context next in line gets a turn.
            let least = self.quantum.saturating_sub(Duration::from_nanos(1));
            context.used = (context.used - self.quantum).min(least);
            end = End::Back;
        }
        if let Some(rank) = again {
            let lines = self.guests.get(guest as usize);
            let is_sole = self.order.is_empty()
                && context.queues.is_empty()
                && lines.is_none_or(|lines| lines.waiting == 0);
            if is_sole {
                self.sole = Some((queue, rank));
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
        self.enter_order(guest);
    }

    /// Takes queues out of line.
    pub fn retain(&mut self, mut stays_in_line: impl FnMut(u32) -> bool) {
        self.sole = self.sole.filter(|(queue, _)| stays_in_line(*queue));
        for lines in &mut self.guests {
            lines.retain(&mut self.context_links, |place| {
                let context = &mut self.contexts[place as usize];
                context.queues.retain(&mut self.queue_links, &mut stays_in_line);
                context.in_line = !context.queues.is_empty();
                context.in_line
            });
        }
        self.order.retain(|Reverse((_, guest))| self.guests[*guest as usize].in_order);
    }

    /// Forgets a queue, which may be in line. Only lines of its own guest are walked.
    pub fn remove(&mut self, queue: u32) {
        self.sole = self.sole.filter(|(sole, _)| *sole != queue);
        let Some(place) = self.members.get_mut(queue as usize) else { return };
        let place = std::mem::replace(place, NONE);
        let Some(context) = self.contexts.get_mut(place as usize) else { return };
        let lines = &mut self.guests[context.guest as usize];
        context.queues.retain(&mut self.queue_links, |other| other != queue);
        if context.in_line && context.queues.is_empty() {
            context.in_line = false;
            lines.retain(&mut self.context_links, |other| other != place);
            let (guest, is_in_order) = (context.guest, lines.in_order);
            self.order.retain(|Reverse((_, other))| *other != guest || is_in_order);
        }
        context.members -= 1;
        lines.members -= 1;
        if context.members == 0 {
            self.context_places.remove(&context.key);
            self.free_contexts.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_host_kmd::hardware::SchedulingPriority;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const QUANTUM: Duration = Duration::from_nanos(200_000);

    fn guest(number: u64) -> GuestId {
        GuestId(number)
    }

    fn context(number: u64) -> Option<HwContextId> {
        Some(HwContextId(number))
    }

    fn rank(number: i32) -> Rank {
        Rank::Priority(SchedulingPriority::new(number).unwrap())
    }

    fn nanoseconds(time: u64) -> Duration {
        Duration::from_nanos(time)
    }

    /// Gives a turn of so many nanoseconds to whoever is next, who wants another.
    fn turn(schedule: &mut Schedule, of: impl Fn(u32) -> (Rank, u64, u32)) -> u32 {
        let pick = schedule.next().unwrap();
        let (rank, time, weight) = of(pick.queue);
        let ended = Ended { time: nanoseconds(time), weight, again: Some(rank) };
        schedule.end_turn(pick.queue, ended);
        pick.queue
    }

    /// The last turn, of a guest of weight 1.
    fn end(schedule: &mut Schedule, queue: u32, time: u64) {
        schedule.end_turn(queue, Ended { time: nanoseconds(time), weight: 1, again: None });
    }

    #[test]
    fn one_alone_is_not_contested_and_gets_every_turn() {
        let mut schedule = Schedule::new(QUANTUM);
        schedule.add(0, guest(1), context(1));
        assert!(schedule.is_empty());
        assert_eq!(schedule.next(), None);
        for _ in 0..3 {
            schedule.push(0, rank(-7));
            assert_eq!(schedule.next(), Some(Pick { queue: 0, contested: false }));
            end(&mut schedule, 0, 1000);
        }
        assert!(schedule.is_empty());
    }

    #[test]
    fn a_system_queue_comes_before_its_own_guests_queues_and_its_guest_pays() {
        let mut schedule = Schedule::new(QUANTUM);
        schedule.add(0, guest(1), context(1));
        schedule.add(1, guest(2), context(1));
        schedule.add(2, guest(2), None);
        let ranks = [rank(7), rank(7), Rank::System];
        for queue in 0..3 {
            schedule.push(queue, ranks[queue as usize]);
        }
        // It always has work: its guest's other queue gets nothing, the other guest loses nothing.
        let turns: Vec<_> = (0..20)
            .map(|_| turn(&mut schedule, |queue| (ranks[queue as usize], 1000, 100)))
            .collect();
        assert_eq!(turns.iter().filter(|queue| **queue == 0).count(), 10, "{turns:?}");
        assert_eq!(turns.iter().filter(|queue| **queue == 2).count(), 10, "{turns:?}");
    }

    #[test]
    fn a_guest_that_slept_saves_nothing_up_and_loses_nothing() {
        let mut schedule = Schedule::new(QUANTUM);
        schedule.add(0, guest(1), context(1));
        schedule.add(1, guest(2), context(1));
        schedule.push(0, rank(0));
        for _ in 0..1000 {
            assert_eq!(turn(&mut schedule, |_| (rank(0), 1000, 100)), 0);
        }
        schedule.push(1, rank(0));
        let turns: Vec<_> =
            (0..10).map(|_| turn(&mut schedule, |_| (rank(0), 1000, 100))).collect();
        assert_eq!(turns.iter().filter(|queue| **queue == 1).count(), 5, "{turns:?}");
    }

    #[test]
    fn a_context_gets_its_quantum_and_its_queues_share_it_in_turn() {
        let mut schedule = Schedule::new(nanoseconds(3000));
        for queue in 0..3 {
            schedule.add(queue, guest(1), context(u64::from(queue.min(1))));
            schedule.push(queue, rank(0));
        }
        let turns: Vec<_> = (0..12).map(|_| turn(&mut schedule, |_| (rank(0), 1000, 1))).collect();
        assert_eq!(turns, [0, 0, 0, 1, 1, 1, 0, 0, 0, 2, 2, 2]);
        // What is left of a quantum is the context's other queue's.
        turn(&mut schedule, |_| (rank(0), 3000, 1));
        let pick = schedule.next().unwrap();
        assert_eq!(pick.queue, 1);
        end(&mut schedule, 1, 1000);
        let turns: Vec<_> = (0..3).map(|_| turn(&mut schedule, |_| (rank(0), 1000, 1))).collect();
        assert_eq!(turns, [2, 2, 0]);
    }

    #[test]
    fn forgotten_queues_leave_their_places_to_others() {
        let mut schedule = Schedule::new(QUANTUM);
        for round in 0..100 {
            for queue in 0..4 {
                let number = round * 4 + u64::from(queue);
                schedule.add(queue, guest(number), context(number));
                schedule.push(queue, rank(0));
            }
            schedule.retain(|queue| queue == 3);
            assert_eq!(schedule.next(), Some(Pick { queue: 3, contested: false }));
            end(&mut schedule, 3, 10);
            (0..4).for_each(|queue| schedule.remove(queue));
            assert!(schedule.is_empty());
        }
        assert_eq!(schedule.guests.len(), 4);
        assert_eq!((schedule.contexts.len(), schedule.context_places.len()), (4, 0));
    }

    proptest! {
        #[test]
        fn ending_a_turn_alone_changes_nothing_for_the_turns_after_it(
            steps in proptest::collection::vec((0u32..6, 0u8..4, 0u64..300_000), 0..200),
        ) {
            let mut schedules = [(); 2].map(|()| {
                let mut schedule = Schedule::new(QUANTUM);
                for queue in 0..6 {
                    schedule.add(queue, guest(u64::from(queue % 2)), context(u64::from(queue % 3)));
                }
                schedule
            });
            let mut in_line = [false; 6];
            for (queue, step, time) in steps {
                if step == 0 {
                    if !std::mem::replace(&mut in_line[queue as usize], true) {
                        schedules.iter_mut().for_each(|schedule| schedule.push(queue, rank(0)));
                    }
                    continue;
                }
                let [first, second] = &mut schedules;
                let pick = first.next();
                prop_assert_eq!(pick, second.next());
                let Some(Pick { queue, contested }) = pick else { continue };
                let time = if step == 1 { 0 } else { time };
                let again = (step == 3).then_some(rank(0));
                in_line[queue as usize] = again.is_some();
                let ended = Ended { time: nanoseconds(time), weight: 1 + queue, again };
                first.end_turn(queue, ended);
                if time > 0 || again.is_some() || !second.end_alone(queue) {
                    second.end_turn(queue, ended);
                } else {
                    prop_assert!(!contested);
                }
            }
        }

        /// Whatever the weights, the lengths of turns and the queues of each guest, and whichever of them
        /// page all the time, guests that always have work get their shares: none is ever more than a
        /// longest turn off.
        #[test]
        fn shares_are_the_weights(
            guests in proptest::collection::vec(
                (1u32..1000, 1u64..100_000, 1u32..4, any::<bool>()),
                2..6,
            ),
            turns in 1usize..2000,
        ) {
            let mut schedule = Schedule::new(QUANTUM);
            let mut owners = Vec::new();
            for (index, (_, _, queues, pages)) in guests.iter().enumerate() {
                let system = pages.then_some(Rank::System);
                let ranks = (0..*queues).map(|_| rank(0)).chain(system);
                owners.extend(ranks.map(|rank| (index, rank)));
            }
            for ((owner, rank), queue) in owners.iter().zip(0u32..) {
                let context = (*rank != Rank::System).then_some(HwContextId(u64::from(queue % 2)));
                schedule.add(queue, guest(*owner as u64), context);
                schedule.push(queue, *rank);
            }
            let mut times = vec![0f64; guests.len()];
            for _ in 0..turns {
                let queue = turn(&mut schedule, |queue| {
                    let (owner, rank) = owners[queue as usize];
                    let (weight, length, ..) = guests[owner];
                    (rank, length, weight)
                });
                let (owner, rank) = owners[queue as usize];
                // Whoever pages does that first.
                prop_assert_eq!(rank == Rank::System, guests[owner].3);
                times[owner] += guests[owner].1 as f64;
            }
            // Start-time fair queueing: of any two, the times by weight differ by a turn of each.
            let by_weight = |index: usize| times[index] / f64::from(guests[index].0);
            let longest = |index: usize| guests[index].1 as f64 / f64::from(guests[index].0);
            for one in 0..guests.len() {
                for other in 0..guests.len() {
                    let difference = by_weight(one) - by_weight(other);
                    prop_assert!(difference <= longest(one) + longest(other) + 1.0);
                }
            }
        }

        /// Contexts of one guest and one priority that always have work have the same time, however
        /// many queues they have and however long their turns are.
        #[test]
        fn contexts_of_one_priority_share_alike(
            contexts in proptest::collection::vec((1u32..6, 1u64..150_000), 2..5),
            turns in 1usize..3000,
        ) {
            let mut schedule = Schedule::new(QUANTUM);
            let mut owners = Vec::new();
            for (number, (queues, _)) in contexts.iter().enumerate() {
                owners.extend((0..*queues).map(|_| number));
            }
            for (number, queue) in owners.iter().zip(0..) {
                schedule.add(queue, guest(1), context(*number as u64));
                schedule.push(queue, rank(0));
            }
            let mut times = vec![0; contexts.len()];
            for _ in 0..turns {
                let of = |queue| (rank(0), contexts[owners[queue as usize]].1, 100);
                let owner = owners[turn(&mut schedule, of) as usize];
                times[owner] += contexts[owner].1;
            }
            let difference = times.iter().max().unwrap() - times.iter().min().unwrap();
            let longest = contexts.iter().map(|(_, length)| *length).max().unwrap();
            let bound = QUANTUM.as_nanos() as u64 + longest;
            prop_assert!(difference <= bound, "{times:?} of {contexts:?}");
        }

        /// The greatest priority has seven of eight turns at least, and each other one gets one within
        /// the bound, whatever comes and goes above and below it.
        #[test]
        fn no_priority_starves(
            others in proptest::collection::vec((-7i32..=7, any::<bool>()), 1..40),
            victim in -7i32..=7,
        ) {
            let mut schedule = Schedule::new(QUANTUM);
            schedule.add(0, guest(1), context(0));
            for queue in 1..=others.len() as u32 {
                schedule.add(queue, guest(1), context(queue.into()));
            }
            schedule.push(0, rank(victim));
            let mut waiting = VecDeque::new();
            for (queue, (number, stays)) in (1..).zip(&others) {
                if *number != victim {
                    schedule.push(queue, rank(*number));
                    waiting.push_back((queue, *number, *stays));
                }
            }
            let lines = SchedulingPriority::COUNT as u32 - 1;
            let mut turns = 0;
            loop {
                let pick = schedule.next().unwrap();
                turns += 1;
                if pick.queue == 0 {
                    break;
                }
                let (_, number, stays) = *waiting.iter().find(|(q, ..)| *q == pick.queue).unwrap();
                let again = stays.then(|| rank(number));
                schedule.end_turn(pick.queue, Ended { time: nanoseconds(1), weight: 1, again });
                prop_assert!(turns < PATIENCE * lines, "{turns} turns without one");
            }
            prop_assert!(turns <= PATIENCE * lines);
        }

        /// Against plain lists: whoever is in line gets turns, nobody else, and queues of a context in the
        /// order in which they came.
        #[test]
        fn who_is_in_line_is_served_once_and_in_order(
            steps in proptest::collection::vec((0u32..12, any::<bool>()), 1..200),
        ) {
            // Three guests have two contexts, of a priority and two queues each.
            let owner = |queue: u32| (queue % 3, queue % 6);
            let number = |queue: u32| i32::from(queue % 6 < 3);
            let mut schedule = Schedule::new(QUANTUM);
            for queue in 0..12 {
                let (of_guest, of_context) = owner(queue);
                schedule.add(queue, guest(of_guest.into()), context(of_context.into()));
            }
            let mut model: Vec<u32> = Vec::new();
            for (queue, serve) in steps {
                if serve {
                    let Some(pick) = schedule.next() else {
                        prop_assert!(model.is_empty());
                        continue;
                    };
                    let place = model.iter().position(|other| *other == pick.queue);
                    model.remove(place.expect("somebody in line"));
                    let mut earlier = model[..place.unwrap()].iter();
                    prop_assert!(earlier.all(|other| owner(*other) != owner(pick.queue)));
                    prop_assert_eq!(pick.contested, !model.is_empty());
                    let ended = Ended { time: nanoseconds(7), weight: 3, again: None };
                    schedule.end_turn(pick.queue, ended);
                } else if !model.contains(&queue) {
                    schedule.push(queue, rank(number(queue)));
                    model.push(queue);
                }
                prop_assert_eq!(schedule.is_empty(), model.is_empty());
            }
        }
    }
}
