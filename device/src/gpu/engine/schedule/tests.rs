// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks the schedule against simple models.

use super::party_lines::PATIENCE;
use super::*;
use bellhop_host_kmd::hardware::SchedulingPriority;
use proptest::prelude::*;
use std::collections::VecDeque;

const QUANTUM: Duration = Duration::from_nanos(200_000);

fn guest(number: u64) -> GuestId {
    GuestId(number)
}

/// The weight of a process of which nothing is said.
const ALIKE: u32 = 100;

/// A context of its guest's only group.
fn context(number: u64) -> Option<(HwContextId, Party)> {
    of_process(number, 0)
}

/// A context of a process in a group of this number.
fn of_process(context: u64, process: u64) -> Option<(HwContextId, Party)> {
    Some((HwContextId(context), Party(process as u32)))
}

fn rank(number: i32) -> Rank {
    Rank::Priority(SchedulingPriority::new(number).unwrap())
}

fn nanoseconds(time: u64) -> Duration {
    Duration::from_nanos(time)
}

impl Schedule {
    /// Adds a queue of a guest that has a socket for itself.
    fn add_alone(&mut self, queue: u32, guest: GuestId, of: Option<(HwContextId, Party)>) -> bool {
        self.add(queue, (guest, SocketId(guest.0)), of)
    }
}

/// Gives a turn to the next queue, which then wants another.
fn turn(schedule: &mut Schedule, of: impl Fn(u32) -> (Rank, u64, u32)) -> u32 {
    turn_of_process(schedule, |queue| (of(queue), ALIKE))
}

/// The same where processes have weights.
fn turn_of_process(schedule: &mut Schedule, of: impl Fn(u32) -> ((Rank, u64, u32), u32)) -> u32 {
    let pick = schedule.next().unwrap();
    let ((rank, time, weight), party_weight) = of(pick.queue);
    let time = nanoseconds(time);
    let ended = Ended { time, weight, party_weight, again: Some(rank) };
    schedule.end_turn(pick.queue, ended);
    pick.queue
}

/// Ends the last turn, of a guest of weight 1.
fn end(schedule: &mut Schedule, queue: u32, time: u64) {
    schedule.end_turn(
        queue,
        Ended { time: nanoseconds(time), weight: 1, party_weight: ALIKE, again: None },
    );
}

#[test]
fn one_alone_is_not_contested_and_gets_every_turn() {
    let mut schedule = Schedule::new(QUANTUM);
    schedule.add_alone(0, guest(1), context(1));
    assert!(schedule.is_empty());
    assert_eq!(schedule.next(), None);
    for _ in 0..3 {
        schedule.push(0, |_| rank(-7));
        assert_eq!(schedule.next(), Some(Pick { queue: 0, contested: false }));
        end(&mut schedule, 0, 1000);
    }
    assert!(schedule.is_empty());
}

#[test]
fn a_system_queue_comes_before_its_own_guests_queues_and_its_guest_pays() {
    let mut schedule = Schedule::new(QUANTUM);
    schedule.add_alone(0, guest(1), context(1));
    schedule.add_alone(1, guest(2), context(1));
    schedule.add_alone(2, guest(2), None);
    let ranks = [rank(7), rank(7), Rank::System];
    for queue in 0..3 {
        schedule.push(queue, |queue| ranks[queue as usize]);
    }
    // The system queue always has work: its guest's other queue gets no turn, and the other guest loses none.
    let turns: Vec<_> =
        (0..20).map(|_| turn(&mut schedule, |queue| (ranks[queue as usize], 1000, 100))).collect();
    assert_eq!(turns.iter().filter(|queue| **queue == 0).count(), 10, "{turns:?}");
    assert_eq!(turns.iter().filter(|queue| **queue == 2).count(), 10, "{turns:?}");
}

