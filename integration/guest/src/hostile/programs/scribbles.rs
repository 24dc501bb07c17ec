// SPDX-License-Identifier: MIT OR Apache-2.0

//! Stores into the program's file, while the device uses it.

use super::scene::{Group, Scene};
use crate::client::{Client, Shape};
use crate::hostile::packets;
use anyhow::Context as _;
use bellhop_guest_umd::Adapter;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{AreaKind, BarHeader};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vm_memory::{Bytes, MmapRegion, VolatileMemory};
use zerocopy::{FromZeros, IntoBytes};

pub(super) const ATTACKS: Group = &[
    ("scribble-bar-header", |scene| scribble(scene, Where::Header)),
    ("scribble-doorbells", |scene| scribble(scene, Where::Area(AreaKind::DOORBELLS))),
    ("scribble-last-queued", |scene| scribble(scene, Where::Area(AreaKind::PROGRESS))),
    ("scribble-statuses", |scene| scribble(scene, Where::Area(AreaKind::STATUS))),
    ("scribble-fences", |scene| scribble(scene, Where::Area(AreaKind::FENCES))),
    ("scribble-memory", |scene| scribble(scene, Where::Memory)),
    ("scribble-everything", |scene| scribble(scene, Where::Everywhere)),
    ("garbage-in-rings", rings),
    ("garbage-in-command-buffers", command_buffers),
];

/// Programs that do it, one after another.
const PROGRAMS: usize = 3;
/// Submissions of each.
const SUBMISSIONS: usize = 8;
/// How long it waits for work that may never be done.
const SOON: Duration = Duration::from_millis(1);

/// What is written.
#[derive(Clone, Copy)]
enum Where {
    /// The page that names the areas.
    Header,
    Area(AreaKind),
    /// Behind the BAR: rings, command buffers, all allocations.
    Memory,
    Everywhere,
}

impl Where {
    fn bytes(self, region: &MmapRegion, header: &BarHeader) -> anyhow::Result<Range<usize>> {
        let used = header.areas.iter().filter(|area| area.kind != AreaKind::NONE);
        let end = used.clone().map(|area| area.offset + area.length).max();
        let end = end.context("the BAR has no areas")? as usize;
        Ok(match self {
            Self::Header => 0..PAGE_SIZE as usize,
            Self::Area(kind) => {
                let area = used.clone().find(|area| area.kind == kind).context("no such area")?;
                area.offset as usize..(area.offset + area.length) as usize
            }
            Self::Memory => end..region.size().min(end + (1 << 20)),
            Self::Everywhere => 0..region.size(),
        })
    }
}

fn scribble(scene: &mut Scene, at: Where) -> anyhow::Result<()> {
    for _ in 0..PROGRAMS {
        let broker = scene.library()?;
        let region = broker.bar().context("no BAR")?.region;
        let mut header = BarHeader::new_zeroed();
        region.as_volatile_slice().read_slice(header.as_mut_bytes(), 0)?;
        let bytes = at.bytes(&region, &header)?;
        let mut client = Client::new(Adapter::open(broker)?, Shape::default())?;
        client.commands.nop()?;
        for _ in 0..SUBMISSIONS {
            // Whether its own work is done, or lost, is its own affair.
            let submitted = client.submit();
            let number = scene.noise.number();
            for offset in bytes.clone().step_by(8) {
                let value = scene.noise.pick(&[number, number, 0, 1, 8, PAGE_SIZE, u64::MAX]);
                region.get_atomic_ref::<AtomicU64>(offset)?.store(value, Ordering::Relaxed);
            }
            let _ = client.queue.ring_with(scene.noise.pick(&[8, 64, PAGE_SIZE, 7, u64::MAX]));
            let _ = submitted.and_then(|value| client.queue.progress_fence().poll(value, SOON));
        }
    }
    Ok(())
}

fn client(scene: &Scene, node: u32) -> anyhow::Result<Client> {
    Ok(Client::new(Adapter::open(scene.library()?)?, Shape { node, ..Shape::default() })?)
}

fn rings(scene: &mut Scene) -> anyhow::Result<()> {
    for node in 0..3 {
        for _ in 0..SUBMISSIONS {
            let mut client = client(scene, node)?;
            let bytes = packets(&mut scene.noise, client.va(0));
            client.queue.queue_raw(&bytes)?;
            let _ = client.queue.ring_with(scene.noise.pick(&[8, 4096, 4104, 7, u64::MAX]));
            let _ = client.queue.progress_fence().poll(1, SOON);
        }
    }
    Ok(())
}

fn command_buffers(scene: &mut Scene) -> anyhow::Result<()> {
    for node in 0..3 {
        for _ in 0..SUBMISSIONS {
            let mut client = client(scene, node)?;
            let bytes = packets(&mut scene.noise, client.va(0));
            client.commands.raw(&bytes)?;
            let value = client.submit()?;
            let _ = client.queue.progress_fence().poll(value, SOON);
        }
    }
    Ok(())
}
