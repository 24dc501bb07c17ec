// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Dynamic rendering.

use super::super::Recorder;
use super::plan::area;
use super::{Canvas, SIZE};
use ash::vk;

/// What a rendering has of a canvas.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) view: vk::ImageView,
    pub(crate) layout: vk::ImageLayout,
    pub(crate) load: vk::AttachmentLoadOp,
    pub(crate) store: vk::AttachmentStoreOp,
    pub(crate) value: vk::ClearValue,
    pub(crate) resolve: Option<(vk::ResolveModeFlags, Canvas)>,
}

impl Canvas {
    /// As it is, and kept.
    pub(crate) fn loaded(self) -> Target {
        Target {
            view: self.view,
            layout: self.layout,
            load: vk::AttachmentLoadOp::LOAD,
            store: vk::AttachmentStoreOp::STORE,
            value: vk::ClearValue::default(),
            resolve: None,
        }
    }

    /// Filled with a value, and kept.
    fn filled(self, value: vk::ClearValue) -> Target {
        Target { load: vk::AttachmentLoadOp::CLEAR, value, ..self.loaded() }
    }

    /// Filled with a colour.
    pub(crate) fn filled_with(self, float32: [f32; 4]) -> Target {
        self.filled(vk::ClearValue { color: vk::ClearColorValue { float32 } })
    }

    /// Filled with whole numbers.
    pub(crate) fn filled_with_words(self, uint32: [u32; 4]) -> Target {
        self.filled(vk::ClearValue { color: vk::ClearColorValue { uint32 } })
    }

    /// Filled with a depth and a stencil.
    pub(crate) fn filled_to(self, depth: f32, stencil: u32) -> Target {
        let depth_stencil = vk::ClearDepthStencilValue { depth, stencil };
        self.filled(vk::ClearValue { depth_stencil })
    }
}

impl Target {
    /// Resolved to another canvas at the end.
    pub(crate) fn resolved(self, mode: vk::ResolveModeFlags, to: Canvas) -> Self {
        Self { resolve: Some((mode, to)), ..self }
    }

    /// Not kept.
    pub(crate) fn dropped(self) -> Self {
        Self { store: vk::AttachmentStoreOp::DONT_CARE, ..self }
    }

    fn information(&self) -> vk::RenderingAttachmentInfo<'static> {
        let information = vk::RenderingAttachmentInfo::default()
            .image_view(self.view)
            .image_layout(self.layout)
            .load_op(self.load)
            .store_op(self.store)
            .clear_value(self.value);
        let Some((mode, to)) = self.resolve else { return information };
        let information = information.resolve_mode(mode).resolve_image_view(to.view);
        information.resolve_image_layout(to.layout)
    }
}

/// A rendering: its targets, and where it is.
#[derive(Clone)]
pub(crate) struct Rendering {
    /// Some may be none.
    pub(crate) colours: Vec<Option<Target>>,
    pub(crate) depth: Option<Target>,
    pub(crate) stencil: Option<Target>,
    pub(crate) area: vk::Rect2D,
    pub(crate) layers: u32,
    pub(crate) views: u32,
    pub(crate) flags: vk::RenderingFlags,
}

impl Rendering {
    /// To these targets.
    pub(crate) fn of(colours: &[Target]) -> Self {
        Self {
            colours: colours.iter().copied().map(Some).collect(),
            depth: None,
            stencil: None,
            area: area([0; 2], [SIZE; 2]),
            layers: 1,
            views: 0,
            flags: vk::RenderingFlags::empty(),
        }
    }

    /// To a canvas that is blank at first.
    pub(crate) fn blank(canvas: Canvas) -> Self {
        Self::of(&[canvas.filled_with([0.0; 4])])
    }

    /// To what a canvas holds.
    pub(crate) fn on(canvas: Canvas) -> Self {
        Self::of(&[canvas.loaded()])
    }

    /// With depths.
    pub(crate) fn depth(self, target: Target) -> Self {
        Self { depth: Some(target), ..self }
    }

    /// With stencils.
    pub(crate) fn stencil(self, target: Target) -> Self {
        Self { stencil: Some(target), ..self }
    }

    /// With depths and stencils in one canvas.
    pub(crate) fn both(self, target: Target) -> Self {
        self.depth(target).stencil(target)
    }

    /// Of a part of its canvases.
    pub(crate) fn within(self, area: vk::Rect2D) -> Self {
        Self { area, ..self }
    }

    /// With so many layers.
    pub(crate) fn layers(self, layers: u32) -> Self {
        Self { layers, ..self }
    }

    /// With these views.
    pub(crate) fn views(self, views: u32) -> Self {
        Self { views, ..self }
    }

    /// With these flags.
    pub(crate) fn flags(self, flags: vk::RenderingFlags) -> Self {
        Self { flags, ..self }
    }
}

// As in `recorder`.
impl Recorder<'_> {
    /// Begins a rendering.
    pub(crate) fn begin(&self, rendering: &Rendering) -> &Self {
        self.begin_of(rendering, None)
    }

    /// Begins a rendering that is for some GPUs of the device.
    pub(crate) fn begin_of_group(
        &self,
        rendering: &Rendering,
        mut group: vk::DeviceGroupRenderPassBeginInfo<'_>,
    ) -> &Self {
        self.begin_of(rendering, Some(&mut group))
    }

    fn begin_of(
        &self,
        rendering: &Rendering,
        group: Option<&mut vk::DeviceGroupRenderPassBeginInfo<'_>>,
    ) -> &Self {
        let none = vk::RenderingAttachmentInfo::default();
        let each = rendering.colours.iter();
        let colours: Vec<_> =
            each.map(|colour| colour.map_or(none, |target| target.information())).collect();
        let depth = rendering.depth.map(|target| target.information());
        let stencil = rendering.stencil.map(|target| target.information());
        let mut information = vk::RenderingInfo::default()
            .flags(rendering.flags)
            .render_area(rendering.area)
            .layer_count(rendering.layers)
            .view_mask(rendering.views)
            .color_attachments(&colours);
        if let Some(depth) = &depth {
            information = information.depth_attachment(depth);
        }
        if let Some(stencil) = &stencil {
            information = information.stencil_attachment(stencil);
        }
        if let Some(group) = group {
            information = information.push_next(group);
        }
        // SAFETY: the command buffer is being recorded, and the views are the device's. The structures live until the call returns.
        unsafe { self.gpu.raw.cmd_begin_rendering(self.raw, &information) };
        self
    }

    /// Ends a rendering.
    pub(crate) fn end(&self) -> &Self {
        // SAFETY: the command buffer is being recorded, in a rendering.
        unsafe { self.gpu.raw.cmd_end_rendering(self.raw) };
        self
    }
}
