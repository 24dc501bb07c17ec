// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the GPUs of a chain share: they reach each other's engines and page-table memory, and a ticket is one of all.
//!
//! A GPU that is not linked is a chain of one. Engines are numbered through the chain, the master's first, so a set of
//! engines is one word for all GPUs: a fence that an engine of one GPU signals calls the engines of the others, without
//! the control plane.
//!
//! Source: Windows KMD overview, "MGPU": "2 or more adapters as a 'chain'".

use super::chip::EnginePort;
use crate::gpu::memory::page_table::NodePool;
use bellhop_host_kmd::hardware::GpuOrdinal;
use bellhop_protocol::handoff::fence::{FenceWords, SignalRule};
use bellhop_protocol::handoff::quiescence::Tickets;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// What a GPU brings into its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Number of its engines.
    pub engines: u32,
    /// Pages for page tables, and how many of them one guest can have.
    pub page_table_pages: (u32, u32),
}

/// What the GPUs of a chain share.
#[derive(Debug)]
pub struct Chain {
    /// The engines of all GPUs.
    pub engines: Arc<[EnginePort]>,
    /// The page-table memory of each GPU.
    pools: Box<[Arc<NodePool>]>,
    /// The tickets of all engines.
    pub tickets: Tickets,
    /// The latest ticket that all engines have passed, as a fence that engines wait for.
    pub flushed: FenceWords,
    /// Number of replacements of any guest's memory.
    pub memory_changes: AtomicU64,
    /// When the adapter's clock began.
    pub epoch: Instant,
}

/// A GPU's place in its chain.
#[derive(Debug, Clone)]
pub struct ChainPlace {
    /// The chain.
    pub chain: Arc<Chain>,
    /// The GPU.
    pub gpu: GpuOrdinal,
    /// The chain's number of the GPU's first engine.
    pub first_engine: u32,
    /// Number of its engines.
    pub engines: u32,
}

impl Chain {
    /// A chain of these GPUs, whose engines are not running: the place of each.
    ///
    /// # Errors
    /// If the process is out of file descriptors or memory, or the chain has more than 64 engines, which are a word.
    pub fn of(members: &[Member]) -> io::Result<Vec<ChainPlace>> {
        let count: u32 = members.iter().map(|member| member.engines).sum();
        if count > u64::BITS {
            let refused = format!("a chain of {count} engines; at most {} are a set", u64::BITS);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, refused));
        }
        let engines: Vec<_> = (0..count).map(|_| EnginePort::new()).collect::<io::Result<_>>()?;
        let pools = (0..).zip(members).map(|(gpu, member)| {
            let (pages, per_guest) = member.page_table_pages;
            Ok(Arc::new(NodePool::new(GpuOrdinal(gpu), pages, per_guest)?))
        });
        let chain = Arc::new(Self {
            engines: engines.into(),
            pools: pools.collect::<io::Result<_>>()?,
            tickets: Tickets::new(),
            flushed: FenceWords::new(0, SignalRule::Monotonic),
            memory_changes: AtomicU64::new(0),
            epoch: Instant::now(),
        });
        let mut first_engine = 0;
        let places = (0..).zip(members).map(|(gpu, member)| {
            let engines = member.engines;
            let place = ChainPlace {
                chain: Arc::clone(&chain),
                gpu: GpuOrdinal(gpu),
                first_engine,
                engines,
            };
            first_engine += engines;
            place
        });
        Ok(places.collect())
    }

    /// The page-table memory of a GPU.
    pub fn pool(&self, gpu: GpuOrdinal) -> Option<&Arc<NodePool>> {
        self.pools.get(gpu.index())
    }

    /// The page-table memory that has an address.
    pub fn pool_at(&self, address: u64) -> Option<&NodePool> {
        self.pools.iter().map(AsRef::as_ref).find(|pool| pool.has(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(engines: u32) -> Member {
        Member { engines, page_table_pages: (16, 4) }
    }

    #[test]
    fn engines_are_numbered_through_the_chain_and_page_tables_have_addresses_of_their_own() {
        let places = Chain::of(&[member(3), member(2)]).unwrap();
        let numbers = places.iter().map(|place| (place.gpu.0, place.first_engine, place.engines));
        assert_eq!(numbers.collect::<Vec<_>>(), [(0, 0, 3), (1, 3, 2)]);
        let chain = &places[0].chain;
        assert_eq!(chain.engines.len(), 5);
        for gpu in [GpuOrdinal(0), GpuOrdinal(1)] {
            let pool = chain.pool(gpu).unwrap();
            let found = chain.pool_at(pool.base()).unwrap();
            assert!(std::ptr::eq(found, pool.as_ref()));
            assert!(chain.pool_at(pool.base() + (16 << 12)).is_none());
        }
    }

    #[test]
    fn a_chain_has_no_more_engines_than_a_word_has_bits() {
        assert!(Chain::of(&[member(32), member(32)]).is_ok());
        assert!(Chain::of(&[member(32), member(33)]).is_err());
    }
}
