// SPDX-License-Identifier: MIT OR Apache-2.0

//! Has a device compile pipelines before anything runs. Lavapipe makes machine code when a pipeline is first dispatched or drawn
//! with, and not before; in a stream that would count as time in which the stream runs.

use super::described::Known;
use super::drawing::{Current, Draws};
use crate::messages::PAGE;
use crate::vulkan::{
    Attached, Binding, Counts, Device, Groups, Image, Imported, Needs, Pages, Pipeline, Point,
    Recorder, Rendering, Resource, View, VulkanError, aspects,
};
use ash::vk::{AttachmentLoadOp, AttachmentStoreOp, ImageViewType, PrimitiveTopology};
use bellhop_protocol::vulkan::{self as protocol, Attachment, BeginRendering, Draw, ImageKind};
use std::rc::Rc;
use zerocopy::FromZeros;

/// Bytes of the memory of all attachments, into which nothing is drawn: of one texel, with as many samples, layers and bytes as
/// there can be.
const SCRAP: usize = 1 << 20;
/// Usages of attachments.
const OF_COLOR: u32 = ash::vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw();
const OF_DEPTH: u32 = ash::vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw();

/// What compiles pipelines on a device.
pub struct Warming<'d> {
    device: &'d Device<'d>,
    /// The memory of attachments, from the first draw on.
    scrap: Option<Rc<Imported<'d>>>,
}

impl<'d> Warming<'d> {
    /// Begins with nothing.
    pub fn new(device: &'d Device<'d>) -> Self {
        Self { device, scrap: None }
    }

    /// Has the device compile a pipeline, and run none of it: no work group of a dispatch, and of a draw a primitive that lacks
    /// a vertex. Points have none to lack, so that pipelines that draw them are left for their first draw, as is what depends
    /// on dynamic states with other values than those that they have while nobody sets them.
    ///
    /// # Errors
    /// When Vulkan fails.
    pub fn compile(&mut self, pipeline: &Known<Pipeline<'d>>) -> Result<(), VulkanError> {
        match &pipeline.draws {
            None => self.dispatch_nothing(pipeline),
            Some(draws) if lacks_a_vertex(draws) => self.draw_nothing(pipeline, draws),
            Some(_) => Ok(()),
        }
    }

    fn dispatch_nothing(&self, pipeline: &Known<Pipeline<'d>>) -> Result<(), VulkanError> {
        let mut recorder = self.recorder(pipeline, &[])?;
        bind(&mut recorder, pipeline, Point::Compute)?;
        recorder.dispatch(&Groups::Are { base: [0; 3], groups: [0; 3] })?;
        recorder.end()?;
        recorder.run()
    }

    fn draw_nothing(
        &mut self,
        pipeline: &Known<Pipeline<'d>>,
        draws: &Draws,
    ) -> Result<(), VulkanError> {
        let layers = (u32::BITS - draws.view_mask.leading_zeros()).max(1);
        let mut images = Vec::new();
        let mut attach = |format: u32, usage: u32| {
            let (image, view) = self.scrap_image(format, usage, draws.samples, layers)?;
            images.push(image);
            Ok::<_, VulkanError>(attached(view))
        };
        let colors = draws.colors.iter().map(|format| match format {
            0 => Ok(None),
            format => attach(*format, OF_COLOR).map(Some),
        });
        let colors = colors.collect::<Result<_, _>>()?;
        let mut of = |format: u32| (format != 0).then(|| attach(format, OF_DEPTH)).transpose();
        let (depth, stencil) = match (draws.depth, draws.stencil) {
            (depth, stencil) if depth == stencil => {
                let both = of(depth)?;
                (both.as_ref().map(|it| attached(Rc::clone(&it.view))), both)
            }
            (depth, stencil) => (of(depth)?, of(stencil)?),
        };
        let begin = BeginRendering {
            extent: [1; 2],
            layers: u32::from(draws.view_mask == 0),
            view_mask: draws.view_mask,
            ..BeginRendering::new_zeroed()
        };
        let rendering = Rendering { begin, colors, depth, stencil };
        let memory = self.scrap()?;
        let mut recorder = self.recorder(pipeline, &images)?;
        recorder.begin_rendering(&rendering);
        bind(&mut recorder, pipeline, Point::Graphics)?;
        let nobody = Current::new();
        for state in &draws.states {
            recorder.set_state(*state, &nobody.words(*state, draws));
        }
        let vertices = Binding { memory, offset: 0, length: PAGE };
        for binding in &draws.vertices {
            let stride = draws.has_strides().then_some(0);
            recorder.bind_vertices(binding.binding, Some(&vertices), stride)?;
        }
        recorder.draw(&Draw { vertices: 1, instances: 1, ..Draw::new_zeroed() });
        recorder.end_rendering();
        recorder.end()?;
        recorder.run()
    }

