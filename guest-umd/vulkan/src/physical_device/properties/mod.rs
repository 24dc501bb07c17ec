// SPDX-License-Identifier: MIT OR Apache-2.0

//! Properties: the host's, with what is the driver's own in place of it.

mod structures;

use super::chain::HEAD;
use super::format_table::{has_graphics, has_images};
use super::limits::Limits;
use super::memory::MAX_ALLOCATION;
use crate::descriptor::layout::{MAX_BLOCK, MAX_BLOCKS};
use ash::vk;
use bellhop_protocol::vulkan::{CommandCaps, ExtensionProperties, MAX_TRANSFORM_BUFFERS};
use std::ffi::c_char;
use std::mem::offset_of;
use xxhash_rust::xxh64::xxh64;
use zerocopy::{Immutable, IntoBytes};

type Since11 = vk::PhysicalDeviceVulkan11Properties<'static>;
type Since12 = vk::PhysicalDeviceVulkan12Properties<'static>;
type Since13 = vk::PhysicalDeviceVulkan13Properties<'static>;

/// The driver's name.
pub(super) const DRIVER: &str = "Bellhop";
/// The driver's version.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Operations of subgroups that Vulkan has of itself, of which this is the last. All others are those of extensions, and there is none
/// of these.
const SUBGROUP_OPERATIONS: u32 = (vk::SubgroupFeatureFlags::QUAD.as_raw() << 1) - 1;

/// The stages that shaders may be of.
const STAGES: vk::ShaderStageFlags = vk::ShaderStageFlags::from_raw(
    vk::ShaderStageFlags::ALL_GRAPHICS.as_raw() | vk::ShaderStageFlags::COMPUTE.as_raw(),
);

/// Properties that structures in a chain have, as bytes behind their head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    since_1_1: [u8; size_of::<Since11>() - HEAD],
    since_1_2: [u8; size_of::<Since12>() - HEAD],
    since_1_3: [u8; size_of::<Since13>() - HEAD],
    of_extensions: ExtensionProperties,
}

/// Where a property is.
macro_rules! at {
    ($structure:ident $field:ident) => {
        offset_of!($structure, $field) - HEAD
    };
}

use at;

