// SPDX-License-Identifier: MIT OR Apache-2.0

//! Arrays of images.

use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, Slot, bytes_of, module, same, shown};
use ash::vk;

pub(super) const CASES: &[Case] = &[case(
    "storage-image.array",
    "a shader chooses from an array of images, as push constants say",
    chosen,
)];

const IMAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_IMAGE;

fn chosen(lab: &Lab) -> Outcome {
    let can = lab.features().core.shader_storage_image_array_dynamic_indexing;
    lab.needs("shaderStorageImageArrayDynamicIndexing", can)?;
    let gpu = lab.gpu()?;
    let form = Form::flat(vk::Format::R32_UINT, 4, 4).storage();
    let mut images = Vec::new();
    let mut views = Vec::new();
    for number in 0..4 {
        let image = gpu.image_of(form, &[bytes_of(&[100 * number; 16])])?;
        views.push(shown(gpu.view(image.look(vk::ImageViewType::TYPE_2D))?));
        images.push(image);
    }
    let kernel = gpu.kernel(module!("image_array"), &[&[Slot(0, IMAGE, 4)]], 12, &[])?;
    let set = gpu.empty_set(&kernel, 0)?;
    gpu.write_images(set, 0, IMAGE, &views);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        for arguments in [[3, 1, 5], [1, 0, 6], [2, 2, 7]] {
            commands.push(&kernel, &arguments).dispatch(1, 1, 1).barrier();
        }
    })?;
    for (image, expected) in images.into_iter().zip([311, 305, 207, 300]) {
        same!(gpu.level_words(image, 0)?, [expected; 16]);
    }
    Ok(())
}
