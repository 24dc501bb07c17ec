// SPDX-License-Identifier: MIT OR Apache-2.0

//! The suites of measurements.

use clap::ValueEnum;

/// A suite of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// One null command buffer, from submission to fence: through a doorbell, through the control
    /// queue; beside cache lines between two processes, io_uring and eventfds
    RoundTrip,
    /// Many null command buffers: ring and wait for each, ring for each, ring once
    Batch,
    /// The copy engine beside memcpy
    Copy,
    /// The main job's stream beside the guest that reads and checks alone
    Stream,
    /// Signals: interrupts, a blocked CPU waiter, engine to engine
    Fence,
    /// The first submission after a while without any, beside an eventfd that wakes a process
    Wake,
    /// Kernels of the guest's own beside the same Vulkan in one process, and guests that share an engine with them
    Kernel,
    /// Submissions and dispatches of a program with Bellhop's Vulkan driver, beside the doorbell and beside the host's
    /// Vulkan in one process; only from the host
    Vulkan,
    /// One null command buffer where guest and engine share a processor; only from the host
    OneProcessor,
    /// One doorbell, alone and beside 1,024 connected ones
    Doorbells,
    /// 10,000 queues that share the physical doorbells
    Queues,
    /// 1,000 flips at 60 and at 240 Hz, VSYNCs beside a timer, and a still screen; needs a display
    Display,
    /// The processor time of a daemon that has guests and no work; only from the host
    Idle,
    /// AV1 decoded beside dav1d, and encoded; only from the host
    Video,
    /// One engine, shared by more and more guests; only from the host
    Oversubscription,
    /// A program behind a guest's broker beside one without: the same doorbells, fences and batches; only from the host
    Broker,
    /// A guest beside a hostile guest, a hostile front end, and workers that were taken over; only from the host
    Hostile,
    /// 1 to 64 guests, to 10,000 queues, to 1,024 doorbells, to 16 workers of kernels, to 64 requests
    /// in flight: what each costs, and the exponent of its growth. Minutes, so only if it is named;
    /// only from the host
    Scale,
}

impl Suite {
    /// The suite's name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it is measured if no suite is named.
    #[must_use]
    pub fn is_default(self) -> bool {
        self != Self::Scale
    }

    /// The suites that need no particular configuration of the device and nothing of the host.
    pub const IN_ANY_GUEST: [Self; 7] = [
        Self::RoundTrip,
        Self::Batch,
        Self::Copy,
        Self::Stream,
        Self::Fence,
        Self::Wake,
        Self::Kernel,
    ];
}
