// SPDX-License-Identifier: MIT OR Apache-2.0

//! What extensions say of pipelines that draw.

use ash::vk;

/// What a pipeline has of extensions: nothing, unless it is set.
#[derive(Clone, Default)]
pub(crate) struct Newer {
    /// Whether depths are clipped.
    pub(crate) clip: Option<bool>,
    /// Depths begin with -1.
    pub(crate) from_minus_one: bool,
    /// The last vertex of a primitive counts for flat numbers.
    pub(crate) last_provokes: bool,
    /// How lines are drawn, and their stipples' factor and pattern.
    pub(crate) lines: Option<(vk::LineRasterizationModeEXT, Option<(u32, u16)>)>,
    /// Bindings, and how many instances have the same numbers.
    pub(crate) divisors: Vec<(u32, u32)>,
}

/// The structures of it.
pub(super) struct Structures {
    clip: vk::PipelineRasterizationDepthClipStateCreateInfoEXT<'static>,
    provoking: vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT<'static>,
    lines: vk::PipelineRasterizationLineStateCreateInfoEXT<'static>,
}

impl Newer {
    /// The structures about rasterization.
    pub(super) fn structures(&self) -> Structures {
        let (mode, stipple) = self.lines.unwrap_or_default();
        let (factor, pattern) = stipple.unwrap_or((1, 0));
        Structures {
            clip: vk::PipelineRasterizationDepthClipStateCreateInfoEXT::default()
                .depth_clip_enable(self.clip.unwrap_or_default()),
            provoking: vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT::default()
                .provoking_vertex_mode(vk::ProvokingVertexModeEXT::LAST_VERTEX),
            lines: vk::PipelineRasterizationLineStateCreateInfoEXT::default()
                .line_rasterization_mode(mode)
                .stippled_line_enable(stipple.is_some())
                .line_stipple_factor(factor)
                .line_stipple_pattern(pattern),
        }
    }

    /// Chains those that are set.
    pub(super) fn chain<'a>(
        &self,
        structures: &'a mut Structures,
        mut raster: vk::PipelineRasterizationStateCreateInfo<'a>,
    ) -> vk::PipelineRasterizationStateCreateInfo<'a> {
        if self.clip.is_some() {
            raster = raster.push_next(&mut structures.clip);
        }
        if self.last_provokes {
            raster = raster.push_next(&mut structures.provoking);
        }
        if self.lines.is_some() {
            raster = raster.push_next(&mut structures.lines);
        }
        raster
    }

    /// The divisors.
    pub(super) fn divisors(&self) -> Vec<vk::VertexInputBindingDivisorDescriptionEXT> {
        let divisor = |(binding, divisor): &(u32, u32)| {
            vk::VertexInputBindingDivisorDescriptionEXT::default()
                .binding(*binding)
                .divisor(*divisor)
        };
        self.divisors.iter().map(divisor).collect()
    }
}
