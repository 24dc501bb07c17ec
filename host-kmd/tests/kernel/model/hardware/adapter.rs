// SPDX-License-Identifier: MIT OR Apache-2.0

//! The properties of the model's adapter.

use crate::model::Model;
use bellhop_host_kmd::ddi::VirtualAddressingModel;
use bellhop_host_kmd::hardware::{Adapter, Chain, DoorbellModel, DriverCaps, NodeDescription};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::security::{SECURITY_SUPPORTED, SecurityCaps};

impl Adapter for Model {
    fn nodes(&self) -> &[NodeDescription] {
        self.nodes
    }

    fn doorbell_model(&self) -> DoorbellModel {
        self.state().model
    }

    fn physical_doorbells(&self) -> u32 {
        self.physical_doorbells
    }
}

impl DriverCaps for Model {
    fn virtual_addressing_model(&self) -> VirtualAddressingModel {
        self.state().addressing
    }

    fn optimized_fence_interrupt(&self) -> bool {
        self.optimized_fence_interrupt
    }
}

impl Chain for Model {
    fn security_caps(&self) -> SecurityCaps {
        let node = self.nodes.iter().position(|node| node.engine_type == EngineType::CRYPTO);
        let Some(node) = node else { return SecurityCaps::default() };
        SecurityCaps { flags: SECURITY_SUPPORTED, node: node as u32, ..SecurityCaps::default() }
    }
}
