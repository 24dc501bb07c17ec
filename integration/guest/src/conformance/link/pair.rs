// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process that works on two GPUs of a chain.

use crate::client::{Client, Shape};
use crate::conformance::behaviour::Mismatch;
use crate::conformance::scene::{MEMORY, Scene};
use bellhop_guest_umd::Device;
use bellhop_protocol::control::adapter::{EngineType, NodeMetadata};

/// The nodes of the chain, if there is one.
pub(super) fn nodes(scene: &Scene) -> Result<Vec<NodeMetadata>, Mismatch> {
    let nodes = scene.adapter().nodes()?;
    if nodes.iter().all(|node| node.gpu() == 0) {
        return Err(Mismatch::NotOffered("the adapter has one GPU".to_owned()));
    }
    Ok(nodes)
}

/// The first node of a GPU with engines of a type.
pub(super) fn node_of(
    nodes: &[NodeMetadata],
    gpu: u8,
    engine_type: EngineType,
) -> Result<u32, Mismatch> {
    let mut found = (0..).zip(nodes);
    let found = found.find(|(_, node)| node.gpu() == gpu && node.engine_type == engine_type);
    let missing = format!("GPU {gpu} has no {engine_type} node");
    found.map(|(node, _)| node).ok_or(Mismatch::Seen(missing))
}

/// Two clients of one process, on one device: the first on the master, the second on the first slave.
pub(super) struct Pair {
    pub(super) master: Client,
    pub(super) slave: Client,
}

impl Pair {
    /// Both on nodes of this type.
    pub(super) fn new(scene: &Scene, engine_type: EngineType) -> Result<Self, Mismatch> {
        let nodes = nodes(scene)?;
        let process = scene.adapter().open_process()?;
        let device = process.create_device()?;
        let on = |gpu| -> Result<Client, Mismatch> {
            let node = node_of(&nodes, gpu, engine_type)?;
            let shape = Shape { node, memory: MEMORY, ..Shape::default() };
            Ok(Client::on(process.clone(), device.clone(), shape)?)
        };
        Ok(Self { master: on(0)?, slave: on(1)? })
    }

    /// The device of both.
    pub(super) fn device(&self) -> &Device {
        &self.master.device
    }

    /// Both, the master first.
    pub(super) fn both(&mut self) -> [&mut Client; 2] {
        [&mut self.master, &mut self.slave]
    }
}
