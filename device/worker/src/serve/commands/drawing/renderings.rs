// SPDX-License-Identifier: MIT OR Apache-2.0

//! Renderings, with their attachments: what Vulkan and a device allow of them.

use crate::serve::commands::images::{Numbers, check_attached, check_depth, extent_of, numbers};
use crate::serve::commands::wrong::Why;
use crate::vulkan::{Bounds, OfGraphics, aspects};
use ash::vk::{AttachmentLoadOp, ImageAspectFlags, ImageUsageFlags, ResolveModeFlags};
use bellhop_protocol::vulkan::{Attachment, BeginRendering, ClearAttachment, ImageView};

/// An attachment that is there, with its views as they were read.
pub struct Attached {
    /// How it is used.
    pub how: Attachment,
    /// Its view.
    pub view: ImageView,
    /// What samples are resolved to.
    pub resolve: Option<ImageView>,
}

/// A rendering whose views have been read.
pub struct Rendering {
    /// Its area, layers and views.
    pub begin: BeginRendering,
    /// The attachments: those of colour, that of depth, and that of stencil.
    pub attachments: Vec<Option<Attached>>,
    /// The formats of those of colour, 0 for none.
    pub colors: Vec<u32>,
    /// The format of that of depth, 0 for none.
    pub depth: u32,
    /// The format of that of stencil, 0 for none.
    pub stencil: u32,
    /// The attachments' samples, if there are any attachments.
    pub samples: Option<u32>,
}

/// What an attachment is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Color,
    Depth,
    Stencil,
}

impl Use {
    fn usage(self) -> ImageUsageFlags {
        match self {
            Self::Color => ImageUsageFlags::COLOR_ATTACHMENT,
            Self::Depth | Self::Stencil => ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT,
        }
    }

    fn aspect(self) -> ImageAspectFlags {
        match self {
            Self::Color => ImageAspectFlags::COLOR,
            Self::Depth => ImageAspectFlags::DEPTH,
            Self::Stencil => ImageAspectFlags::STENCIL,
        }
    }
}

