// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page tables: GPU virtual addresses to physical pages, four levels of 512 entries.
//!
//! An address space has one tree for each page size, so that pages of both sizes can lie side by side in any order;
//! where both trees map an address, the large page wins. A tree only grows: a packet that was built to write an
//! entry finds the entry in its place, whatever was mapped since.
//!
//! The nodes are pages of one pool in host memory that no guest can map. The control plane and packets of system
//! contexts write entries while engines walk them: a node is empty before it is linked, and an entry is one atomic
//! word. Nodes are freed only with their address space, when no engine walks or writes it any more.
//!
//! Source: "GPU virtual memory" of the Windows KMD overview; `DxgkDdiUpdatePageTable`.

use super::windows::{Shown, Windows};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    ACCESSED, AddressSpaceId, GpuOrdinal, HardwareFull, PageTableRange, Pte,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::handoff::accessed;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::handoff::tlb::TlbUsers;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vm_memory::{MmapRegion, VolatileMemory};
use zerocopy::IntoBytes;

/// Bits of a GPU virtual address.
pub const ADDRESS_BITS: u32 = 48;
const LEVEL_BITS: u32 = 9;
const LEVELS: u32 = 4;
const ENTRIES: u64 = 1 << LEVEL_BITS;
/// Entries of a node that is freed that are compared with 0 at once.
const LOOKED_AT: usize = 64;

/// Where addresses of page-table memory have the ordinal of the GPU.
const POOL_SHIFT: u32 = 48;

const FULL: HardwareFull = HardwareFull("page-table page");

/// Index of a page in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node(u32);

impl Node {
    /// The entry that links to this node: never 0, which is an empty entry.
    fn link(self) -> u64 {
        u64::from(self.0) + 1
    }

    fn from_link(link: u64) -> Option<Self> {
        Some(Self(u32::try_from(link.checked_sub(1)?).ok()?))
    }
}

/// Index of an address's entry in a node of `level` (0 is the leaf's).
#[inline]
fn index(gpu_va: u64, page_size: PageSize, level: u32) -> u64 {
    let page_bits = page_size.bytes().trailing_zeros();
    (gpu_va >> (page_bits + level * LEVEL_BITS)) % ENTRIES
}

/// Number of the pool's pages that one guest uses.
#[derive(Debug, Default)]
pub struct Charge(AtomicU32);

/// The pages that nodes are made of.
#[derive(Debug)]
pub struct NodePool {
    /// Its first address. The pools of a chain do not overlap, so that any engine reaches each.
    base: u64,
    /// Anonymous memory: a page costs nothing until it is used.
    memory: MmapRegion,
    pages: u32,
    pages_per_guest: u32,
    /// For each page that is a root: the engines that may cache entries of the address space.
    users: Box<[TlbUsers]>,
    free: Mutex<FreeNodes>,
}

/// The free pages of the pool, all of them zero.
#[derive(Debug)]
struct FreeNodes {
    /// Pages that were freed.
    returned: Vec<Node>,
    /// Pages from this one on were never used.
    fresh: u32,
}

impl NodePool {
    /// A GPU's pool of `pages` nodes, of which one guest can have `pages_per_guest`.
    ///
    /// # Errors
    /// If the operating system has no room for it.
    pub fn new(gpu: GpuOrdinal, pages: u32, pages_per_guest: u32) -> io::Result<Self> {
        let base = u64::from(gpu.0) << POOL_SHIFT;
        let size = usize::try_from(u64::from(pages) * PAGE_SIZE).map_err(io::Error::other)?;
        let memory = MmapRegion::new(size).map_err(io::Error::other)?;
        let free = Mutex::new(FreeNodes { returned: Vec::new(), fresh: 0 });
        let users = (0..pages).map(|_| TlbUsers::new()).collect();
        Ok(Self { base, memory, pages, pages_per_guest, users, free })
    }

