// SPDX-License-Identifier: MIT OR Apache-2.0

//! What draws frames on one GPU of a chain.

use super::chain::Chain;
use super::tunnel::Tunnel;
use bellhop_guest_umd::{Error, GpuMapping, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;

/// Bytes of a ring: room for the submissions of some hundred frames.
const RING: u64 = 16 << 10;

/// A queue of a GPU, and an image in its own local memory.
pub(super) struct Renderer {
    // Dropped in this order.
    pub(super) queue: UserModeQueue,
    pub(super) image: GpuMapping,
}

impl Renderer {
    pub(super) fn new(chain: &Chain, gpu: u8, tunnel: Tunnel) -> anyhow::Result<Self> {
        let queue = queue(chain, gpu, EngineType::THREE_D)?;
        let size = u64::from(tunnel.pitch()) * u64::from(tunnel.height);
        Ok(Self { queue, image: chain.local_memory(gpu, size)? })
    }

    /// The image: its address and its pitch.
    pub(super) fn surface(&self, tunnel: Tunnel) -> (u64, u32) {
        (self.image.gpu_va(), tunnel.pitch())
    }
}

/// A queue on a GPU's node of a type.
pub(super) fn queue(
    chain: &Chain,
    gpu: u8,
    engine_type: EngineType,
) -> Result<UserModeQueue, Error> {
    let node = chain.adapter.least_used_node_of(gpu, engine_type)?;
    chain.device.create_context(node)?.create_user_mode_queue(RING)
}
