// SPDX-License-Identifier: MIT OR Apache-2.0

//! The span of a log line about one queue: it names the queue and its process.
//!
//! The control plane makes a span where it logs a line. No queue holds one, so a queue that logs nothing costs
//! nothing.

use super::Kernel;
use crate::dxgkrnl::recovery::tdr::Guilty;
use crate::hardware::GuestId;
use crate::port::QUEUE_SPANS;
use bellhop_protocol::control::Handle;
use tracing::{Span, error_span};

/// The span of a queue, with the guest's names for it. Lines in it also name the guest, in a field.
pub(crate) fn queue_span(process: u32, queue: Handle) -> Span {
    error_span!(target: QUEUE_SPANS, "queue", process, %queue)
}

impl Kernel {
    /// The guest that caused a hang, and the span of the queue that hung. Paging has no queue of the guest, so no
    /// span.
    pub(crate) fn hang_span(&self, guilty: Guilty) -> (Option<GuestId>, Span) {
        match guilty {
            Guilty::Queue(queue) => self.queues.get(&queue).map_or((None, Span::none()), |owner| {
                (Some(owner.guest), queue_span(owner.process, owner.handle))
            }),
            Guilty::Paging(guest, _) => (Some(guest), Span::none()),
        }
    }
}
