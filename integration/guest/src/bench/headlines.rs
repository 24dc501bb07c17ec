// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures that matter most, and their goals.

use super::suite::Suite;

/// The goal of a figure or ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// Less is better.
    AtMost(f64),
    /// More is better.
    AtLeast(f64),
    /// There is no goal.
    None,
}

/// A figure that matters most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline {
    /// The figure's name.
    pub name: &'static str,
    /// The figure's goal.
    pub aim: Aim,
    /// The suite that measures it.
    pub suite: Suite,
}

const fn headline(name: &'static str, aim: Aim, suite: Suite) -> Headline {
    Headline { name, aim, suite }
}

/// The headlines, in the order of importance.
pub const HEADLINES: [Headline; 17] = {
    use Aim::{AtLeast, AtMost};
    [
        headline("doorbell_rtt_over_kernel_mode_path", AtMost(0.02), Suite::RoundTrip),
        headline("doorbell_rtt_over_cacheline_rtt", AtMost(1.6), Suite::RoundTrip),
        headline("doorbell_rtt_over_minimal_path", AtMost(1.2), Suite::RoundTrip),
        headline("doorbell_rtt_over_io_uring_sqpoll_nop", AtMost(0.3), Suite::RoundTrip),
        headline("throughput_over_minimal_path", AtLeast(0.4), Suite::Batch),
        headline("submissions_per_second_one_engine", AtLeast(20e6), Suite::Batch),
        headline("rtt_after_idle_over_eventfd_wake", AtMost(1.2), Suite::Wake),
        headline("copy_bandwidth_over_memcpy", AtLeast(0.9), Suite::Copy),
        headline("signal_to_blocked_waiter_over_eventfd_wake", Aim::None, Suite::Fence),
        headline("engine_to_engine_rtt_over_cacheline_rtt", Aim::None, Suite::Fence),
        headline("doorbell_rtt_1024_idle_over_1", AtMost(2.0), Suite::Doorbells),
        headline("lost_submissions_10000_queues", AtMost(0.0), Suite::Queues),
        headline("idle_daemon_cpu_fraction", AtMost(0.001), Suite::Idle),
        headline("idle_wakeups_per_second", AtMost(0.0), Suite::Idle),
        headline("oversubscribed_4to1_over_1to1_throughput", AtLeast(0.9), Suite::Oversubscription),
        headline("oversubscribed_16to1_over_1to1_throughput", Aim::None, Suite::Oversubscription),
        headline("neighbour_share_beside_hostile_guest", Aim::None, Suite::Hostile),
    ]
};

impl Aim {
    /// Whether a value meets the goal, if there is one.
    #[must_use]
    pub fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtMost(most) => Some(value <= most),
            Self::AtLeast(least) => Some(value >= least),
            Self::None => None,
        }
    }
}
