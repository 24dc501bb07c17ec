// SPDX-License-Identifier: MIT OR Apache-2.0

//! What Vulkan demands of every device that draws ("Limits", "Required Format Support", "Feature Requirements").

use crate::case::{Case, case};
use crate::lab::{Outcome, require};
use ash::vk::{self, Format as F, FormatFeatureFlags as Can, SampleCountFlags as N};

pub(super) const CASES: &[Case] = &[
    case("graphics.limit.vertices", "vertices have as many numbers as Vulkan demands", |lab| {
        lab.graphics()?;
        let limits = lab.description().properties.limits;
        at_least(&[
            ("maxVertexInputAttributes", limits.max_vertex_input_attributes, 16),
            ("maxVertexInputBindings", limits.max_vertex_input_bindings, 16),
            ("maxVertexInputAttributeOffset", limits.max_vertex_input_attribute_offset, 2047),
            ("maxVertexInputBindingStride", limits.max_vertex_input_binding_stride, 2048),
            ("maxVertexOutputComponents", limits.max_vertex_output_components, 64),
            ("maxDrawIndexedIndexValue", limits.max_draw_indexed_index_value, (1 << 24) - 1),
            ("maxDrawIndirectCount", limits.max_draw_indirect_count, 1),
        ])
    }),
    case("graphics.limit.fragments", "fragments have as many numbers as Vulkan demands", |lab| {
        lab.graphics()?;
        let limits = lab.description().properties.limits;
        at_least(&[
            ("maxFragmentInputComponents", limits.max_fragment_input_components, 64),
            ("maxFragmentOutputAttachments", limits.max_fragment_output_attachments, 4),
            (
                "maxFragmentCombinedOutputResources",
                limits.max_fragment_combined_output_resources,
                4,
            ),
            ("maxColorAttachments", limits.max_color_attachments, 4),
            (
                "maxPerStageDescriptorInputAttachments",
                limits.max_per_stage_descriptor_input_attachments,
                4,
            ),
            ("maxDescriptorSetInputAttachments", limits.max_descriptor_set_input_attachments, 4),
        ])
    }),
    case(
        "graphics.limit.framebuffer",
        "framebuffers and viewports are as large as Vulkan demands",
        |lab| {
            lab.graphics()?;
            let limits = lab.description().properties.limits;
            at_least(&[
                ("maxFramebufferWidth", limits.max_framebuffer_width, 4096),
                ("maxFramebufferHeight", limits.max_framebuffer_height, 4096),
                ("maxFramebufferLayers", limits.max_framebuffer_layers, 256),
                (
                    "maxViewportDimensions",
                    limits.max_viewport_dimensions[0],
                    limits.max_framebuffer_width,
                ),
                (
                    "maxViewportDimensions",
                    limits.max_viewport_dimensions[1],
                    limits.max_framebuffer_height,
                ),
                ("maxViewports", limits.max_viewports, 1),
                ("subPixelPrecisionBits", limits.sub_pixel_precision_bits, 4),
            ])?;
            let [least, most] = limits.viewport_bounds_range;
            let twice = 2.0
                * limits.max_viewport_dimensions[0].max(limits.max_viewport_dimensions[1]) as f32;
            require!(
                least <= -twice && most >= twice - 1.0,
                "viewports are from {least} to {most}"
            );
            Ok(())
        },
    ),
    case("graphics.limit.samples", "texels of one and of four samples are drawn", |lab| {
        lab.graphics()?;
        let said = lab.description();
        let limits = said.properties.limits;
        let all = [
            ("colours", limits.framebuffer_color_sample_counts),
            ("depths", limits.framebuffer_depth_sample_counts),
            ("stencils", limits.framebuffer_stencil_sample_counts),
            ("no targets", limits.framebuffer_no_attachments_sample_counts),
            ("images", limits.sampled_image_color_sample_counts),
            ("images of depths", limits.sampled_image_depth_sample_counts),
        ];
        for (what, counts) in all {
            require!(
                counts.contains(N::TYPE_1 | N::TYPE_4),
                "{what} have {:#b} samples",
                counts.as_raw()
            );
        }
        let integers = said.since_1_2.framebuffer_integer_color_sample_counts;
        require!(
            integers.contains(N::TYPE_1),
            "whole numbers have {:#b} samples",
            integers.as_raw()
        );
        Ok(())
    }),
    case("graphics.limit.features", "what Vulkan 1.3 has every device do is done", |lab| {
        lab.graphics()?;
        let can = lab.features();
        let all = [
            ("robustBufferAccess", can.core.robust_buffer_access),
            ("multiview", can.since_1_1.multiview),
            ("imagelessFramebuffer", can.since_1_2.imageless_framebuffer),
            ("uniformBufferStandardLayout", can.since_1_2.uniform_buffer_standard_layout),
            ("separateDepthStencilLayouts", can.since_1_2.separate_depth_stencil_layouts),
            ("hostQueryReset", can.since_1_2.host_query_reset),
            ("dynamicRendering", can.since_1_3.dynamic_rendering),
            ("synchronization2", can.since_1_3.synchronization2),
            ("shaderDemoteToHelperInvocation", can.since_1_3.shader_demote_to_helper_invocation),
        ];
        for (name, feature) in all {
            require!(feature == vk::TRUE, "{name} is lacking");
        }
        Ok(())
    }),
    case("graphics.limit.queues", "a family of queues that draws computes and copies too", |lab| {
        lab.graphics()?;
        let families = lab.families();
        let draws = families.iter().filter(|it| it.queue_flags.contains(vk::QueueFlags::GRAPHICS));
        require!(draws.clone().all(|it| it.queue_count > 0), "a family has no queues");
        let both = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        require!(families.iter().any(|it| it.queue_flags.contains(both)), "no family does both");
        Ok(())
    }),
    case("graphics.limit.targets", "the formats that every device draws are drawn", |lab| {
        lab.graphics()?;
        lab.all_can(DRAWN, Can::COLOR_ATTACHMENT | Can::BLIT_DST, |can| can.optimal_tiling_features)
    }),
    case("graphics.limit.blended", "the formats that every device blends are blended", |lab| {
        lab.graphics()?;
        lab.all_can(BLENDED, Can::COLOR_ATTACHMENT_BLEND, |can| can.optimal_tiling_features)
    }),
    case(
        "graphics.limit.vertex-formats",
        "the formats that every device reads vertices of are read",
        |lab| {
            lab.graphics()?;
            lab.all_can(VERTICES, Can::VERTEX_BUFFER, |can| can.buffer_features)
        },
    ),
    case("graphics.limit.depths", "depths of sixteen bits are drawn, scaled and read", |lab| {
        lab.graphics()?;
        let all = Can::DEPTH_STENCIL_ATTACHMENT | Can::SAMPLED_IMAGE | Can::BLIT_SRC;
        lab.all_can(&[F::D16_UNORM], all, |can| can.optimal_tiling_features)
    }),
];

