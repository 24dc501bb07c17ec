// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests that are answered when paging is done.

use crate::dxgkrnl::queue::submission::Deferred;
use crate::port::RequestToken;

/// A request that is answered when paging is done.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The request.
    pub(crate) token: RequestToken,
    /// What happens when paging is done.
    pub(crate) outcome: Outcome,
}

/// What a request is answered with when paging is done.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The body of this reply.
    Reply(Vec<u8>),
    /// The result of submitting this.
    Submit(Deferred),
}
