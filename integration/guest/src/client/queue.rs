// SPDX-License-Identifier: MIT OR Apache-2.0

//! A HW queue of either submission mode.

use bellhop_guest_umd::{
    CommandBuffer, Context, DoorbellCounters, Error, Fence, KernelModeQueue, UserModeQueue,
};
use bellhop_protocol::control::Handle;
use bellhop_protocol::doorbell::ConnectionStatus;
use serde::{Deserialize, Serialize};

/// How work is submitted to a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Through a doorbell.
    #[default]
    User,
    /// Through the control queue, a request each.
    Kernel,
}

/// A HW queue of either mode.
pub enum Queue {
    /// For user-mode submission.
    User(UserModeQueue),
    /// For kernel-mode submission.
    Kernel(KernelModeQueue),
}

impl Queue {
    /// Creates one. `ring` is the size of a ring, where there is one.
    ///
    /// # Errors
    /// When the device refuses, or does not answer.
    pub fn create(context: &Context, mode: Mode, ring: u64) -> Result<Self, Error> {
        Ok(match mode {
            Mode::User => Self::User(context.create_user_mode_queue(ring)?),
            Mode::Kernel => Self::Kernel(context.create_kernel_mode_queue()?),
        })
    }

    /// Submits commands; returns the value that the progress fence then gets.
    ///
    /// # Errors
    /// When the queue is lost, or the device does not take the work.
    pub fn submit(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        match self {
            Self::User(queue) => queue.submit(commands),
            Self::Kernel(queue) => queue.submit(commands),
        }
    }

    /// Puts work where the device may see it; [`Self::ring`] tells the device.
    ///
    /// # Errors
    /// When the queue is lost, or the device does not take the work.
    pub fn queue(&mut self, commands: &mut CommandBuffer) -> Result<u64, Error> {
        match self {
            Self::User(queue) => queue.queue(commands),
            Self::Kernel(queue) => queue.submit(commands),
        }
    }

    /// Rings the doorbell, where there is one.
    ///
    /// # Errors
    /// When the queue is lost, or its doorbell cannot be connected.
    pub fn ring(&mut self) -> Result<(), Error> {
        match self {
            Self::User(queue) => queue.ring(),
            Self::Kernel(_) => Ok(()),
        }
    }

    /// The fence that counts its submissions.
    #[must_use]
    pub fn progress_fence(&self) -> &Fence {
        match self {
            Self::User(queue) => queue.progress_fence(),
            Self::Kernel(queue) => queue.progress_fence(),
        }
    }

    /// Its doorbell counters.
    #[must_use]
    pub fn counters(&self) -> DoorbellCounters {
        match self {
            Self::User(queue) => queue.counters(),
            Self::Kernel(_) => DoorbellCounters::default(),
        }
    }

    /// The handle that requests name it by.
    #[must_use]
    pub fn handle(&self) -> Handle {
        match self {
            Self::User(queue) => queue.handle(),
            Self::Kernel(queue) => queue.handle(),
        }
    }

    /// Why it is lost, if the device has reported that.
    #[must_use]
    pub fn loss(&self) -> Option<Error> {
        match self {
            Self::User(queue) => Some(queue.lost()),
            Self::Kernel(_) => None,
        }
    }

    /// The status of its doorbell, if there is one and the driver reaches it.
    #[must_use]
    pub fn status(&self) -> Option<ConnectionStatus> {
        match self {
            Self::User(queue) => Some(queue.status()),
            Self::Kernel(_) => None,
        }
    }
}
