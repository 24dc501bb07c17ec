// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is found by name.

use super::*;

/// Whether all of these names are found.
fn are_there(names: &str, find: fn(&[u8]) -> Option<vk::PFN_vkVoidFunction>) {
    for name in names.split_whitespace() {
        assert!(find(name.as_bytes()).flatten().is_some(), "{name}");
    }
}

#[test]
fn everything_of_vulkan_1_3_is_there() {
    are_there(
        "vkCreateInstance vkEnumerateInstanceVersion vkEnumerateInstanceExtensionProperties
         vkEnumerateInstanceLayerProperties vkGetInstanceProcAddr",
        global,
    );
    are_there(
        "vkDestroyInstance vkEnumeratePhysicalDevices vkEnumeratePhysicalDeviceGroups vkGetPhysicalDeviceFeatures
         vkGetPhysicalDeviceFeatures2 vkGetPhysicalDeviceFormatProperties vkGetPhysicalDeviceFormatProperties2
         vkGetPhysicalDeviceImageFormatProperties vkGetPhysicalDeviceImageFormatProperties2
         vkGetPhysicalDeviceProperties vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceQueueFamilyProperties
         vkGetPhysicalDeviceQueueFamilyProperties2 vkGetPhysicalDeviceMemoryProperties
         vkGetPhysicalDeviceMemoryProperties2 vkGetPhysicalDeviceSparseImageFormatProperties
         vkGetPhysicalDeviceSparseImageFormatProperties2 vkGetPhysicalDeviceExternalBufferProperties
         vkGetPhysicalDeviceExternalFenceProperties vkGetPhysicalDeviceExternalSemaphoreProperties
         vkGetPhysicalDeviceToolProperties vkCreateDevice vkEnumerateDeviceExtensionProperties
         vkEnumerateDeviceLayerProperties",
        of_instance,
    );
    are_there(
        "vkGetDeviceProcAddr vkDestroyDevice vkGetDeviceQueue vkGetDeviceQueue2 vkDeviceWaitIdle vkQueueSubmit
         vkQueueSubmit2 vkQueueWaitIdle vkAllocateMemory vkFreeMemory vkMapMemory vkUnmapMemory
         vkFlushMappedMemoryRanges vkInvalidateMappedMemoryRanges vkGetDeviceMemoryCommitment vkBindBufferMemory
         vkBindBufferMemory2 vkGetBufferMemoryRequirements vkGetBufferMemoryRequirements2
         vkGetDeviceBufferMemoryRequirements vkCreateFence vkDestroyFence vkResetFences vkGetFenceStatus
         vkWaitForFences vkCreateSemaphore vkDestroySemaphore vkGetSemaphoreCounterValue vkWaitSemaphores
         vkSignalSemaphore vkCreateEvent vkDestroyEvent vkGetEventStatus vkSetEvent vkResetEvent vkCreateQueryPool
         vkDestroyQueryPool vkGetQueryPoolResults vkResetQueryPool vkCreateBuffer vkDestroyBuffer
         vkGetBufferDeviceAddress vkGetBufferOpaqueCaptureAddress vkGetDeviceMemoryOpaqueCaptureAddress
         vkCreateShaderModule vkDestroyShaderModule vkCreatePipelineCache vkDestroyPipelineCache
         vkGetPipelineCacheData vkMergePipelineCaches vkCreateComputePipelines vkDestroyPipeline
         vkCreatePipelineLayout vkDestroyPipelineLayout vkCreateDescriptorSetLayout vkDestroyDescriptorSetLayout
         vkGetDescriptorSetLayoutSupport vkCreateDescriptorPool vkDestroyDescriptorPool vkResetDescriptorPool
         vkAllocateDescriptorSets vkFreeDescriptorSets vkUpdateDescriptorSets vkCreateDescriptorUpdateTemplate
         vkDestroyDescriptorUpdateTemplate vkUpdateDescriptorSetWithTemplate vkCreateCommandPool
         vkDestroyCommandPool vkResetCommandPool vkTrimCommandPool vkAllocateCommandBuffers vkFreeCommandBuffers
         vkBeginCommandBuffer vkEndCommandBuffer vkResetCommandBuffer vkCmdBindPipeline vkCmdBindDescriptorSets
         vkCmdPushConstants vkCmdDispatch vkCmdDispatchBase vkCmdDispatchIndirect vkCmdCopyBuffer vkCmdCopyBuffer2
         vkCmdUpdateBuffer vkCmdFillBuffer vkCmdSetEvent vkCmdSetEvent2 vkCmdResetEvent vkCmdResetEvent2
         vkCmdWaitEvents vkCmdWaitEvents2 vkCmdPipelineBarrier vkCmdPipelineBarrier2 vkCmdBeginQuery vkCmdEndQuery
         vkCmdResetQueryPool vkCmdWriteTimestamp vkCmdWriteTimestamp2 vkCmdCopyQueryPoolResults
         vkCmdExecuteCommands vkCmdSetDeviceMask vkGetDeviceGroupPeerMemoryFeatures vkCreatePrivateDataSlot
         vkDestroyPrivateDataSlot vkSetPrivateData vkGetPrivateData vkCreateImage vkDestroyImage vkCreateImageView
         vkDestroyImageView vkCreateSampler vkDestroySampler vkCreateBufferView vkDestroyBufferView
         vkGetImageMemoryRequirements vkGetImageMemoryRequirements2 vkGetDeviceImageMemoryRequirements
         vkGetImageSparseMemoryRequirements vkGetImageSparseMemoryRequirements2
         vkGetDeviceImageSparseMemoryRequirements vkGetImageSubresourceLayout vkBindImageMemory vkBindImageMemory2
         vkCreateSamplerYcbcrConversion vkDestroySamplerYcbcrConversion vkCmdCopyImage vkCmdCopyImage2
         vkCmdCopyBufferToImage vkCmdCopyBufferToImage2 vkCmdCopyImageToBuffer vkCmdCopyImageToBuffer2
         vkCmdClearColorImage",
        of_device,
    );
    are_there(
        "vkCreateFramebuffer vkDestroyFramebuffer vkCreateRenderPass vkCreateRenderPass2 vkDestroyRenderPass
         vkGetRenderAreaGranularity vkCreateGraphicsPipelines vkCmdBeginRenderPass vkCmdBeginRenderPass2
         vkCmdNextSubpass vkCmdNextSubpass2 vkCmdEndRenderPass vkCmdEndRenderPass2 vkCmdBeginRendering
         vkCmdEndRendering vkCmdBindVertexBuffers vkCmdBindVertexBuffers2 vkCmdBindIndexBuffer vkCmdDraw
         vkCmdDrawIndexed vkCmdDrawIndirect vkCmdDrawIndexedIndirect vkCmdDrawIndirectCount
         vkCmdDrawIndexedIndirectCount vkCmdClearAttachments vkCmdClearDepthStencilImage vkCmdBlitImage
         vkCmdBlitImage2 vkCmdResolveImage vkCmdResolveImage2 vkCmdSetViewport vkCmdSetScissor vkCmdSetLineWidth
         vkCmdSetDepthBias vkCmdSetBlendConstants vkCmdSetDepthBounds vkCmdSetStencilCompareMask
         vkCmdSetStencilWriteMask vkCmdSetStencilReference vkCmdSetCullMode vkCmdSetFrontFace
         vkCmdSetPrimitiveTopology vkCmdSetViewportWithCount vkCmdSetScissorWithCount vkCmdSetDepthTestEnable
         vkCmdSetDepthWriteEnable vkCmdSetDepthCompareOp vkCmdSetDepthBoundsTestEnable
         vkCmdSetStencilTestEnable vkCmdSetStencilOp vkCmdSetRasterizerDiscardEnable
         vkCmdSetDepthBiasEnable vkCmdSetPrimitiveRestartEnable",
        of_device,
    );
}

