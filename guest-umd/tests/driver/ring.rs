// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ring buffer: around its end, and full.

use crate::device::{Answer, HANG};
use crate::rig::{RING, Rig, SUBMISSION, error_of, named_buffer, submission};
use bellhop_guest_umd::Error;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::doorbell::ConnectionStatus;

const SUBMISSIONS: u64 = RING / SUBMISSION;

#[test]
fn a_full_ring_waits_for_the_device_and_overwrites_nothing() {
    let mut rig = Rig::new();
    rig.fill_ring();
    let before = rig.device.ring(0).read(0, RING as usize);
    let mut last = named_buffer(&rig.gpu);
    last.nop().unwrap();
    rig.device.take_sent();
    rig.device.script({
        let before = before.clone();
        move |device, sent| {
            // The driver waits blocked, after it has rung for everything.
            assert_eq!(sent.fences()[0].value, 1);
            let ring = device.ring(0);
            assert_eq!((ring.pointers().written(), device.rung(0)), (RING, RING));
            assert_eq!(device.last_queued(0), SUBMISSIONS);
            assert!(ring.read(0, RING as usize) == before);
            device.execute(0, 1);
            Answer::AsUsual
        }
    });
    assert_eq!(rig.queue.queue(&mut last).unwrap(), SUBMISSIONS + 1);
    rig.device.script(|_, _| Answer::AsUsual);
    assert_eq!(rig.device.take_codes(), [RequestCode::WAIT_FOR_FENCES]);
    // It took only the place of the submission that was executed.
    let ring = rig.device.ring(0);
    let place = SUBMISSION as usize;
    assert_eq!(submission(&ring.read(RING, place)).0.gpu_va, last.gpu_va());
    assert!(ring.read(SUBMISSION, RING as usize - place) == before[place..]);
    assert_eq!(rig.device.executed().len(), 1);
}

#[test]
fn a_full_ring_takes_work_again_as_soon_as_the_device_has_read_some() {
    let mut rig = Rig::new();
    rig.fill_ring();
    rig.queue.ring().unwrap();
    rig.device.execute(0, 3);
    for _ in 0..3 {
        rig.queue.queue(&mut rig.commands).unwrap();
    }
    assert!(rig.device.take_sent().is_empty());
    rig.queue.ring().unwrap();
    let ring = rig.device.ring(0);
    assert_eq!(ring.pointers().written() - ring.pointers().consumed(), RING);
}

#[test]
fn a_read_pointer_that_cannot_be_is_not_believed() {
    for nonsense in [RING + 8, RING * 2, 1 << 63, u64::MAX, u64::MAX - 7] {
        let mut rig = Rig::new();
        rig.fill_ring();
        let before = rig.device.ring(0).read(0, RING as usize);
        rig.device.ring(0).pointers().consume(nonsense);
        rig.device.script(move |device, sent| {
            if sent.code == RequestCode::WAIT_FOR_FENCES {
                let ring = device.ring(0);
                assert_eq!(ring.pointers().written(), RING);
                assert!(ring.read(0, RING as usize) == before);
                ring.pointers().consume(0);
                device.execute(0, 1);
            }
            Answer::AsUsual
        });
        rig.queue.queue(&mut rig.commands).unwrap();
        assert_eq!(rig.device.take_codes(), [RequestCode::WAIT_FOR_FENCES], "{nonsense:#x}");
    }
}

#[test]
fn a_full_ring_whose_queue_is_lost_is_an_error() {
    let mut rig = Rig::new();
    rig.fill_ring();
    rig.device.set_status(0, ConnectionStatus::DISCONNECTED_ABORT);
    let error = error_of(rig.queue.queue(&mut rig.commands));
    assert!(matches!(error, Error::QueueLost { .. }), "{error}");
    assert_eq!(rig.device.ring(0).pointers().written(), RING);
}

#[test]
fn a_full_ring_connects_a_doorbell_that_was_disconnected_meanwhile() {
    let mut rig = Rig::new();
    rig.fill_ring();
    rig.device.set_status(0, ConnectionStatus::DISCONNECTED_RETRY);
    rig.device.script(|device, sent| {
        if sent.code == RequestCode::WAIT_FOR_FENCES {
            device.execute(0, 1);
        }
        Answer::AsUsual
    });
    rig.queue.queue(&mut rig.commands).unwrap();
    let codes = [RequestCode::CONNECT_DOORBELL, RequestCode::WAIT_FOR_FENCES];
    assert_eq!(rig.device.take_codes(), codes);
}

#[test]
fn a_ring_of_a_size_that_no_ring_has_is_refused_before_anything_is_created() {
    let rig = Rig::new();
    for size in [0, 8, 4095, 4097, 12288, 32 << 20, u64::MAX] {
        let error = error_of(rig.context.create_user_mode_queue(size));
        assert!(matches!(error, Error::BadPacket(_)), "{size}: {error}");
    }
    assert!(rig.device.take_sent().is_empty());
}

#[test]
fn work_continues_around_the_ring_many_times() {
    let mut rig = Rig::new();
    for value in 1..=4 * SUBMISSIONS + 3 {
        assert_eq!(rig.submit().unwrap(), value);
        rig.device.execute(0, 1);
        rig.queue.progress_fence().poll(value, HANG).unwrap();
    }
    assert_eq!(rig.device.executed().len() as u64, 4 * SUBMISSIONS + 3);
    assert!(rig.device.take_sent().is_empty());
}

#[test]
fn what_was_queued_and_not_rung_for_is_visible_before_the_queue_is_destroyed() {
    let mut rig = Rig::new();
    rig.queue.queue(&mut rig.commands).unwrap();
    rig.device.script(|device, sent| {
        if sent.code == RequestCode::DESTROY_HW_QUEUE {
            assert_eq!(device.ring(0).pointers().written(), SUBMISSION);
            assert_eq!(device.last_queued(0), 1);
        }
        Answer::AsUsual
    });
    let Rig { queue, device, .. } = rig;
    drop(queue);
    assert!(device.take_codes().contains(&RequestCode::DESTROY_HW_QUEUE));
}
