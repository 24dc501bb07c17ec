// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest that makes as many objects as it may costs the daemon no more memory than the configuration says.

use crate::support::{self, Daemon, adapter_of};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::{Adapter, Allocation, Device, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{AllocationKind, SegmentSet};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::status::Status;
use std::any::Any;
use std::mem::forget;
use std::sync::Arc;
use std::time::Instant;

const OBJECTS: usize = 4096;
/// Most memory of the host for each object, in KiB: `guest.objects` of `docs/service.md`.
const OBJECT: u64 = 2;
const FENCES: usize = 512;
/// Most memory of the host for each object with a native fence, in KiB: `guest.fences`.
const FENCE: u64 = 16;
/// Page tables of all guests, in KiB.
const PAGE_TABLES: u64 = 16 << 10;
/// Memory that an allocator keeps, and page tables that were used once, in KiB.
const KEPT: u64 = 4 << 10;

/// The parents of the guest's many objects.
struct Bench {
    adapter: Adapter,
    device: Device,
    paged: Arc<Allocation>,
    fixed: Arc<Allocation>,
}

type Made = Result<Box<dyn Any>, Error>;

fn boxed<T: 'static>(made: Result<T, Error>) -> Made {
    made.map(|object| Box::new(object) as _)
}

/// Makes an object of a kind.
type Make = fn(&Bench) -> Made;

/// All kinds, and whether another limit allows fewer than [`OBJECTS`].
const KINDS: &[(&str, bool, Make)] = &[
    ("local allocations", false, |bench| {
        boxed(bench.device.create_allocation(AllocationKind::LOCAL, PAGE_SIZE))
    }),
    ("system allocations", false, |bench| {
        boxed(bench.device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE))
    }),
    ("paged allocations", false, |bench| boxed(bench.device.allocation(PAGE_SIZE).create())),
    ("paged allocations of their own pages", false, |bench| {
        let builder = bench.device.allocation(PAGE_SIZE).segments(SegmentSet::SYSTEM);
        boxed(builder.own_pages().create())
    }),
    ("paged allocations that are resident", false, |bench| {
        boxed(bench.device.allocation(PAGE_SIZE).create().and_then(|allocation| {
            allocation.make_resident()?;
            Ok(allocation)
        }))
    }),
    ("mappings", false, |bench| boxed(bench.fixed.map(Protection::WRITE))),
    ("mappings of paged allocations", false, |bench| boxed(bench.paged.map(Protection::WRITE))),
    ("reservations", false, |bench| boxed(bench.device.reserve(0, PAGE_SIZE))),
    ("devices", false, |bench| boxed(bench.adapter.create_device())),
    ("contexts", false, |bench| boxed(bench.device.create_context(0))),
    ("fences", true, |bench| boxed(bench.device.create_fence(0))),
    ("queues", true, |bench| {
        boxed(bench.device.create_context(0).and_then(|context| {
            let queue = context.create_user_mode_queue(PAGE_SIZE)?;
            Ok((context, queue))
        }))
    }),
    ("kernel-mode queues", true, |bench| {
        boxed(bench.device.create_context(0).and_then(|context| {
            let queue = context.create_kernel_mode_queue()?;
            Ok((context, queue))
        }))
    }),
    ("kernel-mode contexts", true, |bench| boxed(bench.device.create_virtual_context(0))),
    ("processes", true, |bench| boxed(bench.adapter.open_process())),
];

/// As many objects of a kind as the guest gets, and the status of the next request.
fn fill(bench: &Bench, make: Make) -> (Vec<Box<dyn Any>>, Status) {
    let mut all = Vec::new();
    loop {
        match make(bench) {
            Ok(object) => all.push(object),
            Err(Error::Refused { status, .. }) => return (all, status),
            Err(error) => panic!("{error}"),
        }
    }
}

fn bench(guest: &Arc<FakeGuest>) -> Bench {
    let adapter = adapter_of(guest);
    let device = adapter.create_device().unwrap();
    let paged = device.allocation(PAGE_SIZE).create().unwrap();
    let fixed = device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE).unwrap();
    Bench { adapter, device, paged, fixed }
}

#[test]
fn the_daemons_memory_is_bounded_whatever_a_guest_makes_as_many_of_as_it_may() {
    let daemon = Daemon::start_with(
        1,
        &format!(
            "[adapter]\npage_table_memory = \"{}MiB\"\n[guest]\nobjects = {OBJECTS}\ndoorbells = 256\n\
             fences = {FENCES}\nlocal_memory = \"32MiB\"\nprivate_memory = \"0MiB\"\nbacking_memory = \"32MiB\"\n",
            PAGE_TABLES >> 10
        ),
    );
    let guest = support::guest(&daemon, 0);
    // Once beforehand, for memory that the daemon allocates for the first guest and keeps.
    forget(bench(&guest));
    guest.reset().unwrap();
    let before = daemon.private_memory();
    for (what, fewer, make) in KINDS {
        let bench = bench(&guest);
        let begin = Instant::now();
        let (all, status) = fill(&bench, *make);
        for _ in 0..100 {
            assert!(make(&bench).is_err(), "{what}");
        }
        let most = daemon.private_memory().saturating_sub(before);
        println!(
            "{:6} {what:38} {status:?}: {most:6} KiB, {:4} bytes each, {:?} each",
            all.len(),
            most * 1024 / all.len() as u64,
            begin.elapsed() / (all.len() as u32 + 100)
        );
        assert_eq!(status, Status::QUOTA_EXCEEDED, "{what}");
        assert!(*fewer || all.len() > OBJECTS - 8, "{what}: {}", all.len());
        assert!(
            most < OBJECTS as u64 * OBJECT + FENCES as u64 * FENCE + PAGE_TABLES,
            "{what}: {most} KiB"
        );
        // The reset destroys all of them at once.
        forget((all, bench));
        guest.reset().unwrap();
    }
    let after = daemon.private_memory();
    println!("{before} KiB of the daemon's own before, {after} KiB when all has gone");
    assert!(after < before + KEPT, "{before} KiB before, {after} KiB after");
}
