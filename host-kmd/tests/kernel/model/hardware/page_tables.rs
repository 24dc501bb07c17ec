// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's page tables, and the contexts that execute paging buffers.

use crate::model::{Call, Model, TABLES_SHIFT, Table};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    AccessedBits, AddressSpaceId, GuestId, HardwareError, HardwareFull, HwQueueId, NodeDescription,
    PageTableRange, PageTables, Pte, SystemContext, SystemContexts, UnknownId,
};
use bellhop_protocol::control::adapter::EngineType;
use std::collections::BTreeMap;

impl PageTables for Model {
    fn create_address_space(&self, guest: GuestId) -> Result<AddressSpaceId, HardwareError> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        if state.page_table_room == 0 {
            return Err(HardwareFull("page table").into());
        }
        let space = AddressSpaceId(HwQueueId::of(self.gpu, state.id()).0);
        state.spaces.insert(space, BTreeMap::new());
        Ok(space)
    }

    fn destroy_address_space(&self, space: AddressSpaceId) -> Result<(), UnknownId> {
        self.known(UnknownId::AddressSpace(space))?;
        let has_passed = self.of_chain(|master| master.passed > 0);
        let mut state = self.state();
        assert!(state.queues.values().all(|queue| queue.address_space != space));
        assert!(state.systems.values().all(|system| system.address_space != space));
        assert!(state.opened.values().all(|(_, owner)| *owner != space));
        assert!(has_passed, "no ticket has passed since the queues went");
        state.spaces.remove(&space).expect("an address space that exists");
        Ok(())
    }

    fn update_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError> {
        self.known(UnknownId::AddressSpace(space))?;
        let mut state = self.state();
        assert_eq!(gpu_va % page_size.bytes(), 0);
        for (index, entry) in entries.iter().enumerate() {
            let va = gpu_va + index as u64 * page_size.bytes();
            if entry.page().is_none() {
                state.log.push(Call::Invalidate(va));
                if state.spaces.get_mut(&space).unwrap().remove(&va).is_some() {
                    state.page_table_room += 1;
                }
                continue;
            }
            if state.page_table_room == 0 {
                return Err(HardwareFull("page table").into());
            }
            state.page_table_room -= 1;
            let before = state.spaces.get_mut(&space).unwrap().insert(va, *entry);
            assert_eq!(before, None, "{va:#x} was mapped already");
        }
        Ok(())
    }

    fn page_table_root(&self, space: AddressSpaceId) -> Result<u64, UnknownId> {
        self.known(UnknownId::AddressSpace(space))?;
        assert!(self.state().spaces.contains_key(&space));
        Ok(space.0 << 40)
    }

    fn locate_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareError> {
        self.known(UnknownId::AddressSpace(space))?;
        let mut state = self.state();
        assert_eq!(gpu_va % page_size.bytes(), 0);
        assert!(state.spaces.contains_key(&space));
        let mut ranges = Vec::new();
        let mut done = 0;
        while done < pages {
            let page = gpu_va / page_size.bytes() + done;
            let entries = (pages - done).min(512 - page % 512);
            let wanted = Table { space, page_size, first: page - page % 512 };
            let index = match state.tables.iter().position(|table| *table == wanted) {
                None if create && state.page_table_room == 0 => {
                    return Err(HardwareFull("page table").into());
                }
                None if create => {
                    state.page_table_room -= 1;
                    state.tables.push(wanted);
                    Some(state.tables.len() - 1)
                }
                found => found,
            };
            let first = u64::from(self.gpu.0) << TABLES_SHIFT;
            let address = index.map(|index| first + index as u64 * 4096 + page % 512 * 8);
            ranges.push(PageTableRange { address, entries: entries as u32 });
            done += entries;
        }
        Ok(ranges)
    }
}

impl AccessedBits for Model {
    fn take_accessed(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        length: u64,
    ) -> Result<bool, UnknownId> {
        self.known(UnknownId::AddressSpace(space))?;
        let accessed = &mut self.state().accessed;
        let before = accessed.len();
        accessed.retain(|(of, at)| *of != space || !(gpu_va..gpu_va + length).contains(at));
        Ok(accessed.len() < before)
    }

    fn forget_translations(&self) {
        self.state().looks += 1;
    }
}

impl SystemContexts for Model {
    fn create_system_context(&self, guest: GuestId) -> Result<SystemContext, HardwareError> {
        self.known(UnknownId::Guest(guest))?;
        let address_space = self.create_address_space(guest)?;
        let mut state = self.state();
        let hw_queue = HwQueueId::of(self.gpu, state.id());
        let copies = |node: &NodeDescription| {
            [EngineType::THREE_D, EngineType::COPY].contains(&node.engine_type)
        };
        let node = self.nodes.iter().rposition(copies).unwrap() as u32;
        let system = SystemContext { address_space, hw_queue, node };
        assert_eq!(state.systems.insert(guest, system), None, "a second system context");
        Ok(system)
    }

    fn submit_paging(
        &self,
        guest: GuestId,
        packets: &[u8],
        fence: u64,
    ) -> Result<(), HardwareError> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        let system = state.systems[&guest];
        assert!(!state.without_power.contains(&system.node), "power first");
        let room = state.paging_room;
        let queued = state.paging.entry(guest).or_default();
        if queued.len() >= room {
            return Err(HardwareFull("paging buffer").into());
        }
        assert!(queued.back().is_none_or(|(last, _)| *last < fence), "fences only increase");
        queued.push_back((fence, packets.to_vec()));
        if state.prompt_paging {
            drop(state);
            self.complete_paging(guest);
        }
        Ok(())
    }

    fn abandon_paging(&self, guest: GuestId, fence: u64) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        let queue = state.systems[&guest].hw_queue;
        assert!(state.suspended.remove(&queue), "it was not pre-empted");
        state.log.push(Call::AbandonPaging(guest, fence));
        Ok(())
    }
}
