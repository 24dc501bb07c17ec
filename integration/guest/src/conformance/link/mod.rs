// SPDX-License-Identifier: MIT OR Apache-2.0

//! `link.*`: several GPUs that a guest sees as one adapter. Where the adapter is no chain, none is offered.

mod displays;
mod hangs;
mod memory;
mod pair;
mod power;
mod work;

use crate::conformance::behaviour::Behaviour;
use crate::conformance::source::{
    KMD_ALLOCATIONS, KMD_DISPLAY, KMD_ENGINES, KMD_MGPU, KMD_TDR, KMD_VIRTUAL, UM_D_STATES,
};

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("link.nodes", KMD_ENGINES, work::numbered).shows(
        "each node says which GPU has it, GPUs are numbered without a gap, and each has an engine \
         for 3D and one for copies",
    ),
    Behaviour::new("link.work", KMD_MGPU, work::on_each).shows(
        "a process works on every GPU, in user mode and in kernel mode, and one command buffer \
         serves all",
    ),
    Behaviour::new("link.fence", KMD_MGPU, work::fence)
        .shows("a queue of one GPU waits for a native fence that another GPU signals, both ways"),
    Behaviour::new("link.fence.order", KMD_MGPU, work::order).shows(
        "GPUs that alternate keep the order of their frames by native fences, without the CPU",
    ),
    Behaviour::new("link.memory", KMD_ALLOCATIONS, memory::own).shows(
        "an allocation is in the local memory of the GPU that it names, and counts there and on no \
         other",
    ),
    Behaviour::new("link.memory.peer", KMD_VIRTUAL, memory::peer)
        .shows("a copy engine of each GPU reads and writes the local memory of its peer"),
    Behaviour::new("link.memory.moved", KMD_VIRTUAL, memory::moved).shows(
        "an allocation that moves is found by all GPUs in its new place, and what is evicted by \
         none",
    ),
    Behaviour::new("link.memory.full", KMD_ALLOCATIONS, memory::full).shows(
        "the local memory of one GPU that is full costs another nothing, and what it evicts keeps \
         its bytes",
    ),
    Behaviour::new("link.memory.shared", KMD_ALLOCATIONS, memory::shared)
        .shows("another process opens the memory of one GPU by its name, and another GPU reads it"),
    Behaviour::new("link.memory.mirrored", KMD_ALLOCATIONS, memory::mirrored).shows(
        "each GPU has its own copy of a mirrored allocation, at the same address, in its own local \
         memory, and keeps it when it is evicted",
    ),
    Behaviour::new("link.memory.refused", KMD_ALLOCATIONS, memory::refused)
        .shows("a GPU that the chain does not have has no memory"),
    Behaviour::new("link.displays.numbered", KMD_DISPLAY, displays::numbered).shows(
        "connectors and sources are numbered through the chain, and each connector says which GPU \
         has it",
    ),
    Behaviour::new("link.displays.flip", KMD_MGPU, displays::flip).shows(
        "each GPU's monitors show flips at VSYNCs of their own, and events name the source of the \
         chain",
    ),
    Behaviour::new("link.displays.peer", KMD_MGPU, displays::peer)
        .shows("the display of each GPU shows primaries in the local memory of every GPU"),
    Behaviour::new("link.displays.refused", KMD_DISPLAY, displays::refused)
        .shows("no path leads from the source of one GPU to the connector of another"),
    Behaviour::new("link.displays.ended", KMD_DISPLAY, displays::ended).shows(
        "what a process shows on several GPUs goes with it, and primaries are destroyed while \
         another GPU shows them",
    ),
    Behaviour::new("link.displays.d3", UM_D_STATES, displays::power)
        .shows("after D3 the pictures of all GPUs are there again"),
    Behaviour::new("link.power.told", KMD_MGPU, power::told)
        .shows("a GPU that nothing needs is in D3, and says how often and how long it had power"),
    Behaviour::new("link.power.work", KMD_MGPU, power::work).shows(
        "a GPU has power while a queue is on one of its nodes, works, and has none afterwards",
    ),
    Behaviour::new("link.power.memory", KMD_MGPU, power::memory).shows(
        "what is resident in a GPU's memory keeps its power; what is evicted does not, and comes \
         back with its bytes",
    ),
    Behaviour::new("link.power.display", KMD_MGPU, power::display)
        .shows("a GPU has power while its monitor is lit, and for a flip while it is blanked"),
    Behaviour::new("link.power.device", KMD_MGPU, power::device).shows(
        "after the device's D3, a GPU has power again that had it, and another one does not",
    ),
    Behaviour::new("link.fault", KMD_VIRTUAL, hangs::fault)
        .shows("a page fault on one GPU costs its queue and nothing on another GPU"),
    Behaviour::new("link.tdr", KMD_TDR, hangs::hang)
        .shows("a hang on one GPU loses its context, and another GPU works on meanwhile"),
    Behaviour::new("link.tdr.reset", KMD_TDR, hangs::reset).shows(
        "a GPU that must be reset takes the contexts on it along, those on another lose nothing, \
         and it works again",
    ),
];
