// SPDX-License-Identifier: MIT OR Apache-2.0

//! What may happen: random events, and what they do to VidMm and to the model.

use super::*;

/// An event of the test.
#[derive(Debug, Clone)]
pub(super) enum Event {
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

pub(super) fn event() -> impl Strategy<Value = Event> {
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

impl World {
    pub(super) fn event(&mut self, event: &Event) {
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
}
