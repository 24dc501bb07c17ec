// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the subpasses of a render pass do with its attachments: the first that uses one does what is to be done at its start, the
//! last what is to be done at its end, and between them it is kept.

use super::pass::{RenderPass, Subpass, Use};
use ash::vk;

/// An attachment, as a program describes it.
#[derive(Clone, Copy, Default)]
pub(super) struct Described {
    pub(super) format: vk::Format,
    pub(super) load: vk::AttachmentLoadOp,
    pub(super) store: vk::AttachmentStoreOp,
    pub(super) stencil_load: vk::AttachmentLoadOp,
    pub(super) stencil_store: vk::AttachmentStoreOp,
}

/// A subpass, as a program describes it. Attachments are indices, `None` for one that is not used.
#[derive(Clone, Default)]
pub(super) struct Asked {
    pub(super) inputs: Vec<Option<u32>>,
    /// Each with the attachment that it is resolved to.
    pub(super) colors: Vec<(Option<u32>, Option<u32>)>,
    pub(super) depth: Option<u32>,
    pub(super) depth_resolve: Option<u32>,
    /// How depths and stencils are resolved.
    pub(super) modes: [vk::ResolveModeFlags; 2],
    pub(super) view_mask: u32,
}

impl Asked {
    /// Whether the subpass does anything with an attachment.
    fn uses(&self, attachment: u32) -> bool {
        let is_it = |of: &Option<u32>| *of == Some(attachment);
        self.inputs.iter().any(is_it)
            || self.colors.iter().any(|(color, resolve)| is_it(color) || is_it(resolve))
            || is_it(&self.depth)
            || is_it(&self.depth_resolve)
    }
}

/// Whether a format has depths.
const fn has_depth(format: vk::Format) -> bool {
    !matches!(format, vk::Format::S8_UINT | vk::Format::UNDEFINED)
}

/// Whether a format has stencils.
const fn has_stencil(format: vk::Format) -> bool {
    matches!(
        format,
        vk::Format::S8_UINT
            | vk::Format::D16_UNORM_S8_UINT
            | vk::Format::D24_UNORM_S8_UINT
            | vk::Format::D32_SFLOAT_S8_UINT
    )
}

/// The render pass of what a program describes. `dependencies` are pairs of subpasses, [`vk::SUBPASS_EXTERNAL`] among them.
pub(super) fn lower(
    attachments: &[Described],
    asked: &[Asked],
    dependencies: impl Iterator<Item = (u32, u32)> + Clone,
) -> RenderPass {
    let is_outside = |subpass: u32| subpass == vk::SUBPASS_EXTERNAL;
    let subpasses = (0..asked.len()).filter_map(|index| {
        let (before, rest) = asked.split_at_checked(index)?;
        let (subpass, after) = rest.split_first()?;
        Some(lower_one(attachments, before, subpass, after))
    });
    RenderPass {
        subpasses: subpasses.collect(),
        waits_before: dependencies.clone().any(|(from, to)| is_outside(from) && !is_outside(to)),
        waits_after: dependencies.clone().any(|(from, to)| !is_outside(from) && is_outside(to)),
    }
}

fn lower_one(
    attachments: &[Described],
    before: &[Asked],
    subpass: &Asked,
    after: &[Asked],
) -> Subpass {
    let describe = |attachment: Option<u32>| {
        let index = attachment?;
        attachments.get(index as usize).map(|described| (index, *described))
    };
    // With several views, each is of its own.
    let shares_views =
        |other: &Asked| subpass.view_mask == 0 || other.view_mask & subpass.view_mask != 0;
    let was_used = |index| before.iter().any(|other| other.uses(index) && shares_views(other));
    let is_used = |index| after.iter().any(|other| other.uses(index));
    let load = |index, load| {
        let load = if was_used(index) { vk::AttachmentLoadOp::LOAD } else { load };
        load.as_raw() as u32
    };
    let store = |index, store| {
        let store = if is_used(index) { vk::AttachmentStoreOp::STORE } else { store };
        store.as_raw() as u32
    };
    let color = |(color, resolve): &(Option<u32>, Option<u32>)| {
        let Some((index, described)) = describe(*color) else { return Use::default() };
        Use {
            attachment: Some(index),
            resolve: *resolve,
            resolve_mode: resolve.map_or(0, |_| color_mode(described.format).as_raw()),
            load: load(index, described.load),
            store: store(index, described.store),
            format: described.format.as_raw() as u32,
        }
    };
    let colors = subpass.colors.iter().map(color).collect();
    let mut lowered = Subpass { colors, view_mask: subpass.view_mask, ..Default::default() };
    let Some((index, described)) = describe(subpass.depth) else { return lowered };
    let [depth_mode, stencil_mode] = subpass.modes;
    let of = |mode: vk::ResolveModeFlags| Use {
        attachment: Some(index),
        resolve: subpass.depth_resolve.filter(|_| !mode.is_empty()),
        resolve_mode: subpass.depth_resolve.map_or(0, |_| mode.as_raw()),
        load: load(index, described.load),
        store: store(index, described.store),
        format: described.format.as_raw() as u32,
    };
    if has_depth(described.format) {
        lowered.depth = of(depth_mode);
    }
    if has_stencil(described.format) {
        lowered.stencil = Use {
            load: load(index, described.stencil_load),
            store: store(index, described.stencil_store),
            ..of(stencil_mode)
        };
    }
    lowered
}

/// How colours of a format are resolved: whole numbers have no average.
const fn color_mode(format: vk::Format) -> vk::ResolveModeFlags {
    if is_whole(format) { vk::ResolveModeFlags::SAMPLE_ZERO } else { vk::ResolveModeFlags::AVERAGE }
}

/// Whether the colours of a format of Vulkan 1.0 are whole numbers.
const fn is_whole(format: vk::Format) -> bool {
    matches!(
        format.as_raw(),
        13 | 14
            | 20
            | 21
            | 27
            | 28
            | 34
            | 35
            | 41
            | 42
            | 48
            | 49
            | 55
            | 56
            | 62
            | 63
            | 68
            | 69
            | 74
            | 75
            | 81
            | 82
            | 88
            | 89
            | 95
            | 96
            | 98
            | 99
            | 101
            | 102
            | 104
            | 105
            | 107
            | 108
            | 110
            | 111
            | 113
            | 114
            | 116
            | 117
            | 119
            | 120
    )
}

#[cfg(test)]
mod tests;
