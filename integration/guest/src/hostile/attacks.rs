// SPDX-License-Identifier: MIT OR Apache-2.0

//! The attacks.

use super::Attacker;
use super::much_work::MuchWork;
use super::noise::{descriptors, packets, request};
use crate::client::{Client, Shape};
use crate::guest::Guest as _;
use anyhow::Context as _;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{AreaKind, BarHeader, doorbell_word_offset};
use bellhop_protocol::control::MAX_REPLY_SIZE;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::packet::dispatch::Kernel;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vm_memory::{Bytes, VolatileMemory};
use zerocopy::{FromZeros, IntoBytes};

/// One attack: runs until it is stopped, or until it cannot continue.
type Attack = fn(&mut Attacker) -> anyhow::Result<()>;

pub(super) const ATTACKS: &[(&str, Attack)] = &[
    ("requests", requests),
    ("doorbells", doorbells),
    ("rings", rings),
    ("endless-work", endless_work),
    ("much-work", much_work),
    ("fences", fences),
    ("queues", queues),
    ("kicks", kicks),
    ("chains", chains),
    ("memory", memory),
];

/// Steps after which an attack takes a new process.
const STEPS: usize = 200;
/// How long an attack waits for an event that may never come.
const SOON: Duration = Duration::from_millis(1);
/// Bytes of the greedy work's target: more than an engine writes in a turn.
const MUCH: u64 = 8 << 20;

fn adapter(attacker: &Attacker) -> anyhow::Result<Adapter> {
    Ok(Adapter::open(Arc::clone(&attacker.guest) as Arc<dyn Transport>)?)
}

fn client(process: Adapter, node: u32, kind: AllocationKind, memory: u64) -> Result<Client, Error> {
    Client::new(process, Shape { node, kind, memory, ..Shape::default() })
}

/// Wrong requests, and some that are valid by chance. Each refusal is a line for the log.
fn requests(attacker: &mut Attacker) -> anyhow::Result<()> {
    let adapter = adapter(attacker)?;
    let device = adapter.create_device()?;
    let words = [0, 1, PAGE_SIZE, 2 * PAGE_SIZE, 1 << 32, device.handle().0, u64::MAX];
    for _ in 0..STEPS {
        let processes = [0, adapter.process(), adapter.process(), u32::MAX];
        let request = request(&mut attacker.noise, &processes, &words);
        attacker.guest.request(&request, &mut [0; MAX_REPLY_SIZE])?;
        if !attacker.goes_on() {
            break;
        }
    }
    Ok(())
}

/// Stores to words that the host reads or publishes: doorbells, last-queued values, statuses and fences. Mostly to
/// those that no queue uses yet and seldom to all, so that the other attacks remain effective.
fn doorbells(attacker: &mut Attacker) -> anyhow::Result<()> {
    let bar = attacker.guest.bar().context("the guest has no BAR")?;
    let mut header = BarHeader::new_zeroed();
    bar.region.as_volatile_slice().read_slice(header.as_mut_bytes(), 0)?;
    let noise = &mut attacker.noise;
    let wanted = [AreaKind::DOORBELLS, AreaKind::PROGRESS, AreaKind::STATUS, AreaKind::FENCES];
    let wanted = noise.pick(&wanted);
    let area =
        header.areas.iter().find(|area| area.kind == wanted).context("an area is missing")?;
    let words = match wanted {
        AreaKind::DOORBELLS => area.length / PAGE_SIZE,
        _ => area.length / size_of::<u64>() as u64,
    };
    let everywhere = noise.below(1 << 16) == 0;
    for word in 0..if everywhere { words } else { 64 } {
        let word = if everywhere { word } else { words / 2 + noise.below(words / 2) };
        let offset = match wanted {
            AreaKind::DOORBELLS => word * PAGE_SIZE + doorbell_word_offset(word as u32),
            _ => word * size_of::<u64>() as u64,
        };
        let value = noise.number();
        let value = noise.pick(&[value, 0, 1, 8, PAGE_SIZE, 3, u64::MAX]);
        let word = bar.region.get_atomic_ref::<AtomicU64>((area.offset + offset) as usize)?;
        word.store(value, Ordering::Relaxed);
    }
    Ok(())
}

/// Garbage in rings and command buffers, and write pointers out of range.
fn rings(attacker: &mut Attacker) -> anyhow::Result<()> {
    let adapter = adapter(attacker)?;
    while attacker.goes_on() {
        let noise = &mut attacker.noise;
        let (process, node) = (adapter.open_process()?, noise.below(3) as u32);
        let mut client = client(process, node, AllocationKind::LOCAL, 2 * PAGE_SIZE)?;
        let bytes = packets(noise, client.va(0));
        let submitted = match noise.below(3) {
            0 => client.queue.queue_raw(&bytes).and_then(|()| {
                client.queue.ring_with(noise.pick(&[8, 4096, 4104, 7, u64::MAX])).map(|()| 1)
            }),
            _ => client.commands.raw(&bytes).map(|_| ()).and_then(|()| client.submit()),
        };
        // It is done, or lost, or waits for a fence that no queue signals.
        let _ = submitted.and_then(|value| client.queue.progress_fence().poll(value, SOON));
    }
    Ok(())
}