#[test]
fn a_guest_that_slept_saves_nothing_up_and_loses_nothing() {
    let mut schedule = Schedule::new(QUANTUM);
    schedule.add_alone(0, guest(1), context(1));
    schedule.add_alone(1, guest(2), context(1));
    schedule.push(0, |_| rank(0));
    for _ in 0..1000 {
        assert_eq!(turn(&mut schedule, |_| (rank(0), 1000, 100)), 0);
    }
    schedule.push(1, |_| rank(0));
    let turns: Vec<_> = (0..10).map(|_| turn(&mut schedule, |_| (rank(0), 1000, 100))).collect();
    assert_eq!(turns.iter().filter(|queue| **queue == 1).count(), 5, "{turns:?}");
}

#[test]
fn a_guest_that_used_the_engine_between_turns_has_so_many_fewer_whether_it_waited_or_not() {
    for waits in [true, false] {
        let mut schedule = Schedule::new(QUANTUM);
        for queue in 0..2 {
            schedule.add_alone(queue, guest(queue.into()), context(1));
            schedule.push(queue, |_| rank(0));
        }
        if !waits {
            schedule.retain(|queue| queue == 1);
        }
        schedule.charge_aside(guest(0), nanoseconds(10_000), 100);
        schedule.charge_aside(guest(7), nanoseconds(10_000), 100);
        if !waits {
            schedule.push(0, |_| rank(0));
        }
        let turns: Vec<_> =
            (0..30).map(|_| turn(&mut schedule, |_| (rank(0), 1000, 100))).collect();
        assert_eq!(turns.iter().filter(|queue| **queue == 0).count(), 10, "{turns:?}");
    }
}

#[test]
fn a_context_gets_its_quantum_and_its_queues_share_it_in_turn() {
    let mut schedule = Schedule::new(nanoseconds(3000));
    for queue in 0..3 {
        schedule.add_alone(queue, guest(1), context(u64::from(queue.min(1))));
        schedule.push(queue, |_| rank(0));
    }
    let turns: Vec<_> = (0..12).map(|_| turn(&mut schedule, |_| (rank(0), 1000, 1))).collect();
    assert_eq!(turns, [0, 0, 0, 1, 1, 1, 0, 0, 0, 2, 2, 2]);
    // Another queue of the context gets the rest of its quantum.
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
            schedule.add_alone(queue, guest(number), context(number));
            schedule.push(queue, |_| rank(0));
        }
        schedule.retain(|queue| queue == 3);
        assert_eq!(schedule.next(), Some(Pick { queue: 3, contested: false }));
        end(&mut schedule, 3, 10);
        (0..4).for_each(|queue| schedule.remove(queue));
        assert!(schedule.is_empty());
    }
    assert_eq!((schedule.guests.len(), schedule.guest_places.len()), (4, 0));
    assert_eq!(schedule.order.known_sockets(), (4, 0));
    assert_eq!((schedule.contexts.len(), schedule.context_places.len()), (4, 0));
}

#[test]
fn guests_of_a_socket_that_come_one_after_another_have_no_more_than_one_guest() {
    const TURNS: usize = 900;
    let mut schedule = Schedule::new(QUANTUM);
    // Guest 0 has a socket for itself and always has work. The eight others have one together, and each has work only when
    // the one before has had its turn.
    schedule.add_alone(0, guest(0), context(0));
    for queue in 1..=8 {
        schedule.add(queue, (guest(queue.into()), SocketId(99)), context(0));
    }
    schedule.push(0, |_| rank(0));
    let mut coming = 1;
    schedule.push(coming, |_| rank(0));
    let mut turns = 0;
    for _ in 0..TURNS {
        let queue = schedule.next().unwrap().queue;
        let again = (queue == 0).then(|| rank(0));
        schedule.end_turn(
            queue,
            Ended { time: nanoseconds(1000), weight: 100, party_weight: ALIKE, again },
        );
        if queue != 0 {
            turns += 1;
            coming = coming % 8 + 1;
            schedule.push(coming, |_| rank(0));
        }
    }
    assert_eq!(turns, TURNS / 2);
}

