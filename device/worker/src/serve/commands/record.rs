// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records a piece of a stream: commands of one command buffer.

use super::drawing::{self, Changed, Current};
use super::images::Made;
use super::plan::{Plan, Planned, Set};
use super::stream::{INDIRECT, Placed};
use super::transfers;
use super::wrong::{Why, Wrong};
use crate::serve::imports::Imports;
use crate::serve::memory::{Access, Memory};
use crate::vulkan::{
    Counter, Counts, DescriptorSet, Groups, Image, Needs, Pipeline, Point, Recorder, Resource,
};
use bellhop_protocol::vulkan::{
    Command, Descriptor, DescriptorKind, Dispatch, MAX_SETS, Resources,
};
use std::collections::BTreeMap;

/// Commands of one command buffer, and what they run on.
pub struct Piece<'a, 's, 'd> {
    /// The commands. None of them is one for the processor.
    pub commands: &'a [Placed<'s>],
    /// The plan of the whole stream.
    pub plan: &'a Plan<Pipeline<'d>, Image<'d>>,
}

impl<'s, 'd> Piece<'_, 's, 'd> {
    /// What recording needs, after what draws run on already.
    fn needs(&self, current: &Current<'_>) -> Needs {
        let mut needs = Needs::default();
        let before = current.bound.map(|bound| bound.offset);
        let offsets = before.into_iter().chain(self.commands.iter().map(|(offset, _)| *offset));
        let uses = offsets.filter_map(|offset| self.plan.used(offset));
        let sets: BTreeMap<_, _> = uses.flat_map(|planned| self.plan.sets_of(planned)).collect();
        sets.values().for_each(|set| needs.add_set(set.bindings()));
        needs
    }

    /// How often recording counts.
    fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        let mut views = 1;
        for (_, command) in self.commands {
            let counter = match command {
                Command::BeginRendering(begin, _) => {
                    views = begin.view_mask.count_ones().max(1);
                    None
                }
                Command::EndRendering(..) => {
                    views = 1;
                    None
                }
                Command::Timestamp(..) => Some(Counter::Time),
                Command::BeginQuery(begin, _) => {
                    Counter::of(begin.header.argument, begin.statistics, begin.stream)
                }
                _ => None,
            };
            if let Some(counter) = counter {
                *counts.entry(counter).or_default() += views;
            }
        }
        counts
    }

    /// Touches all the memory that the commands name.
    ///
    /// # Errors
    /// When it is not in the window.
    pub fn touch(&self, memory: &Memory) -> Result<(), Wrong> {
        for (offset, command) in self.commands {
            let touch = |address, length, access| Ok(memory.touch(address, length, access)?);
            let rendering = self.plan.rendering_at(*offset);
            let touched = self
                .touch_used(*offset, command, touch)
                .and_then(|()| drawing::touch(command, rendering, touch))
                .and_then(|()| transfers::touch(command, touch));
            touched.map_err(|why| why.at(*offset))?;
        }
        Ok(())
    }

    fn touch_used(
        &self,
        offset: u32,
        command: &Command<'_>,
        touch: impl Fn(u64, u64, Access) -> Result<(), Why>,
    ) -> Result<(), Why> {
        if let Command::Dispatch(dispatch, _) = command
            && dispatch.indirect != 0
        {
            touch(dispatch.indirect, INDIRECT, Access::Load)?;
        }
        let planned = self.plan.used(offset);
        let sets = planned.into_iter().flat_map(|planned| self.plan.sets_of(planned));
        for (binding, descriptor) in sets.flat_map(|(_, set)| self.plan.descriptors_of(set)) {
            if let Some([address, length]) = self.plan.descriptors.memory(descriptor, binding.kind)
            {
                // Memory that may only be read may be a storage buffer that nothing writes.
                touch(address, length, Access::Load)?;
            }
        }
        Ok(())
    }

    /// Records the commands to their end. Draws run on `current` until commands say otherwise.
    ///
    /// # Errors
    /// When Vulkan refuses one.
    pub fn record(
        &self,
        recorder: &mut Recorder<'d>,
        imports: &mut Imports<'d>,
        made: &mut Made<'d>,
        current: &mut Current<'s>,
    ) -> Result<(), Wrong> {
        let first = self.commands.first().map_or(0, |(offset, _)| *offset);
        let begun = recorder.begin(self.needs(current), &self.counts(), self.plan.images.all());
        begun.map_err(|error| Why::from(error).at(first))?;
        let mut recording = Recording {
            recorder,
            imports,
            made,
            plan: self.plan,
            sets: BTreeMap::new(),
            bound: [[None; MAX_SETS as usize]; 2],
            changed: Changed::all(),
        };
        for (offset, command) in self.commands {
            current.follow(*offset, command);
            let recorded = match command {
                Command::Dispatch(dispatch, data) => recording.dispatch(*offset, dispatch, data),
                other => recording.drawing(*offset, other, current).and_then(|()| {
                    let (recorder, imports) = (&mut *recording.recorder, &mut *recording.imports);
                    transfers::record(other, recorder, imports, &self.plan.images)
                }),
            };
            recorded.map_err(|why| why.at(*offset))?;
        }
        recording.recorder.end().map_err(|error| Why::from(error).at(first))
    }
}

