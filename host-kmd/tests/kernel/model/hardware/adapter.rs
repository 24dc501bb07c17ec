// SPDX-License-Identifier: MIT OR Apache-2.0

//! The properties of the model's adapter.

use crate::model::Model;
use bellhop_host_kmd::ddi::VirtualAddressingModel;
use bellhop_host_kmd::hardware::{Adapter, DoorbellModel, NodeDescription};

impl Adapter for Model {
    fn nodes(&self) -> &[NodeDescription] {
        self.nodes
    }

    fn doorbell_model(&self) -> DoorbellModel {
        self.state().model
    }

    fn virtual_addressing_model(&self) -> VirtualAddressingModel {
        self.state().addressing
    }

    fn optimized_fence_interrupt(&self) -> bool {
        self.optimized_fence_interrupt
    }

    fn physical_doorbells(&self) -> u32 {
        self.physical_doorbells
    }
}