#[test]
fn what_a_guest_leaves_is_the_others_of_its_socket() {
    let mut schedule = Schedule::new(QUANTUM);
    let socket = |queue: u32| SocketId(u64::from(queue.min(1)));
    for queue in 0..4 {
        schedule.add(queue, (guest(queue.into()), socket(queue)), context(0));
        schedule.push(queue, |_| rank(0));
    }
    let counts = |schedule: &mut Schedule| {
        let mut counts = [0; 4];
        for _ in 0..600 {
            counts[turn(schedule, |_| (rank(0), 1000, 100)) as usize] += 1;
        }
        counts
    };
    assert_eq!(counts(&mut schedule), [300, 100, 100, 100]);
    schedule.retain(|queue| queue != 2);
    assert_eq!(counts(&mut schedule), [300, 150, 0, 150]);
    schedule.remove(3);
    assert_eq!(counts(&mut schedule), [300, 300, 0, 0]);
    schedule.remove(1);
    // The socket is known as long as one of its guests has a queue.
    assert!(!schedule.add(1, (guest(1), socket(1)), context(0)));
    schedule.remove(1);
    schedule.remove(2);
    assert!(schedule.add(1, (guest(7), socket(1)), context(0)));
    schedule.push(1, |_| rank(0));
    assert_eq!(counts(&mut schedule), [300, 300, 0, 0]);
}

#[test]
fn time_beside_turns_is_the_sockets_whichever_guest_it_was_for() {
    let mut schedule = Schedule::new(QUANTUM);
    for queue in 0..3 {
        let socket = SocketId(u64::from(queue.min(1)));
        schedule.add(queue, (guest(queue.into()), socket), context(0));
        schedule.push(queue, |_| rank(0));
    }
    schedule.charge_aside(guest(1), nanoseconds(10_000), 100);
    let turns: Vec<_> = (0..30).map(|_| turn(&mut schedule, |_| (rank(0), 1000, 100))).collect();
    let count = |queue| turns.iter().filter(|of| **of == queue).count();
    assert_eq!(count(0), 20, "{turns:?}");
    assert!(count(1) < count(2), "{turns:?}");
}

/// When a guest's queue is destroyed, nothing of it stays in the order, whichever way its guest comes back.
#[test]
fn a_guest_that_lost_its_last_waiting_queue_is_passed_over_until_it_has_another() {
    let mut schedule = Schedule::new(QUANTUM);
    for queue in 0..3 {
        schedule.add_alone(queue, guest(queue.into()), context(0));
        schedule.push(queue, |_| rank(0));
    }
    schedule.remove(0);
    schedule.remove(1);
    assert_eq!(schedule.next(), Some(Pick { queue: 2, contested: false }));
    end(&mut schedule, 2, 1000);
    assert!(schedule.is_empty());
    for queue in 0..3 {
        if queue < 2 {
            schedule.add_alone(queue, guest(queue.into()), context(0));
        }
        schedule.push(queue, |_| rank(0));
    }
    schedule.remove(1);
    schedule.add_alone(1, guest(1), context(0));
    schedule.push(1, |_| rank(0));
    let mut turns: Vec<_> = (0..3).map(|_| schedule.next().unwrap().queue).collect();
    turns.sort_unstable();
    assert_eq!(turns, [0, 1, 2]);
    assert!(schedule.is_empty());
}

/// How many of the next turns each queue has, all of one length, by the weight of its process.
fn turns_of(schedule: &mut Schedule, turns: usize, weight: impl Fn(u32) -> u32) -> [usize; 6] {
    let mut counts = [0; 6];
    for _ in 0..turns {
        let of = |queue| ((rank(0), 1000, 100), weight(queue));
        counts[turn_of_process(schedule, of) as usize] += 1;
    }
    counts
}

