// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random events: contents, budgets and places against the model.

use super::*;

/// An event of the test.
#[derive(Debug, Clone)]
enum Event {
    Create {
        process: u32,
        pages: u64,
        supported: u8,
        priority: u8,
        own: bool,
        notify: bool,
    },
    MakeResident {
        which: usize,
        by: usize,
        count: usize,
    },
    Evict(usize, usize),
    Lock(usize, usize),
    Unlock(usize, usize),
    Map {
        which: usize,
        by: usize,
        offset: u64,
        length: u64,
        large: bool,
    },
    Unmap(usize),
    SetPriority(usize, u8),
    /// Another process opens an allocation.
    Open(usize, u32),
    /// A process closes an allocation; the last one destroys it.
    Leave(usize, usize),
    /// Once paging is done, an engine and a CPU write everything that they reach.
    Write(u64),
    Run(usize),
    /// Engines have used about every other mapping; the number selects which.
    Look(u64),
    Begin,
    End,
    /// The GPU is taken away, or is back.
    Withdraw(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let which = 0..64usize;
    // Selects a process that has the allocation.
    let by = 0..3usize;
    let pair = || (0..64usize, 0..3usize);
    prop_oneof![
        3 => (1..4u32, 1..20u64, any::<u8>(), 0..3u8, any::<bool>(), any::<bool>()).prop_map(
            |(process, pages, supported, priority, own, notify)| Event::Create {
                process, pages, supported, priority, own, notify,
            }
        ),
        6 => (which.clone(), by.clone(), 1..4usize)
            .prop_map(|(which, by, count)| Event::MakeResident { which, by, count }),
        3 => pair().prop_map(|(which, by)| Event::Evict(which, by)),
        2 => pair().prop_map(|(which, by)| Event::Lock(which, by)),
        2 => pair().prop_map(|(which, by)| Event::Unlock(which, by)),
        4 => (which.clone(), by, 0..20u64, 1..20u64, any::<bool>()).prop_map(
            |(which, by, offset, length, large)| Event::Map { which, by, offset, length, large }
        ),
        2 => which.clone().prop_map(Event::Unmap),
        1 => (which.clone(), 0..3u8).prop_map(|(which, priority)| Event::SetPriority(which, priority)),
        3 => (which, 1..4u32).prop_map(|(which, process)| Event::Open(which, process)),
        3 => pair().prop_map(|(which, by)| Event::Leave(which, by)),
        3 => any::<u64>().prop_map(Event::Write),
        3 => (0..200usize).prop_map(Event::Run),
        3 => any::<u64>().prop_map(Event::Look),
        1 => Just(Event::Begin),
        1 => Just(Event::End),
        1 => any::<bool>().prop_map(Event::Withdraw),
    ]
}

/// The model's state of an allocation.
struct Known {
    description: Description,
    contents: Vec<Content>,
    /// The processes that have opened it, in the order in which they did.
    opened: Vec<u32>,
    /// How many times each process wants it resident, and has it locked.
    wanted: BTreeMap<u32, u32>,
    locks: BTreeMap<u32, u32>,
    mappings: Vec<Mapping>,
}

impl Known {
    fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn is_locked(&self) -> bool {
        !self.locks.is_empty()
    }

    /// One of the processes that have it.
    fn one(&self, by: usize) -> u32 {
        self.opened[by % self.opened.len()]
    }

    /// The process that it counts against.
    fn payer(&self) -> u32 {
        let demands =
            |process: &&u32| self.wanted.contains_key(process) || self.locks.contains_key(process);
        *self.opened.iter().find(demands).unwrap_or(&self.opened[0])
    }
}

/// Counts one more for a process.
fn more(counts: &mut BTreeMap<u32, u32>, process: u32) {
    *counts.entry(process).or_insert(0) += 1;
}

/// Counts one less for a process. Returns false if its count was 0.
fn less(counts: &mut BTreeMap<u32, u32>, process: u32) -> bool {
    let Some(count) = counts.get_mut(&process) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(&process);
    }
    true
}

