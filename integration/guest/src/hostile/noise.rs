// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random numbers, and requests, packets and descriptors made of them.

use bellhop_guest_umd::raw::RAW_INDEX;
use bellhop_guest_umd::transport::virtqueue::Descriptor;
use bellhop_protocol::control::{RequestCode, RequestHeader};
use bellhop_protocol::packet::dispatch::xor_stream;
use bellhop_protocol::packet::{Opcode, PacketHeader};
use zerocopy::IntoBytes;

/// A generator of numbers. A seed gives one sequence in every run.
#[derive(Debug, Clone)]
pub struct Noise(u64);

impl Noise {
    /// The sequence of a seed. Those of seeds a million apart are unrelated.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        xor_stream(0x0BE1_140B, self.0)
    }

    /// The next number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// Random bytes.
    pub fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.number() as u8).collect()
    }

    /// One of the values, of which there must be one at least.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Packets that are almost valid: known opcodes, odd lengths, odd addresses, some of them near `memory`.
pub fn packets(noise: &mut Noise, memory: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..noise.below(6) {
        let opcode = noise.pick(Opcode::ALL);
        let units = noise.pick(&[1, 2, 3, 4, 5, 0, 33, 0xFFFF]);
        let argument = noise.pick(&[0, 1, 8, 64, 256, 4096, u32::MAX]);
        bytes.extend(PacketHeader { opcode, units, argument }.as_bytes());
        for _ in 1..units.min(5) {
            let word = noise.number();
            let near = memory + noise.below(8192);
            bytes.extend(noise.pick(&[word, near, near & !7, 0, 8, 4096, u64::MAX]).to_le_bytes());
        }
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// An almost valid request from one of these processes, with some of these words. It never destroys a process,
/// which would leave nothing to attack.
pub fn request(noise: &mut Noise, processes: &[u32], words: &[u64]) -> Vec<u8> {
    let code = match noise.below(8) {
        0 => RequestCode(noise.number() as u32),
        _ => noise.pick(RequestCode::ALL),
    };
    let code = if code == RequestCode::DESTROY_PROCESS { RequestCode(0) } else { code };
    let length = noise.pick(&[0, 8, 16, 24, 32, 40, 48, 64, 4096]);
    let mut body = noise.bytes(length);
    for word in body.chunks_exact_mut(8) {
        if noise.below(4) != 0 {
            word.copy_from_slice(&noise.pick(words).to_le_bytes());
        }
    }
    let claimed = size_of::<RequestHeader>() as u32 + length as u32;
    let claimed = claimed + noise.pick(&[0, 0, 0, 0, 1, 1000]);
    let process = noise.pick(processes);
    let header = RequestHeader { code, length: claimed, process, reserved: 0 };
    [header.as_bytes(), &body].concat()
}

/// A chain of descriptors that may end, leave the queue or loop, inside memory or outside.
pub fn descriptors(noise: &mut Noise, memory: u64, end_of_memory: u64) -> Vec<Descriptor> {
    let first = RAW_INDEX;
    let nexts = [first, first + 1, first + 2, first + 5, 0, 63, 64, u16::MAX];
    (0..1 + noise.below(8))
        .map(|_| {
            let near = memory + noise.below(8192);
            Descriptor {
                address: noise.pick(&[near, near, near, 0, end_of_memory - 8, u64::MAX - 3]),
                length: noise.pick(&[0, 1, 8, 16, 64, 4096, 1 << 20, u32::MAX]),
                flags: noise.pick(&[0, 1, 1, 2, 3, 3, 4, 7]),
                next: noise.pick(&nexts),
            }
        })
        .collect()
}
