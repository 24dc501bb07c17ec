// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which node does which stage.

use anyhow::Context;
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::adapter::{EngineType, NodeMetadata};

/// The nodes of the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    /// Transforms and hashes.
    pub compute: u32,
    /// Copies to local memory.
    pub copy_in: u32,
    /// Copies from local memory.
    pub copy_out: u32,
}

impl Nodes {
    /// A node for each stage, if there are as many.
    ///
    /// # Errors
    /// When there is no compute node.
    pub fn of(adapter: &Adapter) -> anyhow::Result<Self> {
        let nodes = adapter.nodes().context("cannot query the nodes")?;
        let of_type = |wanted: EngineType| {
            let is_wanted = move |(_, node): &(u32, &NodeMetadata)| node.engine_type == wanted;
            (0u32..).zip(&nodes).filter(is_wanted).map(|(ordinal, _)| ordinal)
        };
        let compute = of_type(EngineType::THREE_D).next().context("there is no compute node")?;
        let mut copies = of_type(EngineType::COPY);
        let copy_in = copies.next().unwrap_or(compute);
        Ok(Self { compute, copy_in, copy_out: copies.next().unwrap_or(copy_in) })
    }

    /// How many engines these are.
    pub(super) fn engines(self) -> u64 {
        let Self { compute, copy_in, copy_out } = self;
        1 + u64::from(copy_in != compute) + u64::from(copy_out != copy_in && copy_out != compute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_that_share_a_node_share_its_engine() {
        let engines = |compute, copy_in, copy_out| Nodes { compute, copy_in, copy_out }.engines();
        assert_eq!(engines(0, 1, 2), 3);
        assert_eq!(engines(0, 1, 1), 2);
        assert_eq!(engines(0, 0, 0), 1);
    }
}
