// SPDX-License-Identifier: MIT OR Apache-2.0

//! How images and samplers come to shaders.

use super::model::{FORM, levels};
use super::probe::{EXACT, colours, near, plain};
use super::scene::Scene;
use crate::case::{Case, case};
use crate::lab::{
    Bundle, Failure, Form, Gpu, Kernel, Lab, Outcome, Slot, bytes_of, module, sampled, shown, whole,
};
use ash::vk;
use ash::vk::DescriptorSetLayoutCreateFlags as Flags;

pub(super) const CASES: &[Case] = &[
    case(
        "sampler.binding.immutable",
        "a sampler of a set's layout is used, whatever is written",
        immutable,
    ),
    case("sampler.binding.array", "a shader chooses from arrays of images and of samplers", array),
    case("sampler.binding.template", "a template writes an image with its sampler", |lab| {
        by_set(lab, Flags::empty(), |gpu, kernel, set, bundle| {
            let kind = vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET;
            gpu.write_bundle_by(set, gpu.bundle_template(kernel, kind)?, bundle);
            Ok(set)
        })
    }),
    case(
        "sampler.binding.copied",
        "images with their samplers are copied from set to set",
        |lab| {
            by_set(lab, Flags::empty(), |gpu, kernel, set, bundle| {
                let other = gpu.empty_set(kernel, 0)?;
                gpu.write_bundle(set, bundle);
                for binding in 0..3 {
                    gpu.copy_descriptors((set, binding), (other, binding), 1);
                }
                Ok(other)
            })
        },
    ),
    case(
        "sampler.binding.updated-after-bind",
        "an image is written after its set was bound",
        after_bind,
    ),
    case("sampler.binding.pushed", "an image with its sampler is pushed", |lab| pushed(lab, None)),
    case(
        "sampler.binding.pushed-by-template",
        "a template pushes an image with its sampler",
        |lab| pushed(lab, Some(vk::DescriptorUpdateTemplateType::PUSH_DESCRIPTORS_KHR)),
    ),
    case(
        "sampler.binding.read-only",
        "an image is sampled in the layout that is made for it",
        read_only,
    ),
    case(
        "sampler.binding.two-submissions",
        "two submissions sample an image that is stored between them",
        two,
    ),
];