#[test]
fn processes_of_a_guest_share_its_part_by_weight_and_no_other_guest_has_less() {
    let mut schedule = Schedule::new(QUANTUM);
    schedule.add_alone(0, guest(0), context(0));
    for queue in 1..=3_u32 {
        schedule.add_alone(queue, guest(1), of_process(queue.into(), queue.into()));
    }
    for queue in 0..=3 {
        schedule.push(queue, |_| rank(0));
    }
    let weight = |queue| [100, 100, 200, 300][queue as usize];
    assert_eq!(turns_of(&mut schedule, 1200, weight), [600, 100, 200, 300, 0, 0]);
    // What one leaves goes to the others of its guest.
    schedule.retain(|queue| queue != 3);
    assert_eq!(turns_of(&mut schedule, 600, weight), [300, 100, 200, 0, 0, 0]);
}

#[test]
fn no_process_has_more_by_a_priority_by_contexts_or_by_queues() {
    let mut schedule = Schedule::new(nanoseconds(1));
    schedule.add_alone(0, guest(1), of_process(0, 0));
    for queue in 1..6 {
        schedule.add_alone(queue, guest(1), of_process(u64::from(queue.min(3)), 1));
    }
    let ranks = |queue: u32| rank(if queue == 0 { 0 } else { 7 });
    for queue in 0..6 {
        schedule.push(queue, ranks);
    }
    let mut turns = [0; 2];
    for _ in 0..600 {
        let queue = turn(&mut schedule, |queue| (ranks(queue), 1000, 100));
        turns[queue.min(1) as usize] += 1;
    }
    assert_eq!(turns, [300, 300]);
}

#[test]
fn processes_of_a_group_have_one_part_together() {
    let mut schedule = Schedule::new(QUANTUM);
    schedule.add_alone(0, guest(1), of_process(0, 0));
    for queue in 1..6 {
        let of = Some((HwContextId(queue.into()), Party(7)));
        schedule.add_alone(queue, guest(1), of);
    }
    for queue in 0..6 {
        schedule.push(queue, |_| rank(0));
    }
    let counts = turns_of(&mut schedule, 2000, |_| ALIKE);
    assert_eq!(counts[0], 1000, "{counts:?}");
    assert_eq!(counts[1..], [200; 5]);
}

#[test]
fn forgotten_processes_leave_their_places_to_others() {
    let mut schedule = Schedule::new(QUANTUM);
    schedule.add_alone(5, guest(1), context(0));
    for round in 1..=100 {
        for queue in 0..4 {
            let process = round * 4 + u64::from(queue);
            schedule.add_alone(queue, guest(1), of_process(process, process));
            schedule.push(queue, |_| rank(0));
        }
        assert_eq!(turns_of(&mut schedule, 8, |_| ALIKE), [2, 2, 2, 2, 0, 0]);
        (0..4).for_each(|queue| schedule.remove(queue));
        assert!(schedule.is_empty());
    }
    let (places, known) = schedule.guests[0].known_parties();
    assert!(places <= 9 && known == 1, "{places} places");
}

