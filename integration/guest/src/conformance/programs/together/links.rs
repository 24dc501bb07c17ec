// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.link.*`: programs on several GPUs that the host linked into one adapter.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::apart::shared_fence;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{
    Allocate, CreateQueue, Finish, OpenAllocation, ShareAllocation, Step, Submit,
};
use crate::conformance::source;
use bellhop_protocol::control::adapter::EngineType;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.link.fence", source::KMD_MGPU, fence)
        .shows("queues of two programs on two GPUs hand a shared fence to each other"),
    Behaviour::new("program.link.memory", source::KMD_MGPU, memory)
        .shows("a program on one GPU reads what another program has in the other GPU's memory"),
];

/// Queues of both programs: of the first on the master, of the second on the first slave.
fn nodes(stage: &Stage) -> Result<[u32; 2], Mismatch> {
    if stage.nodes().iter().all(|node| node.gpu() == 0) {
        return Err(Mismatch::NotOffered("the adapter has one GPU".into()));
    }
    Ok([stage.node(EngineType::COPY, 0)?, stage.node(EngineType::COPY, 1)?])
}

fn fence(stage: &Stage) -> Result<(), Mismatch> {
    let [master, slave] = nodes(stage)?;
    let [mut one, mut other] = stage.pair()?;
    let [fence, its_fence] = shared_fence(&mut one, &mut other)?;
    let first = one.ask(CreateQueue { node: master })?.queue;
    let second = other.ask(CreateQueue { node: slave })?.queue;
    for round in 0..8 {
        let (odd, even) = (2 * round + 1, 2 * round + 2);
        let steps = vec![
            Step::Wait { fence: its_fence, value: odd },
            Step::Signal { fence: its_fence, value: even },
        ];
        let held = other.ask(Submit { queue: second, steps, times: 1 })?;
        let steps = vec![Step::Signal { fence, value: odd }, Step::Wait { fence, value: even }];
        let value = one.ask(Submit { queue: first, steps, times: 1 })?;
        one.ask(Finish { queue: first, value })?;
        other.ask(Finish { queue: second, value: held })?;
    }
    Ok(())
}

fn memory(stage: &Stage) -> Result<(), Mismatch> {
    const SIZE: u64 = 64 << 10;
    let [master, slave] = nodes(stage)?;
    let [mut one, mut other] = stage.pair()?;
    let theirs = other.ask(Allocate { size: SIZE, shared: true, gpu: 1 })?;
    let name = other.ask(ShareAllocation { allocation: theirs.allocation })?;
    let its_at = theirs.gpu_va;
    let opened = one.ask(OpenAllocation { name })?;
    let second = other.ask(CreateQueue { node: slave })?.queue;
    let first = one.ask(CreateQueue { node: master })?.queue;
    let steps = vec![Step::Fill { to: its_at, length: SIZE, pattern: 9 }];
    let value = other.ask(Submit { queue: second, steps, times: 1 })?;
    other.ask(Finish { queue: second, value })?;
    let own = one.introduction()?.memory;
    let steps = vec![Step::Copy { from: opened.gpu_va + SIZE - 8, to: own, length: 8 }];
    let value = one.ask(Submit { queue: first, steps, times: 1 })?;
    one.ask(Finish { queue: first, value })?;
    let word = one.word(0)?;
    require!(word == 0x0000_0009_0000_0009, "the other GPU's memory reads {word:#x}");
    Ok(())
}
