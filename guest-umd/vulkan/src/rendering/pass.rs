// SPDX-License-Identifier: MIT OR Apache-2.0

//! Render passes, as what they become: a rendering for each subpass.

use super::framebuffer::View;
use super::instance::Rendering;
use ash::vk;
use bellhop_protocol::vulkan::Attachment;

/// A render pass.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RenderPass {
    pub(super) subpasses: Vec<Subpass>,
    /// Whether it waits for what is before it, and what is after it for it.
    pub(crate) waits_before: bool,
    pub(crate) waits_after: bool,
}

impl RenderPass {
    /// A subpass.
    pub(crate) fn subpass(&self, index: u32) -> Option<&Subpass> {
        self.subpasses.get(index as usize)
    }
}

/// A subpass.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Subpass {
    pub(crate) colors: Vec<Use>,
    pub(crate) depth: Use,
    pub(crate) stencil: Use,
    pub(crate) view_mask: u32,
}

/// How a subpass uses an attachment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// Its index. `None` if there is none.
    pub(crate) attachment: Option<u32>,
    /// The attachment that its samples are resolved to, and how.
    pub(crate) resolve: Option<u32>,
    /// `VkResolveModeFlagBits`, `VkAttachmentLoadOp`, `VkAttachmentStoreOp`.
    pub(crate) resolve_mode: u32,
    pub(crate) load: u32,
    pub(crate) store: u32,
    /// `VkFormat`, 0 if there is none.
    pub(crate) format: u32,
}

impl Use {
    /// The attachment of a rendering.
    fn attachment(&self, views: &[View], clears: &[[u32; 4]]) -> Attachment {
        let view = |index: Option<u32>| {
            let view = index.and_then(|index| views.get(index as usize));
            view.copied().unwrap_or_default()
        };
        let (of, resolved) = (view(self.attachment), view(self.resolve));
        if of.address == 0 {
            return Attachment::default();
        }
        let clear = self.attachment.and_then(|index| clears.get(index as usize));
        let is_cleared = self.load == vk::AttachmentLoadOp::CLEAR.as_raw() as u32;
        Attachment {
            view: of.address,
            serial: of.serial,
            resolve_view: resolved.address,
            resolve_serial: resolved.serial,
            resolve_mode: if resolved.address == 0 { 0 } else { self.resolve_mode },
            load: self.load,
            store: self.store,
            reserved: 0,
            clear: clear.copied().filter(|_| is_cleared).unwrap_or_default(),
        }
    }
}

impl Subpass {
    /// The rendering that it is with these views and colours, in this area and so many layers.
    pub(crate) fn rendering(
        &self,
        views: &[View],
        clears: &[[u32; 4]],
        area: vk::Rect2D,
        layers: u32,
    ) -> Rendering {
        let attachment = |of: &Use| of.attachment(views, clears);
        Rendering::new(area, layers, self.view_mask).with(
            self.colors.iter().map(attachment),
            attachment(&self.depth),
            attachment(&self.stencil),
        )
    }
}

#[cfg(test)]
impl RenderPass {
    /// One with an attachment that two subpasses draw to: the first clears it, and the second does not store it. It waits on
    /// both sides.
    pub(crate) fn of_two_subpasses() -> Self {
        let used = Use { attachment: Some(0), format: 37, ..Default::default() };
        let subpass = |load, store| {
            let colors = vec![Use { load, store, ..used }];
            Subpass { colors, ..Default::default() }
        };
        let subpasses = vec![subpass(1, 0), subpass(0, 1)];
        Self { subpasses, waits_before: true, waits_after: true }
    }
}
