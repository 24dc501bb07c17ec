// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several views that are drawn at once ("Multiview").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Canvas, GREEN, Gpu, Kernel, Lab, Outcome, PassForm, Plan, RED, Rendering, YELLOW, at,
    begun, boxed, colour_form, depth_form, pictured, rectangle, require, same, whole_area,
};
use ash::vk::{self, AttachmentLoadOp as Load, SubpassContents};

pub(super) const CASES: &[Case] = &[
    case(
        "view.rendering",
        "a draw is drawn on the layer of each view, which its shaders know",
        |lab| rendered(lab, 0b11, &[true, true]),
    ),
    case("view.some", "layers between views stay", |lab| {
        rendered(lab, 0b1001, &[true, false, false, true])
    }),
    case("view.pass", "a pass draws each view", |lab| passed(lab, false)),
    case("view.pass-newer", "a pass of Vulkan 1.2 draws each view", |lab| passed(lab, true)),
    case("view.fill", "each view is filled, and no other layer", fill),
    case("view.depth", "each view has depths of its own", depth),
    case("view.limits", "a device draws at least six views and many instances", |lab| {
        lab.graphics()?;
        needs(lab)?;
        let limits = lab.description().since_1_1;
        require!(limits.max_multiview_view_count >= 6, "{}", limits.max_multiview_view_count);
        let instances = limits.max_multiview_instance_index;
        require!(instances >= (1 << 27) - 1, "{instances}");
        Ok(())
    }),
];

const PART: [f32; 4] = [2.0, 5.0, 10.0, 11.0];

/// Moves what is drawn by a texel for each view, and colours it by its view.
const BY_VIEW: &str = "
    @vertex fn vertex(@location(0) place: vec4<f32>, @builtin(view_index) view: u32) -> @builtin(position) vec4<f32> {
        return place + vec4(f32(view) / 8.0, 0.0, 0.0, 0.0);
    }
    @fragment fn fragment(@builtin(view_index) view: u32) -> @location(0) vec4<f32> {
        return vec4(1.0, f32(view) / 255.0, 0.0, 1.0);
    }";

fn needs(lab: &Lab) -> Outcome {
    lab.needs("multiview", lab.features().since_1_1.multiview)
}

/// A canvas of so many layers, and a pipeline for these views.
fn scene(gpu: &Gpu<'_>, layers: u32, views: u32, pass: Option<vk::RenderPass>) -> Outcome<Kernel> {
    let mut plan = Plan::of(BY_VIEW)?;
    match pass {
        Some(pass) => plan.within(pass, 0),
        None => &mut plan,
    };
    plan.views = if pass.is_none() { views } else { 0 };
    require!(views < 1 << layers, "views {views:b} of {layers} layers");
    gpu.drawer(&plan)
}

fn layered(gpu: &Gpu<'_>, layers: u32) -> Outcome<Canvas> {
    gpu.canvas(colour_form(vk::Format::R8G8B8A8_UNORM).layers(layers))
}

/// Requires what each layer has: that of its view, or nothing.
fn by_view(seen: &[u32], there: &[bool]) -> Outcome {
    same!(seen.len(), there.len() * 256);
    for (view, (layer, is_there)) in (0..).zip(seen.chunks(256).zip(there)) {
        let [left, top, right, bottom] = PART;
        let moved = [left + view as f32, top, right + view as f32, bottom];
        let colour = if *is_there { RED | view << 8 } else { BLANK };
        pictured(layer, boxed(moved, colour, BLANK))?;
    }
    Ok(())
}

fn rendered(lab: &Lab, views: u32, there: &[bool]) -> Outcome {
    needs(lab)?;
    let gpu = lab.graphics()?;
    let layers = there.len() as u32;
    let canvas = layered(&gpu, layers)?;
    let (brush, vertices) =
        (scene(&gpu, layers, views, None)?, gpu.corners(&rectangle(PART, RED))?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas).layers(layers)).end().barrier();
        commands.begin(&Rendering::on(canvas).views(views));
        commands.brush(&brush).vertices(&vertices).draw(6).end();
    })?;
    by_view(&gpu.words(canvas)?, there)
}

fn passed(lab: &Lab, newer: bool) -> Outcome {
    needs(lab)?;
    let gpu = lab.graphics()?;
    let canvas = layered(&gpu, 3)?;
    let mut form = PassForm::simple(canvas, Load::CLEAR).in_turn();
    form.views = vec![0b111];
    let pass = if newer { gpu.pass_2(&form, None)? } else { gpu.pass(&form)? };
    let framebuffer = gpu.framebuffer(pass, &[canvas])?;
    let brush = scene(&gpu, 3, 0b111, Some(pass))?;
    let vertices = gpu.corners(&rectangle(PART, RED))?;
    gpu.run(|commands| {
        let values = [vk::ClearValue::default()];
        commands.begin_pass(&begun(pass, framebuffer, &values), SubpassContents::INLINE);
        commands.brush(&brush).vertices(&vertices).draw(6).end_pass();
    })?;
    by_view(&gpu.words(canvas)?, &[true; 3])
}

fn fill(lab: &Lab) -> Outcome {
    needs(lab)?;
    let gpu = lab.graphics()?;
    let canvas = layered(&gpu, 3)?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas).layers(3)).end().barrier();
        commands
            .begin(&Rendering::of(&[canvas.filled_with([0.0, 1.0, 0.0, 1.0])]).views(0b101))
            .end();
    })?;
    let seen = gpu.words(canvas)?;
    for (layer, colour) in seen.chunks(256).zip([GREEN, BLANK, GREEN]) {
        pictured(layer, |_, _| colour)?;
    }
    Ok(())
}

fn depth(lab: &Lab) -> Outcome {
    needs(lab)?;
    let gpu = lab.graphics()?;
    let canvas = layered(&gpu, 2)?;
    let depths = gpu.canvas(depth_form(vk::Format::D16_UNORM).layers(2))?;
    // The first is nearer in the second view alone.
    let source = "
        struct Seen { @builtin(position) place: vec4<f32>, @location(0) colour: vec4<f32> }
        @vertex fn vertex(@location(0) place: vec4<f32>, @location(1) colour: vec4<f32>, @builtin(view_index) view: u32) -> Seen {
            let depth = select(place.z, 1.0 - place.z, view == 1u);
            return Seen(vec4(place.xy, depth, 1.0), colour);
        }
        @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> { return seen.colour; }";
    let mut plan = Plan::of(source)?;
    plan.with_depth(depths, vk::CompareOp::LESS).views = 0b11;
    let both = [at(0.75, &whole_area(RED)), at(0.25, &whole_area(YELLOW))].concat();
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&both)?);
    let rendering = Rendering::blank(canvas).depth(depths.filled_to(1.0, 0)).views(0b11);
    gpu.run(|commands| {
        commands.begin(&rendering).brush(&brush).vertices(&vertices).draw(12).end();
    })?;
    let seen = gpu.words(canvas)?;
    pictured(&seen[..256], |_, _| YELLOW)?;
    pictured(&seen[256..], |_, _| RED)
}