/// The state before a decision.
struct Snapshot {
    places: BTreeMap<AllocationId, (Place, bool)>,
    /// Unwanted allocations of each segment, in eviction order.
    orders: [Vec<EvictionOrder>; 2],
    over: BTreeSet<u32>,
    /// The processes over their budgets in each segment.
    over_in: [BTreeSet<u32>; 2],
    /// Whether a process lacks an allocation that was taken away.
    lacking: bool,
}

struct World {
    vidmm: VidMm,
    machine: Machine,
    operations: Operations,
    known: BTreeMap<AllocationId, Known>,
    processes: BTreeSet<u32>,
    next_page: u64,
    next_va: u64,
    next_content: Content,
}

impl World {
    fn new(window: u64) -> Self {
        let processes = BTreeSet::from([1, 2]);
        Self {
            vidmm: vidmm(48, 24, 2),
            machine: Machine::default(),
            operations: Operations::new(Window::new(SYSTEM, window)),
            known: BTreeMap::new(),
            processes,
            next_page: 1,
            next_va: 1 << 20,
            next_content: 0,
        }
    }

    fn pick(&self, which: usize) -> Option<AllocationId> {
        let count = self.known.len();
        self.known.keys().nth(which.checked_rem(count)?).copied()
    }

    /// Takes one action, checks the resulting decisions, and hands them to the machine.
    fn decide<R>(&mut self, act: impl FnOnce(&mut VidMm) -> R) -> R {
        let before = self.snapshot();
        let result = act(&mut self.vidmm);
        self.judge(before);
        result
    }

    fn snapshot(&self) -> Snapshot {
        let allocations = self.vidmm.allocations.iter();
        let places = allocations
            .map(|(id, allocation)| (*id, (allocation.place, allocation.present)))
            .collect();
        let orders = [0, 1].map(|index| {
            let unwanted = self.vidmm.local[index].movable.get(&Group::Unwanted);
            unwanted.into_iter().flat_map(|movable| movable.iter()).collect()
        });
        // What a process wants and lacks counts as if it had it: it wants no less than when it was over its budget.
        let lacks = |process: u32, segment: LocalSegment| -> u64 {
            let lacked = self.vidmm.allocations.values().filter(|allocation| {
                allocation.is_wanted()
                    && !allocation.present
                    && allocation.payer() == process
                    && allocation.description.supported.contains(segment.bit())
            });
            lacked.map(|allocation| allocation.description.size).sum()
        };
        let is_over = |process: &&u32| {
            let fits = |segment| {
                self.vidmm.is_within_budget(**process, segment, lacks(**process, segment))
            };
            !LocalSegment::of(GpuOrdinal::MASTER).into_iter().all(fits)
        };
        let over = self.vidmm.processes.keys().filter(is_over).copied().collect();
        let over_in = LocalSegment::of(GpuOrdinal::MASTER).map(|segment| {
            let is_over = |process: &&u32| !self.vidmm.is_within_budget(**process, segment, 0);
            self.vidmm.processes.keys().filter(is_over).copied().collect()
        });
        let lacking = self.vidmm.processes.values().any(|process| !process.missing.is_empty());
        Snapshot { places, orders, over, over_in, lacking }
    }