#[test]
fn what_extensions_add_is_there() {
    are_there(
        "vkMapMemory2KHR vkUnmapMemory2KHR vkGetDeviceFaultInfoEXT vkCmdPushDescriptorSetKHR
         vkCmdPushDescriptorSetWithTemplateKHR vkGetBufferDeviceAddressKHR vkWaitSemaphoresKHR vkQueueSubmit2KHR
         vkCmdPipelineBarrier2KHR vkResetQueryPoolEXT vkBindBufferMemory2KHR vkCmdDispatchBaseKHR
         vkCmdSetDeviceMaskKHR vkCmdWriteTimestamp2KHR vkCmdSetEvent2KHR vkCmdResetEvent2KHR vkCmdWaitEvents2KHR
         vkCmdCopyBuffer2KHR vkCreateDescriptorUpdateTemplateKHR vkDestroyDescriptorUpdateTemplateKHR
         vkUpdateDescriptorSetWithTemplateKHR vkTrimCommandPoolKHR vkGetDescriptorSetLayoutSupportKHR
         vkSetPrivateDataEXT vkGetImageMemoryRequirements2KHR vkGetDeviceImageMemoryRequirementsKHR
         vkGetImageSparseMemoryRequirements2KHR vkGetDeviceImageSparseMemoryRequirementsKHR vkBindImageMemory2KHR
         vkCmdCopyImage2KHR vkCmdCopyBufferToImage2KHR vkCmdCopyImageToBuffer2KHR vkCreateRenderPass2KHR
         vkCmdBeginRenderPass2KHR vkCmdNextSubpass2KHR vkCmdEndRenderPass2KHR vkCmdBeginRenderingKHR
         vkCmdEndRenderingKHR vkCmdDrawIndirectCountKHR vkCmdDrawIndexedIndirectCountKHR vkCmdBlitImage2KHR
         vkCmdResolveImage2KHR vkCmdBindVertexBuffers2EXT vkCmdSetCullModeEXT vkCmdSetStencilOpEXT
         vkCmdSetPrimitiveRestartEnableEXT",
        of_device,
    );
    are_there("vkGetPhysicalDeviceToolPropertiesEXT", physical_device::lookup);
    are_there(
        "vkCreateSwapchainKHR vkDestroySwapchainKHR vkGetSwapchainImagesKHR vkAcquireNextImageKHR vkAcquireNextImage2KHR
         vkQueuePresentKHR vkWaitForPresentKHR vkGetDeviceGroupPresentCapabilitiesKHR
         vkGetDeviceGroupSurfacePresentModesKHR",
        of_device,
    );
    are_there(
        "vkGetPhysicalDeviceSurfaceSupportKHR vkGetPhysicalDeviceSurfaceCapabilitiesKHR
         vkGetPhysicalDeviceSurfaceFormatsKHR vkGetPhysicalDeviceSurfacePresentModesKHR
         vkGetPhysicalDeviceSurfaceCapabilities2KHR vkGetPhysicalDeviceSurfaceFormats2KHR
         vkGetPhysicalDeviceDisplayPropertiesKHR vkGetPhysicalDeviceDisplayPlanePropertiesKHR
         vkGetDisplayPlaneSupportedDisplaysKHR vkGetDisplayModePropertiesKHR vkCreateDisplayModeKHR
         vkGetDisplayPlaneCapabilitiesKHR vkGetPhysicalDeviceDisplayProperties2KHR
         vkGetPhysicalDeviceDisplayPlaneProperties2KHR vkGetDisplayModeProperties2KHR
         vkGetDisplayPlaneCapabilities2KHR
         vkGetPhysicalDevicePresentRectanglesKHR vkGetPhysicalDeviceXcbPresentationSupportKHR
         vkGetPhysicalDeviceXlibPresentationSupportKHR",
        of_physical_device,
    );
    are_there(
        "vkCreateDisplayPlaneSurfaceKHR vkCreateHeadlessSurfaceEXT vkCreateXcbSurfaceKHR vkCreateXlibSurfaceKHR vkDestroySurfaceKHR",
        of_instance,
    );
}

