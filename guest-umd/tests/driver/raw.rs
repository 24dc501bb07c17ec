// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rings of packets of any size, and of more bytes than fit, which need raw access.

use crate::device::Answer;
use crate::rig::{RING, Rig, SUBMISSION, error_of, submission};
use bellhop_guest_umd::Error;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::packet::{MAX_PACKET_SIZE, Opcode, PacketHeader, UNIT};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, IntoBytes};

/// A packet of `units` that no other packet looks like.
fn packet(units: usize, number: usize) -> Vec<u8> {
    let header = PacketHeader::new(Opcode::NOP, units * UNIT, number as u32);
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend((UNIT..units * UNIT).map(|place| (number * 31 + place) as u8));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn packets_arrive_whole_and_in_order_around_the_rings_end(
        sizes in prop::collection::vec(1..=MAX_PACKET_SIZE / UNIT, 100..300),
        appetite in prop::collection::vec(1_usize..20, 1..8),
    ) {
        let mut rig = Rig::new();
        let read = Arc::new(Mutex::new(Vec::new()));
        // The driver notifies whenever the ring is full, and the device then reads some of it.
        rig.device.set_status(0, ConnectionStatus::CONNECTED_NOTIFY);
        rig.device.script({
            let read = Arc::clone(&read);
            let turn = Mutex::new(appetite.into_iter().cycle());
            move |device, sent| {
                if sent.code == RequestCode::NOTIFY_WORK_SUBMISSION {
                    let ring = device.ring(0);
                    let pointers = ring.pointers();
                    assert!(pointers.written() - pointers.consumed() <= RING);
                    let most = turn.lock().unwrap().next().unwrap();
                    for _ in 0..most {
                        let position = pointers.consumed();
                        if position == pointers.written() {
                            break;
                        }
                        let header = PacketHeader::read_from_bytes(&ring.read(position, 8)).unwrap();
                        read.lock().unwrap().extend(ring.read(position, header.size()));
                        pointers.consume(position + header.size() as u64);
                    }
                }
                Answer::AsUsual
            }
        });
        let mut written = Vec::new();
        for (number, units) in sizes.into_iter().enumerate() {
            let packet = packet(units, number);
            rig.queue.queue_raw(&packet).unwrap();
            written.extend(packet);
        }
        rig.queue.ring().unwrap();
        let ring = rig.device.ring(0);
        while ring.pointers().consumed() != ring.pointers().written() {
            rig.queue.ring().unwrap();
        }
        prop_assert!(written.len() as u64 > RING, "the ring's end was never reached");
        prop_assert!(*read.lock().unwrap() == written);
    }
}

#[test]
fn more_bytes_than_the_ring_has_are_refused_and_not_waited_for() {
    let mut rig = Rig::new();
    let error = error_of(rig.queue.queue_raw(&vec![0; RING as usize + 8]));
    assert!(matches!(error, Error::BadPacket(_)), "{error}");
    assert_eq!(rig.device.ring(0).pointers().written(), 0);
    rig.queue.queue_raw(&packet(1, 0)).unwrap();
}

#[test]
fn a_submission_behind_half_a_word_begins_in_its_middle() {
    let mut rig = Rig::new();
    rig.queue.queue_raw(&[0xFF; 4]).unwrap();
    assert_eq!(rig.submit().unwrap(), 1);
    let bytes = rig.device.ring(0).read(0, 4 + SUBMISSION as usize);
    let (half, rest) = bytes.split_at(4);
    assert_eq!(half, [0xFF; 4]);
    assert_eq!(submission(rest).1.value, 1);
}