    /// Checks the decisions since the snapshot, and hands them to the machine.
    fn judge(&mut self, Snapshot { places: before, orders, over, .. }: Snapshot) {
        let plan = self.vidmm.take_plan();
        for (id, allocation) in &self.vidmm.allocations {
            let Some((place, present)) = before.get(id) else { continue };
            let moved = allocation.place != *place;
            if moved && *present && allocation.is_wanted() && !allocation.mappings.is_empty() {
                let all = allocation.opened.iter().all(|process| plan.held.contains(process));
                assert!(all, "{id:?} was moved under an engine");
            }
            let locks: u32 = allocation.locks.values().sum();
            assert!(!moved || locks <= 1, "{id:?} is locked and was moved");
        }
        for notice in &plan.notices {
            if let Notice::Suspend(process) = notice {
                // A list that finds no room for its last allocation is undone: whatever was taken away for the others
                // is given back, and the asking process no longer wants them.
                let is_undone = plan.notices.contains(&Notice::Resume(*process));
                // A process that shares the allocation may have been over its budget instead.
                let mut taken = self.vidmm.allocations.values().filter(|allocation| {
                    allocation.taken && allocation.is_wanted_by(*process)
                        || is_undone && allocation.opened.contains(process)
                });
                let is_over =
                    taken.any(|allocation| allocation.opened.iter().any(|p| over.contains(p)));
                assert!(is_over, "{process} was within its budget");
            }
        }
        // No unwanted allocation stayed that should have gone before one that went.
        for unwanted in orders {
            let went = |id| {
                let place = self.vidmm.allocations.get(&id).map(|allocation| allocation.place);
                place.is_some_and(|place| place != before[&id].0)
            };
            let is_unwanted = |id| {
                self.vidmm
                    .allocations
                    .get(&id)
                    .is_some_and(|allocation| !allocation.is_wanted() && !allocation.is_locked())
            };
            let fates: Vec<_> = unwanted
                .iter()
                .filter(|order| is_unwanted(order.allocation))
                .map(|order| went(order.allocation))
                .collect();
            assert!(fates.is_sorted_by(|before, after| before >= after), "{fates:?}");
        }
        self.machine.steps.extend(plan.steps);
        self.machine.freed.extend(plan.freed);
        self.check();
    }

    /// If the asking process is over its budget, only processes over theirs have demoted wanted allocations.
    fn judge_demotions(&self, asker: u32, before: &Snapshot) {
        // Processes that lack allocations ask, too.
        if before.lacking {
            return;
        }
        for (id, allocation) in &self.vidmm.allocations {
            let Some((Place::Local(from, _), true)) = before.places.get(id).copied() else {
                continue;
            };
            let other = allocation.payer();
            let is_own = allocation.opened.contains(&asker);
            if is_own || !allocation.is_wanted() || allocation.place == before.places[id].0 {
                continue;
            }
            let is_within = self.vidmm.is_within_budget(asker, from, 0);
            let was_over = before.over_in[from.index()].contains(&other);
            assert!(is_within || was_over, "{id:?} of {other} made room for {asker}");
        }
    }

    /// Migration takes nothing away, and demotes other processes' allocations only if those are over their budgets.
    fn judge_migration(&self, before: &Snapshot) {
        let mut came = BTreeSet::new();
        let mut went = BTreeSet::new();
        for (id, allocation) in &self.vidmm.allocations {
            let (place, present) = before.places[id];
            assert_eq!(allocation.present, present, "{id:?}");
            let process = allocation.payer();
            match (place, allocation.place) {
                (Place::Home, Place::Local(segment, _)) => {
                    assert!(!allocation.is_locked() && present, "{id:?}");
                    came.insert((process, segment.index()));
                }
                (Place::Local(segment, _), to) if to != place && allocation.is_wanted() => {
                    went.insert((process, segment.index()));
                }
                _ => {}
            }
        }
        for (process, segment) in went {
            let was_over = before.over_in[segment].contains(&process);
            assert!(
                was_over || came.contains(&(process, segment)),
                "{process} made room for others"
            );
        }
    }

