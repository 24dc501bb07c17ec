// SPDX-License-Identifier: MIT OR Apache-2.0

//! Commands that draw: their memory, and how they are recorded.

use super::commands::structures;
use super::current::{Bound, Current};
use super::demands::Draws;
use super::renderings::{Attached, Rendering};
use super::transform::touch_transform;
use crate::serve::commands::record::Recording;
use crate::serve::commands::wrong::Why;
use crate::serve::memory::Access;
use crate::vulkan::{self, Counter, Point};
use bellhop_protocol::vulkan::{
    BeginQuery, Command, DrawIndirect, EndQuery, ImageView, SetVertexBuffers, Timestamp,
};
use std::collections::BTreeSet;

/// What draws run on and the recorder has not been told.
pub struct Changed {
    /// Whether the pipeline, its sets or its constants are others.
    bound: bool,
    vertices: bool,
    indices: bool,
    /// Dynamic states that were set.
    states: BTreeSet<u32>,
}

impl Changed {
    /// Everything.
    pub const fn all() -> Self {
        Self { bound: true, vertices: true, indices: true, states: BTreeSet::new() }
    }
}

/// Calls `touch` with each range of memory that a command has the device reach to draw, or to store what was counted.
///
/// # Errors
/// Those of `touch`.
pub fn touch(
    command: &Command<'_>,
    rendering: Option<&Rendering>,
    touch: impl Fn(u64, u64, Access) -> Result<(), Why>,
) -> Result<(), Why> {
    let image = |view: &ImageView| touch(view.image.address, view.image.size, Access::Store);
    match command {
        Command::BeginRendering(..) => {
            let attached = rendering.into_iter().flat_map(|rendering| &rendering.attachments);
            for Attached { view, resolve, .. } in attached.flatten() {
                image(view)?;
                resolve.iter().try_for_each(image)?;
            }
            Ok(())
        }
        Command::SetVertexBuffers(_, data) => SetVertexBuffers::buffers(data)
            .filter(|buffer| buffer.address != 0)
            .try_for_each(|buffer| touch(buffer.address, buffer.length, Access::Load)),
        Command::SetIndexBuffer(set, _) => touch(set.address, set.length, Access::Load),
        Command::DrawIndirect(draw, _) => {
            if draw.count != 0 {
                touch(draw.count, COUNT, Access::Load)?;
            }
            let structures = structures(draw);
            structures.map_or(Ok(()), |[address, length]| touch(address, length, Access::Load))
        }
        Command::Timestamp(Timestamp { destination, .. }, _)
        | Command::EndQuery(EndQuery { destination, .. }, _) => {
            // Where memory must be touched there are no renderings, and so nothing is counted but times.
            touch(*destination, Counter::Time.size(), Access::Store)
        }
        other => touch_transform(other, touch),
    }
}

/// Bytes of a number of draws.
const COUNT: u64 = 4;

/// Whether a command draws nothing.
fn is_nothing(command: &Command<'_>) -> bool {
    match command {
        Command::Draw(draw, _) => draw.vertices == 0 || draw.instances == 0,
        Command::DrawIndexed(draw, _) => draw.indices == 0 || draw.instances == 0,
        Command::DrawIndirect(draw, _) => draw.most == 0,
        Command::DrawByteCount(draw, _) => draw.instances == 0,
        _ => false,
    }
}

