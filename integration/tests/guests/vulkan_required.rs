// SPDX-License-Identifier: MIT OR Apache-2.0

//! What Vulkan 1.3 requires of every device that computes, as Debian's `vulkaninfo --json` has it of a guest's.

use crate::support::Daemon;
use crate::support::run;
use crate::support::vulkan::beside;
use serde_json::Value;
use std::fs;

/// The least that limits may be (Vulkan's specification, "Limits", "Required Limits"): those that are not about graphics.
const LEAST: &[(&str, &[f64])] = &[
    ("maxImageDimension1D", &[4096.]),
    ("maxImageDimension2D", &[4096.]),
    ("maxImageDimension3D", &[256.]),
    ("maxImageDimensionCube", &[4096.]),
    ("maxImageArrayLayers", &[256.]),
    ("maxTexelBufferElements", &[65536.]),
    ("maxUniformBufferRange", &[16384.]),
    ("maxStorageBufferRange", &[134_217_728.]),
    ("maxPushConstantsSize", &[128.]),
    ("maxMemoryAllocationCount", &[4096.]),
    ("maxSamplerAllocationCount", &[4000.]),
    ("maxBoundDescriptorSets", &[4.]),
    ("maxPerStageDescriptorSamplers", &[16.]),
    ("maxPerStageDescriptorUniformBuffers", &[12.]),
    ("maxPerStageDescriptorStorageBuffers", &[4.]),
    ("maxPerStageDescriptorSampledImages", &[16.]),
    ("maxPerStageDescriptorStorageImages", &[4.]),
    ("maxPerStageResources", &[128.]),
    ("maxDescriptorSetSamplers", &[96.]),
    ("maxDescriptorSetUniformBuffers", &[72.]),
    ("maxDescriptorSetUniformBuffersDynamic", &[8.]),
    ("maxDescriptorSetStorageBuffers", &[24.]),
    ("maxDescriptorSetStorageBuffersDynamic", &[4.]),
    ("maxDescriptorSetSampledImages", &[96.]),
    ("maxDescriptorSetStorageImages", &[24.]),
    ("maxComputeSharedMemorySize", &[16384.]),
    ("maxComputeWorkGroupCount", &[65535., 65535., 65535.]),
    ("maxComputeWorkGroupInvocations", &[128.]),
    ("maxComputeWorkGroupSize", &[128., 128., 64.]),
    ("subTexelPrecisionBits", &[4.]),
    ("mipmapPrecisionBits", &[4.]),
    ("maxSamplerLodBias", &[2.]),
    ("maxSamplerAnisotropy", &[1.]),
    ("minMemoryMapAlignment", &[64.]),
    ("maxTexelOffset", &[7.]),
    ("discreteQueuePriorities", &[2.]),
    ("maxPushDescriptors", &[32.]),
    ("maxPerSetDescriptors", &[1024.]),
    ("maxMemoryAllocationSize", &[1_073_741_824.]),
    ("maxTimelineSemaphoreValueDifference", &[2_147_483_647.]),
    ("subgroupSize", &[1.]),
    ("minSubgroupSize", &[1.]),
    ("maxInlineUniformBlockSize", &[256.]),
    ("maxPerStageDescriptorInlineUniformBlocks", &[4.]),
    ("maxPerStageDescriptorUpdateAfterBindInlineUniformBlocks", &[4.]),
    ("maxDescriptorSetInlineUniformBlocks", &[4.]),
    ("maxDescriptorSetUpdateAfterBindInlineUniformBlocks", &[4.]),
    ("maxInlineUniformTotalSize", &[256.]),
    ("maxBufferSize", &[1_073_741_824.]),
];

/// The most that limits may be.
const MOST: &[(&str, &[f64])] = &[
    ("bufferImageGranularity", &[131_072.]),
    ("minTexelBufferOffsetAlignment", &[256.]),
    ("minUniformBufferOffsetAlignment", &[256.]),
    ("minStorageBufferOffsetAlignment", &[256.]),
    ("minTexelOffset", &[-8.]),
    ("nonCoherentAtomSize", &[256.]),
    ("maxSubgroupSize", &[128.]),
];

