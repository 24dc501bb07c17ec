// SPDX-License-Identifier: MIT OR Apache-2.0

//! Gathers the kernels that follow a kernel into its batch.

use super::Execution;
use crate::gpu::engine::fetch::{Fetched, Windows};
use crate::gpu::engine::packets::Operation;
use crate::gpu::engine::packets::context::Context;
use bellhop_protocol::packet::Packet;

impl Execution {
    /// Adds the next packets of the same buffer to the batch that has just begun, while they are kernels. Returns how
    /// many it added. A packet that breaks a rule is left: the kernels before it are executed first.
    #[cold]
    pub(super) fn gather(&mut self, context: &mut Context<'_>, windows: &mut Windows) -> u32 {
        let Self { ring, stack, depth, left, .. } = self;
        let Some(Operation::Kernel(batch)) = &mut left.operation else { return 0 };
        let stream = match depth.checked_sub(1) {
            Some(top) => &mut stack[top],
            None => match ring {
                Some(ring) => &mut ring.stream,
                None => return 0,
            },
        };
        let window = &mut windows[*depth];
        let mut packets = 0;
        while batch.has_room()
            && !stream.is_empty()
            && let Ok(Fetched { packet: Packet::DispatchKernel(next), size, .. }) =
                window.packet(&mut context.mmu, stream)
            && batch.add(context, &next).is_ok()
        {
            stream.advance(size);
            packets += 1;
        }
        context.signals.tally.packets += u64::from(packets);
        packets
    }
}
