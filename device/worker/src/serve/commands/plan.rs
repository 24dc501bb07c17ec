// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a stream's dispatches run on: pipelines, and the contents of descriptor sets. Everything is read once, and checked,
//! before anything is recorded.

use super::pipelines::Known;
use super::stream::Stream;
use super::wrong::{Why, Wrong};
use crate::serve::memory::Memory;
use crate::vulkan::{Bounds, OfBuffers};
use bellhop_protocol::vulkan::{Binding, Command, Descriptor, DescriptorKind, Dispatch};
use std::collections::BTreeMap;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// Most descriptors of a stream. Sets that several dispatches of one pipeline have in common count once.
pub const MAX_DESCRIPTORS: usize = 1 << 18;

/// A buffer of a descriptor. Address and length are 0 if there is none.
pub type Buffer = [u64; 2];

/// A descriptor set, as a dispatch of one pipeline sees it.
pub struct Set<P> {
    /// The pipeline.
    pub pipeline: Rc<Known<P>>,
    /// The set's number in its layout.
    pub number: usize,
    /// The first of its buffers in [`Plan::buffers`]. They follow each other as the bindings do.
    pub first: usize,
}

impl<P> Set<P> {
    /// Its bindings.
    pub fn bindings(&self) -> &[Binding] {
        self.pipeline.sets.get(self.number).map(Vec::as_slice).unwrap_or_default()
    }
}

/// A dispatch.
pub struct Planned<P> {
    /// The pipeline.
    pub pipeline: Rc<Known<P>>,
    /// Its sets that have bindings, in [`Plan::sets`].
    pub sets: Vec<usize>,
}

/// What all the dispatches of a stream run on.
pub struct Plan<P> {
    /// The dispatches, in their order.
    pub dispatches: Vec<Planned<P>>,
    /// Sets that differ.
    pub sets: Vec<Set<P>>,
    /// Their buffers.
    pub buffers: Vec<Buffer>,
    /// Sets that were read, by what tells them apart.
    known: BTreeMap<Key, usize>,
}

/// What tells sets apart.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Where this process has the pipeline: it keeps it as long as the plan.
    pipeline: usize,
    number: usize,
    address: u64,
    offsets: Vec<u32>,
}

impl<P> Plan<P> {
    /// Reads what the dispatches of a stream name. `find` finds pipelines by their addresses.
    ///
    /// # Errors
    /// The first command with something wrong, and what.
    pub fn new(
        stream: &Stream<'_>,
        memory: &Memory,
        bounds: &Bounds,
        mut find: impl FnMut(u64) -> Result<Rc<Known<P>>, Why>,
    ) -> Result<Self, Wrong> {
        let mut plan = Self {
            dispatches: Vec::new(),
            sets: Vec::new(),
            buffers: Vec::new(),
            known: BTreeMap::new(),
        };
        for (offset, command) in &stream.commands {
            let added = match command {
                Command::Dispatch(dispatch, data) => find(dispatch.pipeline)
                    .and_then(|pipeline| plan.add(dispatch, data, pipeline, memory, bounds)),
                Command::Timestamp(..) if bounds.timestamp_bits == 0 => {
                    Err("a timestamp on a device that has none".into())
                }
                _ => Ok(()),
            };
            added.map_err(|why| why.at(*offset))?;
        }
        Ok(plan)
    }

    /// The bytes that tell what the dispatches run on, beside those of the stream.
    pub fn tell(&self, key: &mut Vec<u8>) {
        for Planned { pipeline, .. } in &self.dispatches {
            key.extend_from_slice(pipeline.serial.as_bytes());
        }
        key.extend_from_slice(self.buffers.as_bytes());
    }

    /// The sets of a dispatch, with their places among [`Self::sets`].
    pub fn sets_of(&self, dispatch: &Planned<P>) -> impl Iterator<Item = (usize, &Set<P>)> {
        dispatch.sets.iter().filter_map(|at| Some((*at, self.sets.get(*at)?)))
    }

    /// The buffers of a set, as the bindings have them.
    pub fn buffers_of(&self, set: &Set<P>) -> &[Buffer] {
        let count = set.bindings().iter().map(|binding| binding.count as usize).sum();
        let rest = self.buffers.get(set.first..).unwrap_or_default();
        rest.get(..count).unwrap_or_default()
    }

