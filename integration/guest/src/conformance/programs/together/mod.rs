// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs do with each other.

mod displays;
mod fences;
mod links;
mod memory;
mod queries;
mod turns;

use super::stage::Stage;
use crate::conformance::behaviour::Behaviour;

pub(super) const BEHAVIOURS: [&[Behaviour<Stage>]; 6] = [
    fences::BEHAVIOURS,
    memory::BEHAVIOURS,
    displays::BEHAVIOURS,
    turns::BEHAVIOURS,
    queries::BEHAVIOURS,
    links::BEHAVIOURS,
];
