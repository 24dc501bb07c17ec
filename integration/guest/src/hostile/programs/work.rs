// SPDX-License-Identifier: MIT OR Apache-2.0

//! Work: without end, with faults, and too much.

use super::scene::{Group, Scene};
use super::session::Session;
use crate::client::{Client, Shape};
use crate::hostile::much_work::MuchWork;
use anyhow::{Context as _, ensure};
use bellhop_guest_umd::Adapter;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::fence::{CreateNativeFence, FenceValue, WaitForFences};
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::status::Status;
use std::time::Duration;
use zerocopy::IntoBytes;

pub(super) const ATTACKS: Group = &[
    ("endless-work", endless),
    ("endless-work-left", endless_left),
    ("faults", faults),
    ("much-work", much),
    ("waits-by-the-thousand", waits),
    ("queues-to-the-limit", queues),
    ("memory-to-the-limit", memory),
    ("fences-to-the-limit", fences),
];

/// How long the device may take to end a program's work.
const LONG: Duration = Duration::from_secs(60);
/// Bytes of much work: more than an engine writes in a turn.
const MUCH: u64 = 2 << 20;
/// Most objects that an attack creates.
const MANY: u64 = 5000;

fn adapter(scene: &Scene) -> anyhow::Result<Adapter> {
    Ok(Adapter::open(scene.library()?)?)
}

/// A program on an engine that does not come to an end by itself.
fn spinning(scene: &Scene, node: u32) -> anyhow::Result<(Client, u64)> {
    let mut client = Client::new(adapter(scene)?, Shape { node, ..Shape::default() })?;
    let at = client.va(0);
    client.commands.dispatch(Kernel::SPIN_UNTIL, at, at + 8, 8, 1)?;
    let value = client.submit()?;
    Ok((client, value))
}

/// The device ends it.
fn endless(scene: &mut Scene) -> anyhow::Result<()> {
    for node in 0..2 {
        let (client, value) = spinning(scene, node)?;
        let ended = client.queue.progress_fence().poll(value, LONG);
        ensure!(ended.is_err(), "work without an end was done");
    }
    Ok(())
}

/// The program goes in the middle of it.
fn endless_left(scene: &mut Scene) -> anyhow::Result<()> {
    for node in 0..2 {
        let session = spinning(scene, node)?;
        drop(session);
    }
    Ok(())
}

/// Stores where the program has nothing.
fn faults(scene: &mut Scene) -> anyhow::Result<()> {
    let adapter = adapter(scene)?;
    for address in [0, PAGE_SIZE, 1 << 40, u64::MAX - PAGE_SIZE + 1] {
        for node in 0..3 {
            let shape = Shape { node, ..Shape::default() };
            let mut client = Client::new(adapter.open_process()?, shape)?;
            client.commands.write_data(address, &[7; 64])?;
            let value = client.submit()?;
            ensure!(client.finish(value).is_err(), "a store to {address:#x} was done");
        }
    }
    Ok(())
}

fn much(scene: &mut Scene) -> anyhow::Result<()> {
    let mut work = MuchWork::new(adapter(scene)?, MUCH)?;
    (0..8).try_for_each(|_| Ok(work.round(LONG)?))
}

/// Waits that nothing satisfies, which the program leaves.
fn waits(scene: &mut Scene) -> anyhow::Result<()> {
    for _ in 0..3 {
        let session = Session::open(&scene.socket)?;
        let (process, device) = session.device()?;
        let (status, fence) = session.ask(process, &CreateNativeFence::new(device, 0), &[])?;
        ensure!(status.is_success(), "a fence was refused: {status}");
        let fence = fence.context("the reply has no fence")?.fence;
        for cookie in 0..MANY {
            let list = FenceValue { fence, value: u64::MAX - 1 };
            let wait = WaitForFences { cookie, flags: 0, count: 1 };
            let (status, _) = session.ask(process, &wait, list.as_bytes())?;
            ensure!(status == Status::PENDING, "a wait: {status}");
        }
    }
    Ok(())
}

/// More than the program has doorbells.
fn queues(scene: &mut Scene) -> anyhow::Result<()> {
    let adapter = adapter(scene)?;
    let device = adapter.create_device()?;
    let context = device.create_context(0)?;
    let mut queues = Vec::new();
    while let Ok(queue) = context.create_user_mode_queue(PAGE_SIZE) {
        ensure!((queues.len() as u64) < MANY, "a program has queues without end");
        queues.push(queue);
    }
    Ok(())
}

/// Allocations until there are no more pages, and until the library has none.
fn memory(scene: &mut Scene) -> anyhow::Result<()> {
    let adapter = adapter(scene)?;
    let device = adapter.create_device()?;
    let mut kept = Vec::new();
    for pages in [1 << 10, 1 << 6, 1] {
        while let Ok(allocation) =
            device.create_allocation(AllocationKind::SYSTEM, pages * PAGE_SIZE)
        {
            ensure!((kept.len() as u64) < MANY, "a program has memory without end");
            kept.push(allocation);
        }
    }
    Ok(())
}

fn fences(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let (process, device) = session.device()?;
    for number in 0..=MANY {
        let (status, _) = session.ask(process, &CreateNativeFence::new(device, 0), &[])?;
        if !status.is_success() {
            return session.is_served();
        }
        ensure!(number < MANY, "a program has fences without end");
    }
    Ok(())
}
