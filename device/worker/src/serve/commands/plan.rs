// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a stream runs on: pipelines, the contents of descriptor sets, and images. Everything is read once, and checked, before
//! anything is recorded.

use super::descriptors::Descriptors;
use super::images::Images;
use super::pipelines::Known;
use super::stream::Stream;
use super::wrong::{Why, Wrong};
use crate::serve::memory::Memory;
use crate::vulkan::Bounds;
use bellhop_protocol::vulkan::{Binding, Command, Descriptor, Dispatch, Image};
use std::collections::BTreeMap;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// What makes what a stream names, or has it.
pub trait Maker {
    /// What is made of a pipeline.
    type Pipeline;
    /// What is made of an image.
    type Image;

    /// Returns the pipeline whose description is at an address.
    ///
    /// # Errors
    /// What is wrong with it, or why it cannot be made.
    fn pipeline(&mut self, address: u64) -> Result<Rc<Known<Self::Pipeline>>, Why>;

    /// Returns the image of a description that Vulkan allows, in the window.
    ///
    /// # Errors
    /// What the device does not take of it, or why it cannot be made.
    fn image(&mut self, of: &Image) -> Result<Rc<Self::Image>, Why>;
}

/// A descriptor set, as a dispatch of one pipeline sees it.
pub struct Set<P> {
    /// The pipeline.
    pub pipeline: Rc<Known<P>>,
    /// The set's number in its layout.
    pub number: usize,
    /// The first of its descriptors in [`Plan::descriptors`]. They follow each other as the bindings do.
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

/// What a stream runs on.
pub struct Plan<P, I> {
    /// The dispatches, in their order.
    pub dispatches: Vec<Planned<P>>,
    /// Sets that differ.
    pub sets: Vec<Set<P>>,
    /// What they have.
    pub descriptors: Descriptors,
    /// The images of commands and of views.
    pub images: Images<I>,
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

impl<P, I> Plan<P, I> {
    /// Reads what a stream names, and has it made.
    ///
    /// # Errors
    /// The first command with something wrong, and what.
    pub fn new(
        stream: &Stream<'_>,
        memory: &Memory,
        bounds: &Bounds,
        maker: &mut impl Maker<Pipeline = P, Image = I>,
    ) -> Result<Self, Wrong> {
        let mut plan = Self {
            dispatches: Vec::new(),
            sets: Vec::new(),
            descriptors: Descriptors::new(),
            images: Images::new(),
            known: BTreeMap::new(),
        };
        let mut reader = Reader { memory, bounds, maker };
        for (offset, command) in &stream.commands {
            let added = match command {
                Command::Dispatch(dispatch, data) => reader
                    .maker
                    .pipeline(dispatch.pipeline)
                    .and_then(|pipeline| plan.add(dispatch, data, pipeline, &mut reader)),
                Command::Timestamp(..) if bounds.timestamp_bits == 0 => {
                    Err("a timestamp on a device that has none".into())
                }
                other => {
                    let mut of_command = Images::<I>::of(other);
                    of_command.try_for_each(|image| reader.image(image, &mut plan.images))
                }
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
        self.descriptors.tell(key);
    }

    /// The sets of a dispatch, with their places among [`Self::sets`].
    pub fn sets_of(&self, dispatch: &Planned<P>) -> impl Iterator<Item = (usize, &Set<P>)> {
        dispatch.sets.iter().filter_map(|at| Some((*at, self.sets.get(*at)?)))
    }

    /// The descriptors of a set, as the bindings have them, with their bindings.
    pub fn descriptors_of<'p>(
        &'p self,
        set: &'p Set<P>,
    ) -> impl Iterator<Item = (&'p Binding, &'p Descriptor)> {
        let each = |binding: &'p Binding| std::iter::repeat_n(binding, binding.count as usize);
        let bindings = set.bindings().iter().flat_map(each);
        bindings.zip(self.descriptors.all().get(set.first..).unwrap_or_default())
    }

    fn add<M: Maker<Pipeline = P, Image = I>>(
        &mut self,
        dispatch: &Dispatch,
        data: &[u8],
        pipeline: Rc<Known<P>>,
        reader: &mut Reader<'_, M>,
    ) -> Result<(), Why> {
        check(dispatch, &pipeline, reader.bounds)?;
        let mut offsets = dispatch.resources().offsets(data).iter().map(|offset| u32::from_le_bytes(*offset));
        let addresses = dispatch.resources().set_addresses(data);
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
                    let first = self.descriptors.all().len();
                    let (descriptors, images) = (&mut self.descriptors, &mut self.images);
                    reader.set(address, bindings, &key.offsets, descriptors, images)?;
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
}

/// Reads what a plan consists of.
struct Reader<'a, M> {
    memory: &'a Memory,
    bounds: &'a Bounds,
    maker: &'a mut M,
}

impl<M: Maker> Reader<'_, M> {
    fn image(&mut self, image: &Image, images: &mut Images<M::Image>) -> Result<(), Why> {
        if !self.bounds.formats.are_there() {
            return Err("an image, and the device makes none of a process's memory".into());
        }
        images.add(image, |image| self.maker.image(image))
    }

    /// Reads the descriptors of a set. One without an address has none.
    fn set(
        &mut self,
        address: u64,
        bindings: &[Binding],
        offsets: &[u32],
        descriptors: &mut Descriptors,
        images: &mut Images<M::Image>,
    ) -> Result<(), Why> {
        let (memory, bounds) = (self.memory, self.bounds);
        let mut offsets = offsets.iter();
        for binding in bindings {
            let count = binding.count as usize;
            if descriptors.are_full(count) {
                return Err("more descriptors than a stream may have".into());
            }
            let mut read = vec![Descriptor::default(); count];
            if address != 0 {
                let first = u64::from(binding.first) * size_of::<Descriptor>() as u64;
                let first = address.checked_add(first).ok_or("a set at an impossible address")?;
                memory.read(first, read.as_mut_bytes())?;
            }
            for descriptor in read {
                let offset = if binding.kind.is_dynamic() { offsets.next() } else { None };
                let offset = offset.copied().unwrap_or_default();
                let image = |image: &Image| self.image(image, images);
                descriptors.add(descriptor, binding.kind, offset, memory, bounds, image)?;
            }
        }
        Ok(())
    }
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