/// Work without an end, until the device ends it.
fn endless_work(attacker: &mut Attacker) -> anyhow::Result<()> {
    let mut client = client(adapter(attacker)?, 0, AllocationKind::LOCAL, PAGE_SIZE)?;
    let at = client.va(0);
    client.commands.dispatch(Kernel::SPIN_UNTIL, at, at + 8, 8, 1)?;
    let value = client.submit()?;
    while attacker.goes_on() {
        match client.queue.progress_fence().poll(value, 100 * SOON) {
            Err(Error::Timeout { .. }) => {}
            _ => break,
        }
    }
    // Otherwise, its objects could not be destroyed until a time-out.
    Ok(client.write(0, &1u64.to_le_bytes())?)
}

fn much_work(attacker: &mut Attacker) -> anyhow::Result<()> {
    let mut work = MuchWork::new(adapter(attacker)?, MUCH)?;
    while attacker.goes_on() {
        work.round(1000 * SOON)?;
    }
    Ok(())
}

/// Fences that are created, signaled, waited for in vain, and destroyed while waits are pending. No thread takes
/// the events.
fn fences(attacker: &mut Attacker) -> anyhow::Result<()> {
    let adapter = adapter(attacker)?;
    let device = adapter.create_device()?;
    let mut queue = device.create_context(1)?.create_user_mode_queue(PAGE_SIZE)?;
    let mut commands = CommandBuffer::new(&device, 2048)?;
    for _ in 0..STEPS {
        let fence = device.fence(0).shared().create()?;
        commands.reset();
        for value in 1..=8 {
            commands.signal_fence(&fence, value)?;
        }
        commands.wait_fence(&fence, 4)?;
        let value = queue.submit(&mut commands)?;
        // Values behind those that packets signal, and values that no packet signals.
        let _ = fence.signal(attacker.noise.below(16));
        let _ = fence.wait(u64::MAX, Duration::ZERO);
        queue.progress_fence().poll(value, 100 * SOON)?;
        if !attacker.goes_on() {
            break;
        }
    }
    Ok(())
}

/// Queues that are created, connected and destroyed, with work and without: more than there are doorbells
/// to watch.
fn queues(attacker: &mut Attacker) -> anyhow::Result<()> {
    let adapter = adapter(attacker)?;
    let device = adapter.create_device()?;
    let context = device.create_context(attacker.noise.below(3) as u32)?;
    let mut commands = CommandBuffer::new(&device, 64)?;
    commands.nop()?;
    let mut queues = Vec::new();
    for _ in 0..STEPS {
        let mut queue = context.create_user_mode_queue(PAGE_SIZE)?;
        queue.submit(&mut commands)?;
        queues.push(queue);
        if attacker.noise.below(4) == 0 {
            let place = attacker.noise.below(queues.len() as u64);
            queues.swap_remove(place as usize);
        }
        if !attacker.goes_on() {
            break;
        }
    }
    Ok(())
}

/// Notifications with nothing in the queues.
fn kicks(attacker: &mut Attacker) -> anyhow::Result<()> {
    attacker.guest.kick()?;
    Ok(())
}

/// Garbage in the control queue.
fn chains(attacker: &mut Attacker) -> anyhow::Result<()> {
    let memory = attacker.guest.memory(2 * PAGE_SIZE)?;
    for _ in 0..STEPS {
        let end = attacker.guest.end_of_memory();
        let chain = descriptors(&mut attacker.noise, memory.address(), end);
        memory.bytes()?.write_slice(&attacker.noise.bytes(64), 0)?;
        attacker.guest.offer_raw(&chain)?;
        if !attacker.goes_on() {
            break;
        }
    }
    Ok(())
}

/// Memory of all kinds that is created, destroyed and moved, and mapped meanwhile.
fn memory(attacker: &mut Attacker) -> anyhow::Result<()> {
    let adapter = adapter(attacker)?;
    let device = adapter.create_device()?;
    let mut kept = Vec::new();
    for _ in 0..STEPS {
        let size = PAGE_SIZE << attacker.noise.below(8);
        let allocation = match attacker.noise.below(3) {
            0 => device.create_allocation(AllocationKind::LOCAL, size)?,
            1 => device.create_allocation(AllocationKind::SYSTEM, size)?,
            _ => device.allocation(size).create()?,
        };
        kept.push((allocation.map(Protection::WRITE)?, Arc::clone(&allocation)));
        let place = attacker.noise.below(kept.len() as u64) as usize;
        let (_, other) = &kept[place];
        match attacker.noise.below(4) {
            0 => drop(other.make_resident()),
            1 => drop(other.evict()),
            2 => drop(kept.swap_remove(place)),
            _ => {}
        }
        if !attacker.goes_on() {
            break;
        }
    }
    Ok(())
}
