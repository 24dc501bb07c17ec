//! Who gets the next turn of an engine.
//!
//! *System queues* come before all others. Between *guests* the engine's time is shared by weight: each
//! guest has a virtual time, which goes on by the time that its turns took, divided by its weight, and
//! the guest whose virtual time is least is next (start-time fair queueing). A guest that had nothing
//! to do meanwhile begins where the others are: it saves nothing up. Within a guest the highest
//! *priority* is next, except that each lower one in line gets one of every [`PATIENCE`] turns in its
//! turn; so none waits for ever. Queues of one priority take turns.
//!
//! Taking a queue in and forgetting it may allocate. Everything else does not: picks are O(log n) in
//! the guests that have work, and O(1) in queues.

use bellhop_host_kmd::hardware::{GuestId, SchedulingPriority};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// While lower priorities are in line, one of them gets each turn of this number.
pub const PATIENCE: u32 = 8;

/// Priorities that there are.
const PRIORITIES: usize = SchedulingPriority::COUNT;

/// A unit of weight: a guest of this weight is charged the time as it is.
const UNIT_WEIGHT: u128 = 1 << 20;

/// No queue.
const NONE: u32 = u32::MAX;

/// In which line a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// Before all guests' own.
    System,
    /// Among its guest's.
    Guest(SchedulingPriority),
}

/// At which end of its line a queue is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It goes on with what it has begun.
    Front,
    /// It waits for its turn.
    Back,
}

/// Who is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// The queue.
    pub queue: u32,
    /// Whether others are in line.
    pub contested: bool,
}

/// Queues, first come first served.
#[derive(Debug, Clone, Copy)]
struct Line {
    first: u32,
    last: u32,
}

impl Line {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    fn is_empty(self) -> bool {
        self.first == NONE
    }
}

/// What is known of a queue.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// Its guest's place among the guests.
    guest: u32,
    /// Who stands behind it.
    next: u32,
}

/// What is known of a guest.
#[derive(Debug)]
struct GuestLines {
    id: GuestId,
    /// How many of its queues are known.
    members: u32,
    virtual_time: u128,
    /// Whether it is in `order`.
    in_order: bool,
    lines: [Line; PRIORITIES],
    /// Which lines are not empty.
    waiting: u32,
    /// Turns in a row that the highest priority got while others were in line.
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
            lines: [Line::EMPTY; PRIORITIES],
            waiting: 0,
            passed_over: 0,
            served: 0,
        }
    }

    /// The line whose turn it is; one is not empty.
    fn choose(&mut self) -> usize {
        let highest = self.waiting.ilog2();
        let lower = self.waiting & !(1 << highest);
        if lower == 0 {
            self.passed_over = 0;
            return highest as usize;
        }
        self.passed_over += 1;
        if self.passed_over < PATIENCE {
            return highest as usize;
        }
        self.passed_over = 0;
        // Downwards from the last, and then from the top again: each gets its turn.
        let below = lower & ((1 << self.served) - 1);
        self.served = if below == 0 { lower } else { below }.ilog2();
        self.served as usize
    }
}

/// The queues that are in line.
#[derive(Debug)]
pub struct Schedule {
    /// By the queue's index on the run list.
    members: Vec<Member>,
    guests: Vec<GuestLines>,
    system: Line,
    /// Guests with a queue in line, least virtual time first. A guest that is being served is not in it.
    order: BinaryHeap<Reverse<(u128, u32)>>,
    /// The virtual time of the guest that was served last.
    clock: u128,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            guests: Vec::new(),
            system: Line::EMPTY,
            order: BinaryHeap::new(),
            clock: 0,
        }
    }
}