    /// A recorder with room for a pipeline's sets, and with these images.
    fn recorder(
        &self,
        pipeline: &Known<Pipeline<'d>>,
        images: &[Rc<Image<'d>>],
    ) -> Result<Recorder<'d>, VulkanError> {
        let mut needs = Needs::default();
        pipeline.sets.iter().filter(|set| !set.is_empty()).for_each(|set| needs.add_set(set));
        let mut recorder = Recorder::new(self.device)?;
        recorder.begin(needs, &Counts::new(), images)?;
        Ok(recorder)
    }

    /// The memory of all attachments, which stays as long as this process.
    fn scrap(&mut self) -> Result<Rc<Imported<'d>>, VulkanError> {
        if let Some(scrap) = &self.scrap {
            return Ok(Rc::clone(scrap));
        }
        let pages: &'static Pages = Box::leak(Box::new(Pages::new(SCRAP, PAGE as usize)));
        let scrap = Rc::new(self.device.import(pages)?);
        self.scrap = Some(Rc::clone(&scrap));
        Ok(scrap)
    }

    /// An image of one texel, and a view of all of it.
    fn scrap_image(
        &mut self,
        format: u32,
        usage: u32,
        samples: u32,
        layers: u32,
    ) -> Result<(Rc<Image<'d>>, Rc<View<'d>>), VulkanError> {
        let of = protocol::Image {
            format,
            kind: ImageKind::TWO,
            usage,
            samples,
            extent: [1; 3],
            levels: 1,
            layers,
            ..protocol::Image::new_zeroed()
        };
        let lacks = |_| VulkanError::Lacks("images of a pipeline's attachments");
        let shape = self.device.shape(&of).map_err(lacks)?;
        let memory = self.scrap()?;
        let image = Rc::new(shape.bind(&Binding { memory, offset: 0, length: SCRAP as u64 })?);
        let range = protocol::Range {
            aspect: aspects(format).as_raw(),
            levels: 1,
            layers,
            ..protocol::Range::new_zeroed()
        };
        let view = protocol::ImageView {
            image: of,
            kind: ImageViewType::TYPE_2D_ARRAY.as_raw() as u32,
            format,
            range,
            usage,
            ..protocol::ImageView::new_zeroed()
        };
        let view = Rc::new(self.device.view(&view, &image)?);
        Ok((image, view))
    }
}

/// Whether one vertex is less than a primitive of a pipeline's.
fn lacks_a_vertex(draws: &Draws) -> bool {
    match PrimitiveTopology::from_raw(draws.topology as i32) {
        PrimitiveTopology::POINT_LIST => false,
        PrimitiveTopology::PATCH_LIST => draws.patch_points > 1,
        _ => true,
    }
}

/// An attachment whose texels nobody needs.
fn attached(view: Rc<View<'_>>) -> Attached<'_> {
    let how = Attachment {
        load: AttachmentLoadOp::DONT_CARE.as_raw() as u32,
        store: AttachmentStoreOp::DONT_CARE.as_raw() as u32,
        ..Attachment::new_zeroed()
    };
    Attached { how, view, resolve: None }
}

/// Binds a pipeline, and sets of nothing.
fn bind<'d>(
    recorder: &mut Recorder<'d>,
    pipeline: &Known<Pipeline<'d>>,
    point: Point,
) -> Result<(), VulkanError> {
    recorder.bind(&pipeline.made);
    let sets = pipeline.sets.iter().enumerate().filter(|(_, set)| !set.is_empty());
    for (number, bindings) in sets {
        let count: u32 = bindings.iter().map(|binding| binding.count).sum();
        let nothing: Vec<_> = (0..count).map(|_| Resource::Nothing).collect();
        let set = recorder.set(&pipeline.made, number, bindings, &nothing)?;
        recorder.bind_set(point, number, set);
    }
    Ok(())
}
