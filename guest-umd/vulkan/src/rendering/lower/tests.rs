// SPDX-License-Identifier: MIT OR Apache-2.0

//! What subpasses do with attachments.

use super::super::framebuffer::View;
use super::*;
use bellhop_protocol::vulkan::{Attachment, BeginRendering};

/// `VkAttachmentLoadOp`s and `VkAttachmentStoreOp`s.
const LOAD: u32 = 0;
const CLEAR: u32 = 1;
const STORE: u32 = 0;
const DONT_CARE: u32 = 1;
/// `VkResolveModeFlagBits`.
const SAMPLE_ZERO: u32 = 1;
const AVERAGE: u32 = 2;

fn described(format: vk::Format) -> Described {
    Described {
        format,
        load: vk::AttachmentLoadOp::CLEAR,
        store: vk::AttachmentStoreOp::DONT_CARE,
        stencil_load: vk::AttachmentLoadOp::LOAD,
        stencil_store: vk::AttachmentStoreOp::STORE,
    }
}

fn color(attachment: u32) -> (Option<u32>, Option<u32>) {
    (Some(attachment), None)
}

fn plain(attachments: &[Described], asked: &[Asked]) -> RenderPass {
    lower(attachments, asked, std::iter::empty())
}

/// What the subpasses do with an attachment of colour: where they use it, and what they do at their start and end.
fn ops(pass: &RenderPass) -> Vec<Vec<(Option<u32>, u32, u32)>> {
    let of = |subpass: &Subpass| {
        subpass.colors.iter().map(|color| (color.attachment, color.load, color.store)).collect()
    };
    pass.subpasses.iter().map(of).collect()
}

#[test]
fn the_first_use_loads_and_the_last_stores_as_the_attachment_says() {
    let attachments = [described(vk::Format::R8G8B8A8_UNORM), described(vk::Format::R8_UNORM)];
    let first = Asked { colors: vec![color(0)], ..Default::default() };
    let second = Asked { inputs: vec![Some(0)], colors: vec![color(1)], ..Default::default() };
    let third = Asked { colors: vec![color(1), (None, None), color(0)], ..Default::default() };
    let pass = plain(&attachments, &[first, second, third]);
    let none = (None, LOAD, STORE);
    let expected = [
        vec![(Some(0), CLEAR, STORE)],
        vec![(Some(1), CLEAR, STORE)],
        vec![(Some(1), LOAD, DONT_CARE), none, (Some(0), LOAD, DONT_CARE)],
    ];
    assert_eq!(ops(&pass), expected);
    assert!(!pass.waits_before && !pass.waits_after);
}

#[test]
fn colors_are_resolved_to_what_a_later_subpass_reads() {
    let attachments = [described(vk::Format::R8G8B8A8_UNORM), described(vk::Format::R32_UINT)];
    let asked = [
        Asked { colors: vec![(Some(0), Some(1))], ..Default::default() },
        Asked { colors: vec![(Some(1), None)], ..Default::default() },
    ];
    let pass = plain(&attachments, &asked);
    let [first, second] = [0, 1].map(|index| pass.subpasses[index].colors[0]);
    assert_eq!((first.resolve, first.resolve_mode), (Some(1), AVERAGE));
    assert_eq!((second.load, second.resolve_mode), (LOAD, 0));
    let whole = [Asked { colors: vec![(Some(1), Some(0))], ..Default::default() }];
    let mode = plain(&attachments, &whole).subpasses[0].colors[0].resolve_mode;
    assert_eq!(mode, SAMPLE_ZERO);
}

#[test]
fn depths_and_stencils_are_apart() {
    let modes = [vk::ResolveModeFlags::SAMPLE_ZERO, vk::ResolveModeFlags::NONE];
    let both = Asked { depth: Some(0), depth_resolve: Some(1), modes, ..Default::default() };
    let of = |format| {
        let pass = plain(&[described(format), described(format)], std::slice::from_ref(&both));
        (pass.subpasses[0].depth, pass.subpasses[0].stencil)
    };
    let (depth, stencil) = of(vk::Format::D24_UNORM_S8_UINT);
    assert_eq!((depth.load, depth.store, depth.resolve), (CLEAR, DONT_CARE, Some(1)));
    assert_eq!((stencil.load, stencil.store, stencil.resolve), (LOAD, STORE, None));
    let (depth, stencil) = of(vk::Format::D32_SFLOAT);
    assert_eq!((depth.attachment, stencil), (Some(0), Use::default()));
    let (depth, stencil) = of(vk::Format::S8_UINT);
    assert_eq!((depth, stencil.attachment), (Use::default(), Some(0)));
}

#[test]
fn each_view_has_a_first_use() {
    let attachments = [described(vk::Format::R8G8B8A8_UNORM)];
    let asked = [0b01, 0b10, 0b11].map(|view_mask| Asked {
        colors: vec![color(0)],
        view_mask,
        ..Default::default()
    });
    let pass = plain(&attachments, &asked);
    let loads: Vec<_> = ops(&pass).concat().iter().map(|(_, load, _)| *load).collect();
    assert_eq!(loads, [CLEAR, CLEAR, LOAD]);
}

#[test]
fn dependencies_on_what_is_outside_are_waits() {
    let outside = vk::SUBPASS_EXTERNAL;
    let waits = |dependencies: &[(u32, u32)]| {
        let pass = lower(&[], &[Asked::default()], dependencies.iter().copied());
        (pass.waits_before, pass.waits_after)
    };
    assert_eq!(waits(&[(0, 0)]), (false, false));
    assert_eq!(waits(&[(outside, 0)]), (true, false));
    assert_eq!(waits(&[(0, outside)]), (false, true));
}

#[test]
fn a_subpass_is_a_rendering_with_the_views_of_a_framebuffer() {
    let attachments = [described(vk::Format::R8G8B8A8_UNORM), described(vk::Format::D16_UNORM)];
    let asked =
        [Asked { colors: vec![(None, None), color(0)], depth: Some(1), ..Default::default() }];
    let pass = plain(&attachments, &asked);
    let views = [View { address: 64, serial: 5 }, View { address: 128, serial: 6 }];
    let area = vk::Rect2D {
        offset: vk::Offset2D { x: 1, y: 2 },
        extent: vk::Extent2D { width: 3, height: 4 },
    };
    let rendering = pass.subpass(0).unwrap().rendering(&views, &[[1, 2, 3, 4], [9; 4]], area, 2);
    assert_eq!((rendering.offset, rendering.extent, rendering.layers), ([1, 2], [3, 4], 2));
    let attachment = |view, serial, clear| Attachment {
        view,
        serial,
        load: 1,
        store: 1,
        clear,
        ..Default::default()
    };
    let expected = [
        Attachment::default(),
        attachment(64, 5, [1, 2, 3, 4]),
        attachment(128, 6, [9; 4]),
        Attachment::default(),
    ];
    let told: Vec<_> = BeginRendering::attachments(rendering.attachments()).collect();
    assert_eq!(told, expected);
    assert_eq!(pass.subpass(1), None);
}
