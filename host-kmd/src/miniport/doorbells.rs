// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dedicated doorbells: which queue has which physical doorbell, and which queue loses one next.
//!
//! The guests of each socket have a share that no guest of another socket takes from them. A guest whose socket is below
//! its share and that needs another doorbell takes one from a socket above its share; one whose socket is at its share
//! makes room within that. Of the guests of a socket, one that has most gives up a doorbell: so one that connects many
//! queues takes none from one that has few. The victim is the guest's doorbell that was connected or rung least recently.
//!
//! Source: user-mode work submission, "Dedicated doorbells" and "Victimizing doorbell pseudocode in KMD". This is
//! state only: the caller applies the results to the hardware.

use crate::hardware::{GuestId, HwQueueId, PhysicalDoorbell, SocketId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What the hardware and the host's configuration tell about doorbells.
pub trait Uses {
    /// When the queue's doorbell was last used: a greater number is later.
    fn last_use(&self, queue: HwQueueId) -> u64;

    /// The share of the guests of a guest's socket: at least one doorbell, as long as there are enough.
    fn share(&self, guest: GuestId) -> u32;

    /// A guest's socket.
    fn socket(&self, guest: GuestId) -> SocketId;
}

/// A physical doorbell in use.
#[derive(Debug)]
struct Assignment {
    doorbell: PhysicalDoorbell,
    guest: GuestId,
    /// The last known use: its key in the guest's `ByLastUse`.
    last_use: u64,
}

/// Queues that have a doorbell, by last known use, least recent first.
type ByLastUse = BTreeSet<(u64, HwQueueId)>;

/// All physical doorbells of the GPU.
#[derive(Debug)]
pub struct PhysicalDoorbells {
    free: Vec<PhysicalDoorbell>,
    assigned: HashMap<HwQueueId, Assignment>,
    /// The queues of each guest that has doorbells.
    guests: BTreeMap<GuestId, ByLastUse>,
}

impl PhysicalDoorbells {
    /// Creates `count` free doorbells.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self {
            free: (0..count).rev().map(PhysicalDoorbell).collect(),
            assigned: HashMap::new(),
            guests: BTreeMap::new(),
        }
    }

    /// Gives a free doorbell to a queue that has none. Returns `None` if all are in use, or if the queue has one.
    pub fn assign(&mut self, guest: GuestId, queue: HwQueueId) -> Option<PhysicalDoorbell> {
        if self.assigned.contains_key(&queue) {
            return None;
        }
        let doorbell = self.free.pop()?;
        // The hardware is asked for the last use when a victim is sought.
        let last_use = 0;
        self.assigned.insert(queue, Assignment { doorbell, guest, last_use });
        self.guests.entry(guest).or_default().insert((last_use, queue));
        Some(doorbell)
    }

    /// Frees the queue's doorbell, if it has one.
    pub fn release(&mut self, queue: HwQueueId) -> Option<PhysicalDoorbell> {
        let Assignment { doorbell, guest, last_use } = self.assigned.remove(&queue)?;
        if let Some(queues) = self.guests.get_mut(&guest) {
            queues.remove(&(last_use, queue));
            if queues.is_empty() {
                self.guests.remove(&guest);
            }
        }
        self.free.push(doorbell);
        Some(doorbell)
    }

    /// The queue's doorbell, if it has one.
    #[must_use]
    pub fn of(&self, queue: HwQueueId) -> Option<PhysicalDoorbell> {
        self.assigned.get(&queue).map(|assignment| assignment.doorbell)
    }

    /// Number of doorbells in use.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        // There are no more doorbells than a `u32` counts.
        self.assigned.len() as u32
    }

    /// How many doorbells the guests of each socket have, with a guest of each.
    fn sockets(&self, uses: &impl Uses) -> BTreeMap<SocketId, (usize, GuestId)> {
        let mut sockets = BTreeMap::new();
        for (guest, queues) in &self.guests {
            let (count, _) = sockets.entry(uses.socket(*guest)).or_insert((0, *guest));
            *count += queues.len();
        }
        sockets
    }

    /// The guests of a socket that have most doorbells, where one more is for `asking`.
    fn greediest(&self, socket: SocketId, asking: GuestId, uses: &impl Uses) -> Vec<GuestId> {
        let of_socket = || self.guests.iter().filter(|(guest, _)| uses.socket(**guest) == socket);
        let count =
            |(guest, queues): (&GuestId, &ByLastUse)| queues.len() + usize::from(*guest == asking);
        let most = of_socket().map(count).max();
        of_socket().filter(|of| Some(count(*of)) == most).map(|(guest, _)| *guest).collect()
    }

    /// The queue to take a doorbell from for a queue of `guest`: one of a guest of the same socket if those have their
    /// share, otherwise one of a socket that has more than its share. If none has more than its share, again one of the
    /// same socket, or of any guest if that has none.
    pub fn victim(&mut self, guest: GuestId, uses: &impl Uses) -> Option<HwQueueId> {
        let (socket, sockets) = (uses.socket(guest), self.sockets(uses));
        let own = sockets.get(&socket).map_or(0, |(count, _)| *count);
        let has_its_share = own > 0 && own >= uses.share(guest) as usize;
        let others = sockets.iter().filter(|(_, (count, of))| *count > uses.share(*of) as usize);
        let others: Vec<GuestId> =
            others.flat_map(|(socket, _)| self.greediest(*socket, guest, uses)).collect();
        let candidates = if !has_its_share && !others.is_empty() {
            others
        } else if own > 0 {
            self.greediest(socket, guest, uses)
        } else {
            self.guests.keys().copied().collect()
        };
        let least_recent =
            candidates.into_iter().filter_map(|guest| self.least_recent(guest, uses));
        least_recent.min().map(|(_, queue)| queue)
    }

    /// The guest's queue that used its doorbell least recently, and when. Guests ring meanwhile, so each queue is
    /// asked at most once.
    fn least_recent(&mut self, guest: GuestId, uses: &impl Uses) -> Option<(u64, HwQueueId)> {
        let Self { assigned, guests, .. } = self;
        let queues = guests.get_mut(&guest)?;
        for _ in 0..queues.len() {
            let (known, queue) = *queues.first()?;
            let last_use = uses.last_use(queue);
            if last_use <= known {
                break;
            }
            queues.remove(&(known, queue));
            queues.insert((last_use, queue));
            if let Some(assignment) = assigned.get_mut(&queue) {
                assignment.last_use = last_use;
            }
        }
        queues.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// When each queue used its doorbell, and the guests' shares.
    #[derive(Debug, Default)]
    struct Told {
        uses: HashMap<HwQueueId, u64>,
        /// Of each guest's socket. Without an entry in `sockets`, each guest has one of its own.
        shares: HashMap<GuestId, u32>,
        sockets: HashMap<GuestId, SocketId>,
    }

    impl Told {
        fn with_shares(shares: impl IntoIterator<Item = (GuestId, u32)>) -> Self {
            Self { shares: shares.into_iter().collect(), ..Self::default() }
        }

        fn use_now(&mut self, queue: HwQueueId) {
            let now = self.uses.values().max().map_or(1, |last| last + 1);
            self.uses.insert(queue, now);
        }
    }

    impl Uses for Told {
        fn last_use(&self, queue: HwQueueId) -> u64 {
            self.uses.get(&queue).copied().unwrap_or(0)
        }

        fn share(&self, guest: GuestId) -> u32 {
            self.shares.get(&guest).copied().unwrap_or(0)
        }

        fn socket(&self, guest: GuestId) -> SocketId {
            self.sockets.get(&guest).copied().unwrap_or(SocketId(guest.0))
        }
    }

    const A: GuestId = GuestId(1);
    const B: GuestId = GuestId(2);
    const C: GuestId = GuestId(3);

    /// Gives the queue a doorbell, and uses it. Returns the victim, if one was needed.
    fn connect(
        doorbells: &mut PhysicalDoorbells,
        told: &mut Told,
        guest: GuestId,
        queue: u64,
    ) -> Option<HwQueueId> {
        let queue = HwQueueId(queue);
        let victim = match doorbells.assign(guest, queue) {
            Some(_) => None,
            None => {
                let victim = doorbells.victim(guest, told).unwrap();
                let freed = doorbells.release(victim);
                assert!(freed.is_some() && doorbells.assign(guest, queue) == freed);
                Some(victim)
            }
        };
        told.use_now(queue);
        victim
    }

    #[test]
    fn the_victim_is_the_queue_that_used_its_doorbell_least_recently() {
        let (mut doorbells, mut told) = (PhysicalDoorbells::new(3), Told::default());
        for queue in 0..3 {
            assert_eq!(connect(&mut doorbells, &mut told, A, queue), None);
        }
        // Queue 0 rings.
        told.use_now(HwQueueId(0));
        assert_eq!(connect(&mut doorbells, &mut told, A, 9), Some(HwQueueId(1)));
        told.use_now(HwQueueId(2));
        assert_eq!(connect(&mut doorbells, &mut told, A, 10), Some(HwQueueId(0)));
        assert_eq!(connect(&mut doorbells, &mut told, A, 11), Some(HwQueueId(9)));
    }

    #[test]
    fn a_guest_that_has_its_share_takes_from_itself_and_never_from_a_guest_that_has_no_more() {
        let mut told = Told::with_shares([(A, 2), (B, 2)]);
        let mut doorbells = PhysicalDoorbells::new(4);
        for queue in [0, 1] {
            assert_eq!(connect(&mut doorbells, &mut told, A, queue), None);
        }
        for queue in 100..10_100 {
            let victim = connect(&mut doorbells, &mut told, B, queue);
            assert_eq!(victim, queue.checked_sub(2).filter(|old| *old >= 100).map(HwQueueId));
        }
        assert!([0, 1].iter().all(|queue| doorbells.of(HwQueueId(*queue)).is_some()));
    }

    #[test]
    fn a_guest_that_has_less_than_its_share_takes_what_others_have_beyond_theirs() {
        let mut told = Told::with_shares([(A, 1), (B, 1), (C, 2)]);
        let mut doorbells = PhysicalDoorbells::new(4);
        connect(&mut doorbells, &mut told, B, 10);
        for queue in 0..3 {
            connect(&mut doorbells, &mut told, A, queue);
        }
        // B used its own less recently, but keeps it.
        assert_eq!(connect(&mut doorbells, &mut told, C, 20), Some(HwQueueId(0)));
        assert_eq!(connect(&mut doorbells, &mut told, C, 21), Some(HwQueueId(1)));
        // Every guest has exactly its share now.
        assert_eq!(connect(&mut doorbells, &mut told, C, 22), Some(HwQueueId(20)));
        assert_eq!(connect(&mut doorbells, &mut told, A, 3), Some(HwQueueId(2)));
        assert_eq!(connect(&mut doorbells, &mut told, B, 11), Some(HwQueueId(10)));
    }

    #[test]
    fn where_shares_exceed_the_doorbells_every_guest_gets_one_at_times() {
        let mut told = Told::with_shares([(A, 1), (B, 1), (C, 1)]);
        let mut doorbells = PhysicalDoorbells::new(2);
        connect(&mut doorbells, &mut told, A, 0);
        connect(&mut doorbells, &mut told, B, 1);
        assert_eq!(connect(&mut doorbells, &mut told, C, 2), Some(HwQueueId(0)));
        assert_eq!(connect(&mut doorbells, &mut told, A, 0), Some(HwQueueId(1)));
    }

    #[test]
    fn guests_of_one_socket_have_its_share_together_and_the_greedy_one_makes_room() {
        // A and B came by one socket, C by another.
        let mut told = Told::with_shares([(A, 2), (B, 2), (C, 2)]);
        told.sockets = [(A, SocketId(7)), (B, SocketId(7))].into();
        let mut doorbells = PhysicalDoorbells::new(4);
        for queue in [20, 21] {
            assert_eq!(connect(&mut doorbells, &mut told, C, queue), None);
        }
        for queue in [0, 1] {
            assert_eq!(connect(&mut doorbells, &mut told, A, queue), None);
        }
        // However many guests the socket has, they take from each other, and from the one that has most.
        assert_eq!(connect(&mut doorbells, &mut told, B, 10), Some(HwQueueId(0)));
        assert_eq!(connect(&mut doorbells, &mut told, A, 100), Some(HwQueueId(1)));
        for queue in 101..200 {
            let victim = connect(&mut doorbells, &mut told, A, queue);
            assert_eq!(victim, Some(HwQueueId(queue - 1)), "it has as many as it may");
        }
        let kept = [10, 20, 21].map(|queue| doorbells.of(HwQueueId(queue)).is_some());
        assert_eq!(kept, [true; 3]);
        // Where the other socket has more than its share, both take from that.
        told.shares = [(A, 3), (B, 3), (C, 1)].into();
        assert_eq!(connect(&mut doorbells, &mut told, B, 11), Some(HwQueueId(20)));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Connect(u64),
        Release(u64),
        Ring(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0..3, 0..18u64).prop_map(|(kind, queue)| match kind {
            0 => Step::Connect(queue),
            1 => Step::Release(queue),
            _ => Step::Ring(queue),
        })
    }

    proptest! {
        /// Queues 0 to 5 belong to the first guest, 6 to 11 to the second, 12 to 17 to the third.
        #[test]
        fn no_doorbell_is_ever_two_queues_and_no_share_is_ever_taken(
            shares in proptest::array::uniform3(1..4u32),
            more in 0..3u32,
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let guests = [A, B, C];
            let count = shares.iter().sum::<u32>() + more;
            let mut told = Told::with_shares(guests.into_iter().zip(shares));
            let mut doorbells = PhysicalDoorbells::new(count);
            let mut model: HashMap<HwQueueId, (GuestId, PhysicalDoorbell)> = HashMap::new();
            for step in steps {
                match step {
                    Step::Connect(number) => {
                        let (queue, guest) = (HwQueueId(number), guests[number as usize / 6]);
                        if model.contains_key(&queue) {
                            prop_assert_eq!(doorbells.assign(guest, queue), None);
                            continue;
                        }
                        let has = |of| model.values().filter(|(guest, _)| *guest == of).count();
                        let before = guests.map(has);
                        let is_full = model.len() == count as usize;
                        let victim = connect(&mut doorbells, &mut told, guest, number);
                        prop_assert_eq!(victim.is_some(), is_full);
                        if let Some((loser, _)) = victim.and_then(|victim| model.remove(&victim)) {
                            let place = (loser.0 - 1) as usize;
                            prop_assert!(loser == guest || before[place] > shares[place] as usize);
                        }
                        let doorbell = doorbells.of(queue).unwrap();
                        model.insert(queue, (guest, doorbell));
                    }
                    Step::Release(queue) => {
                        let queue = HwQueueId(queue);
                        let expected = model.remove(&queue).map(|(_, doorbell)| doorbell);
                        prop_assert_eq!(doorbells.release(queue), expected);
                    }
                    Step::Ring(queue) => told.use_now(HwQueueId(queue)),
                }
                prop_assert_eq!(doorbells.in_use() as usize, model.len());
                let distinct: HashSet<_> = model.values().map(|(_, doorbell)| *doorbell).collect();
                prop_assert_eq!(distinct.len(), model.len());
            }
        }
    }
}
