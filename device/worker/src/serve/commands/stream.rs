// SPDX-License-Identifier: MIT OR Apache-2.0

//! A stream, copied and decoded. What needs no more than the commands themselves is checked here.

use super::continued::follow;
use super::drawing::{self, Structure};
use super::fields::{aligned, none};
use super::images::{
    check_blit, check_clear, check_clear_depth, check_copy, check_kind_in_question, check_question,
    check_resolve, check_rows,
};
use super::wrong::{Why, Wrong};
use crate::messages::Malformed;
use crate::messages::commands::{CommandsTask, Scope};
use crate::serve::memory::Memory;
use crate::serve::work::Work;
use crate::vulkan::Point;
use ash::vk::QueryPipelineStatisticFlags;
use bellhop_protocol::vulkan::{
    Barrier, Command, CommandCaps, Copy, Dispatch, Fill, ImageFormat, ImageNeeds, MAX_STREAM,
    QueryCaps, Timestamp, Update, Wait, commands,
};

/// Bytes of the three words of an indirect dispatch.
pub const INDIRECT: u64 = 12;

/// What counts invocations of dispatches, and nothing that is drawn.
const COMPUTE_INVOCATIONS: u32 = QueryPipelineStatisticFlags::COMPUTE_SHADER_INVOCATIONS.as_raw();

/// A command, and where it begins in its stream.
pub type Placed<'s> = (u32, Command<'s>);

/// A stream's commands.
#[derive(Debug)]
pub struct Stream<'s> {
    /// As they lie in the stream.
    pub bytes: &'s [u8],
    /// Decoded, in their order.
    pub commands: Vec<Placed<'s>>,
}

impl<'s> Stream<'s> {
    /// Copies the stream of a task into `bytes`, with all that it continues with.
    ///
    /// # Errors
    /// When the owner asks for what it must not: the outer error. When the stream is not in the window, or continues with too
    /// much: the inner one.
    pub fn copy(
        task: &CommandsTask,
        memory: &Memory,
        bytes: &mut Vec<u8>,
    ) -> Result<Result<(), Wrong>, Malformed> {
        if task.length > MAX_STREAM {
            return Err(Malformed::Field("length of a stream"));
        }
        bytes.clear();
        bytes.resize(task.length as usize, 0);
        if let Err(outside) = memory.read(task.address, bytes) {
            return Ok(Err(Why::from(outside).at(0)));
        }
        Ok(follow(memory, bytes))
    }

    /// Decodes and checks commands.
    ///
    /// # Errors
    /// The first command that is none, and why.
    pub fn read(bytes: &'s [u8], memory: &Memory) -> Result<Self, Wrong> {
        let mut all = Vec::new();
        let mut structure = Structure::new();
        for command in commands(bytes) {
            let (offset, command) = command?;
            let offset = offset as u32;
            let checked = check(&command, memory);
            let checked = checked.and_then(|()| structure.follow(offset, &command, memory));
            checked.map_err(|why| why.at(offset))?;
            all.push((offset, command));
        }
        structure.check_end()?;
        Ok(Self { bytes, commands: all })
    }

    /// Checks that its commands are about no more than this.
    ///
    /// # Errors
    /// The first command that is about something else.
    pub fn check_scope(&self, scope: Scope) -> Result<(), Wrong> {
        let beyond = self.commands.iter().find(|(_, command)| !computes(command));
        match beyond.filter(|_| scope != Scope::ALL) {
            Some((offset, _)) => {
                Err(Why::from("a command for drawing on a node that does not draw").at(*offset))
            }
            None => Ok(()),
        }
    }

    /// What its pipelines are for, and their addresses.
    pub fn pipelines(&self) -> impl Iterator<Item = (Point, u64)> {
        self.commands.iter().filter_map(|(_, command)| match command {
            Command::Dispatch(dispatch, _) => Some((Point::Compute, dispatch.pipeline)),
            Command::BindGraphics(bind, _) => Some((Point::Graphics, bind.pipeline)),
            _ => None,
        })
    }

    /// What its dispatches and draws are for the device.
    pub fn work(&self) -> Work {
        let mut work = Work::new();
        for (_, command) in &self.commands {
            match command {
                Command::Dispatch(dispatch, _) => {
                    let groups = (dispatch.indirect == 0).then_some(dispatch.groups);
                    work.add(dispatch.pipeline, groups);
                }
                // Who knows how many texels are drawn?
                Command::BeginRendering(begin, _) => work.add(begin.extent, None),
                Command::BindGraphics(bind, _) => work.add(bind.pipeline, None),
                _ => {}
            }
        }
        work
    }
}

