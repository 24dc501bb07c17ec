// SPDX-License-Identifier: MIT OR Apache-2.0

//! A daemon that is killed under load, and guests that continue with another.

use crate::seed;
use crate::support::{self, Daemon, TIMEOUT, await_that, guest_with};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{CLOUD_HYPERVISOR, FakeGuest, GuestOptions, QEMU, VmmProfile};
use bellhop_guest::hostile::Noise;
use bellhop_guest_umd::transport::{Transport, TransportError};
use bellhop_guest_umd::{Allocation, CommandBuffer, Error, GpuMapping};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::doorbell::ConnectionStatus;
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Submissions; each writes its number into a separate place. The places fill whole pages.
const NUMBERS: usize = 10_240;
/// Submissions to the daemon that is killed.
const BEFORE: u64 = NUMBERS as u64 * 3 / 4;
/// Submissions in flight.
const DEPTH: u64 = 16;

/// The work of one connection on the guest's memory.
struct Work {
    // Dropped in this order.
    client: Client,
    commands: Vec<CommandBuffer>,
    /// Local memory, if the VMM shows it.
    local: Option<GpuMapping>,
    /// The last number that the fence reported.
    told: u64,
}

impl Work {
    fn new(guest: &Arc<FakeGuest>) -> Self {
        let memory = 8 * NUMBERS as u64;
        let client = support::client_of(guest, Shape { memory, ..Shape::default() });
        let local = guest.bar().map(|_| {
            let memory = client.device.create_allocation(AllocationKind::LOCAL, memory).unwrap();
            memory.map(Protection::WRITE).unwrap()
        });
        let commands = (0..2 * DEPTH).map(|_| client.more_commands(256).unwrap()).collect();
        Self { client, commands, local, told: 0 }
    }

    fn mappings(&self) -> impl Iterator<Item = &GpuMapping> {
        std::iter::once(&self.client.memory).chain(&self.local)
    }

    /// Submits these numbers, until all are done or the queue is lost.
    fn run(&mut self, numbers: RangeInclusive<u64>, progress: &AtomicU64) -> Result<(), Error> {
        let (base, last) = (numbers.start() - 1, *numbers.end());
        for number in numbers {
            let places: Vec<_> = self.mappings().map(|m| m.gpu_va() + 8 * (number - 1)).collect();
            let commands = &mut self.commands[(number % (2 * DEPTH)) as usize];
            commands.reset();
            for place in places {
                commands.write_data(place, &number.to_le_bytes()).unwrap();
            }
            let value = self.client.queue.submit(commands)?;
            assert_eq!(base + value, number);
            let wanted = value.saturating_sub(DEPTH);
            self.client.queue.progress_fence().poll(wanted, TIMEOUT)?;
            self.told = base + wanted;
            progress.store(self.told, Ordering::Release);
        }
        self.client.queue.progress_fence().poll(self.client.queue.last_value(), TIMEOUT)?;
        self.told = last;
        Ok(())
    }

    /// Submits the first part, then polls the fence until the queue is lost.
    fn run_until_lost(&mut self, progress: &AtomicU64) -> Result<(), Error> {
        self.run(1..=BEFORE, progress)?;
        self.client.queue.progress_fence().poll(BEFORE + 1, TIMEOUT)
    }

    /// The guest's own memory.
    fn memory(&self) -> &Arc<Allocation> {
        self.client.memory.allocation()
    }
}

/// Counts the consecutive numbers from `first` on, and checks that none follows behind a gap.
fn written(memory: &Allocation, first: u64) -> u64 {
    let number = |place: u64| memory.word(8 * place as usize).unwrap().load(Ordering::Acquire);
    let end = (first..=NUMBERS as u64).find(|n| number(n - 1) != *n).unwrap_or(NUMBERS as u64 + 1);
    assert!((end..=NUMBERS as u64).all(|n| number(n - 1) == 0), "executed out of order");
    end - 1
}

/// A guest. A VMM that reconnects does not tell its guest when its daemon goes.
fn connect(daemon: &Daemon, profile: &'static VmmProfile) -> Arc<FakeGuest> {
    let awaits_device = profile.reconnect.is_some();
    let options = GuestOptions { profile, awaits_device, ..GuestOptions::default() };
    guest_with(daemon, 0, options)
}

#[test]
fn a_guest_learns_that_its_daemon_was_killed_and_continues_with_another() {
    let mut noise = Noise::new(seed() << 20);
    for profile in [&CLOUD_HYPERVISOR, &QEMU, &CLOUD_HYPERVISOR, &QEMU] {
        let mut daemon = Daemon::start(1);
        let mut guest = connect(&daemon, profile);
        let mut work = Work::new(&guest);
        let progress = AtomicU64::new(0);
        let moment = noise.below(NUMBERS as u64 / 2);
        let (ended, daemon) = thread::scope(|threads| {
            let submitting = threads.spawn(|| work.run_until_lost(&progress));
            await_that("so much is done", || progress.load(Ordering::Acquire) >= moment);
            daemon.kill();
            let restarted = Daemon::start(1);
            if profile.reconnect.is_some() {
                guest.reconnect(UnixStream::connect(restarted.socket(0)).unwrap()).unwrap();
            }
            (submitting.join().unwrap(), restarted)
        });
        // The error names the device, not the queue: another queue would not help.
        let is_told = |error: &Error| match error {
            Error::Transport(TransportError::Replaced) => profile.reconnect.is_some(),
            Error::Transport(TransportError::Disconnected(_)) => profile.reconnect.is_none(),
            _ => false,
        };
        assert!(ended.as_ref().is_err_and(is_told), "{ended:?}");
        assert_eq!(work.client.queue.status(), ConnectionStatus::DISCONNECTED_ABORT);
        let again = work.client.queue.submit(&mut work.commands[0]);
        assert!(again.as_ref().is_err_and(is_told), "{again:?}");
        let refused = work.client.device.create_context(0).map(|_| ());
        assert!(refused.as_ref().is_err_and(is_told), "{refused:?}");

        // Memory of either kind has everything that the fence reported, and perhaps a little more.
        let done = |mapping: &GpuMapping| written(mapping.allocation(), 1);
        let done: Vec<_> = work.mappings().map(done).collect();
        let most = work.told + 2 * DEPTH;
        println!(
            "{}: killed at {moment}, told of {}, there were {done:?}",
            profile.name, work.told
        );
        assert!(done.iter().all(|done| (work.told..=most).contains(done)), "{done:?}");

        let told = work.told;
        let kept = Arc::clone(work.memory());
        drop(work);
        if profile.reconnect.is_some() {
            guest.reset().unwrap();
        } else {
            guest = connect(&daemon, profile);
        }
        let mut work = Work::new(&guest);
        work.run(told + 1..=NUMBERS as u64, &progress).unwrap();
        assert!(
            (1..=told)
                .all(|n| kept.word(8 * (n as usize - 1)).unwrap().load(Ordering::Acquire) == n)
        );
        assert_eq!(written(work.memory(), told + 1), NUMBERS as u64);
        assert!(work.client.process.statistics().unwrap().doorbells > 0);
    }
}
