// SPDX-License-Identifier: MIT OR Apache-2.0

//! What must hold: of each decision, and of the state after it.

use super::*;

/// The state before a decision.
pub(super) struct Snapshot {
    places: BTreeMap<AllocationId, (Place, bool)>,
    /// Unwanted allocations of each segment, in eviction order.
    orders: [Vec<EvictionOrder>; 2],
    over: BTreeSet<u32>,
    /// The processes over their budgets in each segment.
    over_in: [BTreeSet<u32>; 2],
    /// Whether a process lacks an allocation that was taken away.
    lacking: bool,
}

impl World {
    pub(super) fn snapshot(&self) -> Snapshot {
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
    pub(super) fn judge(&mut self, Snapshot { places: before, orders, over, .. }: Snapshot) {
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
                    allocation.taken.is_some() && allocation.is_wanted_by(*process)
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
    pub(super) fn judge_demotions(&self, asker: u32, before: &Snapshot) {
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
    pub(super) fn judge_migration(&self, before: &Snapshot) {
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
            let reachable = allocation.present || allocation.taken.is_some();
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
            let taken =
                all.clone().filter(|(of, allocation)| allocation.taken.is_some() && wants(of));
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

    /// Of the guest's own pages, only those are encoded that engines reach through an allocation.
    pub(super) fn check_encoded(&self) {
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
    pub(super) fn verify(&mut self, seed: Option<u64>) {
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
