// SPDX-License-Identifier: MIT OR Apache-2.0

//! What one program cannot do to another.

mod doorbells;
mod ends;
mod events;
mod faults;
mod fences;
mod handles;
mod limits;
mod memory;
mod sessions;
mod users;

pub(super) use ends::{shared_fence, shared_memory};

use super::stage::Stage;
use crate::conformance::behaviour::Behaviour;

pub(super) const BEHAVIOURS: [&[Behaviour<Stage>]; 10] = [
    users::BEHAVIOURS,
    memory::BEHAVIOURS,
    doorbells::BEHAVIOURS,
    handles::BEHAVIOURS,
    fences::BEHAVIOURS,
    events::BEHAVIOURS,
    sessions::BEHAVIOURS,
    limits::BEHAVIOURS,
    faults::BEHAVIOURS,
    ends::BEHAVIOURS,
];