    /// Control plane: allocates an empty node.
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn allocate(&self, charge: &Charge) -> Result<Node, HardwareFull> {
        if charge.0.load(Ordering::Relaxed) >= self.pages_per_guest {
            return Err(HardwareFull("page-table page of this guest"));
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let node = match free.returned.pop() {
            Some(node) => node,
            None if free.fresh < self.pages => {
                free.fresh += 1;
                Node(free.fresh - 1)
            }
            None => return Err(FULL),
        };
        charge.0.fetch_add(1, Ordering::Relaxed);
        Ok(node)
    }

    /// Control plane: empties a tree and frees its nodes.
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn free_tree(&self, node: Node, level: u32, charge: &Charge) {
        // One look at all entries, which nobody writes any more: most of them are empty.
        let mut links = [0; ENTRIES as usize];
        let offset = usize::try_from(Self::offset(node, 0)).unwrap_or(usize::MAX);
        if let Ok(table) = self.memory.get_slice(offset, size_of_val(&links)) {
            table.copy_to(links.as_mut_bytes());
        }
        let parts = links.as_chunks::<LOOKED_AT>().0.iter().zip((0..).step_by(LOOKED_AT));
        for (part, first) in parts.filter(|(part, _)| **part != [0; LOOKED_AT]) {
            for (link, index) in part.iter().zip(first..).filter(|(link, _)| **link != 0) {
                if level > 0
                    && let Some(child) = Node::from_link(*link)
                {
                    self.free_tree(child, level - 1, charge);
                }
                if let Some(entry) = self.entry(node, index) {
                    entry.store(0, Ordering::Relaxed);
                }
            }
        }
        charge.0.fetch_sub(1, Ordering::Relaxed);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).returned.push(node);
    }

    /// The engines that use the address space with this root address.
    pub fn users(&self, root: u64) -> Option<&TlbUsers> {
        let page = root.checked_sub(self.base)? / PAGE_SIZE;
        self.users.get(usize::try_from(page).ok()?)
    }

    /// Its first address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether an address is in it.
    pub fn has(&self, address: u64) -> bool {
        let size = u64::from(self.pages) * PAGE_SIZE;
        address.checked_sub(self.base).is_some_and(|offset| offset < size)
    }

    /// Offset of an entry in the pool.
    #[inline]
    fn offset(node: Node, index: u64) -> u64 {
        u64::from(node.0) * PAGE_SIZE + index * size_of::<u64>() as u64
    }

    /// Address of an entry, by which packets name it.
    fn address(&self, node: Node, index: u64) -> u64 {
        self.base + Self::offset(node, index)
    }

    #[inline]
    fn at(&self, address: u64) -> Option<&AtomicU64> {
        self.at_offset(address.checked_sub(self.base)?)
    }

    #[inline]
    fn at_offset(&self, offset: u64) -> Option<&AtomicU64> {
        self.memory.get_atomic_ref(usize::try_from(offset).ok()?).ok()
    }

    #[inline]
    fn entry(&self, node: Node, index: u64) -> Option<&AtomicU64> {
        self.at_offset(Self::offset(node, index))
    }

    /// Engine, for a system context: writes consecutive entries of one table, each `increment` more than the
    /// previous one. `None` if they are not in one table.
    pub fn write(&self, address: u64, count: u32, first: u64, increment: u64) -> Option<()> {
        let size = size_of::<u64>() as u64;
        let left = (PAGE_SIZE - address % PAGE_SIZE) / size;
        if !address.is_multiple_of(size) || count == 0 || u64::from(count) > left {
            return None;
        }
        let mut value = first;
        for index in 0..u64::from(count) {
            // Pairs with the load in `walk`.
            publication::publish(self.at(address + index * size)?, value);
            value = value.wrapping_add(increment);
        }
        Some(())
    }
}

/// An address space: trees of nodes, freed when no engine can walk them any more.
///
/// The registry keeps it until it is destroyed, after the engines have flushed it: so the control plane frees the
/// nodes, and no engine takes the lock inside.
#[derive(Debug)]
pub struct AddressSpace {
    id: AddressSpaceId,
    /// Root of the tree of 4 KiB pages.
    root: Node,
    /// The link to the root of the tree of 64 KiB pages; 0 until there is one.
    large_root: AtomicU64,
    pool: Arc<NodePool>,
    charge: Arc<Charge>,
    /// The windows of a system context.
    windows: Option<Arc<Windows>>,
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        let large = Node::from_link(*self.large_root.get_mut());
        for root in [Some(self.root), large].into_iter().flatten() {
            self.pool.free_tree(root, LEVELS - 1, &self.charge);
        }
    }
}

impl AddressSpace {
    /// An empty address space; its nodes are charged to `charge`.
    ///
    /// # Errors
    /// If there is no page left.
    pub fn new(
        id: AddressSpaceId,
        pool: &Arc<NodePool>,
        charge: &Arc<Charge>,
    ) -> Result<Self, HardwareFull> {
        let root = pool.allocate(charge)?;
        if let Some(users) = pool.users(pool.address(root, 0)) {
            users.reset();
        }
        let (pool, charge) = (Arc::clone(pool), Arc::clone(charge));
        Ok(Self { id, root, large_root: AtomicU64::new(0), pool, charge, windows: None })
    }

