// SPDX-License-Identifier: MIT OR Apache-2.0

//! A rendering, as the host is told of it.

use ash::vk;
use bellhop_protocol::vulkan::{Attachment, BeginRendering, CommandHeader, MAX_COLORS};
use zerocopy::IntoBytes;

/// Most attachments: those of colour, that of depth and that of stencil.
const MOST: usize = MAX_COLORS as usize + 2;

/// A rendering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendering {
    /// The first texel of the area, by dimension.
    pub(crate) offset: [u32; 2],
    /// Texels of the area in each dimension.
    pub(crate) extent: [u32; 2],
    /// Number of layers; 0 with a mask of views.
    pub(crate) layers: u32,
    /// The views that are drawn, a bit for each, or 0.
    pub(crate) view_mask: u32,
    attachments: [Attachment; MOST],
    colors: usize,
}

impl Rendering {
    /// A rendering without attachments.
    pub(crate) fn new(area: vk::Rect2D, layers: u32, view_mask: u32) -> Self {
        let vk::Rect2D { offset, extent } = area;
        Self {
            offset: [offset.x as u32, offset.y as u32],
            extent: [extent.width, extent.height],
            layers: if view_mask == 0 { layers } else { 0 },
            view_mask,
            attachments: [Attachment::default(); MOST],
            colors: 0,
        }
    }

    /// Gives it attachments. More than there can be are left out.
    pub(crate) fn with(
        mut self,
        colors: impl IntoIterator<Item = Attachment>,
        depth: Attachment,
        stencil: Attachment,
    ) -> Self {
        let colors = colors.into_iter().take(MAX_COLORS as usize);
        self.colors = 0;
        for (place, color) in self.attachments.iter_mut().zip(colors) {
            *place = color;
            self.colors += 1;
        }
        for (place, last) in self.attachments.iter_mut().skip(self.colors).zip([depth, stencil]) {
            *place = last;
        }
        self
    }

    /// The command that begins it, without a header, and the number of attachments of colour.
    pub(crate) const fn command(&self, header: CommandHeader) -> (BeginRendering, u32) {
        let Self { offset, extent, layers, view_mask, .. } = *self;
        (BeginRendering { header, offset, extent, layers, view_mask }, self.colors as u32)
    }

    /// The attachments, as they follow the command.
    pub(crate) fn attachments(&self) -> &[u8] {
        self.attachments.get(..self.colors + 2).unwrap_or(&self.attachments).as_bytes()
    }

    /// The addresses of the views that are drawn on or resolved to; 0 where there is none.
    pub(crate) fn views_drawn_on(&self) -> impl Iterator<Item = u64> {
        let all = self.attachments.iter().take(self.colors + 2);
        all.flat_map(|attachment| [attachment.view, attachment.resolve_view])
    }

    /// How many queries are counted at a time: one for each view.
    pub(crate) const fn views(&self) -> u32 {
        count_views(self.view_mask)
    }

    /// It up to where it is interrupted: what was drawn is kept, and nothing is resolved.
    pub(crate) fn interrupted(&self) -> Self {
        self.changed(|attachment| {
            attachment.store = vk::AttachmentStoreOp::STORE.as_raw() as u32;
            (attachment.resolve_view, attachment.resolve_serial) = (0, 0);
            attachment.resolve_mode = 0;
        })
    }

    /// It from where it was interrupted.
    pub(crate) fn resumed(&self) -> Self {
        self.changed(|attachment| {
            attachment.load = vk::AttachmentLoadOp::LOAD.as_raw() as u32;
            attachment.clear = [0; 4];
        })
    }

    fn changed(&self, change: impl Fn(&mut Attachment)) -> Self {
        let mut changed = self.clone();
        for attachment in changed.attachments.iter_mut().filter(|attachment| attachment.view != 0) {
            change(attachment);
        }
        changed
    }
}

/// How many queries are counted at a time in a rendering with a mask of views.
pub(crate) const fn count_views(view_mask: u32) -> u32 {
    if view_mask == 0 { 1 } else { view_mask.count_ones() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendering_that_is_interrupted_keeps_what_was_drawn() {
        let area = vk::Rect2D::default().extent(vk::Extent2D { width: 8, height: 4 });
        let color = Attachment {
            view: 64,
            serial: 1,
            resolve_view: 128,
            resolve_serial: 2,
            resolve_mode: 2,
            load: 1,
            store: 1,
            clear: [7; 4],
            ..Default::default()
        };
        let none = Attachment::default();
        let rendering = Rendering::new(area, 3, 0).with([color, none], none, none);
        assert_eq!(rendering.attachments().len(), 4 * size_of::<Attachment>());
        let attachments = |rendering: &Rendering| {
            let attachments: Vec<_> =
                BeginRendering::attachments(rendering.attachments()).collect();
            assert_eq!(attachments[1..], [none; 3]);
            attachments[0]
        };
        let resolve = Attachment { resolve_view: 0, resolve_serial: 0, resolve_mode: 0, ..color };
        let first = Attachment { store: 0, ..resolve };
        assert_eq!(attachments(&rendering.interrupted()), first);
        let last = Attachment { load: 0, clear: [0; 4], ..color };
        assert_eq!(attachments(&rendering.resumed()), last);
        assert_eq!(Rendering::new(area, 3, 0b101).layers, 0);
        assert_eq!((count_views(0), count_views(0b101)), (1, 2));
    }
}
