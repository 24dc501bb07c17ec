// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shaders that do not say an image's format.

use crate::case::{Case, case};
use crate::lab::{Code, Form, Kind, Lab, Outcome, Slot, module, same, shown, whole};
use ash::vk;
use ash::vk::Format as F;

pub(super) const CASES: &[Case] = &[
    case(
        "storage-image.formatless.store",
        "a shader stores in images whose formats it does not say",
        stores,
    ),
    case(
        "storage-image.formatless.load",
        "a shader loads from images whose formats it does not say",
        loads,
    ),
];

const FORMATS: [F; 3] = [F::R32_UINT, F::R8G8B8A8_UINT, F::R32G32B32A32_UINT];
const IMAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_IMAGE;

fn stores(lab: &Lab) -> Outcome {
    let can = lab.features().core.shader_storage_image_write_without_format;
    lab.needs("shaderStorageImageWriteWithoutFormat", can)?;
    let gpu = lab.gpu()?;
    let kernel = gpu.kernel(module!("image_write"), &[&[Slot(0, IMAGE, 1)]], 16, &[])?;
    for format in FORMATS {
        let image = gpu.image(Form::flat(format, 4, 4).storage())?;
        let set = gpu.empty_set(&kernel, 0)?;
        let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
        gpu.write_images(set, 0, IMAGE, &[shown(view)]);
        gpu.run(|commands| {
            commands.ready(&[image]).bind(&kernel).sets(&kernel, &[set]);
            commands.push(&kernel, &[1, 50, 100, 150]).dispatch(1, 1, 1).barrier();
        })?;
        let texel = |at: u32| [1, 50, 100, 150].map(|part| part + at % 4 + 16 * (at / 4));
        let expected: Vec<u8> = (0..16)
            .map(texel)
            .flat_map(|parts| match format {
                F::R32_UINT => parts[0].to_le_bytes().to_vec(),
                F::R8G8B8A8_UINT => parts.map(|part| part as u8).to_vec(),
                _ => crate::lab::bytes_of(&parts),
            })
            .collect();
        same!(gpu.level_bytes(image, 0)?, expected);
    }
    Ok(())
}

fn loads(lab: &Lab) -> Outcome {
    let can = lab.features().core.shader_storage_image_read_without_format;
    lab.needs("shaderStorageImageReadWithoutFormat", can)?;
    let gpu = lab.gpu()?;
    let buffer = vk::DescriptorType::STORAGE_BUFFER;
    let slots = [Slot(0, IMAGE, 1), Slot(1, buffer, 1)];
    let kernel = gpu.kernel(module!("image_read"), &[&slots], 0, &[])?;
    for (format, components) in FORMATS.into_iter().zip([1, 4, 4]) {
        let code = Code::new(format, "", components, Kind::Uint);
        let image = gpu.image_of(Form::flat(format, 4, 4).storage(), &[code.bytes(16)])?;
        let (seen, set) = (gpu.buffer(64)?, gpu.empty_set(&kernel, 0)?);
        let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
        gpu.write_images(set, 0, IMAGE, &[shown(view)]);
        gpu.write(set, 1, buffer, &[whole(&seen)]);
        gpu.run(|commands| {
            commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
        })?;
        same!(seen.read(), code.words(16));
    }
    Ok(())
}
