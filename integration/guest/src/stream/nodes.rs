// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which node executes which stage.

use super::COMPUTE_QUEUES;
use anyhow::Context;
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::adapter::{
    EngineType, NODE_USER_MODE_SUBMISSION_SUPPORTED, NodeMetadata,
};

/// The nodes of the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    /// Transform and hash, alternating between chunks.
    pub compute: [u32; COMPUTE_QUEUES],
    /// Copies chunks to local memory.
    pub copy_in: u32,
    /// Copies chunks from local memory.
    pub copy_out: u32,
}

impl Nodes {
    /// A separate node for each stage, if there are enough.
    ///
    /// # Errors
    /// When there is no compute node.
    pub fn of(adapter: &Adapter) -> anyhow::Result<Self> {
        let nodes = adapter.nodes().context("cannot query the nodes")?;
        let compute = adapter.least_used_node(EngineType::THREE_D);
        let compute = compute.context("there is no compute node")?;
        let Ok(copy_in) = adapter.least_used_node(EngineType::COPY) else {
            return Ok(Self { compute: [compute; _], copy_in: compute, copy_out: compute });
        };
        let compute = [compute, beside(&nodes, compute)];
        Ok(Self { compute, copy_in, copy_out: beside(&nodes, copy_in) })
    }

    /// The number of distinct engines.
    pub(super) fn engines(self) -> u64 {
        let Self { compute: [first, second], copy_in, copy_out } = self;
        let mut nodes = [first, second, copy_in, copy_out];
        nodes.sort_unstable();
        nodes.chunk_by(u32::eq).count() as u64
    }
}

/// The next node of this one's type, preferably one for user-mode submission; this one if it is the only one.
fn beside(nodes: &[NodeMetadata], this: u32) -> u32 {
    let engine_type = nodes.get(this as usize).map(|node| node.engine_type);
    let others = (0u32..)
        .zip(nodes)
        .filter(|(ordinal, node)| Some(node.engine_type) == engine_type && *ordinal != this);
    let order = others.map(|(ordinal, node)| {
        let is_supported = node.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0;
        (!is_supported, ordinal < this, ordinal)
    });
    order.min().map_or(this, |(_, _, ordinal)| ordinal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_back_go_to_the_next_node_that_a_doorbell_reaches() {
        let node = |engine_type, flags| NodeMetadata { engine_type, flags, friendly_name: [0; 32] };
        let supported = NODE_USER_MODE_SUBMISSION_SUPPORTED;
        let mut nodes = vec![node(EngineType::THREE_D, supported)];
        nodes.extend([supported, supported, 0].map(|flags| node(EngineType::COPY, flags)));
        assert_eq!([0, 1, 2, 3].map(|node| beside(&nodes, node)), [0, 2, 1, 1]);
        nodes.remove(1);
        assert_eq!(beside(&nodes, 1), 2);
        nodes.pop();
        assert_eq!(beside(&nodes, 1), 1);
    }

    #[test]
    fn stages_that_share_a_node_share_its_engine() {
        let engines = |compute, copy_in, copy_out| Nodes { compute, copy_in, copy_out }.engines();
        assert_eq!(engines([0, 0], 1, 2), 3);
        assert_eq!(engines([1, 0], 2, 3), 4);
        assert_eq!(engines([0, 0], 1, 1), 2);
        assert_eq!(engines([0, 0], 0, 0), 1);
    }
}
