//! Page tables: GPU virtual addresses to physical pages, four levels of 512 entries.
//!
//! The nodes are pages of one pool in host memory that no guest can map. The control plane writes
//! entries, engines walk them at the same time: a node is empty before it is linked, and an entry
//! is one atomic word. Nodes are given back only with their address space, when no engine walks it
//! any more.
//!
//! Source: "GPU virtual memory" of the Windows KMD overview; `DxgkDdiUpdatePageTable`.

use super::windows::{Shown, Windows};
use bellhop_host_kmd::hardware::{AddressSpaceId, HardwareFull, Pte};
use bellhop_protocol::PAGE_SIZE;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vm_memory::{MmapRegion, VolatileMemory};

/// Bits of a GPU virtual address.
pub const ADDRESS_BITS: u32 = 48;
const PAGE_BITS: u32 = PAGE_SIZE.trailing_zeros();
const LEVEL_BITS: u32 = 9;
const LEVELS: u32 = (ADDRESS_BITS - PAGE_BITS) / LEVEL_BITS;
const ENTRIES: u64 = 1 << LEVEL_BITS;

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

/// Index, in a node of `level` (0 is the leaf's), of the entry for an address.
#[inline]
fn index(gpu_va: u64, level: u32) -> u64 {
    (gpu_va >> (PAGE_BITS + level * LEVEL_BITS)) % ENTRIES
}

/// How many of the pool's pages one guest has taken.
#[derive(Debug, Default)]
pub struct Charge(AtomicU32);

/// The pages that nodes are made of.
#[derive(Debug)]
pub struct NodePool {
    /// Anonymous memory: a page costs nothing until it is used.
    memory: MmapRegion,
    pages: u32,
    pages_per_guest: u32,
    free: Mutex<FreeNodes>,
}

/// The pool's pages that are not in any tree, all of them zero.
#[derive(Debug)]
struct FreeNodes {
    /// Pages that were in use once.
    returned: Vec<Node>,
    /// Pages from this one on never were.
    fresh: u32,
}

impl NodePool {
    /// A pool of `pages` nodes, of which one guest can have `pages_per_guest`.
    ///
    /// # Errors
    /// When the operating system has no room for it.
    pub fn new(pages: u32, pages_per_guest: u32) -> io::Result<Self> {
        let size = usize::try_from(u64::from(pages) * PAGE_SIZE).map_err(io::Error::other)?;
        let memory = MmapRegion::new(size).map_err(io::Error::other)?;
        let free = Mutex::new(FreeNodes { returned: Vec::new(), fresh: 0 });
        Ok(Self { memory, pages, pages_per_guest, free })
    }

    /// Control plane: an empty node.
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

    /// Control plane: gives a tree back, emptied.
    fn free_tree(&self, node: Node, level: u32, charge: &Charge) {
        for index in 0..ENTRIES {
            let Some(entry) = self.entry(node, index) else { continue };
            let link = entry.load(Ordering::Relaxed);
            if link == 0 {
                continue;
            }
            if level > 0
                && let Some(child) = Node::from_link(link)
            {
                self.free_tree(child, level - 1, charge);
            }
            entry.store(0, Ordering::Relaxed);
        }
        charge.0.fetch_sub(1, Ordering::Relaxed);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).returned.push(node);
    }

    #[inline]
    fn entry(&self, node: Node, index: u64) -> Option<&AtomicU64> {
        let offset = u64::from(node.0) * PAGE_SIZE + index * size_of::<u64>() as u64;
        self.memory.get_atomic_ref(usize::try_from(offset).ok()?).ok()
    }
}

/// An address space: a tree of nodes, given back when nobody can walk it any more.
///
/// The registry keeps it until it is destroyed, which is after the engines have forgotten it: so
/// it is the control plane that gives the nodes back, and the lock in there is no engine's.
#[derive(Debug)]
pub struct AddressSpace {
    id: AddressSpaceId,
    root: Node,
    pool: Arc<NodePool>,
    charge: Arc<Charge>,
    /// Of a system context's.
    windows: Option<Arc<Windows>>,
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        self.pool.free_tree(self.root, LEVELS - 1, &self.charge);
    }
}

impl AddressSpace {
    /// An empty address space, whose nodes are charged to `charge`.
    ///
    /// # Errors
    /// When there is no page left.
    pub fn new(
        id: AddressSpaceId,
        pool: &Arc<NodePool>,
        charge: &Arc<Charge>,
    ) -> Result<Self, HardwareFull> {
        let root = pool.allocate(charge)?;
        let (pool, charge) = (Arc::clone(pool), Arc::clone(charge));
        Ok(Self { id, root, pool, charge, windows: None })
    }

    /// The same with windows: a system context's.
    #[must_use]
    pub fn with_windows(mut self, windows: Arc<Windows>) -> Self {
        self.windows = Some(windows);
        self
    }

    /// Engine: what a window shows at an address; `None` when the page tables are to be asked.
    pub fn window(&self, gpu_va: u64) -> Option<Shown> {
        self.windows.as_ref()?.find(gpu_va)
    }

    /// Its id.
    #[inline]
    pub fn id(&self) -> AddressSpaceId {
        self.id
    }

