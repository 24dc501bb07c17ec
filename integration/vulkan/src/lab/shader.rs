// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that behaviours write in WGSL.

use super::{Failure, Outcome};
use naga::back::spv::{Options, write_vec};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// The bytes of a module's SPIR-V.
pub(crate) fn compile(source: &str) -> Outcome<Vec<u8>> {
    let wrong = |error: String| Failure::seen(format!("{error} in {source}"));
    let module = naga::front::wgsl::parse_str(source);
    let module = module.map_err(|error| wrong(error.emit_to_string(source)))?;
    let mut validator =
        Validator::new(ValidationFlags::all(), Capabilities::SHADER_FLOAT16_IN_FLOAT32);
    let information = validator.validate(&module);
    let information = information.map_err(|error| wrong(error.emit_to_string(source)))?;
    // As this module says it, without instructions for debuggers.
    let options = Options { lang_version: (1, 3), ..Options::default() };
    let words = write_vec(&module, &information, &options, None);
    let words = words.map_err(|error| wrong(error.to_string()))?;
    Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
}
