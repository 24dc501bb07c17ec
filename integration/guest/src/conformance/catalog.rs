// SPDX-License-Identifier: MIT OR Apache-2.0

//! The list of all behaviours.

use super::behaviour::Behaviour;
use super::{
    adapter, agent, display, fence, handle, kernel, km, link, memory, name, packet, power, process,
    queue, scheduling, security, video, virtqueue,
};

/// All behaviours, in the order in which they run.
pub(super) fn behaviours() -> impl Iterator<Item = &'static Behaviour> {
    [
        adapter::BEHAVIOURS,
        handle::BEHAVIOURS,
        name::BEHAVIOURS,
        memory::fixed::BEHAVIOURS,
        memory::sharing::BEHAVIOURS,
        memory::paging::BEHAVIOURS,
        memory::taken_away::BEHAVIOURS,
        packet::BEHAVIOURS,
        queue::um::BEHAVIOURS,
        queue::doorbell::BEHAVIOURS,
        queue::doorbell_line::BEHAVIOURS,
        scheduling::context::BEHAVIOURS,
        scheduling::sched::BEHAVIOURS,
        power::BEHAVIOURS,
        process::BEHAVIOURS,
        agent::BEHAVIOURS,
        fence::native::BEHAVIOURS,
        fence::cpu::BEHAVIOURS,
        fence::log::BEHAVIOURS,
        fence::sharing::BEHAVIOURS,
        fence::types::BEHAVIOURS,
        fence::cross::BEHAVIOURS,
        fence::monitored::BEHAVIOURS,
        fence::rewind::BEHAVIOURS,
        km::BEHAVIOURS,
        kernel::BEHAVIOURS,
        display::BEHAVIOURS,
        display::seen::BEHAVIOURS,
        video::BEHAVIOURS,
        link::BEHAVIOURS,
        security::BEHAVIOURS,
        queue::fault::BEHAVIOURS,
        scheduling::tdr::BEHAVIOURS,
        virtqueue::BEHAVIOURS,
    ]
    .into_iter()
    .flatten()
}
