// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "parts of the window become buffers of a device")]

//! Parts of the window that kernels and commands reach as buffers.

use crate::messages::PAGE;
use crate::report::Limits;
use crate::vulkan::{Binding, Device, Imported};
use anyhow::{Context, ensure};
use std::collections::HashMap;
use std::ops::Range;
use std::ptr::without_provenance_mut;
use std::rc::Rc;

/// Most imports to keep: more than any batch has.
const MOST: usize = 1024;

/// The imported parts of the window. An import is only addresses where the device is a program for the processor:
/// memory is mapped there, and taken back, at any time.
pub struct Imports<'d> {
    device: &'d Device<'d>,
    window: Range<u64>,
    /// The unit of imports.
    unit: u64,
    alignment: u64,
    longest: u64,
    known: HashMap<[u64; 2], Rc<Imported<'d>>>,
}

impl<'d> Imports<'d> {
    /// The window must stay reserved until the process ends.
    pub fn new(device: &'d Device<'d>, window: Range<u64>, limits: &Limits) -> Self {
        Self {
            device,
            window,
            unit: limits.import_alignment.unwrap_or_default().max(PAGE),
            alignment: limits.descriptor_alignment.max(1),
            longest: limits.descriptor_range.into(),
            known: HashMap::new(),
        }
    }

    /// Returns the storage buffer of a GPU virtual address and a length in bytes.
    ///
    /// # Errors
    /// When the range is not in the window or not aligned, or the device refuses it.
    pub fn binding(&mut self, [address, length]: [u64; 2]) -> anyhow::Result<Binding<'d>> {
        ensure!(address.is_multiple_of(self.alignment), "the descriptor's address is not aligned");
        ensure!((1..=self.longest).contains(&length), "the descriptor's length is impossible");
        self.range(address, length)
    }

    /// Returns a range as a part of a buffer, for any use.
    ///
    /// # Errors
    /// When the range is not in the window, or the device refuses it.
    pub fn range(&mut self, address: u64, length: u64) -> anyhow::Result<Binding<'d>> {
        let start = address - address % self.unit;
        let end =
            address.checked_add(length).and_then(|end| end.checked_next_multiple_of(self.unit));
        let inside = |end: &u64| start >= self.window.start && *end <= self.window.end;
        let end = end.filter(inside).context("the range is outside the window")?;
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let memory = match self.known.get(&[start, end]) {
            Some(memory) => Rc::clone(memory),
            None => {
                let at = without_provenance_mut(start as usize);
                // SAFETY: the range is in the window, which this process keeps until it ends, and which only kernels
                // access. The thread for memory replaces mappings there only as the device allows.
                let memory = Rc::new(unsafe { self.device.import_range(at, end - start) }?);
                self.known.insert([start, end], Rc::clone(&memory));
                memory
            }
        };
        Ok(Binding { memory, offset: address - start, length })
    }

    /// Forgets all imports.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}
