// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pipelines that were made of their descriptions in memory.

use super::described::{Description, Head, Known, made};
use super::wrong::Why;
use crate::serve::memory::Memory;
use crate::vulkan::{Bounds, Point, VulkanError};
use std::collections::BTreeMap;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// Most bytes of their SPIR-V, in all. What compilers make of it is some times as long.
const MOST_BYTES: u64 = 64 << 20;

/// A description that is longer than so many units is not kept room for.
const ROOM: usize = 1 << 17;

struct Kept<P> {
    known: Rc<Known<P>>,
    /// When it was last used.
    used: u64,
}

/// The pipelines that were made last, by their addresses.
pub struct Pipelines<P> {
    kept: BTreeMap<u64, Kept<P>>,
    /// Most of them.
    most: usize,
    bytes: u64,
    /// Descriptions, as they were copied, of pipelines that have yet to be made, by their addresses.
    lacking: BTreeMap<u64, (Point, Vec<u64>)>,
    /// Counts uses.
    now: u64,
    /// A description, kept for its room.
    buffer: Vec<u64>,
}

impl<P> Pipelines<P> {
    /// Keeps so many at most.
    pub fn new(most: usize) -> Self {
        let (kept, lacking) = (BTreeMap::new(), BTreeMap::new());
        Self { kept, most, bytes: 0, lacking, now: 0, buffer: Vec::new() }
    }

    /// Returns the pipeline for dispatches or draws whose description is at an address, which `make` makes if it is another
    /// than the one that was there before.
    ///
    /// # Errors
    /// What is wrong with the description, why `make` failed, or that there is no `make` and a pipeline to be made.
    pub fn find(
        &mut self,
        address: u64,
        point: Point,
        memory: &Memory,
        bounds: &Bounds,
        make: Option<impl FnOnce(&Description<'_>) -> Result<P, VulkanError>>,
    ) -> Result<Rc<Known<P>>, Why> {
        let head = Head::at(address, memory)?;
        self.now += 1;
        if let Some(kept) = self.kept.get_mut(&address)
            && kept.known.serial == head.serial
        {
            if kept.known.point() != point {
                return Err("a pipeline for dispatches that is to draw, or the reverse".into());
            }
            kept.used = self.now;
            return Ok(Rc::clone(&kept.known));
        }
        let make = make.ok_or(Why::Lacks)?;
        head.copy(point, address, memory, &mut self.buffer)?;
        let known = Rc::new(made(self.buffer.as_bytes(), point, bounds, make)?);
        self.keep(address, &known);
        if self.buffer.len() > ROOM {
            self.buffer = Vec::new();
        }
        Ok(known)
    }

    /// Copies the descriptions of those that have yet to be made, as many as there is room for, and forgets what was lacking
    /// before. What is wrong with a description is said when somebody wants to find its pipeline.
    pub fn note_lacking(&mut self, addresses: impl Iterator<Item = (Point, u64)>, memory: &Memory) {
        self.lacking.clear();
        let mut bytes = 0;
        for (point, address) in addresses {
            let Ok(head) = Head::at(address, memory) else { continue };
            let is_kept = self.kept.get(&address).is_some_and(|it| it.known.serial == head.serial);
            let mut description = Vec::new();
            if is_kept
                || self.lacking.contains_key(&address)
                || head.copy(point, address, memory, &mut description).is_err()
            {
                continue;
            }
            bytes += u64::from(head.length);
            if self.lacking.len() >= self.most || bytes > MOST_BYTES {
                break;
            }
            self.lacking.insert(address, (point, description));
        }
    }

    /// Makes one of those that were lacking, and returns it. One that cannot be made lacks no longer.
    pub fn make_lacking(
        &mut self,
        bounds: &Bounds,
        make: impl FnOnce(&Description<'_>) -> Result<P, VulkanError>,
    ) -> Option<Rc<Known<P>>> {
        let (address, (point, description)) = self.lacking.pop_first()?;
        let known = Rc::new(made(description.as_bytes(), point, bounds, make).ok()?);
        self.now += 1;
        self.keep(address, &known);
        Some(known)
    }

    /// Whether some are lacking.
    pub fn lack(&self) -> bool {
        !self.lacking.is_empty()
    }

    /// Keeps a pipeline that was used just now, and forgets others if there are too many.
    fn keep(&mut self, address: u64, known: &Rc<Known<P>>) {
        self.forget(address);
        while self.kept.len() >= self.most || self.bytes + known.bytes > MOST_BYTES {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            let Some((&oldest, _)) = oldest else { break };
            self.forget(oldest);
        }
        self.bytes += known.bytes;
        self.kept.insert(address, Kept { known: Rc::clone(known), used: self.now });
    }

    fn forget(&mut self, address: u64) {
        if let Some(kept) = self.kept.remove(&address) {
            self.bytes -= kept.known.bytes;
        }
    }
}