    /// Control plane: writes the entry of one page.
    ///
    /// # Errors
    /// When there is no page left for the nodes above it, or the address is out of range.
    pub fn set(&self, gpu_va: u64, pte: Pte) -> Result<(), HardwareFull> {
        if gpu_va >> ADDRESS_BITS != 0 {
            return Err(HardwareFull("GPU virtual address"));
        }
        let mut node = self.root;
        for level in (1..LEVELS).rev() {
            let entry = self.pool.entry(node, index(gpu_va, level)).ok_or(FULL)?;
            node = match Node::from_link(entry.load(Ordering::Relaxed)) {
                Some(child) => child,
                None if pte == Pte::INVALID => return Ok(()),
                None => {
                    let child = self.pool.allocate(&self.charge)?;
                    // Pairs with the load in `walk`: whoever follows the link finds it empty.
                    entry.store(child.link(), Ordering::Release);
                    child
                }
            };
        }
        let entry = self.pool.entry(node, index(gpu_va, 0)).ok_or(FULL)?;
        // Pairs with the load in `walk`.
        entry.store(pte.bits(), Ordering::Release);
        Ok(())
    }

    /// Engine: the entry of the page that an address is in.
    pub fn walk(&self, gpu_va: u64) -> Pte {
        let mut node = self.root;
        for level in (1..LEVELS).rev() {
            // Pairs with the stores in `set`, as does the one below.
            let link = self.load(node, index(gpu_va, level));
            match Node::from_link(link) {
                Some(child) => node = child,
                None => return Pte::INVALID,
            }
        }
        Pte::from_bits(self.load(node, index(gpu_va, 0)))
    }

    #[inline]
    fn load(&self, node: Node, index: u64) -> u64 {
        self.pool.entry(node, index).map_or(0, |entry| entry.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_host_kmd::hardware::{PhysicalPage, Segment};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn pte(page: u64) -> Pte {
        Pte::new(PhysicalPage { segment: Segment::System, address: page * PAGE_SIZE }, true)
    }

    #[test]
    fn a_guest_gets_no_more_than_its_share_and_has_it_back_after_destroying() {
        let pool = Arc::new(NodePool::new(64, 8).unwrap());
        let (greedy, other) = (Arc::default(), Arc::default());
        let space = AddressSpace::new(AddressSpaceId(1), &pool, &greedy).unwrap();
        for page in 0..2u64 {
            space.set(page << 39, pte(1)).unwrap();
        }
        // 1 root and 2 * 3 nodes are taken: a whole new branch does not fit into 8.
        assert!(space.set(2 << 39, pte(1)).is_err());
        assert!(AddressSpace::new(AddressSpaceId(2), &pool, &other).is_ok());
        drop(space);
        let space = AddressSpace::new(AddressSpaceId(3), &pool, &greedy).unwrap();
        assert_eq!(space.walk(0), Pte::INVALID);
        space.set(3 << 39, pte(9)).unwrap();
        assert_eq!(space.walk(3 << 39), pte(9));
        assert_eq!(space.walk(1 << 39), Pte::INVALID);
    }

    #[test]
    fn the_pool_is_bounded_and_every_page_comes_back() {
        let pool = Arc::new(NodePool::new(9, u32::MAX).unwrap());
        let charge = Arc::default();
        for round in 0..100 {
            let space = AddressSpace::new(AddressSpaceId(round), &pool, &charge).unwrap();
            let mapped = (0..10u64).filter(|p| space.set(p << 39, pte(1)).is_ok()).count();
            assert_eq!(mapped, 2, "round {round}");
            drop(space);
        }
    }

    #[test]
    fn unmapping_what_was_never_mapped_takes_no_pages() {
        let pool = Arc::new(NodePool::new(1, 1).unwrap());
        let space = AddressSpace::new(AddressSpaceId(1), &pool, &Arc::default()).unwrap();
        assert!(space.set(1 << 40, Pte::INVALID).is_ok());
        assert!(space.set(1 << 48, Pte::INVALID).is_err());
    }

    proptest! {
        #[test]
        fn a_table_maps_exactly_what_a_map_would(
            operations in proptest::collection::vec(
                (0usize..2, 0u64..6, 0u64..6, proptest::option::of(1u64..1 << 30)), 1..200,
            )
        ) {
            let pool = Arc::new(NodePool::new(512, 256).unwrap());
            let charge = Arc::default();
            let spaces = [1, 2].map(|id| AddressSpace::new(AddressSpaceId(id), &pool, &charge).unwrap());
            let mut model = HashMap::new();
            // Few distinct addresses, spread over all levels, so that they meet.
            let address = |high: u64, low: u64| (high * 0x0123_4567) << 21 & !0 >> 16 | low << 12;
            for (space, high, low, page) in operations {
                let (va, entry) = (address(high, low), page.map_or(Pte::INVALID, pte));
                spaces[space].set(va, entry).unwrap();
                model.insert((space, va), entry);
            }
            for (index, space) in spaces.iter().enumerate() {
                for (high, low) in (0..6).flat_map(|h| (0..6).map(move |l| (h, l))) {
                    let va = address(high, low);
                    let expected = model.get(&(index, va)).copied().unwrap_or_default();
                    prop_assert_eq!(space.walk(va), expected);
                    prop_assert_eq!(space.walk(va | 0xfff), expected);
                }
            }
        }
    }
}