impl Schedule {
    /// Takes a queue in. Its index is in no use.
    pub fn add(&mut self, queue: u32, guest: GuestId) {
        let known = self.guests.iter().position(|lines| lines.id == guest && lines.members > 0);
        let free = || self.guests.iter().position(|lines| lines.members == 0);
        let place = match known.or_else(free) {
            Some(place) => place,
            None => {
                self.guests.push(GuestLines::new(guest));
                // Room for all of them, so that no turn has to allocate.
                self.order.reserve(self.guests.len() - self.order.len());
                self.guests.len() - 1
            }
        };
        let lines = &mut self.guests[place];
        if lines.members == 0 {
            *lines = GuestLines::new(guest);
        }
        lines.members += 1;
        let member = Member { guest: place as u32, next: NONE };
        if self.members.len() <= queue as usize {
            self.members.resize(queue as usize + 1, Member { guest: NONE, next: NONE });
        }
        self.members[queue as usize] = member;
    }

    /// Whether some queue is in line.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.system.is_empty()
    }

    /// Puts a queue in line that is in none.
    #[inline]
    pub fn push(&mut self, queue: u32, rank: Rank, end: End) {
        let Some(member) = self.members.get(queue as usize) else { return };
        let guest = member.guest;
        let line = match rank {
            Rank::System => &mut self.system,
            Rank::Guest(priority) => {
                let Some(lines) = self.guests.get_mut(guest as usize) else { return };
                lines.waiting |= 1 << priority.index();
                &mut lines.lines[priority.index()]
            }
        };
        let (first, last) = (line.first, line.last);
        match end {
            _ if first == NONE => *line = Line { first: queue, last: queue },
            End::Front => line.first = queue,
            End::Back => line.last = queue,
        }
        match end {
            End::Front => self.members[queue as usize].next = first,
            End::Back => {
                self.members[queue as usize].next = NONE;
                if let Some(before) = self.members.get_mut(last as usize) {
                    before.next = queue;
                }
            }
        }
        self.line_up(guest);
    }

    /// Puts a guest among those that have a queue in line, if it has and is not there.
    #[inline]
    fn line_up(&mut self, guest: u32) {
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
        if !self.system.is_empty() {
            let queue = take_first(&mut self.system, &self.members);
            return Some(Pick { queue, contested: !self.is_empty() });
        }
        let Reverse((virtual_time, guest)) = self.order.pop()?;
        self.clock = virtual_time;
        let lines = &mut self.guests[guest as usize];
        lines.in_order = false;
        let chosen = lines.choose();
        let queue = take_first(&mut lines.lines[chosen], &self.members);
        if lines.lines[chosen].is_empty() {
            lines.waiting &= !(1 << chosen);
        }
        let contested = lines.waiting != 0 || !self.order.is_empty();
        Some(Pick { queue, contested })
    }

    /// The turn that [`Self::next`] gave to a queue is over. It took `nanoseconds` of the engine's time,
    /// which are its guest's, whose weight is not 0.
    #[inline]
    pub fn end_turn(&mut self, queue: u32, nanoseconds: u64, weight: u32) {
        let Some(member) = self.members.get(queue as usize) else { return };
        let guest = member.guest;
        if nanoseconds != 0
            && let Some(lines) = self.guests.get_mut(guest as usize)
        {
            // One that is in order goes on to stand where it stands; a system queue's turn counts
            // from its guest's next on.
            lines.virtual_time += u128::from(nanoseconds) * UNIT_WEIGHT / u128::from(weight.max(1));
        }
        self.line_up(guest);
    }

    /// Takes queues out of line, and forgets those that are named by `forget`.
    pub fn retain(
        &mut self,
        mut stays_in_line: impl FnMut(u32) -> bool,
        forget: impl IntoIterator<Item = u32>,
    ) {
        let Self { members, guests, system, order, .. } = self;
        let mut filter = |line: &mut Line| {
            let mut left = std::mem::replace(line, Line::EMPTY).first;
            while let Some(next) = members.get(left as usize).map(|member| member.next) {
                if stays_in_line(left) {
                    members[left as usize].next = NONE;
                    match members.get_mut(line.last as usize) {
                        Some(last) => last.next = left,
                        None => line.first = left,
                    }
                    line.last = left;
                }
                left = next;
            }
        };
        filter(system);
        for lines in guests.iter_mut() {
            for (line, index) in lines.lines.iter_mut().zip(0..) {
                filter(line);
                if line.is_empty() {
                    lines.waiting &= !(1 << index);
                }
            }
            lines.in_order = lines.waiting != 0;
        }
        order.retain(|Reverse((_, guest))| guests[*guest as usize].in_order);
        for queue in forget {
            if let Some(member) = members.get_mut(queue as usize)
                && let Some(lines) = guests.get_mut(member.guest as usize)
            {
                lines.members -= 1;
                member.guest = NONE;
            }
        }
    }
}

