// SPDX-License-Identifier: MIT OR Apache-2.0

//! The properties of a GPU: its nodes, and how it reaches doorbells and memory.

use crate::hardware::addressing::VirtualAddressingModel;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::security::SecurityCaps;

/// How queues and doorbells relate, for all guests of an adapter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DoorbellModel {
    /// Each HW queue has its own doorbell, which one of few physical doorbells watches.
    #[default]
    Dedicated,
    /// All HW queues of a guest ring one doorbell, and engines see every ring.
    Global,
}

/// The properties of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeDescription {
    /// The type of its engine.
    pub engine_type: EngineType,
    /// A name for people.
    pub name: &'static str,
    /// Whether its queues may take user-mode submissions.
    pub user_mode_submission: bool,
    /// The only host processor on which its engine runs, if the operator chose one.
    pub processor: Option<usize>,
}

/// What the graphics kernel and the driver both read of a GPU. It never changes.
pub trait Adapter {
    /// The nodes, by ordinal.
    fn nodes(&self) -> &[NodeDescription];

    /// How queues and doorbells relate.
    fn doorbell_model(&self) -> DoorbellModel {
        DoorbellModel::Dedicated
    }

    /// Number of physical doorbells, in the dedicated model.
    fn physical_doorbells(&self) -> u32;
}

/// What the driver advertises for its GPU. It never changes.
pub trait DriverCaps {
    /// How the GPU reaches memory.
    fn virtual_addressing_model(&self) -> VirtualAddressingModel {
        VirtualAddressingModel::GpuVaIoMmuGlobal
    }

    /// Whether interrupts for logged signals name HW queues:
    /// [`Interrupt::NativeFencesLogged`](super::Interrupt::NativeFencesLogged).
    fn optimized_fence_interrupt(&self) -> bool {
        false
    }
}

/// What the graphics kernel reads of a chain of GPUs, or of one alone. It never changes.
pub trait Chain {
    /// Number of GPUs.
    fn gpu_count(&self) -> u8 {
        1
    }

    /// What its security node offers; all 0 without one. In a chain, that of the first GPU that has one.
    fn security_caps(&self) -> SecurityCaps {
        SecurityCaps::default()
    }
}