    fn add(
        &mut self,
        dispatch: &Dispatch,
        data: &[u8],
        pipeline: Rc<Known<P>>,
        memory: &Memory,
        bounds: &Bounds,
    ) -> Result<(), Why> {
        check(dispatch, &pipeline, bounds)?;
        let mut offsets = dispatch.offsets(data).iter().map(|offset| u32::from_le_bytes(*offset));
        let addresses = dispatch.sets(data);
        let mut sets = Vec::new();
        for (number, bindings) in pipeline.sets.iter().enumerate() {
            let dynamic = bindings.iter().filter(|binding| binding.kind.is_dynamic());
            let dynamic: u32 = dynamic.map(|binding| binding.count).sum();
            let own: Vec<_> = offsets.by_ref().take(dynamic as usize).collect();
            if bindings.is_empty() {
                continue;
            }
            let address = addresses.get(number).map_or(0, |address| u64::from_le_bytes(*address));
            let at = Rc::as_ptr(&pipeline).addr();
            let key = Key { pipeline: at, number, address, offsets: own };
            let index = match self.known.get(&key) {
                Some(index) => *index,
                None => {
                    let first = self.buffers.len();
                    self.read(address, bindings, &key.offsets, memory, bounds)?;
                    self.sets.push(Set { pipeline: Rc::clone(&pipeline), number, first });
                    self.known.insert(key, self.sets.len() - 1);
                    self.sets.len() - 1
                }
            };
            sets.push(index);
        }
        self.dispatches.push(Planned { pipeline, sets });
        Ok(())
    }

    /// Reads the descriptors of a set. One without an address has none.
    fn read(
        &mut self,
        address: u64,
        bindings: &[Binding],
        offsets: &[u32],
        memory: &Memory,
        bounds: &Bounds,
    ) -> Result<(), Why> {
        let mut offsets = offsets.iter();
        for binding in bindings {
            let count = binding.count as usize;
            if self.buffers.len() + count > MAX_DESCRIPTORS {
                return Err("more descriptors than a stream may have".into());
            }
            let mut descriptors = vec![Descriptor::default(); count];
            if address != 0 {
                let first = u64::from(binding.first) * size_of::<Descriptor>() as u64;
                let first = address.checked_add(first).ok_or("a set at an impossible address")?;
                memory.read(first, descriptors.as_mut_bytes())?;
            }
            for descriptor in descriptors {
                let offset = if binding.kind.is_dynamic() { offsets.next() } else { None };
                let offset = offset.copied().unwrap_or_default();
                self.buffers.push(buffer(&descriptor, binding.kind, offset, memory, bounds)?);
            }
        }
        Ok(())
    }
}

/// Checks a descriptor, and returns its buffer.
fn buffer(
    descriptor: &Descriptor,
    kind: DescriptorKind,
    offset: u32,
    memory: &Memory,
    bounds: &Bounds,
) -> Result<Buffer, Why> {
    let Descriptor { address, length, reserved } = *descriptor;
    if reserved != [0; 2] {
        return Err("a descriptor with a reserved field that is not 0".into());
    }
    if address == 0 {
        return Ok([0, 0]);
    }
    let OfBuffers { alignment, longest } = match kind {
        DescriptorKind::UNIFORM_BUFFER | DescriptorKind::UNIFORM_BUFFER_DYNAMIC => bounds.uniform,
        _ => bounds.storage,
    };
    let address = address.checked_add(offset.into()).ok_or("a descriptor beyond all addresses")?;
    if !address.is_multiple_of(alignment) {
        return Err(Why::Malformed(format!(
            "a descriptor at {address:#x}, which is no multiple of {alignment}"
        )));
    }
    if !(1..=longest).contains(&length) {
        return Err(Why::Malformed(format!(
            "a descriptor of {length} bytes, on a device that takes 1 to {longest}"
        )));
    }
    memory.check(address, length)?;
    Ok([address, length])
}

/// Checks what a dispatch brings against what its pipeline and the device take.
fn check<P>(dispatch: &Dispatch, pipeline: &Known<P>, bounds: &Bounds) -> Result<(), Why> {
    if dispatch.push_constants > pipeline.push_constants {
        return Err("more push constants than the pipeline has".into());
    }
    if dispatch.dynamic_offsets != pipeline.dynamic {
        return Err("another number of dynamic offsets than the pipeline has".into());
    }
    let fits = |((base, groups), most): ((u32, u32), u32)| {
        groups == 0 || base.checked_add(groups).is_some_and(|end| end <= most)
    };
    let groups = dispatch.base.into_iter().zip(dispatch.groups).zip(bounds.work_groups);
    if dispatch.indirect == 0 && !groups.into_iter().all(fits) {
        return Err("more work groups than the device takes".into());
    }
    Ok(())
}
