// SPDX-License-Identifier: MIT OR Apache-2.0

//! Commands that store transformed vertices and draw them again, and conditions: their memory, and how they are recorded.

use super::commands::WORD;
use super::current::Current;
use crate::serve::commands::record::Recording;
use crate::serve::commands::wrong::Why;
use crate::serve::memory::Access;
use crate::vulkan::{Binding, Stored};
use bellhop_protocol::vulkan::{BeginTransform, Command, EndTransform, TransformBuffer};

/// Calls `touch` with each range of memory that such a command has the device reach.
///
/// # Errors
/// Those of `touch`.
pub fn touch_transform(
    command: &Command<'_>,
    touch: impl Fn(u64, u64, Access) -> Result<(), Why>,
) -> Result<(), Why> {
    let word = |address: u64, access| match address {
        0 => Ok(()),
        address => touch(address, WORD, access),
    };
    match command {
        Command::BeginTransform(_, data) => {
            for TransformBuffer { address, length, counter } in BeginTransform::buffers(data) {
                word(counter, Access::Load)?;
                if address != 0 {
                    touch(address, length, Access::Store)?;
                }
            }
            Ok(())
        }
        Command::EndTransform(_, data) => {
            EndTransform::counters(data).try_for_each(|counter| word(counter, Access::Store))
        }
        Command::DrawByteCount(draw, _) => word(draw.counter, Access::Load),
        Command::BeginConditional(begin, _) => word(begin.address, Access::Load),
        _ => Ok(()),
    }
}

impl<'d> Recording<'_, 'd> {
    /// Records a command that stores transformed vertices or draws them, or a condition. Does nothing for others.
    ///
    /// # Errors
    /// When Vulkan refuses it.
    pub(super) fn transform(
        &mut self,
        command: &Command<'_>,
        current: &Current<'_>,
    ) -> Result<(), Why> {
        match command {
            Command::BeginTransform(_, data) => {
                // The pipeline stays bound until the end, so that it is bound before.
                self.prepare(current, false)?;
                let stored: Result<Vec<_>, _> =
                    BeginTransform::buffers(data).map(|buffer| self.stored(&buffer)).collect();
                Ok(self.recorder.begin_transform(&stored?)?)
            }
            Command::EndTransform(_, data) => {
                let counters: Result<Vec<_>, _> =
                    EndTransform::counters(data).map(|counter| self.word(counter)).collect();
                Ok(self.recorder.end_transform(&counters?)?)
            }
            Command::DrawByteCount(draw, _) => {
                self.prepare(current, false)?;
                let counter = self.imports.range(draw.counter, WORD)?;
                Ok(self.recorder.draw_byte_count(draw, &counter)?)
            }
            Command::BeginConditional(begin, _) => {
                let word = self.imports.range(begin.address, WORD)?;
                Ok(self.recorder.begin_conditional(&word, begin.header.argument == 1)?)
            }
            Command::EndConditional(..) => {
                self.recorder.end_conditional();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The memory of a word, if there is one.
    fn word(&mut self, address: u64) -> Result<Option<Binding<'d>>, Why> {
        if address == 0 { Ok(None) } else { Ok(Some(self.imports.range(address, WORD)?)) }
    }

    /// The memory of a buffer for transformed vertices, if there is one.
    fn stored(&mut self, of: &TransformBuffer) -> Result<Option<Stored<'d>>, Why> {
        if of.address == 0 {
            return Ok(None);
        }
        let buffer = self.imports.range(of.address, of.length)?;
        Ok(Some(Stored { buffer, counter: self.word(of.counter)? }))
    }
}
