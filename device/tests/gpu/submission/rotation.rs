// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells with moved pages, and a VMM that tests drive by hand.

use crate::support::rig::*;
use bellhop_device::gpu::{Gpu, GpuConfig, Move, Moved, Page, Rotation, SETTLING};
use bellhop_host_kmd::hardware::{
    DoorbellPages as _, Doorbells as _, HwQueueId, Interrupt, Interrupts as _, Observe as _,
    PhysicalDoorbell, Queues as _, RotationOutcome, RotationProgress,
};
use bellhop_protocol::bar::doorbell_word_offset;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::packet::fence::SignalFence;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};

const PHYSICAL_DOORBELLS: u32 = 2;

/// A guest with the pages behind its BAR.
struct Moving {
    gpu: Arc<Gpu>,
    guest: Guest,
    rotation: Arc<Rotation>,
    pages: MmapRegion,
}

impl Moving {
    fn new(spin: Duration) -> Self {
        let config = GpuConfig {
            remaps_doorbells: true,
            physical_doorbells: PHYSICAL_DOORBELLS,
            spin,
            ..GpuConfig::default()
        };
        let gpu = start_with(config);
        let guest = Guest::attach(&gpu);
        let rotation = gpu.rotate_doorbells(guest.id).unwrap();
        let file = gpu.bar_file(guest.id).unwrap();
        let size = file.metadata().unwrap().len() as usize;
        let pages = MmapRegion::from_file(FileOffset::from_arc(file, 0), size).unwrap();
        Self { gpu, guest, rotation, pages }
    }

    /// Begins to connect, as the kernel does: watch, then rotate.
    fn begin(&self, queue: &Queue, doorbell: u32) {
        self.gpu.watch(PhysicalDoorbell(doorbell), queue.id).unwrap();
        assert_eq!(self.gpu.rotate_to_physical(queue.id).unwrap(), RotationProgress::Pending);
    }

    /// Disconnects a victim, as the kernel does.
    fn disconnect(&self, queue: &Queue, doorbell: u32) {
        self.gpu.publish_disconnected(queue.id, ConnectionStatus::DISCONNECTED_RETRY).unwrap();
        self.gpu.rotate_to_dummy(queue.id).unwrap();
        self.gpu.unwatch(PhysicalDoorbell(doorbell)).unwrap();
        self.gpu.kick(queue.id).unwrap();
    }

    /// Takes the next request to the VMM, which must be this move.
    #[track_caller]
    fn expect_move(&self, queue: &Queue, to: Page) -> Move {
        let next = self.rotation.next().unwrap();
        assert_eq!((next.slot, next.to), (queue.binding.slot, to));
        next
    }

    #[track_caller]
    fn move_to(&self, queue: &Queue, to: Page) {
        self.rotation.moved(self.expect_move(queue, to), Moved::Done);
    }

    /// Waits for the outcome of a doorbell's move, which the thread that requests moves reports.
    #[track_caller]
    fn outcome(&self) -> (HwQueueId, RotationOutcome) {
        std::thread::scope(|threads| {
            threads.spawn(|| assert_eq!(self.rotation.next(), None));
            let reported = loop {
                let reported = take_interrupts(&self.gpu).into_iter().find_map(|i| match i {
                    Interrupt::DoorbellRotated { queue, outcome } => Some((queue, outcome)),
                    _ => None,
                });
                if let Some(reported) = reported {
                    break reported;
                }
            };
            self.rotation.stop();
            reported
        })
    }

    /// The words that a queue rings while its doorbell shows this page.
    fn words(&self, queue: &Queue, page: Page) -> DoorbellWords<'_> {
        let slot = queue.binding.slot;
        let offset = self.gpu.doorbell_page(self.guest.id, page).unwrap();
        let offset = (offset + doorbell_word_offset(slot)) as usize;
        let status = self.guest.word(LAYOUT.status(slot));
        DoorbellWords::new(self.pages.get_atomic_ref(offset).unwrap(), status)
    }

    /// Submits a signal through the page that the queue's doorbell shows.
    fn submit(&self, queue: &mut Queue, page: Page) {
        queue.submitted += 1;
        let signal = SignalFence::new(queue.progress, queue.submitted);
        self.guest.put(queue, &Packets::new().then(signal));
        let words = self.words(queue, page);
        if words.ring(queue.written) == ConnectionStatus::CONNECTED_NOTIFY {
            self.gpu.kick(queue.id).unwrap();
        }
    }

    fn wait(&self, queue: &Queue) {
        self.guest.wait(queue.progress, queue.submitted);
    }
}

