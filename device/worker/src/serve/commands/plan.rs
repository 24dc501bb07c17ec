// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a stream runs on: pipelines, the contents of descriptor sets, and images. Everything is read once, and checked, before
//! anything is recorded.

use super::described::Known;
use super::descriptors::Descriptors;
use super::drawing::{
    Current, Rendering, check_clear, check_draw, check_for, check_query, check_stored,
    check_stored_count,
};
use super::images::{Images, check_blitted, check_resolved};
use super::reader::{Maker, Reader};
use super::stream::Stream;
use super::wrong::{Why, Wrong};
use crate::serve::memory::Memory;
use crate::vulkan::{Bounds, OfGraphics, Point};
use bellhop_protocol::vulkan::{
    BeginRendering, Binding, Command, Descriptor, Dispatch, Resources, SetState,
};
use std::collections::BTreeMap;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// A descriptor set, as a dispatch or draws of one pipeline see it.
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

/// What a dispatch or draws run on.
pub struct Planned<P> {
    /// Where the command begins that names it.
    pub offset: u32,

    /// The pipeline.
    pub pipeline: Rc<Known<P>>,
    /// Its sets that have bindings, in [`Plan::sets`].
    pub sets: Vec<usize>,
}

/// What a stream runs on.
pub struct Plan<P, I> {
    /// What dispatches and draws run on, in the order of the commands that name it.
    pub uses: Vec<Planned<P>>,
    /// Where the renderings begin, in their order, and the renderings.
    renderings: Vec<(u32, Rendering)>,
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
            uses: Vec::new(),
            renderings: Vec::new(),
            sets: Vec::new(),
            descriptors: Descriptors::new(),
            images: Images::new(),
            known: BTreeMap::new(),
        };
        let mut reader = Reader { memory, bounds, maker };
        let mut current = Current::new();
        for (offset, command) in &stream.commands {
            current.follow(*offset, command);
            let added = plan.follow(*offset, command, &current, &mut reader);
            added.map_err(|why| why.at(*offset))?;
        }
        Ok(plan)
    }

    /// Goes on with a command, after which draws run on `current`.
    fn follow<M: Maker<Pipeline = P, Image = I>>(
        &mut self,
        offset: u32,
        command: &Command<'_>,
        current: &Current<'_>,
        reader: &mut Reader<'_, M>,
    ) -> Result<(), Why> {
        let bounds = reader.bounds;
        match command {
            Command::Dispatch(dispatch, data) => {
                let pipeline = reader.maker.pipeline(Point::Compute, dispatch.pipeline)?;
                check_groups(dispatch, bounds)?;
                self.add(offset, dispatch.resources(), data, pipeline, reader)
            }
            Command::BindGraphics(bind, data) => {
                let pipeline = reader.maker.pipeline(Point::Graphics, bind.pipeline)?;
                self.add(offset, bind.resources(), data, pipeline, reader)
            }
            Command::BeginRendering(begin, data) => self.rendering(offset, begin, data, reader),
            Command::Draw(..)
            | Command::DrawIndexed(..)
            | Command::DrawIndirect(..)
            | Command::DrawByteCount(..) => {
                let bound = current.bound.and_then(|bound| self.used(bound.offset));
                let draws = bound.and_then(|planned| planned.pipeline.draws.as_ref());
                let draws = draws.ok_or("a draw without a pipeline")?;
                let rendering = self.renderings.last().ok_or("a draw outside of a rendering")?;
                Ok(check_draw(command, current, draws, &rendering.1, bounds)?)
            }
            Command::ClearAttachment(clear, _) => {
                let rendering = self.renderings.last().ok_or("a clear outside of a rendering")?;
                Ok(check_clear(clear, &rendering.1)?)
            }
            Command::SetState(set, data) => {
                let words: Vec<_> = SetState::words(data).collect();
                Ok(check_for(set.header.argument, &words, graphics(bounds)?)?)
            }
            Command::BeginQuery(begin, _) => Ok(check_query(begin, graphics(bounds)?)?),
            Command::BeginTransform(_, data) => Ok(check_stored(data, graphics(bounds)?)?),
            Command::EndTransform(end, _) => {
                Ok(check_stored_count(end.header.argument, graphics(bounds)?)?)
            }
            Command::BeginConditional(..)
                if graphics(bounds)?.extensions.conditional_rendering[0] == 0 =>
            {
                Err("a condition on a device that has none".into())
            }
            Command::Timestamp(..) if bounds.timestamp_bits == 0 => {
                Err("a timestamp on a device that has none".into())
            }
            other => {
                match other {
                    Command::BlitImage(blit, _) => check_blitted(blit, &bounds.formats)?,
                    Command::ResolveImage(resolve, _) => check_resolved(resolve, &bounds.formats)?,
                    _ => {}
                }
                let mut of_command = Images::<I>::of(other);
                of_command.try_for_each(|image| reader.image(image, &mut self.images))
            }
        }
    }

    /// Reads the attachments of a rendering.
    fn rendering<M: Maker<Pipeline = P, Image = I>>(
        &mut self,
        offset: u32,
        begin: &BeginRendering,
        data: &[u8],
        reader: &mut Reader<'_, M>,
    ) -> Result<(), Why> {
        let (descriptors, images) = (&mut self.descriptors, &mut self.images);
        let rendering = Rendering::new(begin, data, reader.bounds, |name| {
            let view = descriptors.attach(name, reader.memory)?;
            reader.image(&view.image, images)?;
            Ok(view)
        })?;
        self.renderings.push((offset, rendering));
        Ok(())
    }

    /// What a command has named that begins at an offset.
    pub fn used(&self, offset: u32) -> Option<&Planned<P>> {
        let at = self.uses.binary_search_by_key(&offset, |planned| planned.offset).ok()?;
        self.uses.get(at)
    }

    /// The rendering that begins at an offset.
    pub fn rendering_at(&self, offset: u32) -> Option<&Rendering> {
        let at = self.renderings.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
        self.renderings.get(at).map(|(_, rendering)| rendering)
    }

    /// The bytes that tell what dispatches and draws run on, beside those of the stream.
    pub fn tell(&self, key: &mut Vec<u8>) {
        for Planned { pipeline, .. } in &self.uses {
            key.extend_from_slice(pipeline.serial.as_bytes());
        }
        self.descriptors.tell(key);
    }

    /// The sets of a dispatch or of draws, with their places among [`Self::sets`].
    pub fn sets_of(&self, planned: &Planned<P>) -> impl Iterator<Item = (usize, &Set<P>)> {
        planned.sets.iter().filter_map(|at| Some((*at, self.sets.get(*at)?)))
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
        offset: u32,
        resources: Resources,
        data: &[u8],
        pipeline: Rc<Known<P>>,
        reader: &mut Reader<'_, M>,
    ) -> Result<(), Why> {
        check(resources, &pipeline)?;
        let offsets = resources.offsets(data).iter();
        let mut offsets = offsets.map(|offset| u32::from_le_bytes(*offset));
        let addresses = resources.set_addresses(data);
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
        self.uses.push(Planned { offset, pipeline, sets });
        Ok(())
    }
}

/// Checks what a dispatch or draws bring against what their pipeline takes.
fn check<P>(resources: Resources, pipeline: &Known<P>) -> Result<(), Why> {
    if resources.push_constants > pipeline.push_constants {
        return Err("more push constants than the pipeline has".into());
    }
    if resources.dynamic_offsets != pipeline.dynamic {
        return Err("another number of dynamic offsets than the pipeline has".into());
    }
    Ok(())
}

/// Checks the work groups of a dispatch against what the device takes.
fn check_groups(dispatch: &Dispatch, bounds: &Bounds) -> Result<(), Why> {
    let fits = |((base, groups), most): ((u32, u32), u32)| {
        groups == 0 || base.checked_add(groups).is_some_and(|end| end <= most)
    };
    let groups = dispatch.base.into_iter().zip(dispatch.groups).zip(bounds.work_groups);
    if dispatch.indirect == 0 && !groups.into_iter().all(fits) {
        return Err("more work groups than the device takes".into());
    }
    Ok(())
}

/// What the device takes of drawing.
fn graphics(bounds: &Bounds) -> Result<&OfGraphics, &'static str> {
    bounds.graphics.as_deref().ok_or("a command for drawing on a device that does not draw")
}
