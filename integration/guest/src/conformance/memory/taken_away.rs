// SPDX-License-Identifier: MIT OR Apache-2.0

//! `paging.taken-away.*`: a process that loses its memory to another.

use super::paging::{local, part, refused};
use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{Allocation, CommandBuffer, GpuMapping};
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::hw_queue::DestroyHwQueue;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("paging.taken-away.comes-back", source::KMD_PAGING, taken_away).shows(
        "memory that was taken from a process over its budget comes back when there is room, and \
         its work continues",
    ),
    Behaviour::new("paging.taken-away.destroyed", source::UM_TERMINATION, taken_away_destroyed)
        .shows(
            "a queue that is destroyed while its process's memory is taken away executes its \
             submissions once the memory is back",
        ),
];

/// As many allocations in local memory as there is room for, each filled with its number.
fn take_all(greedy: &mut Bench) -> Result<Vec<(Arc<Allocation>, GpuMapping)>, Mismatch> {
    let size = part(local(greedy)?, 16);
    let mut placed = Vec::new();
    loop {
        let allocation = greedy.device.allocation(size).segments(SegmentSet::LOCAL).create()?;
        if let Err(error) = allocation.make_resident() {
            let status = refused(Err::<(), _>(error));
            let expected = [Status::INSUFFICIENT_RESOURCES, Status::GRAPHICS_NO_VIDEO_MEMORY];
            require!(status.is_some_and(|status| expected.contains(&status)), "{status:?}");
            return Ok(placed);
        }
        let mapping = allocation.map(Protection::WRITE)?;
        greedy.commands.fill(mapping.gpu_va(), size, placed.len() as u32 + 1)?;
        greedy.run()?;
        placed.push((allocation, mapping));
    }
}

/// A process within its budget, and the allocations that it took from the process over its budget.
fn take_from(scene: &Scene, greedy: &Bench) -> Result<(Bench, Arc<Allocation>), Mismatch> {
    let modest = scene.bench()?;
    let budget = modest.device.video_memory_info(SegmentSet::LOCAL)?.budget;
    let share = modest.device.allocation(part(budget, 2)).segments(SegmentSet::LOCAL).create()?;
    share.make_resident()?;
    let wanted = greedy.device.wait_for_trim(TIMEOUT)?;
    require!(wanted.is_some(), "it was not asked to trim");
    Ok((modest, share))
}

/// Contexts of one priority take turns: when this process's second submission ends, another context that
/// could execute has had its turn.
fn let_others_have_a_turn(modest: &mut Bench) -> Result<(), Mismatch> {
    for _ in 0..2 {
        modest.commands.nop()?;
        modest.run()?;
    }
    Ok(())
}

fn taken_away(scene: &Scene) -> Result<(), Mismatch> {
    let mut greedy = scene.bench()?;
    let placed = take_all(&mut greedy)?;
    let (mut modest, share) = take_from(scene, &greedy)?;
    // What it submits now executes when all its allocations are resident again.
    for (index, (_, mapping)) in placed.iter().enumerate() {
        let last = mapping.gpu_va() + mapping.size() - 4;
        greedy.commands.copy(last, greedy.va(index as u64 * 8), 4)?;
    }
    let value = greedy.queue.submit(&mut greedy.commands)?;
    let_others_have_a_turn(&mut modest)?;
    let early = greedy.queue.progress_fence().current_value()?;
    require!(early < value, "it executed without its memory");
    share.evict()?;
    greedy.queue.progress_fence().poll(value, TIMEOUT)?;
    for index in 0..placed.len() {
        let seen = greedy.word(index * 8)? as u32;
        require!(seen as usize == index + 1, "allocation {index} holds {seen}");
    }
    Ok(())
}

fn taken_away_destroyed(scene: &Scene) -> Result<(), Mismatch> {
    let mut greedy = scene.bench()?;
    let mut queue = greedy.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&greedy.device, 128)?;
    let placed = take_all(&mut greedy)?;
    let (mut modest, share) = take_from(scene, &greedy)?;
    queue.submit(commands.write_data(greedy.va(0), &7u64.to_le_bytes())?)?;
    let (process, request) =
        (greedy.process.process(), DestroyHwQueue { hw_queue: queue.handle() });
    thread::scope(|threads| {
        let ending = threads.spawn(|| raw::call(scene.transport(), process, &request));
        let mut observe = || {
            let start = Instant::now();
            while queue.status() != ConnectionStatus::DISCONNECTED_ABORT {
                require!(start.elapsed() < TIMEOUT, "the queue's end does not begin");
                thread::yield_now();
            }
            let_others_have_a_turn(&mut modest)?;
            require!(greedy.word(0)? == 0, "it executed without its memory");
            require!(!ending.is_finished(), "it ended with its work still to do");
            Ok(())
        };
        // Gives the memory back in any case, so that the test does not time out at its end.
        let seen: Result<(), Mismatch> = observe();
        share.evict()?;
        ending.join().map_err(|_| Mismatch::Seen("the thread panicked".into()))??;
        seen
    })?;
    require!(greedy.word(0)? == 7, "what it was given was not executed");
    drop(placed);
    Ok(())
}
