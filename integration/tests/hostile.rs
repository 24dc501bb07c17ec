//! A guest that does everything wrong, and a neighbour whose results must stay right.

mod support;

use bellhop_guest::Guest as _;
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::transport::control_queue::RAW_INDEX;
use bellhop_guest_umd::transport::virtqueue::Descriptor;
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, RequestCode, RequestHeader};
use bellhop_protocol::packet::dispatch::xor_stream;
use bellhop_protocol::packet::{Opcode, PacketHeader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use support::Daemon;
use vm_memory::Bytes;
use zerocopy::IntoBytes;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Numbers that are the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        xor_stream(0x0BE1_140B, self.0)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Runs `attack` in one guest while another goes on to check its own work.
fn beside_a_neighbour(attack: impl FnOnce(Arc<FakeGuest>)) {
    let daemon = Daemon::start(2);
    let (hostile, guest) = (support::guest(&daemon, 0), support::guest(&daemon, 1));
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        let neighbour = threads.spawn(|| {
            let device = Adapter::open(guest).unwrap().create_device().unwrap();
            let mut queue = device.create_context(0).unwrap().create_user_mode_queue(4096).unwrap();
            let memory = device.create_allocation(AllocationKind::SYSTEM, 8192).unwrap();
            let mapping = memory.map(Protection::WRITE).unwrap();
            let mut commands = CommandBuffer::new(&device, 256).unwrap();
            let mut rounds = 0u32;
            while !over.load(Ordering::Acquire) || rounds < 100 {
                rounds += 1;
                commands.reset();
                commands.fill(mapping.gpu_va(), 8192, rounds).unwrap();
                let value = queue.submit(&mut commands).unwrap();
                queue.progress_fence().poll(value, TIMEOUT).unwrap();
                let mut bytes = [0; 8192];
                memory.read(0, &mut bytes).unwrap();
                assert!(bytes.chunks(4).all(|word| word == rounds.to_le_bytes()));
            }
        });
        attack(hostile);
        over.store(true, Ordering::Release);
        neighbour.join().unwrap();
    });
}

/// Packets that are almost right: known opcodes, odd lengths, odd addresses.
fn packets(noise: &mut Noise, memory: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..noise.below(6) {
        let opcode = noise.pick(Opcode::ALL);
        let units = noise.pick(&[1, 2, 3, 4, 5, 0, 33, 0xFFFF]);
        let argument = noise.pick(&[0, 1, 8, 64, 256, 4096, u32::MAX]);
        bytes.extend(PacketHeader { opcode, units, argument }.as_bytes());
        for _ in 1..units.min(5) {
            let word = noise.next();
            let near = memory + noise.below(8192);
            bytes.extend(noise.pick(&[word, near, near & !7, 0, 8, 4096, u64::MAX]).to_le_bytes());
        }
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[test]
fn random_command_buffers_and_rings_lose_their_own_queue_at_most() {
    beside_a_neighbour(|guest| {
        let adapter = Adapter::open(guest).unwrap();
        let mut noise = Noise(0);
        for round in 0..300 {
            let device = adapter.create_device().unwrap();
            let context = device.create_context(noise.below(3) as u32).unwrap();
            let mut queue = context.create_user_mode_queue(4096).unwrap();
            let memory = device.create_allocation(AllocationKind::LOCAL, 8192).unwrap();
            let mapping = memory.map(Protection::WRITE).unwrap();
            let mut commands = CommandBuffer::new(&device, 2048).unwrap();
            let length = 8 * noise.below(64);
            let bytes = match noise.below(3) {
                0 => noise.bytes(length),
                _ => packets(&mut noise, mapping.gpu_va()),
            };
            let submitted = if round % 3 == 0 {
                queue.queue_raw(&bytes).and_then(|()| {
                    let pointer = noise.pick(&[8, 4096, 4104, 7, u64::MAX]);
                    queue.ring_with(pointer).map(|()| 1)
                })
            } else {
                commands.raw(&bytes).unwrap();
                queue.submit(&mut commands)
            };
            // It is done, or lost, or waits for a fence that nobody signals.
            let ended = submitted
                .and_then(|value| queue.progress_fence().poll(value, Duration::from_millis(2)));
            let expected =
                matches!(ended, Ok(()) | Err(Error::QueueLost { .. } | Error::Timeout { .. }));
            assert!(expected, "round {round}: {ended:?}");
        }
    });
}

#[test]
fn random_requests_are_each_answered() {
    beside_a_neighbour(|guest| {
        let adapter = Adapter::open(Arc::clone(&guest) as Arc<dyn Transport>).unwrap();
        let device = adapter.create_device().unwrap();
        let mut noise = Noise(1 << 32);
        for round in 0..3000 {
            let code = match noise.below(8) {
                0 => RequestCode(noise.next() as u32),
                // Waiting and destroying the process leaves nothing to try.
                _ => noise.pick(RequestCode::ALL),
            };
            if code == RequestCode::DESTROY_PROCESS {
                continue;
            }
            let length = noise.pick(&[0, 8, 16, 24, 32, 40, 48, 64, 4096]);
            let mut body = noise.bytes(length);
            for word in body.chunks_exact_mut(8) {
                if noise.below(4) != 0 {
                    let value =
                        noise.pick(&[0, 1, 4096, 8192, 1 << 32, device.handle().0, u64::MAX]);
                    word.copy_from_slice(&value.to_le_bytes());
                }
            }
            let process = noise.pick(&[0, adapter.process(), adapter.process(), u32::MAX]);
            let claimed = 16 + length as u32 + noise.pick(&[0, 0, 0, 0, 1, 1000]);
            let header = RequestHeader { code, length: claimed, process, reserved: 0 };
            let request = [header.as_bytes(), &body].concat();
            let mut reply = [0; MAX_REPLY_SIZE];
            let length = guest.request(&request, &mut reply).unwrap();
            assert!(length >= size_of::<ReplyHeader>(), "round {round}: {length} bytes");
        }
    });
}

#[test]
fn random_descriptor_chains_come_back() {
    beside_a_neighbour(|guest| {
        let memory = guest.memory(8192).unwrap();
        let mut noise = Noise(1 << 33);
        for _ in 0..2000 {
            let first = RAW_INDEX;
            let descriptors: Vec<_> = (0..1 + noise.below(8))
                .map(|_| Descriptor {
                    address: {
                        let near = memory.address() + noise.below(8192);
                        noise.pick(&[near, near, near, 0, guest.end_of_memory() - 8, u64::MAX - 3])
                    },
                    length: noise.pick(&[0, 1, 8, 16, 64, 4096, 1 << 20, u32::MAX]),
                    flags: noise.pick(&[0, 1, 1, 2, 3, 3, 4, 7]),
                    next: noise.pick(&[
                        first,
                        first + 1,
                        first + 2,
                        first + 5,
                        0,
                        63,
                        64,
                        u16::MAX,
                    ]),
                })
                .collect();
            memory.bytes().unwrap().write_slice(&noise.bytes(64), 0).unwrap();
            guest.offer_raw(&descriptors).unwrap();
        }
        Adapter::open(guest).unwrap();
    });
}
