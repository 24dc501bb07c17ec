// SPDX-License-Identifier: MIT OR Apache-2.0

//! Views and samplers that descriptors name by an address and a serial number.

use crate::serve::commands::wrong::Why;
use crate::serve::memory::Memory;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{ImageView, Sampler};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What has a serial number.
pub trait Named: FromBytes + IntoBytes + Immutable {
    /// What tells it from all others that were or will be at its address.
    fn serial(&self) -> u64;
}

impl Named for ImageView {
    fn serial(&self) -> u64 {
        self.serial
    }
}

impl Named for Sampler {
    fn serial(&self) -> u64 {
        self.serial
    }
}

/// Descriptions that the descriptors of a stream name, each read once.
pub struct Names<T> {
    /// By address and serial number; `None` for what has ended.
    read: BTreeMap<[u64; 2], Option<T>>,
    /// Most of them.
    most: usize,
}

impl<T: Named> Names<T> {
    /// Has none, and so many at most.
    pub const fn new(most: usize) -> Self {
        Self { read: BTreeMap::new(), most }
    }

    /// Returns what has an address and a serial number, which it reads if no descriptor has named it before; `None` if it has
    /// ended.
    ///
    /// # Errors
    /// When there can be nothing there, or there are too many.
    pub fn read(&mut self, name: [u64; 2], memory: &Memory) -> Result<Option<&T>, Why> {
        let [address, serial] = name;
        if !self.read.contains_key(&name) {
            if self.read.len() >= self.most {
                return Err("more views or samplers than a stream may have".into());
            }
            if !address.is_multiple_of(UNIT as u64) {
                return Err("a view or sampler that is not aligned".into());
            }
            let mut found = T::new_zeroed();
            memory.read(address, found.as_mut_bytes())?;
            let is_there = serial != 0 && found.serial() == serial;
            self.read.insert(name, is_there.then_some(found));
        }
        Ok(self.get(name))
    }

    /// Returns what was read, if it has not ended.
    pub fn get(&self, name: [u64; 2]) -> Option<&T> {
        self.read.get(&name)?.as_ref()
    }

    /// Adds the bytes that tell them from others.
    pub fn tell(&self, key: &mut Vec<u8>) {
        self.read.values().flatten().for_each(|found| key.extend_from_slice(found.as_bytes()));
    }
}