impl<'d> Recording<'_, 'd> {
    /// Records a command that draws or counts. Draws run on `current`. Does nothing for others.
    ///
    /// # Errors
    /// When Vulkan refuses it.
    pub fn drawing(
        &mut self,
        offset: u32,
        command: &Command<'_>,
        current: &Current<'_>,
    ) -> Result<(), Why> {
        if is_nothing(command) {
            return Ok(());
        }
        match command {
            Command::BeginRendering(..) => {
                let rendering = self.plan.rendering_at(offset);
                let rendering = self.rendering(rendering.ok_or("a rendering without a plan")?)?;
                self.recorder.begin_rendering(&rendering);
            }
            Command::EndRendering(..) => self.recorder.end_rendering(),
            Command::ClearAttachment(clear, _) => self.recorder.clear_attachment(clear),
            Command::SetState(set, _) => {
                self.changed.states.insert(set.header.argument);
            }
            Command::SetVertexBuffers(..) => self.changed.vertices = true,
            Command::SetIndexBuffer(..) => self.changed.indices = true,
            Command::BindGraphics(..) => self.changed.bound = true,
            Command::Draw(draw, _) => {
                self.prepare(current, false)?;
                self.recorder.draw(draw);
            }
            Command::DrawIndexed(draw, _) => {
                self.prepare(current, true)?;
                self.recorder.draw_indexed(draw);
            }
            Command::DrawIndirect(draw, _) => self.draw_indirect(draw, current)?,
            Command::BeginQuery(BeginQuery { header, flags, statistics, stream, .. }, _) => {
                let counter = Counter::of(header.argument, *statistics, *stream);
                let counter = counter.ok_or("a query of an unknown type")?;
                self.recorder.begin_query(counter, *flags != 0);
            }
            Command::EndQuery(EndQuery { header, destination, stream, .. }, _) => {
                let counts = self.recorder.counter(header.argument, *stream);
                let (counter, views) = counts.ok_or("an end of a query without one")?;
                let length = counter.size() * u64::from(views);
                let to = self.imports.range(*destination, length)?;
                self.recorder.end_query(counter, &to)?;
            }
            Command::Timestamp(timestamp, _) => {
                let length = Counter::Time.size() * u64::from(self.recorder.views());
                let to = self.imports.range(timestamp.destination, length)?;
                self.recorder.timestamp(&to)?;
            }
            other => self.transform(other, current)?,
        }
        Ok(())
    }

    /// Has the views of a rendering made.
    fn rendering(&mut self, of: &Rendering) -> Result<vulkan::Rendering<'d>, Why> {
        let mut attachments = Vec::new();
        for attached in &of.attachments {
            attachments.push(attached.as_ref().map(|it| self.attached(it)).transpose()?);
        }
        let stencil = attachments.pop().flatten();
        let depth = attachments.pop().flatten();
        Ok(vulkan::Rendering { begin: of.begin, colors: attachments, depth, stencil })
    }

    fn attached(&mut self, of: &Attached) -> Result<vulkan::Attached<'d>, Why> {
        let mut view = |view: &ImageView| {
            let image = self.plan.images.get(&view.image);
            let image = image.ok_or_else(|| Why::from("an image that was not made"))?;
            Ok::<_, Why>(self.made.view(view, image)?)
        };
        let resolve = of.resolve.as_ref().map(&mut view).transpose()?;
        Ok(vulkan::Attached { how: of.how, view: view(&of.view)?, resolve })
    }

    /// Has the recorder told everything that a draw runs on.
    pub(super) fn prepare(&mut self, current: &Current<'_>, is_indexed: bool) -> Result<(), Why> {
        let without = "a draw without a pipeline";
        let Bound { offset, command, data } = current.bound.ok_or(without)?;
        let planned = self.plan.used(offset).ok_or(without)?;
        let draws = planned.pipeline.draws.as_ref().ok_or(without)?;
        let mut is_other = false;
        if self.changed.bound {
            is_other = self.bind(Point::Graphics, planned, command.resources(), data)?;
            self.changed.bound = false;
        }
        for state in &draws.states {
            if is_other || self.changed.states.contains(state) {
                self.recorder.set_state(*state, &current.words(*state, draws));
            }
        }
        self.changed.states.clear();
        if is_other || self.changed.vertices {
            self.bind_vertices(current, draws)?;
            self.changed.vertices = false;
        }
        if is_indexed && self.changed.indices {
            let buffer = current.indices.ok_or("a draw without an index buffer")?;
            let range = self.imports.range(buffer.address, buffer.length)?;
            self.recorder.bind_indices(&range, buffer.header.argument)?;
            self.changed.indices = false;
        }
        Ok(())
    }

    fn bind_vertices(&mut self, current: &Current<'_>, draws: &Draws) -> Result<(), Why> {
        let has_strides = draws.has_strides();
        for binding in &draws.vertices {
            let buffer = current.vertices_of(binding.binding);
            let range = buffer.map(|buffer| self.imports.range(buffer.address, buffer.length));
            let stride = has_strides.then(|| buffer.map_or(0, |buffer| buffer.stride));
            self.recorder.bind_vertices(binding.binding, range.transpose()?.as_ref(), stride)?;
        }
        Ok(())
    }

    fn draw_indirect(&mut self, draw: &DrawIndirect, current: &Current<'_>) -> Result<(), Why> {
        let is_indexed = draw.header.argument == 1;
        self.prepare(current, is_indexed)?;
        let Some([address, length]) = structures(draw) else { return Ok(()) };
        let structures = self.imports.range(address, length)?;
        let count = (draw.count != 0).then(|| self.imports.range(draw.count, COUNT)).transpose()?;
        let how = [draw.most, draw.stride];
        Ok(self.recorder.draw_indirect(&structures, count.as_ref(), is_indexed, how)?)
    }
}
