// SPDX-License-Identifier: MIT OR Apache-2.0

//! Stages of pipelines of all kinds.

use crate::vulkan::Bounds;

/// Vulkan's flags of a stage that are known: subgroups of varying sizes, and full subgroups.
const STAGE_FLAGS: u32 = 0b11;

/// Checks what the device must have for a stage that may ask for a size of subgroups or not.
///
/// # Errors
/// What it does not have.
pub fn check_stage(
    flags: u32,
    subgroup_size: u32,
    may_ask: bool,
    bounds: &Bounds,
) -> Result<(), &'static str> {
    if flags & !STAGE_FLAGS != 0 {
        return Err("a pipeline with an unknown flag");
    }
    if subgroup_size == 0 && flags == 0 {
        return Ok(());
    }
    let sizes = bounds.subgroup_sizes.as_ref();
    let sizes = sizes.ok_or("a pipeline with subgroups of its own on a device that has none")?;
    let is_size = may_ask && subgroup_size.is_power_of_two() && sizes.contains(&subgroup_size);
    if subgroup_size != 0 && !is_size {
        return Err("a pipeline with subgroups of an impossible size");
    }
    Ok(())
}
