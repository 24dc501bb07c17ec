// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host reads of graphics pipelines.

use super::super::graphics_description::describe;
use super::super::layout::PipelineLayout;
use super::super::stage::Asked;
use super::*;
use bellhop_protocol::vulkan::GraphicsPipelineParts;
use std::borrow::Cow;
use std::ptr;
use zerocopy::IntoBytes;

const NOWHERE: usize = 8;

fn formats() -> Formats {
    Formats { colors: vec![37, 0], depth: 126, stencil: 0, view_mask: 0b11 }
}

/// Runs a check over a pipeline as the host reads it.
fn read(
    information: &vk::GraphicsPipelineCreateInfo<'_>,
    stages: vk::ShaderStageFlags,
    check: impl FnOnce(&GraphicsPipelineParts<'_>),
) {
    // SAFETY: the structure is valid.
    let fixed = unsafe { Fixed::new(information, stages, &formats()) }.unwrap();
    let layout = PipelineLayout::new(Vec::new(), 8).unwrap();
    let spirv = [0x0723_0203, 0x0001_0000, 0, 5, 0];
    let stage = |stage| Asked {
        stage,
        flags: 0,
        subgroup_size: 0,
        constants: Vec::new(),
        values: &[1, 2, 3],
        entry_point: b"main",
        spirv: Cow::Borrowed(&spirv[..]),
    };
    let (vertex, fragment) =
        (stage(vk::ShaderStageFlags::VERTEX), stage(vk::ShaderStageFlags::FRAGMENT));
    let stages = [(&vertex, &spirv[..]), (&fragment, &spirv[..])];
    let bytes = describe(9, &layout, &fixed, &stages).unwrap();
    let mut aligned = vec![0u64; bytes.len() / 8];
    aligned.as_mut_slice().as_mut_bytes().copy_from_slice(&bytes);
    check(&GraphicsPipelineParts::read(aligned.as_slice().as_bytes()).unwrap());
}

fn nowhere<T>() -> *const T {
    ptr::without_provenance(NOWHERE)
}

#[test]
fn the_host_reads_what_was_described() {
    let bindings = [vk::VertexInputBindingDescription::default().binding(3).stride(20)];
    let attributes = [vk::VertexInputAttributeDescription::default()
        .location(2)
        .binding(3)
        .format(vk::Format::R32G32_SFLOAT)
        .offset(8)];
    let input = vk::PipelineVertexInputStateCreateInfo::default()
        .vertex_binding_descriptions(&bindings)
        .vertex_attribute_descriptions(&attributes);
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default()
        .topology(vk::PrimitiveTopology::TRIANGLE_STRIP)
        .primitive_restart_enable(true);
    let viewports = [vk::Viewport::default().width(4.0).height(-8.0).y(8.0).max_depth(1.0)];
    let scissors = [vk::Rect2D::default().extent(vk::Extent2D { width: 4, height: 8 })];
    let viewport =
        vk::PipelineViewportStateCreateInfo::default().viewports(&viewports).scissors(&scissors);
    let rasterization = vk::PipelineRasterizationStateCreateInfo::default()
        .cull_mode(vk::CullModeFlags::BACK)
        .front_face(vk::FrontFace::CLOCKWISE)
        .line_width(2.0);
    let mask = [0b101];
    let multisample = vk::PipelineMultisampleStateCreateInfo::default()
        .rasterization_samples(vk::SampleCountFlags::TYPE_4)
        .sample_mask(&mask);
    let depth = vk::PipelineDepthStencilStateCreateInfo::default()
        .depth_test_enable(true)
        .depth_write_enable(true)
        .depth_compare_op(vk::CompareOp::LESS);
    let blends = [vk::PipelineColorBlendAttachmentState::default()
        .blend_enable(true)
        .src_color_blend_factor(vk::BlendFactor::SRC_ALPHA)
        .dst_color_blend_factor(vk::BlendFactor::ONE_MINUS_SRC_ALPHA)
        .src_alpha_blend_factor(vk::BlendFactor::ONE)
        .alpha_blend_op(vk::BlendOp::MAX)
        .color_write_mask(vk::ColorComponentFlags::RGBA); 2];
    let blending = vk::PipelineColorBlendStateCreateInfo::default().attachments(&blends);
    let information = vk::GraphicsPipelineCreateInfo::default()
        .vertex_input_state(&input)
        .input_assembly_state(&assembly)
        .viewport_state(&viewport)
        .rasterization_state(&rasterization)
        .multisample_state(&multisample)
        .depth_stencil_state(&depth)
        .color_blend_state(&blending);
    read(&information, vk::ShaderStageFlags::VERTEX, |parts| {
        let state = parts.head.state;
        assert_eq!((parts.head.serial, parts.head.push_constants), (9, 8));
        assert_eq!((state.topology, state.restarts, state.line_width), (4, 1, 2.0));
        assert_eq!((state.cull_mode, state.front_face), (2, 1));
        assert_eq!((state.samples, state.sample_mask), (4, [0b101, u32::MAX]));
        assert_eq!((state.tests_depth, state.writes_depth, state.depth_compare), (1, 1, 1));
        assert_eq!((state.depth_format, state.stencil_format, state.view_mask), (126, 0, 3));
        let binding = VertexBinding { binding: 3, stride: 20, rate: 0, divisor: 1 };
        assert_eq!(parts.vertex_bindings, [binding]);
        let attribute = VertexAttribute { location: 2, binding: 3, format: 103, offset: 8 };
        assert_eq!(parts.vertex_attributes, [attribute]);
        assert_eq!(parts.viewports[0].extent, [4.0, -8.0]);
        assert_eq!(parts.scissors[0].extent, [4, 8]);
        let blend = Blend {
            format: 37,
            is_on: 1,
            color: [6, 7, 0],
            alpha: [1, 0, 4],
            write_mask: 15,
            reserved: 0,
        };
        assert_eq!(parts.colors, [blend, Blend { format: 0, ..blend }]);
        let stages: Vec<_> = parts.stages.iter().map(|it| (it.stage.stage, it.values)).collect();
        assert_eq!(stages, [(1, &[1, 2, 3][..]), (16, &[1, 2, 3][..])]);
    });
}

#[test]
fn pointers_that_vulkan_ignores_are_not_followed() {
    let input = vk::PipelineVertexInputStateCreateInfo::default();
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default();
    let states = [State::VIEWPORT, State::SCISSOR_WITH_COUNT, State::LINE_WIDTH];
    let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&states);
    let viewport = vk::PipelineViewportStateCreateInfo {
        viewport_count: 2,
        p_viewports: nowhere(),
        scissor_count: 0,
        p_scissors: nowhere(),
        ..Default::default()
    };
    let rasterization = vk::PipelineRasterizationStateCreateInfo::default();
    let information = vk::GraphicsPipelineCreateInfo {
        p_tessellation_state: nowhere(),
        ..vk::GraphicsPipelineCreateInfo::default()
            .vertex_input_state(&input)
            .input_assembly_state(&assembly)
            .viewport_state(&viewport)
            .rasterization_state(&rasterization)
            .dynamic_state(&dynamic)
    };
    read(&information, vk::ShaderStageFlags::VERTEX, |parts| {
        assert_eq!((parts.viewports.len(), parts.scissors.len()), (2, 0));
        assert_eq!(parts.states, [0, 2, 1_000_267_004]);
    });
    let off = rasterization.rasterizer_discard_enable(true);
    let discarding = vk::GraphicsPipelineCreateInfo {
        p_viewport_state: nowhere(),
        p_multisample_state: nowhere(),
        p_depth_stencil_state: nowhere(),
        p_color_blend_state: nowhere(),
        ..information.rasterization_state(&off)
    };
    read(&discarding, vk::ShaderStageFlags::VERTEX, |parts| {
        assert_eq!((parts.head.state.samples, parts.viewports.len()), (1, 0));
        let formats: Vec<_> = parts.colors.iter().map(|color| color.format).collect();
        assert_eq!(formats, [37, 0]);
    });
}
