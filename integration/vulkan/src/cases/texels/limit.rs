// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a device says of buffers as texels ("Required Format Support", "Required Limits").

use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, STORED, require};
use ash::vk::{Format as F, FormatFeatureFlags as Feature};

pub(super) const CASES: &[Case] = &[
    case(
        "texels.offered.fetched",
        "formats that every device reads from buffers are offered",
        |lab| {
            let both = [STORED, FETCHED].concat();
            all_can(lab, &both, Feature::UNIFORM_TEXEL_BUFFER)
        },
    ),
    case(
        "texels.offered.stored",
        "formats that every device stores in buffers are offered",
        |lab| all_can(lab, STORED, Feature::STORAGE_TEXEL_BUFFER),
    ),
    case("texels.offered.atomic", "words with and without signs have atomic operations", |lab| {
        all_can(lab, &[F::R32_UINT, F::R32_SINT], Feature::STORAGE_TEXEL_BUFFER_ATOMIC)
    }),
    case("texels.offered.alignment", "offsets of views are aligned to powers of two", alignment),
];

const FETCHED: &[F] = &[
    F::R8_UNORM,
    F::R8_UINT,
    F::R8_SINT,
    F::R8G8_UNORM,
    F::R16_UINT,
    F::R16_SINT,
    F::R16_SFLOAT,
    F::R16G16_SFLOAT,
    F::B10G11R11_UFLOAT_PACK32,
];

fn all_can(lab: &Lab, formats: &[F], feature: Feature) -> Outcome {
    lab.all_can(formats, feature, |can| can.buffer_features)
}

fn alignment(lab: &Lab) -> Outcome {
    let said = lab.description();
    let limit = said.properties.limits.min_texel_buffer_offset_alignment;
    require!(limit.is_power_of_two() && limit <= 256, "aligned to {limit}");
    for (name, aligned) in [
        ("uniform", said.since_1_3.uniform_texel_buffer_offset_alignment_bytes),
        ("storage", said.since_1_3.storage_texel_buffer_offset_alignment_bytes),
    ] {
        require!(aligned.is_power_of_two() && aligned <= 256, "{name} ones aligned to {aligned}");
    }
    Ok(())
}