    /// Checks the invariants.
    fn check(&self) {
        let private = LocalSegment::Private(GpuOrdinal::MASTER);
        let is_withdrawn = self.vidmm.is_withdrawn(private);
        let mut pages = BTreeSet::new();
        let mut usage: BTreeMap<u32, [u64; LocalSegment::MAX]> = BTreeMap::new();
        for (id, allocation) in &self.vidmm.allocations {
            let known = &self.known[id];
            assert_eq!(allocation.is_wanted(), known.is_wanted());
            let reachable = allocation.present || allocation.taken;
            let supported = known.description.supported;
            let waits_for_gpu = is_withdrawn
                && supported.contains(SegmentSet::PRIVATE)
                && !supported.contains(SegmentSet::SYSTEM);
            assert!(reachable == known.is_wanted() || waits_for_gpu && !reachable, "{id:?}");
            match allocation.place {
                Place::Local(segment, _) => {
                    assert!(known.description.supported.contains(segment.bit()));
                    assert!(segment != private || !is_withdrawn, "{id:?} is where nothing is");
                    if known.is_wanted() || allocation.is_locked() {
                        usage.entry(known.payer()).or_default()[segment.index()] +=
                            known.description.size;
                    }
                }
                Place::Home if allocation.present && !known.is_locked() => {
                    assert!(supported.contains(SegmentSet::SYSTEM), "{id:?}");
                }
                _ => {}
            }
            if allocation.place != Place::Nowhere {
                let memory = self.vidmm.memory(*id).unwrap();
                for page in memory.pages(0, known.description.size) {
                    let key = (format!("{:?}", page.segment), page.address);
                    assert!(pages.insert(key), "{page:?} is in two places");
                }
            }
        }
        for (id, process) in &self.vidmm.processes {
            assert_eq!(process.usage, usage.get(id).copied().unwrap_or_default());
            let all = self.vidmm.allocations.iter();
            let wants = |of: &AllocationId| self.known[of].wanted.contains_key(id);
            let taken = all.clone().filter(|(of, allocation)| allocation.taken && wants(of));
            assert_eq!(process.missing, taken.map(|(of, _)| *of).collect());
            let kept = all.clone().filter(|(of, _)| self.known[of].opened[0] == *id);
            let backing = kept.filter_map(|(_, allocation)| allocation.backing);
            assert_eq!(process.backing, backing.map(|range| range.length).sum::<u64>());
            let demanded = all.filter(|(of, allocation)| {
                allocation.is_demanded() && self.known[of].payer() == *id
            });
            let demanded: u64 = demanded.map(|(_, allocation)| allocation.description.size).sum();
            assert_eq!(process.demand.values().sum::<u64>(), demanded);
        }
        self.check_groups();
    }

    /// Each allocation that may have to make room is in exactly one group, the right one.
    fn check_groups(&self) {
        let mut groups: BTreeMap<(LocalSegment, Group), (BTreeSet<EvictionOrder>, u64)> =
            BTreeMap::new();
        for (id, allocation) in &self.vidmm.allocations {
            let Place::Local(segment, _) = allocation.place else { continue };
            if allocation.is_locked() {
                continue;
            }
            let Description { priority, supported, size, .. } = allocation.description;
            let known = &self.known[id];
            let (process, demotable) = (known.payer(), supported.contains(SegmentSet::SYSTEM));
            let group = if known.is_wanted() {
                Group::Wanted { process, demotable }
            } else {
                Group::Unwanted
            };
            let (orders, bytes) = groups.entry((segment, group)).or_default();
            orders.insert(EvictionOrder { priority, used: allocation.used, allocation: *id });
            *bytes += size;
        }
        let there_are: BTreeMap<_, _> = LocalSegment::of(GpuOrdinal::MASTER)
            .into_iter()
            .flat_map(|segment| {
                let movable = self.vidmm.local[segment.index()].movable.iter();
                movable.map(move |(group, movable)| {
                    ((segment, *group), (movable.iter().collect(), movable.bytes()))
                })
            })
            .collect();
        assert_eq!(there_are, groups);
    }

    fn destroy(&mut self, id: AllocationId) {
        // Its mappings go with it.
        self.known.remove(&id);
        self.decide(|vidmm| vidmm.destroy(id)).unwrap();
    }

