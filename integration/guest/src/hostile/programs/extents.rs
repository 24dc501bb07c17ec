// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that a program names for its allocations, and that is not its own.

use super::scene::{Group, Scene};
use super::session::Session;
use anyhow::{Context, ensure};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation, Extent};
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(super) const ATTACKS: Group = &[
    ("memory-around-its-own", around),
    ("memory-that-wraps", wrapping),
    ("memory-of-the-guests", of_the_guest),
    ("memory-one-good-of-many", one_good),
    ("memory-named-twice", twice),
    ("memory-lists-that-lie", lists),
];

struct Named {
    session: Session,
    process: u32,
    device: Handle,
    /// The first piece of its memory: the whole of it where the guest has it in one.
    own: Extent,
    /// All pieces, by address.
    pieces: Vec<Extent>,
}

fn named(scene: &Scene) -> anyhow::Result<Named> {
    let session = Session::open(&scene.socket)?;
    let (process, device) = session.device()?;
    let own = *session.extents.first().context("it has no memory")?;
    let mut pieces = session.extents.clone();
    pieces.sort_unstable_by_key(|piece| piece.address);
    Ok(Named { session, process, device, own, pieces })
}

impl Named {
    fn status(&self, extents: &[Extent], count: u32) -> anyhow::Result<Status> {
        let size = extents.iter().fold(0u64, |sum, extent| sum.wrapping_add(extent.length));
        let create = CreateAllocation::fixed(self.device, AllocationKind::SYSTEM, size, count);
        Ok(self.session.ask(self.process, &create, extents.as_bytes())?.0)
    }

    /// Whether all of a range is its own memory, in pieces that lie side by side.
    fn is_own(&self, address: u64, length: u64) -> bool {
        let mut from = address;
        for piece in &self.pieces {
            if (piece.address..piece.address + piece.length).contains(&from) {
                from = piece.address + piece.length;
            }
        }
        address.checked_add(length).is_some_and(|end| from >= end)
    }

    fn refuses(&self, address: u64, length: u64) -> anyhow::Result<()> {
        if self.is_own(address, length) {
            return Ok(());
        }
        let status = self.status(&[Extent { address, length }], 1)?;
        ensure!(status == Status::INVALID_PARAMETER, "{length:#x} at {address:#x}: {status}");
        Ok(())
    }
}

/// Pages before and behind its own, and across both ends.
fn around(scene: &mut Scene) -> anyhow::Result<()> {
    let named = named(scene)?;
    let Extent { address, length } = named.own;
    let end = address + length;
    for pages in 1..=64 {
        named.refuses(address.saturating_sub(pages * PAGE_SIZE), pages * PAGE_SIZE)?;
        named.refuses(end + (pages - 1) * PAGE_SIZE, PAGE_SIZE)?;
        named.refuses(end - PAGE_SIZE, (pages + 1) * PAGE_SIZE)?;
    }
    named.refuses(address - PAGE_SIZE, 2 * PAGE_SIZE)?;
    named.refuses(address - 8, 16)
}

fn wrapping(scene: &mut Scene) -> anyhow::Result<()> {
    let named = named(scene)?;
    let own = named.own.address;
    for (address, length) in [
        (!(PAGE_SIZE - 1), 2 * PAGE_SIZE),
        (own, u64::MAX),
        (own, u64::MAX - own + 1),
        (own, u64::MAX - own + 1 + PAGE_SIZE),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
        (own + PAGE_SIZE, 1 << 63),
    ] {
        named.refuses(address, length)?;
    }
    Ok(())
}

/// All of the guest's memory, which has other programs' files and the queues of the device.
fn of_the_guest(scene: &mut Scene) -> anyhow::Result<()> {
    let named = named(scene)?;
    let Extent { address: own, length } = named.own;
    let everywhere = (0..1 << 32).step_by(1 << 22).chain([1 << 40, 1 << 52]);
    for address in everywhere.filter(|at| *at + PAGE_SIZE <= own || *at >= own + length) {
        named.refuses(address, PAGE_SIZE)?;
    }
    Ok(())
}

/// A list of which one is not its own.
fn one_good(scene: &mut Scene) -> anyhow::Result<()> {
    let named = named(scene)?;
    let good =
        |page: u64| Extent { address: named.own.address + page * PAGE_SIZE, length: PAGE_SIZE };
    for wrong in 0..8 {
        let mut list: Vec<_> = (0..8).map(good).collect();
        if let Some(extent) = list.get_mut(wrong) {
            extent.address = named.own.address + named.own.length;
        }
        let status = named.status(&list, 8)?;
        ensure!(status == Status::INVALID_PARAMETER, "entry {wrong}: {status}");
    }
    Ok(())
}

/// Its own pages, as often as it likes: they are its own.
fn twice(scene: &mut Scene) -> anyhow::Result<()> {
    let named = named(scene)?;
    let page = Extent { address: named.own.address + named.session.welcome.bar, length: PAGE_SIZE };
    for count in [1, 2, 64, 1024] {
        let status = named.status(&vec![page; count], count as u32)?;
        let expected = [Status::SUCCESS, Status::INVALID_PARAMETER];
        ensure!(expected.contains(&status), "{count} times: {status}");
    }
    named.session.is_served()
}

/// Lists that have another length than the request says, and that end in the middle of an entry.
fn lists(scene: &mut Scene) -> anyhow::Result<()> {
    let named = named(scene)?;
    let own = Extent { address: named.own.address, length: PAGE_SIZE };
    let foreign = Extent { address: own.address + named.own.length, length: PAGE_SIZE };
    for count in [0, 2, 3, 1 << 28, u32::MAX] {
        let status = named.status(&[own], count)?;
        ensure!(!status.is_success(), "one entry instead of {count}: {status}");
    }
    let create = CreateAllocation::fixed(named.device, AllocationKind::SYSTEM, PAGE_SIZE, 1);
    let list = [own.as_bytes(), foreign.as_bytes()].concat();
    for length in 1..list.len() {
        let (status, _) =
            named.session.ask(named.process, &create, list.get(..length).unwrap_or_default())?;
        let is_whole = length == size_of::<Extent>();
        ensure!(status.is_success() == is_whole, "a list of {length} bytes: {status}");
    }
    named.session.is_served()
}