/// Takes the first queue out of a line that is not empty.
#[inline]
fn take_first(line: &mut Line, members: &[Member]) -> u32 {
    let queue = line.first;
    line.first = members.get(queue as usize).map_or(NONE, |member| member.next);
    if line.first == NONE {
        line.last = NONE;
    }
    queue
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn guest(number: u64) -> GuestId {
        GuestId(number)
    }

    fn priority(number: i32) -> SchedulingPriority {
        SchedulingPriority::new(number).unwrap()
    }

    fn rank(number: i32) -> Rank {
        Rank::Guest(priority(number))
    }

    /// Gives a turn of so many nanoseconds to whoever is next, who wants another.
    fn turn(schedule: &mut Schedule, of: impl Fn(u32) -> (Rank, u64, u32)) -> u32 {
        let pick = schedule.next().unwrap();
        let (rank, nanoseconds, weight) = of(pick.queue);
        schedule.end_turn(pick.queue, nanoseconds, weight);
        schedule.push(pick.queue, rank, End::Back);
        pick.queue
    }

    #[test]
    fn one_alone_is_not_contested_and_gets_every_turn() {
        let mut schedule = Schedule::default();
        schedule.add(0, guest(1));
        assert!(schedule.is_empty());
        assert_eq!(schedule.next(), None);
        for _ in 0..3 {
            schedule.push(0, rank(-7), End::Back);
            assert_eq!(schedule.next(), Some(Pick { queue: 0, contested: false }));
            schedule.end_turn(0, 1000, 1);
        }
        assert!(schedule.is_empty());
    }

    #[test]
    fn a_system_queue_comes_first_and_its_guest_pays() {
        let mut schedule = Schedule::default();
        for queue in 0..3 {
            schedule.add(queue, guest(u64::from(queue.min(1))));
        }
        // Queue 2 is the system queue of queue 1's guest.
        schedule.push(0, rank(7), End::Back);
        schedule.push(1, rank(7), End::Back);
        schedule.push(2, Rank::System, End::Back);
        assert_eq!(schedule.next(), Some(Pick { queue: 2, contested: true }));
        schedule.end_turn(2, 10_000, 100);
        let turns: Vec<_> =
            (0..12).map(|_| turn(&mut schedule, |_| (rank(7), 1000, 100))).collect();
        assert!(turns.iter().filter(|queue| **queue == 0).count() >= 10, "{turns:?}");
    }

    #[test]
    fn a_guest_that_slept_saves_nothing_up_and_loses_nothing() {
        let mut schedule = Schedule::default();
        schedule.add(0, guest(1));
        schedule.add(1, guest(2));
        schedule.push(0, rank(0), End::Back);
        for _ in 0..1000 {
            assert_eq!(turn(&mut schedule, |_| (rank(0), 1000, 100)), 0);
        }
        schedule.push(1, rank(0), End::Back);
        let turns: Vec<_> =
            (0..10).map(|_| turn(&mut schedule, |_| (rank(0), 1000, 100))).collect();
        assert_eq!(turns.iter().filter(|queue| **queue == 1).count(), 5, "{turns:?}");
    }

    #[test]
    fn forgotten_queues_leave_their_places_to_others() {
        let mut schedule = Schedule::default();
        for round in 0..100 {
            for queue in 0..4 {
                schedule.add(queue, guest(round * 4 + u64::from(queue)));
                schedule.push(queue, rank(0), End::Back);
            }
            schedule.retain(|queue| queue == 3, []);
            assert_eq!(schedule.next(), Some(Pick { queue: 3, contested: false }));
            schedule.end_turn(3, 10, 1);
            schedule.retain(|_| false, 0..4);
            assert!(schedule.is_empty());
        }
        assert_eq!(schedule.guests.len(), 4);
    }

    proptest! {
        /// Whatever the weights, the lengths of turns and the queues of each guest, guests that always
        /// have work get their shares: none is ever more than a longest turn off.
        #[test]
        fn shares_are_the_weights(
            guests in proptest::collection::vec((1u32..1000, 1u64..100_000, 1u32..4), 2..6),
            turns in 1usize..2000,
        ) {
            let mut schedule = Schedule::default();
            let owners: Vec<usize> = guests
                .iter()
                .enumerate()
                .flat_map(|(index, (_, _, queues))| vec![index; *queues as usize])
                .collect();
            for (owner, queue) in owners.iter().zip(0..) {
                schedule.add(queue, guest(*owner as u64));
                schedule.push(queue, rank(0), End::Back);
            }
            let mut times = vec![0f64; guests.len()];
            for _ in 0..turns {
                let queue = turn(&mut schedule, |queue| {
                    let (weight, length, _) = guests[owners[queue as usize]];
                    (rank(0), length, weight)
                });
                let owner = owners[queue as usize];
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

        /// The greatest priority has seven of eight turns at least, and each other one gets one within
        /// the bound, whatever comes and goes above and below it.
        #[test]
        fn no_priority_starves(
            others in proptest::collection::vec((-7i32..=7, any::<bool>()), 1..40),
            victim in -7i32..=7,
        ) {
            let mut schedule = Schedule::default();
            schedule.add(0, guest(1));
            for queue in 0..others.len() {
                schedule.add(queue as u32 + 1, guest(1));
            }
            schedule.push(0, rank(victim), End::Back);
            let mut waiting = VecDeque::new();
            for (queue, (number, stays)) in (1..).zip(&others) {
                if *number != victim {
                    schedule.push(queue, rank(*number), End::Back);
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
                schedule.end_turn(pick.queue, 1, 1);
                if stays {
                    schedule.push(pick.queue, rank(number), End::Front);
                }
                prop_assert!(turns < PATIENCE * lines, "{turns} turns without one");
            }
            prop_assert!(turns <= PATIENCE * lines);
        }

        /// Against plain lists: whoever is in line gets turns, nobody else, and queues of one priority
        /// in the order in which they came.
        #[test]
        fn who_is_in_line_is_served_once_and_in_order(
            steps in proptest::collection::vec((0u32..6, -1i32..2, any::<bool>()), 1..200),
        ) {
            let mut schedule = Schedule::default();
            for queue in 0..6 {
                schedule.add(queue, guest(u64::from(queue % 3)));
            }
            let mut model: Vec<(u32, i32)> = Vec::new();
            for (queue, number, serve) in steps {
                if serve {
                    let Some(pick) = schedule.next() else {
                        prop_assert!(model.is_empty());
                        continue;
                    };
                    let place = model.iter().position(|(other, _)| *other == pick.queue);
                    let place = place.expect("somebody in line");
                    let (picked, number) = model.remove(place);
                    let earlier = model[..place].iter();
                    let mut same_line = earlier.filter(|(q, n)| q % 3 == picked % 3 && *n == number);
                    prop_assert!(same_line.next().is_none());
                    prop_assert_eq!(pick.contested, !model.is_empty());
                    schedule.end_turn(pick.queue, 7, 3);
                } else if model.iter().all(|(other, _)| *other != queue) {
                    schedule.push(queue, rank(number), End::Back);
                    model.push((queue, number));
                }
                prop_assert_eq!(schedule.is_empty(), model.is_empty());
            }
        }
    }
}
