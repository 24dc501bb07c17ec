// SPDX-License-Identifier: MIT OR Apache-2.0

//! One kind of garbage at a time, and the outcome of each piece.

use crate::neighbour::beside_a_neighbour;
use crate::support::Daemon;
use bellhop_guest::Guest as _;
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::hostile::{Noise, descriptors, packets, request};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader};
use std::sync::Arc;
use std::time::Duration;
use vm_memory::Bytes;

#[test]
fn random_command_buffers_and_rings_lose_their_own_queue_at_most() {
    beside_a_neighbour(&Daemon::start(2), |guest| {
        let adapter = Adapter::open(guest).unwrap();
        let mut noise = Noise::new(0);
        for round in 0..300 {
            let (node, kind) = (noise.below(3) as u32, AllocationKind::LOCAL);
            let shape = Shape { node, kind, memory: 8192, ..Shape::default() };
            let mut client = Client::new(adapter.open_process().unwrap(), shape).unwrap();
            let length = 8 * noise.below(64);
            let bytes = match noise.below(3) {
                0 => noise.bytes(length),
                _ => packets(&mut noise, client.va(0)),
            };
            let submitted = if round % 3 == 0 {
                client.queue.queue_raw(&bytes).and_then(|()| {
                    let pointer = noise.pick(&[8, 4096, 4104, 7, u64::MAX]);
                    client.queue.ring_with(pointer).map(|()| 1)
                })
            } else {
                client.commands.raw(&bytes).unwrap();
                client.submit()
            };
            // The work is done, or the queue is lost, or waits for a fence that is never signaled.
            let fence = client.queue.progress_fence();
            let ended = submitted.and_then(|value| fence.poll(value, Duration::from_millis(2)));
            let expected =
                matches!(ended, Ok(()) | Err(Error::QueueLost { .. } | Error::Timeout { .. }));
            assert!(expected, "round {round}: {ended:?}");
        }
    });
}

#[test]
fn random_requests_are_each_answered() {
    beside_a_neighbour(&Daemon::start(2), |guest| {
        let adapter = Adapter::open(Arc::clone(&guest) as Arc<dyn Transport>).unwrap();
        let device = adapter.create_device().unwrap();
        let mut noise = Noise::new(1 << 32);
        let processes = [0, adapter.process(), adapter.process(), u32::MAX];
        let words = [0, 1, 4096, 8192, 1 << 32, device.handle().0, u64::MAX];
        for round in 0..3000 {
            let request = request(&mut noise, &processes, &words);
            let mut reply = [0; MAX_REPLY_SIZE];
            let length = guest.request(&request, &mut reply).unwrap();
            assert!(length >= size_of::<ReplyHeader>(), "round {round}: {length} bytes");
        }
    });
}

#[test]
fn random_descriptor_chains_come_back() {
    beside_a_neighbour(&Daemon::start(2), |guest| {
        let memory = guest.memory(8192).unwrap();
        let mut noise = Noise::new(1 << 33);
        for _ in 0..2000 {
            let chain = descriptors(&mut noise, memory.address(), guest.end_of_memory());
            memory.bytes().unwrap().write_slice(&noise.bytes(64), 0).unwrap();
            guest.offer_raw(&chain).unwrap();
        }
        Adapter::open(guest).unwrap();
    });
}
