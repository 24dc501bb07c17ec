// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs streams on one device.

use super::drawing::Current;
use super::images::{Made, format_of, needs_of};
use super::making::{Making, make_pipeline};
use super::pipelines::Pipelines;
use super::plan::Plan;
use super::record::Piece;
use super::residency::Residency;
use super::stream::{Stream, length_of_caps};
use super::waiting::wait_until;
use super::warming::Warming;
use super::wrong::{Why, Wrong};
use crate::messages::commands::MOST_PIPELINES;
use crate::serve::imports::Imports;
use crate::serve::memory::Memory;
use crate::serve::recorded::Recorded;
use crate::vulkan::{Device, Pipeline, Recorder};
use bellhop_protocol::vulkan::Command;
use zerocopy::IntoBytes;

/// Most bytes that tell a stream apart that may come again.
const LONGEST: usize = 1 << 18;

/// What a device keeps of the streams that it has run.
pub struct Runs<'d> {
    device: &'d Device<'d>,
    pipelines: Pipelines<Pipeline<'d>>,
    made: Made<'d>,
    warming: Warming<'d>,
    /// The streams that it has recorded.
    recorded: Recorded<Recorder<'d>>,
}

impl<'d> Runs<'d> {
    /// Begins with nothing.
    pub fn new(device: &'d Device<'d>) -> Self {
        let pipelines = Pipelines::new(MOST_PIPELINES as usize);
        let (made, warming) = (Made::new(device), Warming::new(device));
        Self { device, pipelines, made, warming, recorded: Recorded::new() }
    }

    /// Forgets everything that may hold memory of the window.
    pub fn forget_memory(&mut self) {
        self.recorded.clear();
        self.made.forget_memory();
    }

    /// Makes one of the pipelines that the last stream lacked, and has the device compile it. Returns whether others lack.
    pub fn make_pipeline(&mut self) -> bool {
        let device = self.device;
        let bounds = device.bounds();
        let made = self.pipelines.make_lacking(bounds, |of| make_pipeline(device, of));
        if let Some(pipeline) = made {
            // Whoever dispatches it or draws with it hears what is wrong with it.
            let _ = self.warming.compile(&pipeline);
        }
        self.pipelines.lack()
    }

    /// Runs a stream to its end. `makes` says whether pipelines are made meanwhile; if not, those that lack are noted.
    ///
    /// # Errors
    /// When a command is malformed, or pipelines lack: nothing ran. When Vulkan fails: parts may have run.
    pub fn execute(
        &mut self,
        stream: &Stream<'_>,
        makes: bool,
        imports: &mut Imports<'d>,
        memory: &Memory,
        residency: Residency<'_>,
    ) -> Result<(), Wrong> {
        let (device, pipelines, made) = (self.device, &mut self.pipelines, &mut self.made);
        let mut making = Making { device, pipelines, makes, made, imports, memory };
        let plan = Plan::new(stream, memory, device.bounds(), &mut making);
        if let Err(Wrong { why: Why::Lacks, .. }) = &plan {
            self.pipelines.note_lacking(stream.pipelines(), memory);
        }
        let plan = plan?;
        let is_whole = !stream.commands.iter().any(|(_, command)| is_of_processor(command));
        if is_whole && !residency.is_needed && stream.bytes.len() <= LONGEST {
            let mut key = stream.bytes.to_vec();
            plan.tell(&mut key);
            if key.len() <= LONGEST {
                let piece = Piece { commands: &stream.commands, plan: &plan };
                return self.again(&key, &piece, imports);
            }
        }
        let mut commands = &stream.commands[..];
        let mut current = Current::new();
        loop {
            let count = commands.iter().take_while(|(_, command)| !is_of_processor(command));
            let (own, rest) = commands.split_at(count.count());
            let piece = Piece { commands: own, plan: &plan };
            self.once(&piece, imports, memory, residency, &mut current)?;
            let Some(((offset, command), rest)) = rest.split_first() else { return Ok(()) };
            self.on_processor(command, memory).map_err(|why| why.at(*offset))?;
            commands = rest;
        }
    }

    /// Runs the one piece of a stream that may come again, with what tells it apart.
    fn again(
        &mut self,
        key: &[u8],
        piece: &Piece<'_, '_, 'd>,
        imports: &mut Imports<'d>,
    ) -> Result<(), Wrong> {
        let Some((first, _)) = piece.commands.first() else { return Ok(()) };
        let failed = |error| Why::from(error).at(*first);
        let (device, made) = (self.device, &mut self.made);
        let recorder = self.recorded.get(
            key,
            || Recorder::new(device).map_err(failed),
            |recorder| piece.record(recorder, imports, made, &mut Current::new()),
        )?;
        recorder.run().map_err(failed)
    }

    /// Runs a piece, and keeps nothing of it. Draws run on `current` until commands say otherwise.
    fn once<'s>(
        &mut self,
        piece: &Piece<'_, 's, 'd>,
        imports: &mut Imports<'d>,
        memory: &Memory,
        residency: Residency<'_>,
        current: &mut Current<'s>,
    ) -> Result<(), Wrong> {
        let Some((first, _)) = piece.commands.first() else { return Ok(()) };
        let failed = |error| Why::from(error).at(*first);
        let held = residency.hold(|| piece.touch(memory))?;
        let mut recorder = Recorder::new(self.device).map_err(failed)?;
        let recorded = piece.record(&mut recorder, imports, &mut self.made, current);
        let done = recorded.and_then(|()| recorder.run().map_err(failed));
        // Nothing holds memory any more when it may be taken back.
        drop(recorder);
        if held.is_some() {
            imports.clear();
        }
        drop(held);
        done
    }

    /// Does what the processor does, when everything before it is done.
    fn on_processor(&self, command: &Command<'_>, memory: &Memory) -> Result<(), Why> {
        match command {
            Command::Wait(wait, _) => {
                Ok(wait_until(wait.header.argument, || memory.word(wait.address))?)
            }
            Command::QueryCaps(query, _) => {
                let caps = self.device.caps();
                let bytes = caps.as_bytes().get(..length_of_caps(query) as usize);
                Ok(memory.write(query.destination, bytes.unwrap_or_default())?)
            }
            Command::QueryImage(query, _) => {
                Ok(memory.write(query.destination, needs_of(query, self.device).as_bytes())?)
            }
            Command::QueryImageFormat(query, _) => {
                Ok(memory.write(query.destination, format_of(query, self.device).as_bytes())?)
            }
            _ => Ok(()),
        }
    }
}

/// Whether the processor executes a command, and not the device.
fn is_of_processor(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::Wait(..)
            | Command::QueryCaps(..)
            | Command::QueryImage(..)
            | Command::QueryImageFormat(..)
    )
}
