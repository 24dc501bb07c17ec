// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices, which own contexts, allocations, fences, kernels and video sessions.

use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::Handle;
use std::collections::BTreeSet;

/// A device.
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// Its contexts.
    contexts: BTreeSet<Handle>,
    /// Its allocations.
    allocations: BTreeSet<Handle>,
    /// Its fences, without the progress fences of its queues.
    fences: BTreeSet<Handle>,
    /// Its kernels that are compiled.
    kernels: BTreeSet<Handle>,
    /// Its video sessions.
    video_sessions: BTreeSet<Handle>,
    /// Whether it is in error: nothing more is executed for it.
    in_error: bool,
    /// Whether it is about to be destroyed: nothing more is created on it.
    terminating: bool,
}

impl Device {
    /// Its contexts.
    pub(crate) fn contexts(&self) -> &BTreeSet<Handle> {
        &self.contexts
    }

    /// Adds a context.
    pub(crate) fn add_context(&mut self, context: Handle) {
        self.contexts.insert(context);
    }

    /// Removes a context.
    pub(crate) fn remove_context(&mut self, context: Handle) {
        self.contexts.remove(&context);
    }

    /// Its allocations.
    pub(crate) fn allocations(&self) -> &BTreeSet<Handle> {
        &self.allocations
    }

    /// Adds an allocation that is open on it.
    pub(crate) fn add_allocation(&mut self, allocation: Handle) {
        self.allocations.insert(allocation);
    }

    /// Removes an allocation that was closed on it.
    pub(crate) fn remove_allocation(&mut self, allocation: Handle) {
        self.allocations.remove(&allocation);
    }

    /// Its fences, without the progress fences of its queues.
    pub(crate) fn fences(&self) -> &BTreeSet<Handle> {
        &self.fences
    }

    /// Adds a handle to a fence.
    pub(crate) fn add_fence(&mut self, fence: Handle) {
        self.fences.insert(fence);
    }

    /// Removes a handle to a fence.
    pub(crate) fn remove_fence(&mut self, fence: Handle) {
        self.fences.remove(&fence);
    }

    /// Its kernels that are compiled.
    pub(crate) fn kernels(&self) -> &BTreeSet<Handle> {
        &self.kernels
    }

    /// Adds a kernel.
    pub(crate) fn add_kernel(&mut self, kernel: Handle) {
        self.kernels.insert(kernel);
    }

    /// Removes a kernel.
    pub(crate) fn remove_kernel(&mut self, kernel: Handle) {
        self.kernels.remove(&kernel);
    }

    /// Its video sessions.
    pub(crate) fn video_sessions(&self) -> &BTreeSet<Handle> {
        &self.video_sessions
    }

    /// Adds a video session.
    pub(crate) fn add_video_session(&mut self, session: Handle) {
        self.video_sessions.insert(session);
    }

    /// Removes a video session.
    pub(crate) fn remove_video_session(&mut self, session: Handle) {
        self.video_sessions.remove(&session);
    }

    /// Whether it is in error.
    pub(crate) fn is_in_error(&self) -> bool {
        self.in_error
    }

    /// Refuses a device that is in error or about to be destroyed: what is created on it could not do its work.
    pub(crate) fn check_alive(&self, handle: Handle) -> Result<(), RequestError> {
        let is_lost = self.in_error || self.terminating;
        if is_lost { Err(RequestError::DeviceRemoved(handle)) } else { Ok(()) }
    }

    /// Marks it as about to be destroyed.
    pub(crate) fn begin_termination(&mut self) {
        self.terminating = true;
    }

    /// Puts it in error.
    pub(crate) fn fail(&mut self) {
        self.in_error = true;
    }
}

/// What fails together with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// The device alone, or with its process: other processes that have opened its fences keep running.
    Alone,
    /// All devices of the guest.
    WithItsGuest,
}
