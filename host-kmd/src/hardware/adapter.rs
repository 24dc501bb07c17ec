// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a GPU is: its nodes, and how it reaches doorbells and memory.

use crate::hardware::addressing::VirtualAddressingModel;
use bellhop_protocol::control::adapter::EngineType;

/// How queues and doorbells go together, for all of an adapter's guests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DoorbellModel {
    /// Each HW queue has a doorbell of its own, which one of few physical doorbells watches.
    #[default]
    Dedicated,
    /// All HW queues of a guest ring one doorbell, and engines see every ring.
    Global,
}

/// What a node is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeDescription {
    /// What its engine is made for.
    pub engine_type: EngineType,
    /// A name for people.
    pub name: &'static str,
    /// Whether its queues may be for user-mode submission.
    pub user_mode_submission: bool,
    /// The only processor of the host that its engine runs on, if the operator chose one.
    pub processor: Option<usize>,
}

/// What a GPU is. Nothing of it changes.
pub trait Adapter {
    /// The nodes, by ordinal.
    fn nodes(&self) -> &[NodeDescription];

    /// How queues and doorbells go together.
    fn doorbell_model(&self) -> DoorbellModel {
        DoorbellModel::Dedicated
    }

    /// How it reaches memory.
    fn virtual_addressing_model(&self) -> VirtualAddressingModel {
        VirtualAddressingModel::GpuVaIoMmuGlobal
    }

    /// Whether interrupts for signals that are logged name HW queues:
    /// [`Interrupt::NativeFencesLogged`](super::Interrupt::NativeFencesLogged).
    fn optimized_fence_interrupt(&self) -> bool {
        false
    }

    /// How many physical doorbells there are, in the dedicated model.
    fn physical_doorbells(&self) -> u32;
}
