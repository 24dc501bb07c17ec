// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Secondary command buffers that draw in a pass of another.

use super::super::{Gpu, Outcome, Recorder};
use ash::vk;

/// The pass that a secondary command buffer goes on with.
pub(crate) enum Within<'a> {
    /// A rendering to targets of these formats.
    Rendering {
        colours: &'a [vk::Format],
        depth: vk::Format,
        stencil: vk::Format,
        samples: vk::SampleCountFlags,
        flags: vk::RenderingFlags,
        views: u32,
    },
    /// A subpass, and the framebuffer if that is known.
    Pass(vk::RenderPass, u32, vk::Framebuffer),
}

/// A rendering to a canvas of colours.
pub(crate) const WITHIN_COLOURS: Within<'static> = Within::Rendering {
    colours: &[vk::Format::R8G8B8A8_UNORM],
    depth: vk::Format::UNDEFINED,
    stencil: vk::Format::UNDEFINED,
    samples: vk::SampleCountFlags::TYPE_1,
    flags: vk::RenderingFlags::CONTENTS_SECONDARY_COMMAND_BUFFERS,
    views: 0,
};

impl Gpu<'_> {
    /// A recorded secondary command buffer that goes on with a pass, and with a query of samples and one of these statistics.
    pub(crate) fn record_within(
        &self,
        within: &Within<'_>,
        statistics: vk::QueryPipelineStatisticFlags,
        write: impl FnOnce(&Recorder<'_>),
    ) -> Outcome<vk::CommandBuffer> {
        let pool = self.command_pool(self.queue()?)?;
        let raw = self.bare_commands(pool, vk::CommandBufferLevel::SECONDARY)?;
        let mut rendering = vk::CommandBufferInheritanceRenderingInfo::default();
        let can = self.lab.features().core;
        let inherited = vk::CommandBufferInheritanceInfo::default()
            .occlusion_query_enable(can.inherited_queries == vk::TRUE)
            .pipeline_statistics(statistics);
        let inherited = match *within {
            Within::Rendering { colours, depth, stencil, samples, flags, views } => {
                // It does not say that of itself.
                rendering = rendering
                    .flags(flags & !vk::RenderingFlags::CONTENTS_SECONDARY_COMMAND_BUFFERS)
                    .view_mask(views)
                    .color_attachment_formats(colours)
                    .depth_attachment_format(depth)
                    .stencil_attachment_format(stencil)
                    .rasterization_samples(samples);
                inherited.push_next(&mut rendering)
            }
            Within::Pass(pass, subpass, framebuffer) => {
                inherited.render_pass(pass).subpass(subpass).framebuffer(framebuffer)
            }
        };
        let information = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::RENDER_PASS_CONTINUE)
            .inheritance_info(&inherited);
        // SAFETY: the command buffer is new, and used by this thread alone. The structures live until the call returns.
        unsafe { self.raw.begin_command_buffer(raw, &information) }?;
        write(&Recorder { gpu: self, raw });
        // SAFETY: as above; it is being recorded.
        unsafe { self.raw.end_command_buffer(raw) }?;
        Ok(raw)
    }
}
