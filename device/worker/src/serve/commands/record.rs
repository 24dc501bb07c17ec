// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records a piece of a stream: commands of one command buffer.

use super::images::Made;
use super::plan::{Plan, Planned, Set};
use super::stream::{INDIRECT, Placed};
use super::transfers;
use super::wrong::{Why, Wrong};
use crate::serve::imports::Imports;
use crate::serve::memory::{Access, Memory};
use crate::vulkan::{DescriptorSet, Groups, Image, Needs, Pipeline, Recorder, Resource};
use bellhop_protocol::vulkan::{Command, Descriptor, DescriptorKind, Dispatch, MAX_SETS};
use std::collections::BTreeMap;

/// Commands of one command buffer, and what their dispatches run on.
pub struct Piece<'a, 's, 'd> {
    /// The commands. None of them is one for the processor.
    pub commands: &'a [Placed<'s>],
    /// The plan of the whole stream.
    pub plan: &'a Plan<Pipeline<'d>, Image<'d>>,
    /// The dispatches among the commands.
    pub dispatches: &'a [Planned<Pipeline<'d>>],
}

impl<'d> Piece<'_, '_, 'd> {
    /// What recording needs.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        let is_timestamp = |(_, command): &&Placed<'_>| matches!(command, Command::Timestamp(..));
        needs.timestamps = self.commands.iter().filter(is_timestamp).count() as u32;
        let sets = self.dispatches.iter().flat_map(|dispatch| self.plan.sets_of(dispatch));
        let sets: BTreeMap<_, _> = sets.collect();
        sets.values().for_each(|set| needs.add_set(set.bindings()));
        needs
    }

    /// Touches all the memory that the commands name.
    ///
    /// # Errors
    /// When it is not in the window.
    pub fn touch(&self, memory: &Memory) -> Result<(), Wrong> {
        let mut dispatches = self.dispatches.iter();
        for (offset, command) in self.commands {
            let touch = |address, length, access| Ok(memory.touch(address, length, access)?);
            let touched = match command {
                Command::Dispatch(dispatch, _) => {
                    let planned = dispatches.next();
                    self.touch_dispatch(dispatch, planned, touch)
                }
                other => transfers::touch(other, touch),
            };
            touched.map_err(|why| why.at(*offset))?;
        }
        Ok(())
    }

    fn touch_dispatch(
        &self,
        dispatch: &Dispatch,
        planned: Option<&Planned<Pipeline<'d>>>,
        touch: impl Fn(u64, u64, Access) -> Result<(), Why>,
    ) -> Result<(), Why> {
        if dispatch.indirect != 0 {
            touch(dispatch.indirect, INDIRECT, Access::Load)?;
        }
        let sets = planned.into_iter().flat_map(|dispatch| self.plan.sets_of(dispatch));
        for (binding, descriptor) in sets.flat_map(|(_, set)| self.plan.descriptors_of(set)) {
            if let Some([address, length]) = self.plan.descriptors.memory(descriptor, binding.kind)
            {
                // Memory that may only be read may be a storage buffer that nothing writes.
                touch(address, length, Access::Load)?;
            }
        }
        Ok(())
    }

    /// Records the commands to their end.
    ///
    /// # Errors
    /// When Vulkan refuses one.
    pub fn record(
        &self,
        recorder: &mut Recorder<'d>,
        imports: &mut Imports<'d>,
        made: &mut Made<'d>,
    ) -> Result<(), Wrong> {
        let first = self.commands.first().map_or(0, |(offset, _)| *offset);
        let begun = recorder.begin(self.needs(), self.plan.images.all());
        begun.map_err(|error| Why::from(error).at(first))?;
        let mut recording = Recording {
            recorder,
            imports,
            made,
            plan: self.plan,
            sets: BTreeMap::new(),
            bound: [None; MAX_SETS as usize],
        };
        let mut dispatches = self.dispatches.iter();
        for (offset, command) in self.commands {
            let recorded = match command {
                Command::Dispatch(dispatch, data) => match dispatches.next() {
                    Some(planned) => recording.dispatch(dispatch, data, planned),
                    None => Ok(()),
                },
                other => {
                    let (recorder, imports) = (&mut *recording.recorder, &mut *recording.imports);
                    transfers::record(other, recorder, imports, &self.plan.images)
                }
            };
            recorded.map_err(|why| why.at(*offset))?;
        }
        recording.recorder.end().map_err(|error| Why::from(error).at(first))
    }
}

struct Recording<'a, 'd> {
    recorder: &'a mut Recorder<'d>,
    imports: &'a mut Imports<'d>,
    made: &'a mut Made<'d>,
    plan: &'a Plan<Pipeline<'d>, Image<'d>>,
    /// The sets that were made, by their places in the plan.
    sets: BTreeMap<usize, DescriptorSet>,
    /// The sets that the bound pipeline has.
    bound: [Option<DescriptorSet>; MAX_SETS as usize],
}

impl<'d> Recording<'_, 'd> {
    fn dispatch(
        &mut self,
        dispatch: &Dispatch,
        data: &[u8],
        planned: &Planned<Pipeline<'d>>,
    ) -> Result<(), Why> {
        if dispatch.indirect == 0 && dispatch.groups.contains(&0) {
            return Ok(());
        }
        if self.recorder.bind(&planned.pipeline.made) {
            self.bound = [None; MAX_SETS as usize];
        }
        let plan = self.plan;
        for (at, set) in plan.sets_of(planned) {
            let made = match self.sets.get(&at) {
                Some(made) => *made,
                None => self.make(at, set)?,
            };
            if let Some(bound) = self.bound.get_mut(set.number)
                && *bound != Some(made)
            {
                self.recorder.bind_set(set.number, made);
                *bound = Some(made);
            }
        }
        let constants = dispatch.resources().constants(data);
        if dispatch.indirect != 0 {
            let words = self.imports.range(dispatch.indirect, INDIRECT)?;
            self.recorder.dispatch(constants, &Groups::In(&words))?;
        } else {
            let Dispatch { base, groups, .. } = *dispatch;
            self.recorder.dispatch(constants, &Groups::Are { base, groups })?;
        }
        Ok(())
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