/// A command buffer that is being recorded.
pub struct Recording<'a, 'd> {
    /// Records it.
    pub recorder: &'a mut Recorder<'d>,
    /// The memory that commands reach.
    pub imports: &'a mut Imports<'d>,
    /// The images and views that commands name.
    pub made: &'a mut Made<'d>,
    /// The plan of the whole stream.
    pub plan: &'a Plan<Pipeline<'d>, Image<'d>>,
    /// What draws run on and the recorder has not been told.
    pub changed: Changed,
    /// The sets that were made, by their places in the plan.
    sets: BTreeMap<usize, DescriptorSet>,
    /// The sets that the bound pipelines have.
    bound: [[Option<DescriptorSet>; MAX_SETS as usize]; 2],
}

impl<'d> Recording<'_, 'd> {
    fn dispatch(&mut self, offset: u32, dispatch: &Dispatch, data: &[u8]) -> Result<(), Why> {
        let Some(planned) = self.plan.used(offset) else { return Ok(()) };
        if dispatch.indirect == 0 && dispatch.groups.contains(&0) {
            return Ok(());
        }
        self.bind(Point::Compute, planned, dispatch.resources(), data)?;
        if dispatch.indirect != 0 {
            let words = self.imports.range(dispatch.indirect, INDIRECT)?;
            self.recorder.dispatch(&Groups::In(&words))?;
        } else {
            let Dispatch { base, groups, .. } = *dispatch;
            self.recorder.dispatch(&Groups::Are { base, groups })?;
        }
        Ok(())
    }

    /// Binds a pipeline with its sets and constants, as far as it is not bound. Returns whether another one was.
    ///
    /// # Errors
    /// When Vulkan refuses it.
    pub fn bind(
        &mut self,
        point: Point,
        planned: &Planned<Pipeline<'d>>,
        resources: Resources,
        data: &[u8],
    ) -> Result<bool, Why> {
        let is_new = self.recorder.bind(&planned.pipeline.made);
        if is_new {
            self.bound[point as usize] = [None; MAX_SETS as usize];
        }
        let plan = self.plan;
        for (at, set) in plan.sets_of(planned) {
            let made = match self.sets.get(&at) {
                Some(made) => *made,
                None => self.make(at, set)?,
            };
            if let Some(bound) = self.bound[point as usize].get_mut(set.number)
                && *bound != Some(made)
            {
                self.recorder.bind_set(point, set.number, made);
                *bound = Some(made);
            }
        }
        self.recorder.push_constants(point, resources.constants(data));
        Ok(is_new)
    }

    /// Makes a set of the plan.
    fn make(&mut self, at: usize, set: &Set<Pipeline<'d>>) -> Result<DescriptorSet, Why> {
        let descriptors = self.plan.descriptors_of(set);
        let resources: Result<Vec<_>, _> = descriptors
            .map(|(binding, descriptor)| self.resource(descriptor, binding.kind))
            .collect();
        let Set { pipeline, number, .. } = set;
        let made = self.recorder.set(&pipeline.made, *number, set.bindings(), &resources?)?;
        self.sets.insert(at, made);
        Ok(made)
    }

    /// Makes what a descriptor is of.
    fn resource(&mut self, of: &Descriptor, kind: DescriptorKind) -> Result<Resource<'d>, Why> {
        let plan = self.plan;
        if kind.has_view() || kind.has_sampler() {
            let view = plan.descriptors.view(of);
            let view = view.and_then(|view| Some((view, plan.images.get(&view.image)?)));
            let view = view.map(|(view, image)| self.made.view(view, image)).transpose()?;
            let sampler = plan.descriptors.sampler(of);
            let sampler = sampler.map(|sampler| self.made.sampler(sampler)).transpose()?;
            return Ok(Resource::Image { view, sampler });
        }
        if of.address == 0 {
            return Ok(Resource::Nothing);
        }
        if kind.has_texels() {
            return Ok(Resource::Texels(self.made.texels(of, self.imports)?));
        }
        Ok(Resource::Buffer(self.imports.range(of.address, of.length)?))
    }
}
