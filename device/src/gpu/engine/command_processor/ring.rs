// SPDX-License-Identifier: MIT OR Apache-2.0

//! A ring as its engine sees it.

use crate::gpu::engine::fetch::Stream;
use crate::gpu::engine::packets::context::Context;
use crate::gpu::memory::mmu::Access;
use crate::gpu::memory::pins::Use;
use crate::gpu::memory::violation::Violation;
use bellhop_host_kmd::hardware::RingBinding;
use bellhop_protocol::handoff::doorbell::RingPointers;
use bellhop_protocol::handoff::doorbell_line::LineCopy;
use bellhop_protocol::ring::{READ_POINTER_OFFSET, WRITE_POINTER_OFFSET};
use std::sync::Arc;

/// A ring as its engine sees it.
#[derive(Debug)]
pub struct Ring {
    /// Where the ring is.
    pub binding: Arc<RingBinding>,
    /// Its position is the read pointer and its end is the write pointer.
    pub stream: Stream,
    /// The packets that were in the doorbell's line when it last rang.
    pub(super) line: LineCopy,
    /// The read pointer that the guest was last told.
    pub(super) published: u64,
}

impl Ring {
    /// A ring from which no packet was read.
    pub fn new(binding: Arc<RingBinding>) -> Self {
        Self { stream: Stream::ring(&binding), binding, line: LineCopy::NONE, published: 0 }
    }

    /// The pointers in the ring buffer control. `access` says which of the two the caller uses.
    pub(super) fn pointers<'a>(
        &self,
        context: &mut Context<'a>,
        access: Access,
    ) -> Result<RingPointers<'a>, Violation> {
        let (control, offsets) =
            (self.binding.control_va, [WRITE_POINTER_OFFSET, READ_POINTER_OFFSET]);
        let [write, read] = match context.mmu.page(Use::Control, control, access) {
            // A ring buffer control has its own page.
            Some(page) => offsets.map(|offset| page.word(control.wrapping_add(offset))),
            None => context.mmu.two_words(control, offsets, access)?,
        };
        Ok(RingPointers::new(write, read))
    }

    /// The packets that are written by now, also those that no doorbell has told of.
    ///
    /// # Errors
    /// A page fault, or a pointer that the ring cannot have.
    pub(super) fn written(&self, context: &mut Context<'_>) -> Result<Stream, Violation> {
        // Acquires the packets that were written before the write pointer.
        let written = self.pointers(context, Access::Read)?.written();
        let mut stream = self.stream;
        stream.extend(written)?;
        Ok(stream)
    }
}