#[test]
fn the_move_of_a_page_is_reported_and_later_that_it_has_settled() {
    let mut moving = Moving::new(Duration::from_micros(50));
    // A guest without moved pages: engines watch its doorbells in place.
    let mut guest = Guest::attach(&moving.gpu);
    let mut elsewhere = guest.disconnected_queue(COMPUTE);
    assert_eq!(moving.gpu.rotate_to_physical(elsewhere.id).unwrap(), RotationProgress::Done);
    guest.connect(&elsewhere);
    guest.run(&mut elsewhere, Packets::new());

    let queue = moving.guest.disconnected_queue(COMPUTE);
    moving.begin(&queue, 1);
    moving.move_to(&queue, Page::Physical(1));
    let start = Instant::now();
    let told = std::thread::scope(|threads| {
        let mover = threads.spawn(|| moving.rotation.next());
        let mut told = Vec::new();
        while told.len() < 2 {
            let rotated = |i| match i {
                Interrupt::DoorbellRotated { queue, outcome } => Some((queue, outcome)),
                _ => None,
            };
            told.extend(take_interrupts(&moving.gpu).into_iter().filter_map(rotated));
        }
        moving.rotation.stop();
        assert_eq!(mover.join().unwrap(), None);
        told
    });
    let expected = [RotationOutcome::Shown, RotationOutcome::Settled];
    assert_eq!(told, expected.map(|outcome| (queue.id, outcome)));
    assert!(start.elapsed() >= SETTLING);
}

#[test]
fn a_ring_of_the_physical_page_is_seen_and_one_of_the_dummy_page_is_not() {
    let mut moving = Moving::new(Duration::from_secs(3));
    let mut queue = moving.guest.disconnected_queue(COMPUTE);
    moving.begin(&queue, 0);
    moving.move_to(&queue, Page::Physical(0));
    moving.gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED).unwrap();
    for _ in 0..100 {
        moving.submit(&mut queue, Page::Physical(0));
        moving.wait(&queue);
    }
    assert!(moving.gpu.statistics(moving.guest.id).unwrap().doorbells > 0);
    moving.disconnect(&queue, 0);
    moving.move_to(&queue, Page::Dummy);
    quiesce(&moving.gpu);
    moving.submit(&mut queue, Page::Dummy);
    quiesce(&moving.gpu);
    assert_eq!(moving.guest.published(queue.progress), 100);
    // A connect has the engine look at the ring.
    moving.begin(&queue, 1);
    moving.move_to(&queue, Page::Physical(1));
    moving.gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED_NOTIFY).unwrap();
    moving.wait(&queue);
}

#[test]
fn what_an_earlier_owner_stores_late_neither_runs_nor_hides_anything() {
    for spin in [Duration::ZERO, Duration::from_micros(50), Duration::from_secs(3)] {
        let mut moving = Moving::new(spin);
        let mut owner = moving.guest.disconnected_queue(COMPUTE);
        moving.begin(&owner, 0);
        moving.move_to(&owner, Page::Physical(0));
        moving.gpu.publish_connected(owner.id, ConnectionStatus::CONNECTED).unwrap();
        let moving = &moving;
        let word = moving.gpu.doorbell_page(moving.guest.id, Page::Physical(0)).unwrap()
            + doorbell_word_offset(owner.binding.slot);
        let word = moving.pages.get_atomic_ref::<AtomicU64>(word as usize).unwrap();
        let done = &AtomicBool::new(false);
        std::thread::scope(|threads| {
            // Stale values of the word are the worst late stores.
            threads.spawn(move || {
                let mut late = 0;
                while !done.load(Ordering::Relaxed) {
                    word.store(late, Ordering::Relaxed);
                    late = (late + 16) % 4096;
                }
            });
            for _ in 0..500 {
                moving.submit(&mut owner, Page::Physical(0));
                moving.wait(&owner);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(moving.guest.published(owner.progress), 500);
    }
}

#[test]
fn rings_that_no_page_ever_shows_run_before_the_engine_sleeps() {
    for spin in [Duration::ZERO, Duration::from_micros(50), Duration::from_millis(20)] {
        let mut moving = Moving::new(spin);
        let mut queue = moving.guest.disconnected_queue(COMPUTE);
        moving.begin(&queue, 0);
        moving.move_to(&queue, Page::Physical(0));
        moving.gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED).unwrap();
        for _ in 0..200 {
            moving.submit(&mut queue, Page::Dummy);
            moving.wait(&queue);
        }
    }
}

#[test]
fn a_doorbell_that_settles_is_notified_each_time_and_one_that_has_is_not() {
    let mut moving = Moving::new(Duration::from_secs(3));
    let mut queue = moving.guest.disconnected_queue(COMPUTE);
    moving.begin(&queue, 0);
    moving.move_to(&queue, Page::Physical(0));
    let status = |queue: &Queue| moving.words(queue, Page::Dummy).status();
    moving.gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED_NOTIFY).unwrap();
    for _ in 0..20 {
        moving.submit(&mut queue, Page::Physical(0));
        moving.wait(&queue);
        assert_eq!(status(&queue), ConnectionStatus::CONNECTED_NOTIFY);
    }
    moving.gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED).unwrap();
    moving.submit(&mut queue, Page::Physical(0));
    moving.wait(&queue);
    assert_eq!(status(&queue), ConnectionStatus::CONNECTED);
}