#[test]
fn a_name_is_found_where_it_belongs_and_nowhere_else() {
    let find = |name: &CStr, instance: u64| {
        let instance = <vk::Instance as vk::Handle>::from_raw(instance);
        // SAFETY: the name is a text, and the instance is not used.
        unsafe { instance_proc_addr(instance, name.as_ptr()) }
    };
    assert!(find(c"vkCreateInstance", 0).is_some());
    assert!(find(c"vkCreateDevice", 0).is_none());
    assert!(find(c"vkCreateDevice", 1).is_some() && find(c"vkCreateBuffer", 1).is_some());
    assert!(find(c"vkCreateVideoSessionKHR", 1).is_none() && find(c"", 1).is_none());
    let of_device = |name: &CStr| {
        // SAFETY: the name is a text.
        unsafe { device_proc_addr(vk::Device::null(), name.as_ptr()) }
    };
    assert!(of_device(c"vkCreateBuffer").is_some() && of_device(c"vkCreateDevice").is_none());
    let of_physical = |name: &CStr| {
        // SAFETY: the name is a text.
        unsafe { vk_icdGetPhysicalDeviceProcAddr(vk::Instance::null(), name.as_ptr()) }
    };
    assert!(of_physical(c"vkGetPhysicalDeviceFeatures2").is_some());
    assert!(of_physical(c"vkEnumeratePhysicalDevices").is_none());
    assert!(of_physical(c"vkCreateBuffer").is_none());
}

#[test]
fn the_loader_and_the_driver_agree_on_a_version() {
    let agree = |mut version| {
        // SAFETY: the pointer is to this variable.
        let result = unsafe { vk_icdNegotiateLoaderICDInterfaceVersion(&raw mut version) };
        (result, version)
    };
    assert_eq!(agree(4).0, vk::Result::ERROR_INCOMPATIBLE_DRIVER);
    assert_eq!(agree(5), (vk::Result::SUCCESS, 5));
    assert_eq!(agree(7), (vk::Result::SUCCESS, 7));
    assert_eq!(agree(9), (vk::Result::SUCCESS, 7));
}