    /// An address space with windows, for a system context.
    #[must_use]
    pub fn with_windows(mut self, windows: Arc<Windows>) -> Self {
        self.windows = Some(windows);
        self
    }

    /// Engine: what a window shows at an address; `None` if the page tables apply.
    pub fn window(&self, gpu_va: u64) -> Option<Shown> {
        self.windows.as_ref()?.find(gpu_va)
    }

    /// Its id.
    #[inline]
    pub fn id(&self) -> AddressSpaceId {
        self.id
    }

    /// Control plane: the node that a link names. A missing one is allocated if `create`.
    fn follow(&self, link: &AtomicU64, create: bool) -> Result<Option<Node>, HardwareFull> {
        match Node::from_link(link.load(Ordering::Relaxed)) {
            None if create => {
                let child = self.pool.allocate(&self.charge)?;
                // Pairs with the load in `walk`: an engine that follows the link finds the node empty.
                publication::publish(link, child.link());
                Ok(Some(child))
            }
            found => Ok(found),
        }
    }

    /// Control plane: the table that holds an address's entry.
    fn table(
        &self,
        gpu_va: u64,
        page_size: PageSize,
        create: bool,
    ) -> Result<Option<Node>, HardwareFull> {
        if gpu_va >> ADDRESS_BITS != 0 {
            return Err(HardwareFull("GPU virtual address"));
        }
        let mut node = match page_size {
            PageSize::Small => Some(self.root),
            PageSize::Large => self.follow(&self.large_root, create)?,
        };
        for level in (1..LEVELS).rev() {
            let Some(parent) = node else { return Ok(None) };
            let link = self.pool.entry(parent, index(gpu_va, page_size, level)).ok_or(FULL)?;
            node = self.follow(link, create)?;
        }
        Ok(node)
    }

    /// Control plane: writes the entry of one page.
    ///
    /// # Errors
    /// If there is no page left for the nodes above it, or the address is out of range.
    pub fn set(&self, gpu_va: u64, page_size: PageSize, pte: Pte) -> Result<(), HardwareFull> {
        let Some(table) = self.table(gpu_va, page_size, pte != Pte::INVALID)? else {
            return Ok(());
        };
        let entry = self.pool.entry(table, index(gpu_va, page_size, 0)).ok_or(FULL)?;
        // Pairs with the load in `walk`.
        publication::publish(entry, pte.bits());
        Ok(())
    }