impl Rendering {
    /// Reads the views of a rendering, and checks them. `read` reads the view of an address and a serial number, with an image
    /// that has been checked, and has the image made.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(
        begin: &BeginRendering,
        data: &[u8],
        bounds: &Bounds,
        mut read: impl FnMut([u64; 2]) -> Result<ImageView, Why>,
    ) -> Result<Self, Why> {
        let device =
            bounds.graphics.as_deref().ok_or("a rendering on a device that does not draw")?;
        check_area(begin, device)?;
        let count = begin.header.argument as usize;
        let mut rendering = Self {
            begin: *begin,
            attachments: Vec::new(),
            colors: Vec::new(),
            depth: 0,
            stencil: 0,
            samples: None,
        };
        for (at, how) in BeginRendering::attachments(data).enumerate() {
            let of = match at.checked_sub(count) {
                None => Use::Color,
                Some(0) => Use::Depth,
                Some(_) => Use::Stencil,
            };
            let mut format = 0;
            let attached = if how.view == 0 {
                None
            } else {
                let view = read([how.view, how.serial])?;
                let is_resolved = how.resolve_view != 0;
                let resolve = is_resolved.then(|| read([how.resolve_view, how.resolve_serial]));
                let attached = Attached { how, view, resolve: resolve.transpose()? };
                rendering.check(&attached, of, bounds, device)?;
                format = view.format;
                Some(attached)
            };
            match of {
                Use::Color => rendering.colors.push(format),
                Use::Depth => rendering.depth = format,
                Use::Stencil => rendering.stencil = format,
            }
            rendering.attachments.push(attached);
        }
        rendering.check_both(device)?;
        Ok(rendering)
    }

    /// Checks an attachment, and that it fits those before it.
    fn check(
        &mut self,
        Attached { how, view, resolve }: &Attached,
        of: Use,
        bounds: &Bounds,
        device: &OfGraphics,
    ) -> Result<(), &'static str> {
        self.check_view(view, of, bounds)?;
        let samples = view.image.samples;
        if self.samples.is_some_and(|others| others != samples) {
            return Err("attachments with different numbers of samples");
        }
        self.samples = Some(samples);
        if of == Use::Depth && how.load == AttachmentLoadOp::CLEAR.as_raw() as u32 {
            check_depth(how.clear[0])?;
        }
        let Some(resolve) = resolve else { return Ok(()) };
        self.check_view(resolve, of, bounds)?;
        if samples == 1 || resolve.image.samples != 1 || resolve.format != view.format {
            return Err(
                "an attachment that is not resolved from several samples to one of its format",
            );
        }
        let mode = ResolveModeFlags::from_raw(how.resolve_mode);
        let of_color = match numbers(view.format) {
            Numbers::Real => ResolveModeFlags::AVERAGE,
            Numbers::Signed | Numbers::Unsigned => ResolveModeFlags::SAMPLE_ZERO,
        };
        let modes = match of {
            Use::Color => of_color,
            Use::Depth => device.depth_resolves,
            Use::Stencil => device.stencil_resolves,
        };
        if !how.resolve_mode.is_power_of_two() || !modes.contains(mode) {
            return Err("an attachment that is resolved as there is no way to");
        }
        Ok(())
    }

    fn check_view(&self, view: &ImageView, of: Use, bounds: &Bounds) -> Result<(), &'static str> {
        check_attached(view, of.usage(), bounds)?;
        if !aspects(view.format).contains(of.aspect()) {
            return Err("an attachment without the aspect that it is for");
        }
        let BeginRendering { offset, extent, layers, view_mask, .. } = self.begin;
        let [width, height, _] = extent_of(&view.image, view.range.level);
        let has = |at: usize, most: u32| offset[at] + extent[at] <= most;
        if !has(0, width) || !has(1, height) {
            return Err("an attachment that is smaller than the rendering's area");
        }
        if view.range.layers < layers.max(u32::BITS - view_mask.leading_zeros()) {
            return Err("an attachment with fewer layers than the rendering");
        }
        Ok(())
    }

    /// Checks depth and stencil beside each other.
    fn check_both(&self, device: &OfGraphics) -> Result<(), &'static str> {
        let [.., depth, stencil] = &self.attachments[..] else { return Ok(()) };
        let (Some(depth), Some(stencil)) = (depth, stencil) else { return Ok(()) };
        let (depth, stencil) = (&depth.how, &stencil.how);
        if [depth.view, depth.serial] != [stencil.view, stencil.serial] {
            return Err("a depth and a stencil that are not of one view");
        }
        let are_resolved = [depth, stencil].map(|how| how.resolve_mode != 0);
        if are_resolved == [true; 2]
            && [depth.resolve_view, depth.resolve_serial]
                != [stencil.resolve_view, stencil.resolve_serial]
        {
            return Err("a depth and a stencil that are not resolved to one view");
        }
        let may_differ =
            device.resolves_apart || (device.resolves_one && are_resolved != [true; 2]);
        if depth.resolve_mode != stencil.resolve_mode && !may_differ {
            return Err("a depth and a stencil that are resolved in different ways");
        }
        Ok(())
    }
}

fn check_area(begin: &BeginRendering, device: &OfGraphics) -> Result<(), &'static str> {
    let OfGraphics { limits, most_views, .. } = device;
    let [width, height] = [0, 1].map(|at| begin.offset[at].saturating_add(begin.extent[at]));
    if width > limits.max_framebuffer_width
        || height > limits.max_framebuffer_height
        || begin.layers > limits.max_framebuffer_layers
        || begin.header.argument > limits.max_color_attachments
    {
        return Err("a rendering that is larger than the device takes, or of more attachments");
    }
    if u32::BITS - begin.view_mask.leading_zeros() > *most_views {
        return Err("a rendering of more views than the device takes");
    }
    Ok(())
}

/// Checks that a part of an attachment is in its rendering.
///
/// # Errors
/// When it is not.
pub fn check_clear(clear: &ClearAttachment, rendering: &Rendering) -> Result<(), &'static str> {
    let begin = &rendering.begin;
    let is_inside = |at: usize| {
        let end = clear.offset[at].checked_add(clear.extent[at]);
        clear.extent[at] > 0
            && clear.offset[at] >= begin.offset[at]
            && end.is_some_and(|end| end <= begin.offset[at] + begin.extent[at])
    };
    if !is_inside(0) || !is_inside(1) {
        return Err("a part of an attachment that is not in the rendering's area");
    }
    let most = if begin.view_mask == 0 { begin.layers } else { 1 };
    let end = clear.layer.checked_add(clear.layers).filter(|_| clear.layers > 0);
    if end.is_none_or(|end| end > most) {
        return Err("a part of an attachment that is not in the rendering's layers");
    }
    let is_color = clear.aspect == ImageAspectFlags::COLOR.as_raw();
    if is_color && clear.header.argument as usize >= rendering.colors.len() {
        return Err("an attachment to clear that the rendering does not have");
    }
    Ok(())
}