fn by_set(
    lab: &Lab,
    flags: Flags,
    write: impl FnOnce(&Gpu<'_>, &Kernel, vk::DescriptorSet, &Bundle) -> Outcome<vk::DescriptorSet>,
) -> Outcome {
    let gpu = lab.gpu()?;
    let scene = Scene::new(&gpu, flags, &[])?;
    let set = gpu.empty_set(&scene.kernel, 0)?;
    let set = write(&gpu, &scene.kernel, set, &scene.bundle)?;
    gpu.run(|commands| {
        commands.sets(&scene.kernel, &[set]);
        scene.dispatch(commands);
    })?;
    scene.is_right()
}

fn immutable(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let sampler = gpu.sampler(plain())?;
    let mut scene = Scene::new(&gpu, Flags::empty(), &[&[sampler]])?;
    let other = plain().min_lod(3.0);
    scene.bundle.image = scene.bundle.image.sampler(gpu.sampler(other)?);
    let set = gpu.empty_set(&scene.kernel, 0)?;
    gpu.write_bundle(set, &scene.bundle);
    gpu.run(|commands| {
        commands.sets(&scene.kernel, &[set]);
        scene.dispatch(commands);
    })?;
    scene.is_right()
}

fn after_bind(lab: &Lab) -> Outcome {
    let can = lab.features().since_1_2;
    let images = can.descriptor_binding_sampled_image_update_after_bind;
    lab.needs("descriptorBindingSampledImageUpdateAfterBind", images)?;
    let buffers = can.descriptor_binding_storage_buffer_update_after_bind;
    lab.needs("descriptorBindingStorageBufferUpdateAfterBind", buffers)?;
    lab.needs("descriptorBindingPartiallyBound", can.descriptor_binding_partially_bound)?;
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let scene = Scene::new(&gpu, Flags::UPDATE_AFTER_BIND_POOL, &[])?;
    let set = gpu.empty_set(&scene.kernel, 0)?;
    let commands = gpu.record(queue, |commands| {
        commands.sets(&scene.kernel, &[set]);
        scene.dispatch(commands);
    })?;
    gpu.write_bundle(set, &scene.bundle);
    gpu.finish(queue, &[commands])?;
    scene.is_right()
}

fn pushed(lab: &Lab, by: Option<vk::DescriptorUpdateTemplateType>) -> Outcome {
    if !lab.has(ash::khr::push_descriptor::NAME)? {
        return Err(Failure::not_offered("VK_KHR_push_descriptor"));
    }
    let gpu = lab.gpu()?;
    let scene = Scene::new(&gpu, Flags::PUSH_DESCRIPTOR_KHR, &[])?;
    let template = by.map(|kind| gpu.bundle_template(&scene.kernel, kind)).transpose()?;
    gpu.run(|commands| {
        match template {
            Some(template) => commands.push_bundle_by(&scene.kernel, template, &scene.bundle),
            None => commands.push_bundle(&scene.kernel, &scene.bundle),
        };
        scene.dispatch(commands);
    })?;
    scene.is_right()
}

fn read_only(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let mut scene = Scene::new(&gpu, Flags::empty(), &[])?;
    let image = gpu.image_of(FORM, &levels())?;
    let layout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    scene.bundle.image = scene.bundle.image.image_view(view).image_layout(layout);
    let set = gpu.empty_set(&scene.kernel, 0)?;
    gpu.write_bundle(set, &scene.bundle);
    gpu.run(|commands| {
        commands.change(image, [vk::ImageLayout::GENERAL, layout]).sets(&scene.kernel, &[set]);
        scene.dispatch(commands);
    })?;
    scene.is_right()
}

fn two(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let mut scene = Scene::new(&gpu, Flags::empty(), &[])?;
    let image =
        gpu.image_of(FORM, &levels().iter().map(|level| vec![0; level.len()]).collect::<Vec<_>>())?;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    scene.bundle.image = scene.bundle.image.image_view(view);
    let set = gpu.empty_set(&scene.kernel, 0)?;
    gpu.write_bundle(set, &scene.bundle);
    let look = || {
        gpu.run(|commands| {
            commands.sets(&scene.kernel, &[set]);
            scene.dispatch(commands);
        })
    };
    look()?;
    near(&colours(&scene.result.read()), &[[0.0; 4]; 2], EXACT)?;
    gpu.put_levels(image, &levels())?;
    look()?;
    scene.is_right()
}

fn array(lab: &Lab) -> Outcome {
    let can = lab.features().core.shader_sampled_image_array_dynamic_indexing;
    lab.needs("shaderSampledImageArrayDynamicIndexing", can)?;
    let gpu = lab.gpu()?;
    let (image, sampler) = (vk::DescriptorType::SAMPLED_IMAGE, vk::DescriptorType::SAMPLER);
    let buffer = vk::DescriptorType::STORAGE_BUFFER;
    let slots = [Slot(0, image, 3), Slot(1, sampler, 2), Slot(2, buffer, 1)];
    let kernel = gpu.kernel(module!("sample_array"), &[&slots], 12, &[])?;
    let set = gpu.empty_set(&kernel, 0)?;
    // Images of two levels, each with numbers of its own.
    let form = Form::flat(vk::Format::R32_SFLOAT, 2, 2).levels(2).sampled();
    let mut views = Vec::new();
    for number in 1..4u8 {
        let level = |number: u8| f32::from(number).to_bits();
        let levels = [bytes_of(&[level(number); 4]), bytes_of(&[level(number + 10)])];
        let made = gpu.image_of(form, &levels)?;
        views.push(shown(gpu.view(made.look(vk::ImageViewType::TYPE_2D))?));
    }
    let none = vk::ImageView::null();
    let samplers =
        [sampled(none, gpu.sampler(plain())?), sampled(none, gpu.sampler(plain().min_lod(1.0))?)];
    let result = gpu.buffer(16)?;
    gpu.write_images(set, 0, image, &views);
    gpu.write_images(set, 1, sampler, &samplers);
    gpu.write(set, 2, buffer, &[whole(&result)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        for arguments in [[2, 0, 0], [0, 1, 1], [1, 0, 2], [2, 1, 3]] {
            commands.push(&kernel, &arguments).dispatch(1, 1, 1);
        }
        commands.barrier();
    })?;
    let expected = [3.0, 11.0, 2.0, 13.0].map(|red| [red, 0.0, 0.0, 1.0]);
    near(&colours(&result.read()), &expected, 0.0)
}