    /// Control plane: the places of the entries of consecutive pages; missing tables are allocated if `create`.
    ///
    /// # Errors
    /// If there is no page left for a table, or an address is out of range.
    pub fn locate(
        &self,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareFull> {
        let mut ranges = Vec::new();
        let mut done = 0;
        while done < pages {
            // An address that does not fit into 64 bits is out of range like any other.
            let at = gpu_va.saturating_add(done.saturating_mul(page_size.bytes()));
            let first = index(at, page_size, 0);
            let entries = (pages - done).min(ENTRIES - first);
            let table = self.table(at, page_size, create)?;
            let address = table.map(|table| self.pool.address(table, first));
            // At most 512.
            ranges.push(PageTableRange { address, entries: entries as u32 });
            done += entries;
        }
        Ok(ranges)
    }

    /// Address of its root in page-table memory, by which packets name the address space.
    pub fn root(&self) -> u64 {
        self.pool.address(self.root, 0)
    }

    /// Engine `engine`: the entry and the size of the page that contains an address. The engine may cache it until
    /// it is asked to flush.
    pub fn walk_to_remember(&self, gpu_va: u64, engine: u32) -> (Pte, PageSize) {
        // Pairs with the load after a change, in `FLUSH_TLB`.
        if let Some(users) = self.pool.users(self.root()) {
            users.enter(engine);
        }
        let (pte, page_size) = self.walk(gpu_va);
        // Accesses to a system context's own pages do not count.
        if pte.page().is_some() && self.windows.is_none() {
            self.note_access(gpu_va, page_size, pte);
        }
        (pte, page_size)
    }

    /// Engine: sets the accessed bit of an entry that it has just read. Pairs with [`Self::take_accessed`].
    fn note_access(&self, gpu_va: u64, page_size: PageSize, seen: Pte) {
        if seen.bits() & ACCESSED == 0
            && let Some(table) = self.leaf(gpu_va, page_size)
            && let Some(entry) = self.pool.entry(table, index(gpu_va, page_size, 0))
        {
            accessed::note(entry, seen.bits(), ACCESSED);
        }
    }

    /// Control plane: clears the accessed bits of a range of whole pages and returns whether any was set. Pairs
    /// with [`Self::note_access`].
    pub fn take_accessed(&self, gpu_va: u64, length: u64) -> bool {
        let mut was_used = false;
        for page_size in [PageSize::Small, PageSize::Large] {
            let bytes = page_size.bytes();
            let first = gpu_va - gpu_va % bytes;
            let pages = (gpu_va - first).saturating_add(length).div_ceil(bytes);
            let tables = self.locate(first, page_size, pages, false).unwrap_or_default();
            for PageTableRange { address, entries } in tables {
                let Some(address) = address else { continue };
                for entry in 0..u64::from(entries) {
                    let entry = self.pool.at(address + entry * size_of::<u64>() as u64);
                    was_used |= entry.is_some_and(|entry| accessed::take(entry, ACCESSED));
                }
            }
        }
        was_used
    }

    /// As [`Self::walk_to_remember`], for a caller that caches nothing.
    pub fn walk(&self, gpu_va: u64) -> (Pte, PageSize) {
        // Pairs with the store in `follow`.
        if let Some(root) = Node::from_link(publication::read(&self.large_root)) {
            let pte = self.walk_tree(root, gpu_va, PageSize::Large);
            if pte.page().is_some() {
                return (pte, PageSize::Large);
            }
        }
        (self.walk_tree(self.root, gpu_va, PageSize::Small), PageSize::Small)
    }

    fn walk_tree(&self, root: Node, gpu_va: u64, page_size: PageSize) -> Pte {
        match self.descend(root, gpu_va, page_size) {
            // Pairs with the stores of entries.
            Some(leaf) => Pte::from_bits(self.load(leaf, index(gpu_va, page_size, 0))),
            None => Pte::INVALID,
        }
    }

    /// The table below a root that holds an address's entry.
    fn descend(&self, root: Node, gpu_va: u64, page_size: PageSize) -> Option<Node> {
        let mut node = root;
        for level in (1..LEVELS).rev() {
            // Pairs with the store in `follow`.
            node = Node::from_link(self.load(node, index(gpu_va, page_size, level)))?;
        }
        Some(node)
    }

    /// Engine: the table that holds an address's entry, in the tree of this page size.
    fn leaf(&self, gpu_va: u64, page_size: PageSize) -> Option<Node> {
        let root = match page_size {
            PageSize::Small => self.root,
            PageSize::Large => Node::from_link(publication::read(&self.large_root))?,
        };
        self.descend(root, gpu_va, page_size)
    }

    #[inline]
    fn load(&self, node: Node, index: u64) -> u64 {
        self.pool.entry(node, index).map_or(0, publication::read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_host_kmd::hardware::{PhysicalPage, Segment};
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SMALL: PageSize = PageSize::Small;
    const LARGE: PageSize = PageSize::Large;

    fn pte(page: u64) -> Pte {
        Pte::new(PhysicalPage { segment: Segment::System, address: page * PAGE_SIZE }, true)
    }

    #[test]
    fn a_guest_gets_no_more_than_its_share_and_has_it_back_after_destroying() {
        let pool = Arc::new(NodePool::new(GpuOrdinal::MASTER, 64, 8).unwrap());
        let (greedy, other) = (Arc::default(), Arc::default());
        let space = AddressSpace::new(AddressSpaceId(1), &pool, &greedy).unwrap();
        for page in 0..2u64 {
            space.set(page << 39, SMALL, pte(1)).unwrap();
        }
        // 1 root and 2 * 3 nodes are in use: a whole new branch does not fit into 8.
        assert!(space.set(2 << 39, SMALL, pte(1)).is_err());
        assert!(AddressSpace::new(AddressSpaceId(2), &pool, &other).is_ok());
        drop(space);
        let space = AddressSpace::new(AddressSpaceId(3), &pool, &greedy).unwrap();
        assert_eq!(space.walk(0), (Pte::INVALID, SMALL));
        space.set(3 << 39, SMALL, pte(9)).unwrap();
        assert_eq!(space.walk(3 << 39), (pte(9), SMALL));
        assert_eq!(space.walk(1 << 39), (Pte::INVALID, SMALL));
    }

    #[test]
    fn the_pool_is_bounded_and_every_page_comes_back() {
        let pool = Arc::new(NodePool::new(GpuOrdinal::MASTER, 9, u32::MAX).unwrap());
        let charge = Arc::default();
        for round in 0..100 {
            let space = AddressSpace::new(AddressSpaceId(round), &pool, &charge).unwrap();
            let mapped = (0..10u64).filter(|p| space.set(p << 39, SMALL, pte(1)).is_ok()).count();
            assert_eq!(mapped, 2, "round {round}");
            drop(space);
        }
    }

    #[test]
    fn unmapping_what_was_never_mapped_takes_no_pages() {
        let pool = Arc::new(NodePool::new(GpuOrdinal::MASTER, 1, 1).unwrap());
        let space = AddressSpace::new(AddressSpaceId(1), &pool, &Arc::default()).unwrap();
        assert!(space.set(1 << 40, SMALL, Pte::INVALID).is_ok());
        assert!(space.set(1 << 48, SMALL, Pte::INVALID).is_err());
    }

    #[test]
    fn entries_lie_where_walks_look_and_no_walk_passes_the_end_of_a_table() {
        let pool = Arc::new(NodePool::new(GpuOrdinal::MASTER, 64, 64).unwrap());
        let space = AddressSpace::new(AddressSpaceId(1), &pool, &Arc::default()).unwrap();
        for size in [SMALL, LARGE] {
            let start = (1 << 40) + 510 * size.bytes();
            let none = |entries| PageTableRange { address: None, entries };
            assert_eq!(space.locate(start, size, 4, false).unwrap(), [none(2), none(2)]);
            let ranges = space.locate(start, size, 4, true).unwrap();
            assert_eq!(ranges, space.locate(start, size, 4, false).unwrap());
            for (range, first) in ranges.iter().zip([1, 3]) {
                let (at, step) = (range.address.unwrap(), size.bytes());
                let bits = pte(first * 16).bits();
                pool.write(at, range.entries, bits, step).unwrap();
            }
            let (last, pages) = (start + 3 * size.bytes(), size.bytes() / PAGE_SIZE);
            assert_eq!(space.walk(last), (pte(48 + pages), size));
            assert_eq!(space.walk(last + size.bytes()).0, Pte::INVALID);
            let at = ranges[0].address.unwrap();
            for bad in [(at, 3), (at, 0), (at + 4, 1), (64 * PAGE_SIZE, 1), (u64::MAX - 7, 1)] {
                assert_eq!(pool.write(bad.0, bad.1, 1, 0), None, "{bad:?}");
            }
        }
        assert!(space.locate(u64::MAX, SMALL, 2, true).is_err());
    }

    proptest! {
        #[test]
        fn tables_map_exactly_what_a_map_would_with_pages_of_both_sizes(
            operations in proptest::collection::vec(
                (
                    0usize..2, any::<bool>(), any::<bool>(), 0u64..6, 0u64..40,
                    proptest::option::of(1u64..1 << 26),
                ),
                1..200,
            )
        ) {
            let pool = Arc::new(NodePool::new(GpuOrdinal(1), 1024, 1024).unwrap());
            let charge = Arc::default();
            let spaces = [1, 2].map(|id| AddressSpace::new(AddressSpaceId(id), &pool, &charge).unwrap());
            // For each 4 KiB page: the entry of the large page over it, and its own.
            let mut model: HashMap<(usize, PageSize, u64), Pte> = HashMap::new();
            // Few distinct addresses, spread over all levels, so that they collide.
            let address = |high: u64, low: u64| (high * 0x0123_4567) << 21 & !0 >> 16 | low << 12;
            for (space, large, by_packet, high, low, page) in operations {
                let size = if large { LARGE } else { SMALL };
                let va = address(high, low) & !(size.bytes() - 1);
                let entry = page.map_or(Pte::INVALID, |page| pte(page * 16));
                if by_packet {
                    let range = spaces[space].locate(va, size, 1, page.is_some()).unwrap()[0];
                    if let Some(at) = range.address {
                        pool.write(at, range.entries, entry.bits(), 0).unwrap();
                    }
                } else {
                    spaces[space].set(va, size, entry).unwrap();
                }
                model.insert((space, size, va), entry);
            }
            for (index, space) in spaces.iter().enumerate() {
                for (high, low) in (0..6).flat_map(|h| (0..40).map(move |l| (h, l))) {
                    let va = address(high, low);
                    let entry = |size: PageSize| {
                        let entry = model.get(&(index, size, va & !(size.bytes() - 1))).copied();
                        entry.filter(|entry| *entry != Pte::INVALID).map(|entry| (entry, size))
                    };
                    let expected = entry(LARGE).or(entry(SMALL)).unwrap_or((Pte::INVALID, SMALL));
                    prop_assert_eq!(space.walk(va), expected);
                    prop_assert_eq!(space.walk(va | 0xfff), expected);
                }
            }
        }
    }
}
