// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which commands go into renderings, and what begins and ends.

use crate::serve::commands::wrong::{Why, Wrong};
use crate::serve::memory::Memory;
use crate::vulkan::Counter;
use bellhop_protocol::vulkan::{BeginQuery, Command, EndQuery};

/// What counts, and where it began.
#[derive(Clone, Copy)]
struct Counting {
    query: u32,
    stream: u32,
    counter: Counter,
    offset: u32,
    is_in_rendering: bool,
}

/// What has begun in a stream and has not ended.
#[derive(Default)]
pub struct Structure {
    /// Where the rendering begins, and the number of its views.
    rendering: Option<(u32, u32)>,
    counting: Vec<Counting>,
    /// Where transformed vertices begin to be stored.
    storing: Option<u32>,
    /// Where a condition begins, and whether that is in a rendering.
    condition: Option<(u32, bool)>,
    /// The pipeline that is bound.
    pipeline: u64,
}

impl Structure {
    /// Has none.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often what is counted now is stored: for each view.
    pub fn views(&self) -> u32 {
        self.rendering.map_or(1, |(_, views)| views)
    }

    /// Goes on with the command at an offset, whose own fields have been checked.
    ///
    /// # Errors
    /// When it is not where it may be, or what it stores is not in the window.
    pub fn follow(
        &mut self,
        offset: u32,
        command: &Command<'_>,
        memory: &Memory,
    ) -> Result<(), Why> {
        match command {
            Command::BeginRendering(begin, _) => {
                if self.rendering.is_some() {
                    return Err("a rendering inside of a rendering".into());
                }
                self.rendering = Some((offset, begin.view_mask.count_ones().max(1)));
                Ok(())
            }
            Command::EndRendering(..) => {
                if self.rendering.take().is_none() {
                    return Err("an end of a rendering that has not begun".into());
                }
                if self.storing.is_some() {
                    return Err("an end of a rendering whose vertices are still stored".into());
                }
                if self.condition.is_some_and(|(_, is_inside)| is_inside) {
                    return Err("a condition that is not ended where it was begun".into());
                }
                self.check_counting(true)
            }
            Command::Draw(..)
            | Command::DrawIndexed(..)
            | Command::DrawIndirect(..)
            | Command::DrawByteCount(..)
            | Command::ClearAttachment(..) => match self.rendering {
                Some(_) => Ok(()),
                None => Err("a draw outside of a rendering".into()),
            },
            Command::BeginQuery(begin, _) => self.begin(offset, begin),
            Command::EndQuery(end, _) => self.end(end, memory),
            Command::Timestamp(timestamp, _) => {
                let length = Counter::Time.size() * u64::from(self.views());
                Ok(memory.check(timestamp.destination, length)?)
            }
            Command::SetState(..) | Command::SetVertexBuffers(..) | Command::SetIndexBuffer(..) => {
                Ok(())
            }
            Command::BindGraphics(bind, _) => {
                let is_other =
                    std::mem::replace(&mut self.pipeline, bind.pipeline) != bind.pipeline;
                if is_other && self.storing.is_some() {
                    return Err("another pipeline while transformed vertices are stored".into());
                }
                Ok(())
            }
            Command::BeginTransform(..) => self.begin_storing(offset),
            Command::EndTransform(..) => match self.storing.take() {
                Some(_) => Ok(()),
                None => Err("an end of storing vertices that has not begun".into()),
            },
            Command::BeginConditional(..) => {
                let place = (offset, self.rendering.is_some());
                match self.condition.replace(place) {
                    None => Ok(()),
                    Some(_) => Err("a condition inside of a condition".into()),
                }
            }
            Command::EndConditional(..) => match self.condition.take() {
                Some((_, is_inside)) if is_inside == self.rendering.is_some() => Ok(()),
                _ => Err("an end of a condition that has not begun there".into()),
            },
            _ if self.rendering.is_some() => {
                Err("a command in a rendering that does not go there".into())
            }
            // What was recorded until there runs before the processor does anything.
            Command::Wait(..)
            | Command::QueryCaps(..)
            | Command::QueryImage(..)
            | Command::QueryImageFormat(..) => {
                if self.condition.is_some() {
                    return Err("a command under a condition that does not go there".into());
                }
                self.check_counting(false)
            }
            _ => Ok(()),
        }
    }

    fn begin_storing(&mut self, offset: u32) -> Result<(), Why> {
        if self.rendering.is_none_or(|(_, views)| views > 1) {
            return Err(
                "vertices that are stored outside of a rendering, or of several views".into()
            );
        }
        match self.storing.replace(offset) {
            None => Ok(()),
            Some(_) => Err("vertices that are stored while others are".into()),
        }
    }

    /// Checks that nothing counts any more, or nothing that began in a rendering.
    fn check_counting(&self, in_rendering: bool) -> Result<(), Why> {
        let counts = |counting: &Counting| counting.is_in_rendering || !in_rendering;
        if self.counting.iter().any(counts) {
            return Err("a query that is not ended where it was begun".into());
        }
        Ok(())
    }

    fn begin(&mut self, offset: u32, begin: &BeginQuery) -> Result<(), Why> {
        let query = begin.header.argument;
        let stream = begin.stream;
        let counter = Counter::of(query, begin.statistics, stream);
        let counter = counter.ok_or("a query of an unknown type")?;
        let is_it = |counting: &Counting| counting.query == query && counting.stream == stream;
        if self.counting.iter().any(is_it) {
            return Err("a query that has begun before one of its type has ended".into());
        }
        let is_in_rendering = self.rendering.is_some();
        self.counting.push(Counting { query, stream, counter, offset, is_in_rendering });
        Ok(())
    }

    fn end(&mut self, end: &EndQuery, memory: &Memory) -> Result<(), Why> {
        let is_it = |counting: &Counting| {
            counting.query == end.header.argument && counting.stream == end.stream
        };
        let at = self.counting.iter().position(is_it).ok_or("an end of a query without one")?;
        let Counting { counter, is_in_rendering, .. } = self.counting.swap_remove(at);
        if is_in_rendering != self.rendering.is_some() {
            return Err("a query that is not ended where it was begun".into());
        }
        Ok(memory.check(end.destination, counter.size() * u64::from(self.views()))?)
    }

    /// Checks that everything has ended with the stream.
    ///
    /// # Errors
    /// The first that has not, where it begins.
    pub fn check_end(&self) -> Result<(), Wrong> {
        if let Some((offset, _)) = self.rendering {
            return Err(Why::from("a rendering that does not end").at(offset));
        }
        if let Some((offset, _)) = self.condition {
            return Err(Why::from("a condition that does not end").at(offset));
        }
        match self.counting.first() {
            Some(counting) => Err(Why::from("a query that does not end").at(counting.offset)),
            None => Ok(()),
        }
    }
}
