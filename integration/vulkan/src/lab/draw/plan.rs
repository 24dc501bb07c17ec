// SPDX-License-Identifier: MIT OR Apache-2.0

//! What pipelines that draw are made of.

use super::super::format::aspects;
use super::super::kernel::{Constants, Slot};
use super::super::shader::compile_drawing;
use super::super::{Image, Outcome};
use super::newer::Newer;
use super::{Canvas, Corner, SIZE};
use ash::vk;
use std::ffi::CStr;
use std::rc::Rc;

/// Takes corners, and gives their colour.
pub(crate) const PLAIN: &str = "
    struct Seen { @builtin(position) place: vec4<f32>, @location(0) colour: vec4<f32> }
    @vertex fn vertex(@location(0) place: vec4<f32>, @location(1) colour: vec4<f32>) -> Seen {
        return Seen(place, colour);
    }
    @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> { return seen.colour; }";

/// A stage, its module, and the function that it begins with.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(super) kind: vk::ShaderStageFlags,
    pub(super) module: Rc<[u8]>,
    pub(super) entry: &'static CStr,
}

impl Stage {
    /// Whether it is another one.
    pub(crate) fn is_not(&self, kind: vk::ShaderStageFlags) -> bool {
        self.kind != kind
    }
}

/// The module of a stage that is written in GLSL, by its file.
macro_rules! stage {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/stages/", $name, ".spv"))
    };
}
pub(crate) use stage;

/// What a pipeline is made of. A new one draws triangles of corners on all of a canvas of colours, and replaces what was there.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    pub(crate) stages: Vec<Stage>,
    pub(crate) bindings: Vec<vk::VertexInputBindingDescription>,
    pub(crate) attributes: Vec<vk::VertexInputAttributeDescription>,
    pub(crate) topology: vk::PrimitiveTopology,
    pub(crate) restart: bool,
    /// Corners of a patch, where there are patches.
    pub(crate) patch: u32,
    pub(crate) viewports: Vec<vk::Viewport>,
    pub(crate) scissors: Vec<vk::Rect2D>,
    pub(crate) raster: vk::PipelineRasterizationStateCreateInfo<'static>,
    pub(crate) samples: vk::PipelineMultisampleStateCreateInfo<'static>,
    pub(crate) mask: Option<u32>,
    pub(crate) depth: vk::PipelineDepthStencilStateCreateInfo<'static>,
    /// One for each target.
    pub(crate) blends: Vec<vk::PipelineColorBlendAttachmentState>,
    pub(crate) logic: Option<vk::LogicOp>,
    pub(crate) constants: [f32; 4],
    pub(crate) dynamic: Vec<vk::DynamicState>,
    /// The formats of the targets, in dynamic rendering.
    pub(crate) targets: Vec<vk::Format>,
    pub(crate) depth_format: vk::Format,
    pub(crate) stencil_format: vk::Format,
    pub(crate) views: u32,
    /// A render pass and a subpass of it, instead of the formats.
    pub(crate) pass: Option<(vk::RenderPass, u32)>,
    /// The bindings of set 0.
    pub(crate) slots: Vec<Slot>,
    /// Bytes of push constants.
    pub(crate) push: u32,
    pub(crate) values: Constants<'a>,
    pub(crate) flags: vk::PipelineCreateFlags,
    pub(crate) newer: Newer,
}

/// A target whose texels are replaced.
const REPLACED: vk::PipelineColorBlendAttachmentState = vk::PipelineColorBlendAttachmentState {
    blend_enable: vk::FALSE,
    src_color_blend_factor: vk::BlendFactor::ONE,
    dst_color_blend_factor: vk::BlendFactor::ZERO,
    color_blend_op: vk::BlendOp::ADD,
    src_alpha_blend_factor: vk::BlendFactor::ONE,
    dst_alpha_blend_factor: vk::BlendFactor::ZERO,
    alpha_blend_op: vk::BlendOp::ADD,
    color_write_mask: vk::ColorComponentFlags::RGBA,
};

/// Part of a canvas, from a texel on.
pub(crate) fn area([x, y]: [i32; 2], [width, height]: [u32; 2]) -> vk::Rect2D {
    vk::Rect2D { offset: vk::Offset2D { x, y }, extent: vk::Extent2D { width, height } }
}

/// Part of a canvas that clip coordinates are mapped to, with all depths.
pub(crate) fn viewport([x, y]: [f32; 2], [width, height]: [f32; 2]) -> vk::Viewport {
    vk::Viewport { x, y, width, height, min_depth: 0.0, max_depth: 1.0 }
}