fn put<T: IntoBytes + Immutable + ?Sized>(bytes: &mut [u8], at: usize, value: &T) {
    let value = value.as_bytes();
    if let Some(bytes) = bytes.get_mut(at..at + value.len()) {
        bytes.copy_from_slice(value);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

/// 16 bytes that differ when the text does.
pub(super) fn digest(text: &str) -> [u8; vk::UUID_SIZE] {
    let halves = [xxh64(text.as_bytes(), 0), xxh64(text.as_bytes(), 1)];
    let mut digest = [0; vk::UUID_SIZE];
    put(&mut digest, 0, &halves);
    digest
}

/// What has a driver that compiles alike and finds the same host, which `host` tells from others.
pub(super) fn cache_id(host: &str) -> [u8; vk::UUID_SIZE] {
    digest(&format!("{DRIVER} {VERSION}, pipelines of {host}"))
}

impl Properties {
    /// What a guest has on a host that can do this, by the name of the host's device and driver, and the GPU's ordinal in its chain.
    #[must_use]
    pub fn offered(host: &CommandCaps, limits: &Limits, name: &str, gpu: u8) -> Self {
        let mut offered = Self {
            since_1_1: host.properties_1_1,
            since_1_2: host.properties_1_2,
            since_1_3: host.properties_1_3,
            of_extensions: host.extension_properties,
        };
        offered.name(name, gpu);
        offered.limit(limits);
        if !(has_images(host) && has_graphics(host)) {
            offered.leave_out_graphics();
        }
        offered
    }

    /// Says who is who.
    fn name(&mut self, host: &str, gpu: u8) {
        let bytes = &mut self.since_1_1[..];
        put(bytes, at!(Since11 device_uuid), &digest(&format!("{DRIVER} on {host}, GPU {gpu}")));
        put(bytes, at!(Since11 driver_uuid), &digest(&format!("{DRIVER} {VERSION}")));
        put(bytes, at!(Since11 device_luid), &[0u8; vk::LUID_SIZE]);
        put(bytes, at!(Since11 device_node_mask), &0u32);
        put(bytes, at!(Since11 device_luid_valid), &vk::FALSE);
        let bytes = &mut self.since_1_2[..];
        // Khronos has given this driver no number, and nobody has tested its conformance.
        put(bytes, at!(Since12 driver_id), &0u32);
        let mut text = |at, text: &str| {
            let mut padded = [0u8; vk::MAX_DRIVER_NAME_SIZE];
            let end = text.floor_char_boundary(padded.len() - 1);
            put(&mut padded, 0, text.as_bytes().get(..end).unwrap_or_default());
            put(bytes, at, &padded);
        };
        text(at!(Since12 driver_name), DRIVER);
        text(at!(Since12 driver_info), &format!("{VERSION}, over {host}"));
        put(bytes, at!(Since12 conformance_version), &[0u8; 4]);
    }

    /// Lowers what the driver or the commands carry less of than the host has.
    fn limit(&mut self, limits: &Limits) {
        let bytes = &mut self.since_1_1[..];
        let stages = word(bytes, at!(Since11 subgroup_supported_stages)) & STAGES.as_raw();
        put(bytes, at!(Since11 subgroup_supported_stages), &stages);
        let operations = word(bytes, at!(Since11 subgroup_supported_operations));
        let operations = operations & SUBGROUP_OPERATIONS;
        put(bytes, at!(Since11 subgroup_supported_operations), &operations);
        put(bytes, at!(Since11 protected_no_fault), &vk::FALSE);
        put(bytes, at!(Since11 max_per_set_descriptors), &limits.resources());
        put(bytes, at!(Since11 max_memory_allocation_size), &MAX_ALLOCATION);
        let bytes = &mut self.since_1_2[..];
        let (stage, set) = (limits.of_stage(), limits.of_set());
        let [uniform_dynamic, storage_dynamic] = limits.dynamic();
        // The host is not told when sets are written, so that it has one limit of descriptors for all.
        for (at, most) in [
            (at!(Since12 max_update_after_bind_descriptors_in_all_pools), limits.resources()),
            (at!(Since12 max_per_stage_descriptor_update_after_bind_samplers), stage.samplers),
            (
                at!(Since12 max_per_stage_descriptor_update_after_bind_uniform_buffers),
                stage.uniform_buffers,
            ),
            (
                at!(Since12 max_per_stage_descriptor_update_after_bind_storage_buffers),
                stage.storage_buffers,
            ),
            (
                at!(Since12 max_per_stage_descriptor_update_after_bind_sampled_images),
                stage.sampled_images,
            ),
            (
                at!(Since12 max_per_stage_descriptor_update_after_bind_storage_images),
                stage.storage_images,
            ),
            (
                at!(Since12 max_per_stage_descriptor_update_after_bind_input_attachments),
                stage.input_attachments,
            ),
            (at!(Since12 max_per_stage_update_after_bind_resources), limits.resources()),
            (at!(Since12 max_descriptor_set_update_after_bind_samplers), set.samplers),
            (
                at!(Since12 max_descriptor_set_update_after_bind_uniform_buffers),
                set.uniform_buffers,
            ),
            (
                at!(Since12 max_descriptor_set_update_after_bind_uniform_buffers_dynamic),
                uniform_dynamic,
            ),
            (
                at!(Since12 max_descriptor_set_update_after_bind_storage_buffers),
                set.storage_buffers,
            ),
            (
                at!(Since12 max_descriptor_set_update_after_bind_storage_buffers_dynamic),
                storage_dynamic,
            ),
            (at!(Since12 max_descriptor_set_update_after_bind_sampled_images), set.sampled_images),
            (at!(Since12 max_descriptor_set_update_after_bind_storage_images), set.storage_images),
            (
                at!(Since12 max_descriptor_set_update_after_bind_input_attachments),
                set.input_attachments,
            ),
        ] {
            put(bytes, at, &most);
        }
        let difference = u64::MAX / 2;
        put(bytes, at!(Since12 max_timeline_semaphore_value_difference), &difference);
        let bytes = &mut self.since_1_3[..];
        let stages = word(bytes, at!(Since13 required_subgroup_size_stages)) & STAGES.as_raw();
        put(bytes, at!(Since13 required_subgroup_size_stages), &stages);
        for (at, most) in [
            (at!(Since13 max_inline_uniform_block_size), MAX_BLOCK),
            (at!(Since13 max_per_stage_descriptor_inline_uniform_blocks), MAX_BLOCKS),
            (
                at!(Since13 max_per_stage_descriptor_update_after_bind_inline_uniform_blocks),
                MAX_BLOCKS,
            ),
            (at!(Since13 max_descriptor_set_inline_uniform_blocks), MAX_BLOCKS),
            (at!(Since13 max_descriptor_set_update_after_bind_inline_uniform_blocks), MAX_BLOCKS),
            (at!(Since13 max_inline_uniform_total_size), MAX_BLOCK * MAX_BLOCKS),
        ] {
            put(bytes, at, &most);
        }
        put(bytes, at!(Since13 max_buffer_size), &MAX_ALLOCATION);
        for most in self.of_extensions.transform_feedback.iter_mut().take(2) {
            *most = (*most).min(MAX_TRANSFORM_BUFFERS);
        }
    }

    /// Leaves out what concerns graphics.
    fn leave_out_graphics(&mut self) {
        let compute = vk::ShaderStageFlags::COMPUTE.as_raw();
        let bytes = &mut self.since_1_1[..];
        put(bytes, at!(Since11 subgroup_supported_stages), &compute);
        put(bytes, at!(Since11 max_multiview_view_count), &0u32);
        put(bytes, at!(Since11 max_multiview_instance_index), &0u32);
        let bytes = &mut self.since_1_2[..];
        for at in [
            at!(Since12 supported_depth_resolve_modes),
            at!(Since12 supported_stencil_resolve_modes),
            at!(Since12 independent_resolve_none),
            at!(Since12 independent_resolve),
            at!(Since12 framebuffer_integer_color_sample_counts),
        ] {
            put(bytes, at, &0u32);
        }
        let bytes = &mut self.since_1_3[..];
        put(bytes, at!(Since13 required_subgroup_size_stages), &compute);
    }
}

/// A text as Vulkan's structures have it: cut where there is no room, with a zero at its end.
pub(crate) fn text<const ROOM: usize>(text: &str) -> [c_char; ROOM] {
    let mut padded = [0; ROOM];
    let end = text.floor_char_boundary(ROOM - 1);
    for (to, byte) in padded.iter_mut().zip(text.as_bytes().iter().take(end)) {
        *to = *byte as c_char;
    }
    padded
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk::StructureType as Kind;
    use zerocopy::FromZeros;

    fn offered(gpu: u8) -> Properties {
        let mut host = CommandCaps::new_zeroed();
        host.properties_1_1.fill(0xFF);
        host.properties_1_2.fill(0xFF);
        host.properties_1_3.fill(0xFF);
        Properties::offered(&host, &Limits::offered(&host), "llvmpipe", gpu)
    }

    fn words(kind: vk::StructureType) -> Vec<u32> {
        let bytes = offered(0).fields(kind).unwrap();
        bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    #[test]
    fn structures_of_extensions_say_the_same_as_those_of_versions() {
        assert_eq!(words(Kind::PHYSICAL_DEVICE_SUBGROUP_PROPERTIES), [!0, 0x20, 0xFF, !0]);
        assert_eq!(words(Kind::PHYSICAL_DEVICE_MULTIVIEW_PROPERTIES), [0, 0]);
        assert_eq!(words(Kind::PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES), [1 << 30, 0]);
        assert_eq!(words(Kind::PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_PROPERTIES), [!0, !0 >> 1]);
        assert_eq!(words(Kind::PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR), [32]);
        let control = words(Kind::PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
        assert_eq!(control, [!0, !0, !0, 0x20]);
        let maintenance = words(Kind::PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
        assert_eq!(maintenance[2..], [1 << 30, 0]);
        assert_eq!(offered(0).fields(Kind::DEVICE_CREATE_INFO), None);
    }

    #[test]
    fn a_guest_that_draws_has_the_host_s_properties_of_graphics() {
        let mut host = CommandCaps::new_zeroed();
        host.formats[37] = [0, 1, 0];
        host.queue_flags = vk::QueueFlags::GRAPHICS.as_raw();
        host.properties_1_1.fill(0xFF);
        host.properties_1_2.fill(0xFF);
        let offered = Properties::offered(&host, &Limits::offered(&host), "llvmpipe", 0);
        let views = offered.fields(Kind::PHYSICAL_DEVICE_MULTIVIEW_PROPERTIES).unwrap();
        assert_eq!(views, [0xFF; 8]);
        let resolves = offered.fields(Kind::PHYSICAL_DEVICE_DEPTH_STENCIL_RESOLVE_PROPERTIES);
        assert_eq!(resolves.unwrap(), [0xFF; 16]);
        let stages = word(&offered.since_1_1, at!(Since11 subgroup_supported_stages));
        assert_eq!(stages, 0x3F);
    }

    #[test]
    fn the_driver_has_its_own_name_and_no_number() {
        let driver = offered(0).fields(Kind::PHYSICAL_DEVICE_DRIVER_PROPERTIES).unwrap();
        assert_eq!(driver[..4], [0; 4]);
        assert!(driver[4..].starts_with(b"Bellhop\0"));
        let info = format!("{VERSION}, over llvmpipe\0");
        assert!(driver[4 + 256..].starts_with(info.as_bytes()));
        assert_eq!(driver[4 + 512..][..4], [0; 4]);
    }

    #[test]
    fn gpus_of_a_chain_differ_in_their_numbers_alone() {
        let [first, second] =
            [0, 1].map(|gpu| offered(gpu).fields(Kind::PHYSICAL_DEVICE_ID_PROPERTIES).unwrap());
        let (device, rest) = first.split_at(vk::UUID_SIZE);
        assert_ne!(device, &second[..vk::UUID_SIZE]);
        assert_eq!(rest, &second[vk::UUID_SIZE..]);
        assert_eq!(offered(0).since_1_2, offered(1).since_1_2);
    }

    #[test]
    fn who_is_who_depends_on_the_host() {
        assert_ne!(digest("one"), digest("other"));
        assert_ne!(cache_id("one"), cache_id("other"));
        assert_eq!(cache_id("one"), cache_id("one"));
    }

    #[test]
    fn a_text_ends_with_a_zero_where_it_is_cut() {
        assert_eq!(text::<4>("ab"), [b'a', b'b', 0, 0].map(|byte| byte as c_char));
        assert_eq!(text::<4>("abcd"), [b'a', b'b', b'c', 0].map(|byte| byte as c_char));
    }
}