/// How many bytes a query stores.
pub fn length_of_caps(query: &QueryCaps) -> u64 {
    query.length.min(size_of::<CommandCaps>() as u64)
}

/// Whether a command is one for queues that compute and do not draw, as Vulkan has it.
fn computes(command: &Command<'_>) -> bool {
    match command {
        Command::BeginQuery(begin, _) => begin.statistics == COMPUTE_INVOCATIONS,
        _ => matches!(
            command,
            Command::Barrier(..)
                | Command::Copy(..)
                | Command::Fill(..)
                | Command::Update(..)
                | Command::Dispatch(..)
                | Command::Timestamp(..)
                | Command::Wait(..)
                | Command::QueryCaps(..)
                | Command::CopyImage(..)
                | Command::CopyMemoryToImage(..)
                | Command::CopyImageToMemory(..)
                | Command::ClearImage(..)
                | Command::QueryImage(..)
                | Command::QueryImageFormat(..)
                | Command::EndQuery(..)
        ),
    }
}

fn check(command: &Command<'_>, memory: &Memory) -> Result<(), Why> {
    match command {
        Command::Barrier(Barrier { header }, _) => none(header.argument),
        Command::Copy(Copy { header, source, destination, length }, _) => {
            none(header.argument)?;
            memory.check(*source, *length)?;
            memory.check(*destination, *length)?;
            if source.abs_diff(*destination) < *length {
                return Err("a copy between ranges that overlap".into());
            }
            Ok(())
        }
        Command::Fill(Fill { destination, length, .. }, _) => {
            aligned(*destination, 4)?;
            aligned(*length, 4)?;
            Ok(memory.check(*destination, *length)?)
        }
        Command::Update(Update { destination, .. }, data) => {
            aligned(*destination, 4)?;
            Ok(memory.check(*destination, data.len() as u64)?)
        }
        Command::Dispatch(dispatch, _) => check_dispatch(dispatch, memory),
        Command::Timestamp(Timestamp { header, destination }, _) => {
            none(header.argument)?;
            aligned(*destination, 8)?;
            Ok(memory.check(*destination, 8)?)
        }
        Command::Wait(Wait { address, .. }, _) => {
            aligned(*address, 4)?;
            Ok(memory.check(*address, 4)?)
        }
        Command::QueryCaps(query, _) => {
            none(query.header.argument)?;
            aligned(query.destination, 8)?;
            Ok(memory.check(query.destination, length_of_caps(query))?)
        }
        Command::CopyImage(copy, _) => {
            none(copy.header.argument)?;
            check_copy(copy, memory)
        }
        Command::CopyMemoryToImage(copy, _) => {
            none(copy.header.argument)?;
            check_rows(copy, memory)
        }
        Command::CopyImageToMemory(copy, _) => {
            none(copy.header.argument)?;
            check_rows(copy, memory)
        }
        Command::ClearImage(clear, _) => {
            none(clear.header.argument)?;
            check_clear(clear, memory)
        }
        Command::QueryImage(query, _) => {
            none(query.header.argument)?;
            aligned(query.destination, 8)?;
            memory.check(query.destination, size_of::<ImageNeeds>() as u64)?;
            Ok(check_question(&query.image)?)
        }
        Command::QueryImageFormat(query, _) => {
            none(query.header.argument)?;
            aligned(query.destination, 8)?;
            memory.check(query.destination, size_of::<ImageFormat>() as u64)?;
            Ok(check_kind_in_question(&query.image)?)
        }
        Command::ResolveImage(resolve, _) => {
            none(resolve.header.argument)?;
            check_resolve(resolve, memory)
        }
        Command::BlitImage(blit, _) => check_blit(blit, memory),
        Command::ClearDepthStencil(clear, _) => {
            none(clear.header.argument)?;
            check_clear_depth(clear, memory)
        }
        drawing => drawing::check(drawing, memory),
    }
}

fn check_dispatch(dispatch: &Dispatch, memory: &Memory) -> Result<(), Why> {
    aligned(dispatch.pipeline, 8)?;
    if dispatch.indirect == 0 {
        return Ok(());
    }
    aligned(dispatch.indirect, 4)?;
    if dispatch.base != [0; 3] {
        return Err("an indirect dispatch with a first work group".into());
    }
    Ok(memory.check(dispatch.indirect, INDIRECT)?)
}
