// SPDX-License-Identifier: MIT OR Apache-2.0

//! The GPUs of the adapter that serve Vulkan programs. Each is a physical device; those with the same Vulkan are a group.

use super::asking::Asking;
use super::caps::Caps;
use crate::pages::out_of;
use ash::vk;
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::protocol::control::adapter::{
    EngineType, NODE_USER_MODE_SUBMISSION_SUPPORTED, NodeMetadata,
};
use bellhop_protocol::control::kernel::{KernelCaps, unpadded};
use bellhop_protocol::vulkan::{CommandCaps, Image, ImageFormat, ImageNeeds, Layers};
use std::collections::BTreeSet;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The Vulkan that executes the commands of a GPU.
struct Host {
    caps: CommandCaps,
    /// Through the first GPU that has this Vulkan: the others answer alike.
    asking: Asking,
}

/// A GPU.
#[derive(Clone)]
pub(crate) struct Gpu {
    /// Its ordinal in the chain of the adapter.
    pub(crate) ordinal: u8,
    /// What it can do.
    pub(crate) caps: Arc<Caps>,
    /// Whether it has nodes that compute beside those that draw.
    pub(super) has_compute_nodes: bool,
    host: Arc<Host>,
}

impl Gpu {
    /// All that serve Vulkan programs, in the order of the chain.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn all(adapter: &Adapter, kernels: &KernelCaps) -> Result<Vec<Self>, String> {
        let nodes = adapter.nodes().map_err(|error| error.to_string())?;
        let run_commands = nodes.iter().filter(|node| node.engine_type == EngineType::THREE_D);
        let ordinals: BTreeSet<u8> = run_commands.map(|node| node.gpu()).collect();
        let mut gpus: Vec<Self> = Vec::new();
        let mut failed = None;
        for ordinal in ordinals {
            let is_compute = |node: &NodeMetadata| {
                node.gpu() == ordinal
                    && node.engine_type == EngineType::COMPUTE
                    && node.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0
            };
            let has_compute_nodes = nodes.iter().any(is_compute);
            match Self::new(adapter, (ordinal, has_compute_nodes), kernels, &gpus) {
                Ok(gpu) => gpus.push(gpu),
                // The others serve without it.
                Err(why) => drop(failed.get_or_insert(why)),
            }
        }
        if gpus.is_empty() {
            return Err(failed.unwrap_or_else(|| "the device has no node for commands".to_owned()));
        }
        Ok(gpus)
    }

    /// A GPU beside those before it: its ordinal, and whether it has nodes that compute beside those that draw.
    fn new(
        adapter: &Adapter,
        (ordinal, has_compute_nodes): (u8, bool),
        kernels: &KernelCaps,
        before: &[Self],
    ) -> Result<Self, String> {
        let asking = Asking::new(adapter.clone(), ordinal);
        let caps = asking.caps().map_err(|error| format!("the host's Vulkan: {error}"))?;
        let is_same = |gpu: &&Self| gpu.host.caps.as_bytes() == caps.as_bytes();
        // A GPU that nobody asks any more may sleep.
        let host = match before.iter().find(is_same) {
            Some(gpu) => Arc::clone(&gpu.host),
            None => Arc::new(Host { caps, asking }),
        };
        let (pointers, driver) = (kernels.have_pointers(), unpadded(&kernels.driver));
        let caps = Caps::new(&host.caps, pointers, driver, ordinal)?;
        Ok(Self { ordinal, caps: Arc::new(caps), has_compute_nodes, host })
    }

    /// Whether one device may consist of both.
    pub(crate) fn is_of_group(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.host, &other.host) && self.has_compute_nodes == other.has_compute_nodes
    }

    /// What an image needs, and where a part of it is.
    ///
    /// # Errors
    /// Why there can be no such image.
    pub(crate) fn image_needs(
        &self,
        image: Image,
        layers: Layers,
    ) -> Result<ImageNeeds, vk::Result> {
        let needs = self.host.asking.image(image, layers).map_err(|error| out_of(&error))?;
        vk::Result::from_raw(needs.result).result_with_success(needs)
    }

    /// Which images of a kind there can be.
    ///
    /// # Errors
    /// Why there can be none.
    pub(super) fn image_format(&self, image: Image) -> Result<ImageFormat, vk::Result> {
        let format = self.host.asking.image_format(image).map_err(|error| out_of(&error))?;
        vk::Result::from_raw(format.result).result_with_success(format)
    }
}