    /// A process closes an allocation.
    fn leave(&mut self, process: u32, id: AllocationId) {
        let known = self.known.get_mut(&id).unwrap();
        known.opened.retain(|other| *other != process);
        if known.opened.is_empty() {
            return self.destroy(id);
        }
        known.wanted.remove(&process);
        known.locks.remove(&process);
        let space = AddressSpaceId(process.into());
        let mappings = std::mem::take(&mut known.mappings);
        let (its, others): (Vec<_>, _) = mappings.into_iter().partition(|m| m.space == space);
        known.mappings = others;
        self.decide(|vidmm| {
            for mapping in its {
                vidmm.unmap(id, mapping.space, mapping.gpu_va).unwrap();
            }
            vidmm.leave_to_others(process, id).unwrap();
        });
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::Create { process, pages, supported, priority, own, notify } => {
                if !self.processes.contains(&process) {
                    return;
                }
                let supported = match supported % 6 {
                    0 => SegmentSet::LOCAL,
                    1 => SegmentSet::PRIVATE,
                    2 => SegmentSet::SYSTEM,
                    3 => SegmentSet::LOCAL | SegmentSet::PRIVATE,
                    _ => ANYWHERE,
                };
                let supported = if own { supported | SegmentSet::SYSTEM } else { supported };
                let system = own.then(|| own_pages(self.next_page, pages));
                let description = Description {
                    preferred: SegmentSet::from_bits_truncate(1 << (pages % 4)) & supported,
                    eviction: if notify { SegmentSet::PRIVATE } else { SegmentSet::empty() },
                    priority: priority.into(),
                    keeps_copy: pages.is_multiple_of(2),
                    notify_eviction: notify && pages > 10,
                    notify_io_mmu_unmap: notify,
                    accessed_physically: pages.is_multiple_of(3),
                    system,
                    ..description(process, pages, supported)
                };
                let mut contents = vec![0; pages as usize];
                if let Some(memory) = &description.system {
                    self.next_page += pages;
                    for (content, page) in
                        contents.iter_mut().zip(memory.pages(0, description.size))
                    {
                        self.next_content += 1;
                        *content = self.next_content;
                        self.machine.pages.insert(page, *content);
                    }
                }
                let id = self.vidmm.create(description.clone());
                if description.accessed_physically && supported.contains(SegmentSet::SYSTEM) {
                    let gpu_va = APERTURE_START + self.next_va;
                    let mapping = mapping(SYSTEM, gpu_va, description.size);
                    self.next_va += 32 * PAGE_SIZE;
                    self.vidmm.map(id, mapping).unwrap();
                }
                let known = Known {
                    description,
                    contents,
                    opened: vec![process],
                    wanted: BTreeMap::new(),
                    locks: BTreeMap::new(),
                    mappings: Vec::new(),
                };
                self.known.insert(id, known);
            }
            Event::MakeResident { which, by, count } => {
                let Some(first) = self.pick(which) else { return };
                let process = self.known[&first].one(by);
                let ids: Vec<_> = (which..which + count)
                    .filter_map(|which| self.pick(which))
                    .filter(|id| self.known[id].opened.contains(&process))
                    .collect();
                for id in &ids {
                    more(&mut self.known.get_mut(id).unwrap().wanted, process);
                }
                let before = self.snapshot();
                let made = self.vidmm.make_resident(process, device(process), &ids);
                if made.is_err() {
                    for id in &ids {
                        less(&mut self.known.get_mut(id).unwrap().wanted, process);
                    }
                    let size: u64 = ids.iter().map(|id| self.known[id].description.size).sum();
                    assert!(size > 0);
                }
                // A list may begin within the budget and end over it.
                if ids.len() == 1 {
                    self.judge_demotions(process, &before);
                }
                self.judge(before);
            }
            Event::Evict(which, by) => {
                let Some(id) = self.pick(which) else { return };
                let known = self.known.get_mut(&id).unwrap();
                let process = known.one(by);
                let was = less(&mut known.wanted, process);
                let expected = if was { Ok(()) } else { Err(VidMmError::Unbalanced) };
                let evicted = self.decide(|vidmm| vidmm.evict(process, device(process), id));
                assert_eq!(evicted, expected);
            }
            Event::Lock(which, by) => {
                let Some(id) = self.pick(which) else { return };
                let process = self.known[&id].one(by);
                let before = self.snapshot();
                if self.vidmm.lock(process, id).is_ok() {
                    more(&mut self.known.get_mut(&id).unwrap().locks, process);
                }
                self.judge(before);
            }
            Event::Unlock(which, by) => {
                let Some(id) = self.pick(which) else { return };
                let known = self.known.get_mut(&id).unwrap();
                let process = known.one(by);
                let was = less(&mut known.locks, process);
                let expected = if was { Ok(()) } else { Err(VidMmError::Unbalanced) };
                assert_eq!(self.decide(|vidmm| vidmm.unlock(process, id)), expected);
            }
            Event::Map { which, by, offset, length, large } => {
                let Some(id) = self.pick(which) else { return };
                let known = self.known.get_mut(&id).unwrap();
                let pages = known.contents.len() as u64;
                let offset = if large { 0 } else { offset % pages };
                let length = length.min(pages - offset) * PAGE_SIZE;
                let process = known.one(by);
                let mapping = Mapping {
                    gpus: GpuSet::ALL,
                    space: AddressSpaceId(process.into()),
                    gpu_va: self.next_va + if large { 0 } else { PAGE_SIZE },
                    length,
                    offset: offset * PAGE_SIZE,
                    writable: !offset.is_multiple_of(3),
                    driver: DriverProtection::default(),
                };
                self.next_va += 32 * PAGE_SIZE;
                known.mappings.push(mapping);
                self.decide(|vidmm| vidmm.map(id, mapping)).unwrap();
            }
            Event::Unmap(which) => {
                let Some(id) = self.pick(which) else { return };
                let Some(mapping) = self.known.get_mut(&id).unwrap().mappings.pop() else { return };
                self.decide(|vidmm| vidmm.unmap(id, mapping.space, mapping.gpu_va)).unwrap();
            }
            Event::SetPriority(which, priority) => {
                let Some(id) = self.pick(which) else { return };
                self.decide(|vidmm| vidmm.set_priority(id, priority.into())).unwrap();
            }
            Event::Open(which, process) => {
                let Some(id) = self.pick(which) else { return };
                if !self.processes.contains(&process) {
                    return;
                }
                let known = self.known.get_mut(&id).unwrap();
                if !known.opened.contains(&process) {
                    known.opened.push(process);
                }
                self.decide(|vidmm| vidmm.open(process, id)).unwrap();
            }
            Event::Leave(which, by) => {
                let Some(id) = self.pick(which) else { return };
                self.leave(self.known[&id].one(by), id);
            }
            Event::Write(seed) => {
                self.machine.run(&mut self.operations, usize::MAX);
                for range in std::mem::take(&mut self.machine.freed) {
                    self.vidmm.give_back(range);
                }
                self.check_encoded();
                self.verify(Some(seed));
            }
            Event::Run(most) => self.machine.run(&mut self.operations, most),
            Event::Look(seed) => {
                let before = self.snapshot();
                let was_used = |mapping: &Mapping| {
                    ((mapping.gpu_va / PAGE_SIZE / 32) ^ seed).count_ones().is_multiple_of(2)
                };
                self.vidmm.look(was_used).unwrap();
                self.judge_migration(&before);
                self.judge(before);
            }
            Event::Withdraw(true) => self.decide(|vidmm| vidmm.withdraw(GpuOrdinal::MASTER)),
            Event::Withdraw(false) => self.decide(|vidmm| vidmm.reinstate(GpuOrdinal::MASTER)),
            Event::Begin => {
                if self.processes.insert(3) {
                    self.decide(|vidmm| vidmm.add_process(3));
                }
            }
            Event::End => {
                if self.processes.remove(&3) {
                    let of_3 = |(_, known): &(&AllocationId, &Known)| known.opened.contains(&3);
                    let ids: Vec<_> = self.known.iter().filter(of_3).map(|(id, _)| *id).collect();
                    for id in ids {
                        self.leave(3, id);
                    }
                    self.decide(|vidmm| vidmm.remove_process(3));
                }
            }
        }
    }

    /// Of the guest's own pages, only those are encoded that engines reach through an allocation.
    fn check_encoded(&self) {
        let is_own = |page: &&PhysicalPage| page.segment == Segment::System;
        let encoded: HashSet<_> = self.machine.encoded.iter().filter(is_own).copied().collect();
        let reached: HashSet<_> = self
            .vidmm
            .allocations
            .values()
            .filter(|allocation| allocation.present && allocation.place == Place::Home)
            .filter_map(|allocation| {
                let Description { system, size, .. } = &allocation.description;
                Some(system.as_ref()?.pages(0, *size))
            })
            .flatten()
            .collect();
        assert!(encoded.is_subset(&reached), "{:?}", encoded.difference(&reached));
    }

    /// Engines and CPUs read the expected contents everywhere. With a seed, they then write new ones.
    fn verify(&mut self, seed: Option<u64>) {
        for (id, known) in &mut self.known {
            let allocation = &self.vidmm.allocations[id];
            let told = self.machine.residency.get(id).copied().flatten();
            let is_physical = known.description.accessed_physically;
            assert_eq!(told.is_some(), is_physical && allocation.present, "{id:?}");
            for (content, at) in known.contents.iter().zip((0..).step_by(PAGE_SIZE as usize)) {
                let Some(address) = told else { break };
                let page = self.machine.physical_page(address + at);
                let seen = self.machine.pages.get(&page).copied().unwrap_or(0);
                assert_eq!(seen, *content, "{id:?} at physical address {address:#x} + {at:#x}");
            }
            for mapping in &known.mappings {
                for at in (0..mapping.length).step_by(PAGE_SIZE as usize) {
                    let page = self.machine.translate(mapping.space, mapping.gpu_va + at);
                    assert_eq!(page.is_some(), allocation.present, "{id:?} {mapping:x?}");
                    let Some(page) = page else { continue };
                    let content = &mut known.contents[((mapping.offset + at) / PAGE_SIZE) as usize];
                    let seen = self.machine.pages.get(&page).copied().unwrap_or(0);
                    assert_eq!(seen, *content, "{id:?} at {at:#x} in {page:x?}");
                    if seed.is_some() && mapping.writable {
                        self.next_content += 1;
                        *content = self.next_content;
                        self.machine.pages.insert(page, *content);
                        let is_encoded = known.description.notify_io_mmu_unmap;
                        self.machine.set_encoded(page, is_encoded);
                    }
                }
            }
            if known.is_locked() {
                let memory = self.vidmm.memory(*id).unwrap();
                let visible = [Segment::Local, Segment::System].contains(&memory.segment);
                assert!(visible, "no CPU reaches {memory:?}");
                let pages = memory.pages(0, known.description.size);
                for (content, page) in known.contents.iter_mut().zip(pages) {
                    let seen = self.machine.pages.get(&page).copied().unwrap_or(0);
                    assert_eq!(seen, *content, "{id:?} locked in {page:x?}");
                    if seed.is_some() {
                        self.next_content += 1;
                        *content = self.next_content;
                        self.machine.pages.insert(page, *content);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Contents are always right, budgets are kept, no page is in two places, unwanted allocations go in order, every
    /// request is answered, the guest gets its pages back decoded, and nothing is left.
    #[test]
    fn whatever_happens_bytes_are_where_they_have_to_be(
        window in 2..24u64,
        events in proptest::collection::vec(event(), 0..120),
    ) {
        let mut world = World::new(window * PAGE_SIZE);
        for event in &events {
            world.event(event);
        }
        world.machine.run(&mut world.operations, usize::MAX);
        world.check_encoded();
        world.verify(None);
        for id in world.known.keys().copied().collect::<Vec<_>>() {
            world.destroy(id);
        }
        for process in world.processes.clone() {
            world.decide(|vidmm| vidmm.remove_process(process));
        }
        world.machine.run(&mut world.operations, usize::MAX);
        for range in std::mem::take(&mut world.machine.freed) {
            world.vidmm.give_back(range);
        }
        world.check_encoded();
        prop_assert!(world.vidmm.is_unused());
        prop_assert!(world.machine.tables.is_empty());
    }
}
