// SPDX-License-Identifier: MIT OR Apache-2.0

//! The span of a log line about one queue: it names the queue and its process.
//!
//! The control plane makes a span where it logs a line. No queue holds one, so a queue that logs nothing costs
//! nothing.

use crate::port::QUEUE_SPANS;
use bellhop_protocol::control::Handle;
use tracing::{Span, error_span};

/// The span of a queue, with the guest's names for it. Lines in it also name the guest, in a field.
pub(crate) fn queue_span(process: u32, queue: Handle) -> Span {
    error_span!(target: QUEUE_SPANS, "queue", process, %queue)
}