/// What sets have at least in them.
const AMONG: &[(&str, &[&str])] = &[
    ("sampledImageColorSampleCounts", &["VK_SAMPLE_COUNT_1_BIT", "VK_SAMPLE_COUNT_4_BIT"]),
    ("sampledImageIntegerSampleCounts", &["VK_SAMPLE_COUNT_1_BIT"]),
    ("storageImageSampleCounts", &["VK_SAMPLE_COUNT_1_BIT"]),
    ("subgroupSupportedStages", &["VK_SHADER_STAGE_COMPUTE_BIT"]),
    ("subgroupSupportedOperations", &["VK_SUBGROUP_FEATURE_BASIC_BIT"]),
];

/// Features that every device has ("Features", "Feature Requirements"): those that are not about graphics.
const FEATURES: &[&str] = &[
    "robustBufferAccess",
    "bufferDeviceAddress",
    "hostQueryReset",
    "shaderSubgroupExtendedTypes",
    "subgroupBroadcastDynamicId",
    "timelineSemaphore",
    "uniformBufferStandardLayout",
    "vulkanMemoryModel",
    "vulkanMemoryModelDeviceScope",
    "computeFullSubgroups",
    "inlineUniformBlock",
    "maintenance4",
    "pipelineCreationCacheControl",
    "privateData",
    "robustImageAccess",
    "shaderIntegerDotProduct",
    "shaderZeroInitializeWorkgroupMemory",
    "subgroupSizeControl",
    "synchronization2",
];

/// Every member that is no structure, of the structures in a value, by its name, which has one meaning in all that are here.
fn members<'v>(value: &'v Value, out: &mut Vec<(&'v str, &'v Value)>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        if value.is_object() {
            members(value, out);
        } else {
            out.push((name, value));
        }
    }
}

/// A list, or one value.
fn all(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |values| values.iter().collect())
}

#[test]
fn vulkaninfo_s_json_has_no_limit_below_what_vulkan_requires_and_every_feature_that_it_does() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.json");
    let mut command = beside(&daemon, 0);
    command.args(["--package", "vulkan-tools", "--", "vulkaninfo", "--json", "--output"]);
    run(command.arg(&path));
    let printed: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let device = &printed["capabilities"]["device"];
    let mut found = Vec::new();
    members(&device["properties"], &mut found);
    members(&device["features"], &mut found);
    let of = |name: &str| {
        let mut found = found.iter().filter(|(found, _)| *found == name);
        found.next().unwrap_or_else(|| panic!("no {name}: {printed}")).1
    };
    let numbers = |name: &str| -> Vec<f64> {
        all(of(name)).into_iter().map(|number| number.as_f64().unwrap()).collect()
    };
    for (name, least) in LEAST {
        let limit = numbers(name);
        assert_eq!(limit.len(), least.len(), "{name}");
        assert!(limit.iter().zip(*least).all(|(limit, least)| limit >= least), "{name}: {limit:?}");
    }
    for (name, most) in MOST {
        let limit = numbers(name);
        assert!(limit.iter().zip(*most).all(|(limit, most)| limit <= most), "{name}: {limit:?}");
    }
    for (name, among) in AMONG {
        let set = all(of(name));
        assert!(among.iter().all(|one| set.iter().any(|is| *is == one)), "{name}: {set:?}");
    }
    for feature in FEATURES {
        assert_eq!(*of(feature), Value::Bool(true), "{feature}");
    }
    // All values of enumerations and all bits of flags have names, but the driver has no number of Khronos'.
    let unknown = found.iter().filter(|(name, value)| {
        *name != "driverID" && all(value).iter().any(|one| one.to_string().contains("UNKNOWN"))
    });
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&(&str, &Value)>::new());
    let queues = &device["queueFamiliesProperties"][0]["VkQueueFamilyProperties"]["queueFlags"];
    assert!(all(queues).iter().any(|flag| *flag == "VK_QUEUE_COMPUTE_BIT"), "{queues}");
}
