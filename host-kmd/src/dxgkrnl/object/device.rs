// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices: what contexts, allocations and fences belong to.

use bellhop_protocol::control::Handle;
use std::collections::BTreeSet;

/// A device.
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// Its contexts.
    contexts: BTreeSet<Handle>,
    /// Its allocations.
    allocations: BTreeSet<Handle>,
    /// Its native fences, without the progress fences of its queues.
    fences: BTreeSet<Handle>,
    /// It was marked in error: nothing more is executed for it.
    in_error: bool,
}

impl Device {
    /// Its contexts.
    pub(crate) fn contexts(&self) -> &BTreeSet<Handle> {
        &self.contexts
    }

    /// It has one more context.
    pub(crate) fn add_context(&mut self, context: Handle) {
        self.contexts.insert(context);
    }

    /// A context of it is gone.
    pub(crate) fn remove_context(&mut self, context: Handle) {
        self.contexts.remove(&context);
    }

    /// Its allocations.
    pub(crate) fn allocations(&self) -> &BTreeSet<Handle> {
        &self.allocations
    }

    /// An allocation is open on it.
    pub(crate) fn add_allocation(&mut self, allocation: Handle) {
        self.allocations.insert(allocation);
    }

    /// An allocation is open on it no more.
    pub(crate) fn remove_allocation(&mut self, allocation: Handle) {
        self.allocations.remove(&allocation);
    }

    /// Its fences, without the progress fences of its queues.
    pub(crate) fn fences(&self) -> &BTreeSet<Handle> {
        &self.fences
    }

    /// It has one more handle to a fence.
    pub(crate) fn add_fence(&mut self, fence: Handle) {
        self.fences.insert(fence);
    }

    /// A handle to a fence is gone.
    pub(crate) fn remove_fence(&mut self, fence: Handle) {
        self.fences.remove(&fence);
    }

    /// Whether it is in error.
    pub(crate) fn is_in_error(&self) -> bool {
        self.in_error
    }

    /// It is in error from now on.
    pub(crate) fn fail(&mut self) {
        self.in_error = true;
    }
}

/// What fails together with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// The device alone, or with its process: other processes that have its fences open carry on.
    Alone,
    /// All devices of the guest.
    WithItsGuest,
}
