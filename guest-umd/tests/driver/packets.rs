// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submissions of a program's own packets, which the ring holds as they are.

use crate::device::Answer;
use crate::rig::{Rig, connect_with, error_of, packets, victimise_once};
use bellhop_guest_umd::{Error, SmallPackets};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus, LoggingLevel};
use bellhop_protocol::packet::Packet;
use bellhop_protocol::packet::fence::{LogFence, LoggedSignal, SignalFence};
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

/// Bytes of the signal behind each submission.
const SIGNAL: u64 = size_of::<SignalFence>() as u64;

/// Packets of so many words.
fn nops(count: usize) -> SmallPackets {
    let mut packets = SmallPackets::new();
    let nop = u64::from_ne_bytes(NOP.as_bytes().try_into().unwrap());
    (0..count).for_each(|_| assert!(packets.push([nop])));
    packets
}

#[test]
fn packets_are_in_the_ring_before_the_signal_and_are_rung_for_by_one_store() {
    let mut rig = Rig::new();
    let slot = rig.queue.progress_fence().slot();
    let mut end = 0;
    for count in 0..=SmallPackets::WORDS {
        let value = count as u64 + 1;
        assert_eq!(rig.queue.submit_packets(&nops(count)).unwrap(), value);
        let start = end;
        end += 8 * count as u64 + SIGNAL;
        assert_eq!((rig.device.rung(0), rig.device.last_queued(0)), (end, value));
        let bytes = rig.device.ring(0).read(start, (end - start) as usize);
        let mut expected = vec![Packet::Nop; count];
        expected.push(Packet::SignalFence(SignalFence::new(slot, value)));
        assert_eq!(packets(&bytes), expected);
    }
    assert!(rig.device.take_sent().is_empty());
}

#[test]
fn packets_that_are_queued_are_not_visible_before_their_ring() {
    let mut rig = Rig::new();
    assert_eq!(rig.queue.queue_packets(&nops(1)).unwrap(), 1);
    assert_eq!(rig.queue.queue_packets(&nops(2)).unwrap(), 2);
    assert_eq!((rig.device.rung(0), rig.device.last_queued(0)), (0, 0));
    assert_eq!(rig.queue.submit_packets(&nops(0)).unwrap(), 3);
    assert_eq!((rig.device.rung(0), rig.device.last_queued(0)), (24 + 3 * SIGNAL, 3));
}

#[test]
fn packets_whose_ring_fails_are_in_the_ring_once_and_a_later_ring_is_theirs() {
    let mut rig = Rig::disconnected();
    victimise_once(&rig, |_| Answer::Refuse(Status::INSUFFICIENT_RESOURCES, 7));
    let error = error_of(rig.queue.submit_packets(&nops(2)));
    assert!(matches!(error, Error::NotRung { value: 1, .. }), "{error}");
    assert_eq!(rig.device.ring(0).pointers().written(), 16 + SIGNAL);
    // What cannot be announced is not put into the ring either.
    assert!(matches!(error_of(rig.queue.submit_packets(&nops(1))), Error::Refused { .. }));
    assert!(matches!(error_of(rig.queue.ring()), Error::Refused { .. }));
    assert_eq!(rig.device.ring(0).pointers().written(), 16 + SIGNAL);
    rig.device.script(|_, _| Answer::AsUsual);
    rig.queue.ring().unwrap();
    assert_eq!(rig.device.rung(0), 16 + SIGNAL);
    assert_eq!(rig.queue.submit_packets(&nops(0)).unwrap(), 2);
    assert_eq!(rig.device.rung(0), 16 + 2 * SIGNAL);
}

#[test]
fn a_lost_queue_takes_no_packets() {
    let mut rig = Rig::new();
    rig.queue.submit_packets(&nops(1)).unwrap();
    rig.device.set_status(0, DoorbellStatus::new(ConnectionStatus::DISCONNECTED_ABORT));
    assert!(matches!(error_of(rig.queue.submit_packets(&nops(1))), Error::QueueLost { .. }));
    assert_eq!(rig.device.ring(0).pointers().written(), 8 + SIGNAL);
}

#[test]
fn packets_are_logged_where_the_device_wants_logs() {
    let mut rig = Rig::disconnected();
    connect_with(&rig, LoggingLevel::VERBOSE);
    let slot = rig.queue.progress_fence().slot();
    let mut start = 0;
    for value in 1..=2 {
        assert_eq!(rig.queue.submit_packets(&nops(1)).unwrap(), value);
        let end = rig.device.rung(0);
        let bytes = rig.device.ring(0).read(start, (end - start) as usize);
        let logged = LoggedSignal::new(slot, value);
        let [Packet::Nop, write, Packet::LogFence(log), interrupt] = packets(&bytes)[..] else {
            panic!("other packets than those of a signal that is logged");
        };
        assert_eq!(write, Packet::WriteFence(logged.write));
        assert_eq!(interrupt, Packet::ConditionalInterrupt(logged.interrupt));
        assert!(log.queued_timestamp >= 5000, "{log:?}");
        assert_eq!(LogFence { queued_timestamp: 0, ..log }, logged.log);
        start = end;
    }
}