#[test]
fn a_doorbell_goes_to_the_dummy_page_before_another_gets_its_physical_one() {
    let mut moving = Moving::new(Duration::from_micros(50));
    let queues = [(); 3].map(|()| moving.guest.disconnected_queue(COMPUTE));
    let [first, second, third] = &queues;
    moving.begin(first, 0);
    moving.move_to(first, Page::Physical(0));
    // Without waiting in between, as the kernel does it.
    moving.disconnect(first, 0);
    moving.begin(second, 0);
    moving.begin(third, 1);
    moving.move_to(first, Page::Dummy);
    let mut left = [(second, Page::Physical(0)), (third, Page::Physical(1))].to_vec();
    while !left.is_empty() {
        let next = moving.rotation.next().unwrap();
        let at =
            left.iter().position(|(queue, to)| (queue.binding.slot, *to) == (next.slot, next.to));
        left.remove(at.unwrap());
        moving.rotation.moved(next, Moved::Done);
    }
    // Two queues that want each other's doorbells: one must make way first.
    moving.disconnect(second, 0);
    moving.disconnect(third, 1);
    moving.begin(second, 1);
    moving.begin(third, 0);
    let mut shown = [Page::Dummy, Page::Physical(0), Page::Physical(1)];
    while shown != [Page::Dummy, Page::Physical(1), Page::Physical(0)] {
        let next = moving.rotation.next().unwrap();
        assert!(next.to == Page::Dummy || !shown.contains(&next.to), "{next:?} with {shown:?}");
        shown[next.slot as usize] = next.to;
        moving.rotation.moved(next, Moved::Done);
    }
}

#[test]
fn a_move_that_is_no_longer_wanted_is_undone_and_not_reported() {
    let mut moving = Moving::new(Duration::from_micros(50));
    let queue = moving.guest.disconnected_queue(COMPUTE);
    moving.begin(&queue, 0);
    let begun = moving.expect_move(&queue, Page::Physical(0));
    // The VMM is slow; meanwhile the doorbell becomes a victim and is connected again.
    moving.disconnect(&queue, 0);
    moving.rotation.moved(begun, Moved::Done);
    moving.begin(&queue, 1);
    moving.move_to(&queue, Page::Physical(1));
    assert_eq!(moving.outcome(), (queue.id, RotationOutcome::Shown));
    assert_eq!(moving.gpu.take_interrupts(), []);
}

#[test]
fn a_refusal_of_the_vmm_is_logged_once_and_not_asked_for_again() {
    for moved in [Moved::NothingMapped, Moved::StillMapped] {
        let mut moving = Moving::new(Duration::from_micros(50));
        let queue = moving.guest.disconnected_queue(COMPUTE);
        moving.begin(&queue, 0);
        moving.rotation.moved(moving.expect_move(&queue, Page::Physical(0)), moved);
        assert_eq!(moving.outcome(), (queue.id, RotationOutcome::Refused));
    }
}

#[test]
fn a_doorbell_that_was_refused_can_be_tried_again() {
    let mut moving = Moving::new(Duration::from_micros(50));
    let queue = moving.guest.disconnected_queue(COMPUTE);
    moving.begin(&queue, 0);
    moving.rotation.moved(moving.expect_move(&queue, Page::Physical(0)), Moved::NothingMapped);
    moving.disconnect(&queue, 0);
    let back = moving.expect_move(&queue, Page::Dummy);
    assert!(!back.is_mapped);
    moving.rotation.moved(back, Moved::Done);
    moving.begin(&queue, 1);
    let again = moving.expect_move(&queue, Page::Physical(1));
    assert!(again.is_mapped);
    moving.rotation.moved(again, Moved::Done);
    assert_eq!(moving.outcome(), (queue.id, RotationOutcome::Shown));
}

#[test]
fn no_guest_has_anothers_pages() {
    let moving = Moving::new(Duration::from_micros(50));
    let other = Guest::attach(&moving.gpu);
    let page = moving.gpu.doorbell_page(moving.guest.id, Page::Physical(0)).unwrap();
    moving.gpu.bar_file(moving.guest.id).unwrap().write_all_at(&[7; 8], page).unwrap();
    let page = moving.gpu.doorbell_page(other.id, Page::Physical(0)).unwrap();
    let mut bytes = [1; 8];
    moving.gpu.bar_file(other.id).unwrap().read_exact_at(&mut bytes, page).unwrap();
    assert_eq!(bytes, [0; 8]);
}
