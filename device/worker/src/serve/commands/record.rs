// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records a piece of a stream: commands of one command buffer.

use super::plan::{Buffer, Plan, Planned, Set};
use super::stream::{INDIRECT, Placed};
use super::wrong::{Why, Wrong};
use crate::serve::imports::Imports;
use crate::serve::memory::Memory;
use crate::vulkan::{Binding, DescriptorSet, Groups, Needs, Pipeline, Recorder};
use bellhop_protocol::vulkan::{Command, Copy, Dispatch, Fill, MAX_SETS};
use std::collections::BTreeMap;

/// The longest range that is copied or filled at once. Devices do not make buffers of any length.
const LONGEST: u64 = 1 << 30;
/// Bytes of a timestamp.
const TIMESTAMP: u64 = 8;

/// Commands of one command buffer, and what their dispatches run on.
pub struct Piece<'a, 's, 'd> {
    /// The commands. None of them is one for the processor.
    pub commands: &'a [Placed<'s>],
    /// The plan of the whole stream.
    pub plan: &'a Plan<Pipeline<'d>>,
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
            let touch = |address, length| {
                memory.touch(address, length).map_err(|outside| Why::from(outside).at(*offset))
            };
            match command {
                Command::Barrier(..) | Command::Wait(..) | Command::QueryCaps(..) => {}
                Command::Copy(copy, _) => {
                    touch(copy.source, copy.length)?;
                    touch(copy.destination, copy.length)?;
                }
                Command::Fill(fill, _) => touch(fill.destination, fill.length)?,
                Command::Update(update, data) => touch(update.destination, data.len() as u64)?,
                Command::Timestamp(timestamp, _) => touch(timestamp.destination, TIMESTAMP)?,
                Command::Dispatch(dispatch, _) => {
                    if dispatch.indirect != 0 {
                        touch(dispatch.indirect, INDIRECT)?;
                    }
                    let sets = dispatches.next().into_iter();
                    let sets = sets.flat_map(|dispatch| self.plan.sets_of(dispatch));
                    for [address, length] in sets.flat_map(|(_, set)| self.plan.buffers_of(set)) {
                        if *address != 0 {
                            touch(*address, *length)?;
                        }
                    }
                }
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
    ) -> Result<(), Wrong> {
        let first = self.commands.first().map_or(0, |(offset, _)| *offset);
        recorder.begin(self.needs()).map_err(|error| Why::from(error).at(first))?;
        let bound = [None; MAX_SETS as usize];
        let mut recording =
            Recording { recorder, imports, plan: self.plan, made: BTreeMap::new(), bound };
        let mut dispatches = self.dispatches.iter();
        for (offset, command) in self.commands {
            let recorded = match command {
                Command::Dispatch(dispatch, data) => match dispatches.next() {
                    Some(planned) => recording.dispatch(dispatch, data, planned),
                    None => Ok(()),
                },
                other => recording.transfer(other),
            };
            recorded.map_err(|why| why.at(*offset))?;
        }
        recording.recorder.end().map_err(|error| Why::from(error).at(first))
    }
}

struct Recording<'a, 'd> {
    recorder: &'a mut Recorder<'d>,
    imports: &'a mut Imports<'d>,
    plan: &'a Plan<Pipeline<'d>>,
    /// The sets that were made, by their places in the plan.
    made: BTreeMap<usize, DescriptorSet>,
    /// The sets that the bound pipeline has.
    bound: [Option<DescriptorSet>; MAX_SETS as usize],
}

impl<'d> Recording<'_, 'd> {
    /// Records anything but a dispatch.
    fn transfer(&mut self, command: &Command<'_>) -> Result<(), Why> {
        let (recorder, imports) = (&mut *self.recorder, &mut *self.imports);
        match command {
            Command::Barrier(..) => recorder.barrier(),
            Command::Copy(Copy { source, destination, length, .. }, _) => {
                for (at, length) in pieces(*length) {
                    let from = imports.range(source + at, length)?;
                    recorder.copy(&from, &imports.range(destination + at, length)?)?;
                }
            }
            Command::Fill(Fill { header, destination, length }, _) => {
                for (at, length) in pieces(*length) {
                    recorder.fill(&imports.range(destination + at, length)?, header.argument)?;
                }
            }
            Command::Update(update, data) => {
                if !data.is_empty() {
                    let range = imports.range(update.destination, data.len() as u64)?;
                    recorder.update(&range, data)?;
                }
            }
            Command::Timestamp(timestamp, _) => {
                recorder.timestamp(&imports.range(timestamp.destination, TIMESTAMP)?)?;
            }
            // The processor does these, between two command buffers.
            Command::Wait(..) | Command::QueryCaps(..) | Command::Dispatch(..) => {}
        }
        Ok(())
    }

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
            let made = match self.made.get(&at) {
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
        let constants = dispatch.constants(data);
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
        let import = |[address, length]: &Buffer| match address {
            0 => Ok(None),
            _ => self.imports.range(*address, *length).map(Some),
        };
        let buffers: Result<Vec<Option<Binding<'d>>>, _> =
            self.plan.buffers_of(set).iter().map(import).collect();
        let made = self.recorder.set(&set.pipeline.made, set.number, set.bindings(), &buffers?)?;
        self.made.insert(at, made);
        Ok(made)
    }
}

/// Parts of a length: where each begins, and its length.
fn pieces(length: u64) -> impl Iterator<Item = (u64, u64)> {
    let starts = (0..length).step_by(LONGEST as usize);
    starts.map(move |at| (at, LONGEST.min(length - at)))
}
