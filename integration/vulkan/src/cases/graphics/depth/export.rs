// SPDX-License-Identifier: MIT OR Apache-2.0

//! Stencils that fragment shaders bring (`VK_EXT_shader_stencil_export`).

use super::stencil::test;
use crate::case::{Case, case};
use crate::lab::{
    Failure, Plan, RED, Rendering, STENCIL, at, depth_form, pictured, same, sketch_on, stage,
    whole_area,
};
use ash::{ext, vk};

pub(super) const CASES: &[Case] =
    &[case("stencil.exported", "a shader's own stencil is the reference", |lab| {
        if !lab.has(ext::shader_stencil_export::NAME)? {
            return Err(Failure::not_offered("VK_EXT_shader_stencil_export"));
        }
        let gpu = lab.graphics()?;
        let (canvas, both) = (gpu.colours()?, gpu.canvas(depth_form(lab.both_format()?))?);
        let mut plan = Plan::plain()?;
        plan.with_depth(both, vk::CompareOp::LESS);
        plan.stage(vk::ShaderStageFlags::FRAGMENT, stage!("stencil.frag"));
        let [keep, replace] = [vk::StencilOp::KEEP, vk::StencilOp::REPLACE];
        let state = test(vk::CompareOp::ALWAYS, [keep, replace, keep]).reference(0x5a);
        plan.depth = plan.depth.stencil_test_enable(true).front(state).back(state);
        let rendering = Rendering::blank(canvas).both(both.filled_to(0.75, 1));
        sketch_on(&gpu, &rendering, &plan, &at(0.5, &whole_area(RED)))?;
        pictured(&gpu.words(canvas)?, |_, _| RED)?;
        same!(gpu.bytes_of_canvas(both, STENCIL)?, vec![5; 256]);
        Ok(())
    })];