proptest! {
    /// With any weights, turn lengths, priorities and numbers of contexts, parties of a guest that always have work get their
    /// shares of what the guest has: none is ever off by more than its longest turn.
    #[test]
    fn shares_within_a_guest_are_the_weights(
        parties in proptest::collection::vec(
            (1u32..1000, proptest::collection::vec((1u64..100_000, -7i32..=7), 1..5)),
            2..5,
        ),
        turns in 1usize..2000,
    ) {
        let mut schedule = Schedule::new(QUANTUM);
        let mut owners = Vec::new();
        for (party, (weight, contexts)) in parties.iter().enumerate() {
            owners.extend(contexts.iter().map(|of| (party, *weight, *of)));
        }
        for ((party, ..), queue) in owners.iter().zip(0u32..) {
            let party = Party(*party as u32);
            schedule.add_alone(queue, guest(1), Some((HwContextId(queue.into()), party)));
            schedule.push(queue, |queue| rank(owners[queue as usize].2.1));
        }
        let mut times = vec![0f64; parties.len()];
        for _ in 0..turns {
            let queue = turn_of_process(&mut schedule, |queue| {
                let (_, weight, (length, priority)) = owners[queue as usize];
                ((rank(priority), length, 100), weight)
            });
            let (party, _, (length, _)) = owners[queue as usize];
            times[party] += length as f64;
        }
        let by_weight = |party: usize| times[party] / f64::from(parties[party].0);
        let longest = |party: usize| {
            let (weight, contexts) = &parties[party];
            let longest = contexts.iter().map(|(length, _)| *length).max().unwrap();
            longest as f64 / f64::from(*weight)
        };
        for one in 0..parties.len() {
            for other in 0..parties.len() {
                let difference = by_weight(one) - by_weight(other);
                prop_assert!(difference <= longest(one) + longest(other) + 1.0, "{times:?}");
            }
        }
    }

    #[test]
    fn ending_a_turn_alone_changes_nothing_for_the_turns_after_it(
        steps in proptest::collection::vec((0u32..6, 0u8..4, 0u64..300_000), 0..200),
    ) {
        let mut schedules = [(); 2].map(|()| {
            let mut schedule = Schedule::new(QUANTUM);
            for queue in 0..6 {
                schedule.add_alone(queue, guest(u64::from(queue % 2)), context(u64::from(queue % 3)));
            }
            schedule
        });
        let mut in_line = [false; 6];
        for (queue, step, time) in steps {
            if step == 0 {
                if !std::mem::replace(&mut in_line[queue as usize], true) {
                    schedules.iter_mut().for_each(|schedule| schedule.push(queue, |_| rank(0)));
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
            let ended = Ended { time: nanoseconds(time), weight: 1 + queue, party_weight: ALIKE, again };
            first.end_turn(queue, ended);
            if time > 0 || again.is_some() || !second.end_alone(queue) {
                second.end_turn(queue, ended);
            } else {
                prop_assert!(!contested);
            }
        }
    }

    /// With any weights, turn lengths and numbers of queues, and with any guests that page all the time, guests
    /// that always have work get their shares: none is ever off by more than its longest turn.
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
            let context = context(u64::from(queue % 2)).filter(|_| *rank != Rank::System);
            schedule.add_alone(queue, guest(*owner as u64), context);
            schedule.push(queue, |queue| owners[queue as usize].1);
        }
        let mut times = vec![0f64; guests.len()];
        for _ in 0..turns {
            let queue = turn(&mut schedule, |queue| {
                let (owner, rank) = owners[queue as usize];
                let (weight, length, ..) = guests[owner];
                (rank, length, weight)
            });
            let (owner, rank) = owners[queue as usize];
            // A guest that pages does that first.
            prop_assert_eq!(rank == Rank::System, guests[owner].3);
            times[owner] += guests[owner].1 as f64;
        }
        // Start-time fair queueing: the weighted times of any two guests differ by at most a turn of each.
        let by_weight = |index: usize| times[index] / f64::from(guests[index].0);
        let longest = |index: usize| guests[index].1 as f64 / f64::from(guests[index].0);
        for one in 0..guests.len() {
            for other in 0..guests.len() {
                let difference = by_weight(one) - by_weight(other);
                prop_assert!(difference <= longest(one) + longest(other) + 1.0);
            }
        }
    }

    /// Sockets share by weight however many guests each has, and the guests of a socket share alike: of those that always
    /// have work, none is ever off by more than two turns.
    #[test]
    fn shares_are_the_sockets_and_their_guests_share_alike(
        sockets in proptest::collection::vec(
            (1u32..1000, proptest::collection::vec(1u64..100_000, 1..5)),
            2..5,
        ),
        turns in 1usize..2000,
    ) {
        let mut schedule = Schedule::new(QUANTUM);
        let mut owners = Vec::new();
        for (socket, (weight, guests)) in sockets.iter().enumerate() {
            owners.extend(guests.iter().map(|length| (socket, *weight, *length)));
        }
        for ((socket, ..), queue) in owners.iter().zip(0u32..) {
            let of = (guest(queue.into()), SocketId(*socket as u64));
            schedule.add(queue, of, context(0));
            schedule.push(queue, |_| rank(0));
        }
        let mut times = vec![0; owners.len()];
        for _ in 0..turns {
            let queue = turn(&mut schedule, |queue| {
                let (_, weight, length) = owners[queue as usize];
                (rank(0), length, weight)
            });
            times[queue as usize] += owners[queue as usize].2;
        }
        let of_socket = |socket: usize| {
            let own = owners.iter().zip(&times).filter(move |((of, ..), _)| *of == socket);
            own.map(|((_, weight, length), time)| (f64::from(*weight), *length as f64, *time as f64))
        };
        let by_weight = |socket| of_socket(socket).map(|(weight, _, time)| time / weight).sum::<f64>();
        let longest = |socket| {
            of_socket(socket).map(|(weight, length, _)| length / weight).fold(0.0, f64::max)
        };
        for one in 0..sockets.len() {
            for other in 0..sockets.len() {
                let difference = by_weight(one) - by_weight(other);
                prop_assert!(difference <= longest(one) + longest(other) + 1.0);
            }
            for (_, length, time) in of_socket(one) {
                for (_, others, of_other) in of_socket(one) {
                    prop_assert!(time - of_other <= length + others + 1.0, "{times:?}");
                }
            }
        }
    }

    /// Contexts of one guest and of equal priority that always have work get equal time, however many queues they
    /// have and however long their turns are.
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
            schedule.add_alone(queue, guest(1), context(*number as u64));
            schedule.push(queue, |_| rank(0));
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

    /// The highest priority has at least seven of eight turns, and each other priority gets one within the bound,
    /// whatever comes and goes above and below it.
    #[test]
    fn no_priority_starves(
        others in proptest::collection::vec((-7i32..=7, any::<bool>()), 1..40),
        victim in -7i32..=7,
    ) {
        let mut schedule = Schedule::new(QUANTUM);
        schedule.add_alone(0, guest(1), context(0));
        for queue in 1..=others.len() as u32 {
            schedule.add_alone(queue, guest(1), context(queue.into()));
        }
        let rank_of = |queue: u32| match queue.checked_sub(1) {
            Some(other) => rank(others[other as usize].0),
            None => rank(victim),
        };
        schedule.push(0, rank_of);
        let mut waiting = VecDeque::new();
        for (queue, (number, stays)) in (1..).zip(&others) {
            if *number != victim {
                schedule.push(queue, rank_of);
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
            schedule.end_turn(pick.queue, Ended { time: nanoseconds(1), weight: 1, party_weight: ALIKE, again });
            prop_assert!(turns < PATIENCE * lines, "{turns} turns without one");
        }
        prop_assert!(turns <= PATIENCE * lines);
    }

    /// Against plain lists: only queues in line get turns, and the queues of a context in the order in which they
    /// came.
    #[test]
    fn who_is_in_line_is_served_once_and_in_order(
        steps in proptest::collection::vec((0u32..12, any::<bool>()), 1..200),
    ) {
        // Each of three guests has two contexts, with a priority and two queues each.
        let owner = |queue: u32| (queue % 3, queue % 6);
        let number = |queue: u32| i32::from(queue % 6 < 3);
        let mut schedule = Schedule::new(QUANTUM);
        for queue in 0..12 {
            let (of_guest, of_context) = owner(queue);
            schedule.add_alone(queue, guest(of_guest.into()), context(of_context.into()));
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
                let ended = Ended { time: nanoseconds(7), weight: 3, party_weight: ALIKE, again: None };
                schedule.end_turn(pick.queue, ended);
            } else if !model.contains(&queue) {
                schedule.push(queue, |queue| rank(number(queue)));
                model.push(queue);
            }
            prop_assert_eq!(schedule.is_empty(), model.is_empty());
        }
    }
}