impl Plan<'_> {
    /// One with shaders in WGSL, called `vertex` and `fragment`, that takes no vertices.
    pub(crate) fn bare(source: &str) -> Outcome<Self> {
        let module: Rc<[u8]> = compile_drawing(source)?.into();
        let kinds = [
            (vk::ShaderStageFlags::VERTEX, "@vertex", c"vertex"),
            (vk::ShaderStageFlags::FRAGMENT, "@fragment", c"fragment"),
        ];
        let has = kinds.into_iter().filter(|(_, attribute, _)| source.contains(attribute));
        let stages = has.map(|(kind, _, entry)| Stage { kind, module: module.clone(), entry });
        let size = SIZE as f32;
        Ok(Self {
            stages: stages.collect(),
            bindings: Vec::new(),
            attributes: Vec::new(),
            topology: vk::PrimitiveTopology::TRIANGLE_LIST,
            restart: false,
            patch: 0,
            viewports: vec![viewport([0.0; 2], [size; 2])],
            scissors: vec![area([0; 2], [SIZE; 2])],
            raster: vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0),
            samples: vk::PipelineMultisampleStateCreateInfo::default()
                .rasterization_samples(vk::SampleCountFlags::TYPE_1),
            mask: None,
            depth: vk::PipelineDepthStencilStateCreateInfo::default(),
            blends: vec![REPLACED],
            logic: None,
            constants: [0.0; 4],
            dynamic: Vec::new(),
            targets: vec![vk::Format::R8G8B8A8_UNORM],
            depth_format: vk::Format::UNDEFINED,
            stencil_format: vk::Format::UNDEFINED,
            views: 0,
            pass: None,
            slots: Vec::new(),
            push: 0,
            values: &[],
            flags: vk::PipelineCreateFlags::empty(),
            newer: Newer::default(),
        })
    }

    /// One with shaders in WGSL that takes corners.
    pub(crate) fn of(source: &str) -> Outcome<Self> {
        let mut plan = Self::bare(source)?;
        plan.binding(0, size_of::<Corner>() as u32, vk::VertexInputRate::VERTEX);
        plan.attribute(0, 0, vk::Format::R32G32B32A32_SFLOAT, 0);
        plan.attribute(1, 0, vk::Format::R32G32B32A32_SFLOAT, 16);
        Ok(plan)
    }

    /// One that gives corners their colour.
    pub(crate) fn plain() -> Outcome<Self> {
        Self::of(PLAIN)
    }

    /// Another stage, in SPIR-V, or another module for one.
    pub(crate) fn stage(&mut self, kind: vk::ShaderStageFlags, module: &[u8]) -> &mut Self {
        self.stages.retain(|stage| stage.kind != kind);
        self.stages.push(Stage { kind, module: module.into(), entry: c"main" });
        self
    }

    /// Another buffer of vertices.
    pub(crate) fn binding(
        &mut self,
        binding: u32,
        stride: u32,
        input_rate: vk::VertexInputRate,
    ) -> &mut Self {
        self.bindings.push(vk::VertexInputBindingDescription { binding, stride, input_rate });
        self
    }

    /// Another number of a vertex, from a byte of its part of a buffer on.
    pub(crate) fn attribute(
        &mut self,
        location: u32,
        binding: u32,
        format: vk::Format,
        offset: u32,
    ) -> &mut Self {
        let all = &mut self.attributes;
        all.push(vk::VertexInputAttributeDescription { location, binding, format, offset });
        self
    }

    /// For targets of these formats, which are replaced.
    pub(crate) fn targets(&mut self, formats: &[vk::Format]) -> &mut Self {
        self.targets = formats.to_vec();
        self.blends = vec![REPLACED; formats.len()];
        self
    }

    /// For a canvas of depths, stencils or both too. Depths are compared and stored.
    pub(crate) fn with_depth(&mut self, canvas: Canvas, compare: vk::CompareOp) -> &mut Self {
        let Image { form, .. } = canvas.image;
        let has = aspects(form.format);
        if has.contains(vk::ImageAspectFlags::DEPTH) {
            self.depth_format = form.format;
            self.depth = self.depth.depth_test_enable(true).depth_write_enable(true);
            self.depth = self.depth.depth_compare_op(compare);
        }
        if has.contains(vk::ImageAspectFlags::STENCIL) {
            self.stencil_format = form.format;
        }
        self
    }

    /// Texels have so many samples.
    pub(crate) fn sampled(&mut self, samples: vk::SampleCountFlags) -> &mut Self {
        self.samples.rasterization_samples = samples;
        self
    }

    /// For a subpass of a render pass.
    pub(crate) fn within(&mut self, pass: vk::RenderPass, subpass: u32) -> &mut Self {
        self.pass = Some((pass, subpass));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_stage_was_compiled_from_the_source_beside_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stages");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let modules: Vec<_> =
            files.filter(|path| path.extension() == Some("spv".as_ref())).collect();
        assert!(!modules.is_empty());
        for module in modules {
            // The compiler adds its source to a module, whole where it is short.
            let text = fs::read(module.with_extension("")).unwrap();
            let carries = fs::read(&module).unwrap().windows(text.len()).any(|part| part == text);
            assert!(carries, "{}: run cargo xtask kernels", module.display());
        }
    }
}
