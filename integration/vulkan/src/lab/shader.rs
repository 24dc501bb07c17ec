// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that behaviours write in WGSL.

use super::{Failure, Module, Outcome};
use naga::back::spv::{Options, WriterFlags, write_vec};
use naga::valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};

/// What kernels may use. A behaviour asks the device first if Vulkan lets a device do without.
const MAY_USE: Capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32
    .union(Capabilities::IMMEDIATES)
    .union(Capabilities::SHADER_INT64)
    .union(Capabilities::FLOAT64)
    .union(Capabilities::CUBE_ARRAY_TEXTURES)
    .union(Capabilities::SUBGROUP)
    .union(Capabilities::CLIP_DISTANCES)
    .union(Capabilities::PRIMITIVE_INDEX)
    .union(Capabilities::MULTIVIEW)
    .union(Capabilities::MULTISAMPLED_SHADING)
    .union(Capabilities::EARLY_DEPTH_TEST)
    .union(Capabilities::DUAL_SOURCE_BLENDING);

/// The bytes of a module's SPIR-V.
pub(crate) fn compile(source: &str) -> Outcome<Vec<u8>> {
    compile_as(source, Options::default().flags)
}

/// The same, of a module that draws: its points have a size, and its places are Vulkan's.
pub(crate) fn compile_drawing(source: &str) -> Outcome<Vec<u8>> {
    compile_as(source, WriterFlags::FORCE_POINT_SIZE)
}

fn compile_as(source: &str, flags: WriterFlags) -> Outcome<Vec<u8>> {
    let wrong = |error: String| Failure::seen(format!("{error} in {source}"));
    let module = naga::front::wgsl::parse_str(source);
    let module = module.map_err(|error| wrong(error.emit_to_string(source)))?;
    let mut validator = Validator::new(ValidationFlags::all(), MAY_USE);
    validator
        .subgroup_stages(ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all());
    let information = validator.validate(&module);
    let information = information.map_err(|error| wrong(error.emit_to_string(source)))?;
    // As this module says it, without instructions for debuggers.
    let options = Options { lang_version: (1, 3), flags, ..Options::default() };
    let words = write_vec(&module, &information, &options, None);
    let words = words.map_err(|error| wrong(error.to_string()))?;
    Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// The SPIR-V of a kernel for a group of devices: what it calls its `local_invocation_index` is the index of the device.
pub(crate) fn compile_for_group(source: &str) -> Outcome<Vec<u8>> {
    const HEADER: usize = 5;
    let capability = spirv_words(17, &[4437]);
    let (taken, index) = (spirv_words(71, &[0, 11, 29]), spirv_words(71, &[0, 11, 4438]));
    let mut words = Module(&compile(source)?).words();
    // A decoration begins with its length, and is of an id.
    for at in 0..words.len().saturating_sub(3) {
        let is_taken = [0, 2, 3].iter().all(|part| words[at + part] == taken[*part]);
        if is_taken {
            words[at + 3] = index[3];
        }
    }
    words.splice(HEADER..HEADER, capability);
    Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// An instruction.
fn spirv_words(operation: u32, operands: &[u32]) -> Vec<u32> {
    let first = (operands.len() as u32 + 1) << 16 | operation;
    [&[first], operands].concat()
}
