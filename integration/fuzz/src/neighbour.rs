// SPDX-License-Identifier: MIT OR Apache-2.0

//! A GPU with a well-behaved guest, beside hostile ones.

use crate::rig::{COMPUTE, COPY, Guest, LOCAL, Packets, Queue};
use bellhop_device::gpu::GpuConfig;
use bellhop_protocol::packet::transfer::Fill;

/// The nodes in use.
pub const COMPUTE_AND_COPY: [u32; 2] = [COMPUTE, COPY];

/// The first physical doorbell that is not the hostile guest's.
const DOORBELLS: u32 = 32;

/// Where the neighbour has its results.
const RESULT: u64 = LOCAL;
const RESULT_SIZE: u64 = 64;

/// A guest with a queue on each engine, and its GPU.
pub struct Neighbour {
    guest: Guest,
    queues: [Queue; 2],
    rounds: u32,
}

impl Default for Neighbour {
    fn default() -> Self {
        let gpu = crate::stepped::start(GpuConfig { copy_engines: 1, ..GpuConfig::default() });
        let mut guest = Guest::attach_with(&gpu, DOORBELLS);
        let queues = COMPUTE_AND_COPY.map(|node| guest.queue(node));
        Self { guest, queues, rounds: 0 }
    }
}

impl Neighbour {
    /// Attaches another guest to the GPU.
    pub fn newcomer(&self) -> Guest {
        Guest::attach(&self.guest.gpu)
    }

    /// Submits work to each engine, and checks the results.
    pub fn works(&mut self) {
        for queue in &mut self.queues {
            self.rounds = self.rounds.wrapping_add(1);
            let fill = Fill::new(RESULT, RESULT_SIZE, self.rounds);
            self.guest.run(queue, Packets::new().then(fill));
            let result = self.guest.read(RESULT, RESULT_SIZE as usize);
            let expected = self.rounds.to_le_bytes();
            assert!(
                result.chunks(4).all(|word| word == expected),
                "the neighbour's result is wrong"
            );
        }
    }
}
