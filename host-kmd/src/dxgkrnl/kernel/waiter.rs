// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests that are answered when paging is done.

use crate::dxgkrnl::display::flip::FlipId;
use crate::dxgkrnl::object::promises::Promise;
use crate::dxgkrnl::queue::submission::Deferred;
use crate::hardware::KernelSource;
use bellhop_protocol::control::Handle;

/// A request that is answered when paging is done.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The request.
    pub(crate) promise: Promise,
    /// What happens when paging is done.
    pub(crate) outcome: Outcome,
}

/// How a request is answered when paging is done.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With this reply body.
    Reply(Vec<u8>),
    /// With the result of submitting this.
    Submit(Deferred),
    /// At once, or when this flip has ended if it is immediate.
    Flip(FlipId),
    /// When this kernel is compiled, which begins then.
    Compile(Box<DeferredKernel>),
}

/// A kernel to compile.
#[derive(Debug)]
pub(crate) struct DeferredKernel {
    /// The process.
    pub(crate) process: u32,
    /// The device that will own it.
    pub(crate) device: Handle,
    /// What it is made from.
    pub(crate) source: KernelSource,
}