/// Requires that limits are not less than these.
pub(super) fn at_least(limits: &[(&str, u32, u32)]) -> Outcome {
    for (name, limit, least) in limits {
        require!(limit >= least, "{name} is {limit}, less than {least}");
    }
    Ok(())
}

/// Those that are blended too.
const BLENDED: &[F] = &[
    F::R5G6B5_UNORM_PACK16,
    F::A1R5G5B5_UNORM_PACK16,
    F::R8_UNORM,
    F::R8G8_UNORM,
    F::R8G8B8A8_UNORM,
    F::R8G8B8A8_SRGB,
    F::B8G8R8A8_UNORM,
    F::B8G8R8A8_SRGB,
    F::A8B8G8R8_UNORM_PACK32,
    F::A8B8G8R8_SRGB_PACK32,
    F::A2B10G10R10_UNORM_PACK32,
    F::R16_SFLOAT,
    F::R16G16_SFLOAT,
    F::R16G16B16A16_SFLOAT,
];

/// Those of whole numbers and of 32 bits.
const DRAWN: &[F] = &[
    F::R8_UINT,
    F::R8_SINT,
    F::R8G8_UINT,
    F::R8G8_SINT,
    F::R8G8B8A8_UINT,
    F::R8G8B8A8_SINT,
    F::A8B8G8R8_UINT_PACK32,
    F::A8B8G8R8_SINT_PACK32,
    F::A2B10G10R10_UINT_PACK32,
    F::R16_UINT,
    F::R16_SINT,
    F::R16G16_UINT,
    F::R16G16_SINT,
    F::R16G16B16A16_UINT,
    F::R16G16B16A16_SINT,
    F::R32_UINT,
    F::R32_SINT,
    F::R32_SFLOAT,
    F::R32G32_UINT,
    F::R32G32_SINT,
    F::R32G32_SFLOAT,
    F::R32G32B32A32_UINT,
    F::R32G32B32A32_SINT,
    F::R32G32B32A32_SFLOAT,
];

const VERTICES: &[F] = &[
    F::R8_UNORM,
    F::R8_SNORM,
    F::R8G8B8A8_UNORM,
    F::B8G8R8A8_UNORM,
    F::A8B8G8R8_UNORM_PACK32,
    F::A2B10G10R10_UNORM_PACK32,
    F::R16_UNORM,
    F::R16_SNORM,
    F::R16G16_UNORM,
    F::R16G16_SNORM,
    F::R16G16B16A16_UNORM,
    F::R16G16B16A16_SNORM,
    F::R16G16B16A16_SFLOAT,
    F::R32G32B32_SFLOAT,
    F::R32G32B32A32_SFLOAT,
];
