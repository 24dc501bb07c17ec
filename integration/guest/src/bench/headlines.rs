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

/// A neighbour's share beside workers of this kind, over its share beside honest ones.
macro_rules! share {
    ($worker:literal) => {
        headline(
            concat!("neighbour_beside_", $worker, "_worker_over_honest_throughput"),
            Aim::AtLeast(0.9),
            Suite::Hostile,
        )
    };
}

/// The longest of a neighbour's requests beside workers of this kind.
macro_rules! longest {
    ($worker:literal) => {
        headline(
            concat!("neighbour_beside_", $worker, "_worker_longest_request_ns"),
            Aim::AtMost(100e6),
            Suite::Hostile,
        )
    };
}

/// The headlines, in the order of importance.
pub const HEADLINES: [Headline; 75] = {
    use Aim::{AtLeast, AtMost};
    use Suite::{Batch, Copy, Display, Fence, OneProcessor, Oversubscription, RoundTrip};
    [
        headline("doorbell_rtt_over_kernel_mode_path", AtMost(0.02), RoundTrip),
        headline("doorbell_rtt_over_cacheline_rtt", AtMost(1.05), RoundTrip),
        headline("doorbell_rtt_over_minimal_path", AtMost(1.15), RoundTrip),
        headline("doorbell_rtt_over_checked_path", AtMost(1.15), RoundTrip),
        headline("doorbell_rtt_over_io_uring_sqpoll_nop", AtMost(0.6), RoundTrip),
        headline("submissions_per_cacheline_rtt", AtLeast(4.0), Batch),
        headline("ring_once_over_ring_each_depth_64", AtLeast(1.5), Batch),
        headline("throughput_over_minimal_path", AtLeast(0.5), Batch),
        headline("throughput_over_checked_path", AtLeast(0.6), Batch),
        headline("submissions_per_second_one_engine", AtLeast(20e6), Batch),
        headline("rtt_after_idle_over_eventfd_wake", AtMost(1.1), Suite::Wake),
        headline("signal_to_blocked_waiter_engine_awake_over_eventfd_wake", AtMost(1.5), Fence),
        headline("signal_to_blocked_waiter_engine_asleep_over_eventfd_wake", AtMost(2.2), Fence),
        headline(
            "signal_to_blocked_waiter_engine_asleep_over_eventfd_round_trip",
            AtMost(1.15),
            Fence,
        ),
        headline("engine_to_engine_rtt_over_cacheline_rtt", AtMost(4.0), Fence),
        headline("one_processor_rtt_over_eventfd_rtt", AtMost(1.5), OneProcessor),
        headline("one_processor_rtt_over_kernel_mode_path", AtMost(0.5), OneProcessor),
        headline("copy_bandwidth_over_memcpy", AtLeast(0.9), Copy),
        headline("copy_local_scattered_bandwidth_over_memcpy_scattered", AtLeast(0.95), Copy),
        headline("copy_system_scattered_bandwidth_over_memcpy_scattered", AtLeast(0.95), Copy),
        headline("copy_64_mib_bandwidth_over_memcpy", AtLeast(0.95), Copy),
        headline("copy_64_b_over_null_submission", AtMost(1.2), Copy),
        headline("stream_over_guest_verification", AtLeast(0.9), Suite::Stream),
        headline("kernel_dispatch_over_native", AtMost(1.25), Suite::Kernel),
        headline("dispatch_of_several_groups_over_native", AtMost(1.1), Suite::Kernel),
        headline("batched_dispatches_over_native", AtMost(1.2), Suite::Kernel),
        headline("kernel_bandwidth_over_native", AtLeast(0.97), Suite::Kernel),
        headline("kernel_bandwidth_untouched_over_native", AtLeast(0.9), Suite::Kernel),
        headline("kernel_shares_off_weights_fraction", AtMost(0.05), Suite::Kernel),
        headline("vulkan_submission_over_doorbell_rtt", AtMost(1.5), Suite::Vulkan),
        headline("vulkan_dispatch_over_native", AtMost(1.05), Suite::Vulkan),
        headline("vulkan_dispatch_of_several_groups_over_native", AtMost(1.05), Suite::Vulkan),
        headline("vulkan_batch_over_native", AtMost(1.05), Suite::Vulkan),
        headline("vulkan_shares_off_weights_fraction", AtMost(0.02), Suite::Vulkan),
        headline("vulkan_frames_per_second_beside_compute", AtLeast(59.0), Suite::Vulkan),
        headline("video_decode_over_dav1d", AtLeast(0.7), Suite::Video),
        headline("video_decode_2_threads_over_dav1d", AtLeast(0.7), Suite::Video),
        headline("doorbell_rtt_1024_idle_over_1", AtMost(1.2), Suite::Doorbells),
        headline("lost_submissions_10000_queues", AtMost(0.0), Suite::Queues),
        headline("idle_daemon_cpu_fraction", AtMost(0.001), Suite::Idle),
        headline("idle_wakeups_per_second", AtMost(0.0), Suite::Idle),
        headline("oversubscribed_4to1_over_1to1_throughput", AtLeast(0.9), Oversubscription),
        headline("oversubscribed_16to1_over_1to1_throughput", AtLeast(0.9), Oversubscription),
        headline("doorbell_rtt_behind_broker_over_without", AtMost(1.05), Suite::Broker),
        headline("doorbell_rtt_another_without_broker_over_without", Aim::None, Suite::Broker),
        headline("throughput_behind_broker_over_without", AtLeast(0.95), Suite::Broker),
        headline("throughput_another_without_broker_over_without", Aim::None, Suite::Broker),
        headline("blocked_wait_behind_broker_over_without", Aim::None, Suite::Broker),
        headline("request_behind_broker_over_without", Aim::None, Suite::Broker),
        headline("display_flips_missed_60_hz", AtMost(0.0), Display),
        headline("display_flips_missed_240_hz", AtMost(0.0), Display),
        headline("display_submit_to_scan_out_60_hz_over_frame_and_1_ms", AtMost(1.0), Display),
        headline("display_submit_to_scan_out_240_hz_over_frame_and_1_ms", AtMost(1.0), Display),
        headline("display_vsync_jitter_over_timerfd_jitter", AtMost(1.5), Display),
        headline("display_vsync_jitter_over_two_wakes_jitter", AtMost(1.5), Display),
        headline("display_still_wakeups_per_second", AtMost(0.0), Display),
        headline("display_viewed_cpu_fraction", AtMost(0.005), Display),
        headline("display_no_longer_viewed_wakeups_per_second", AtMost(0.0), Display),
        headline("display_4k_viewed_submit_to_scan_out_over_unviewed", AtMost(1.1), Display),
        headline("display_4k_viewed_flips_missed", AtMost(0.0), Display),
        headline("neighbour_share_beside_hostile_guest", Aim::None, Suite::Hostile),
        share!("unstoppable"),
        longest!("unstoppable"),
        share!("slowly_dying"),
        longest!("slowly_dying"),
        share!("spinning"),
        longest!("spinning"),
        share!("confined_unstoppable"),
        longest!("confined_unstoppable"),
        share!("confined_slowly_dying"),
        longest!("confined_slowly_dying"),
        share!("confined_spinning"),
        longest!("confined_spinning"),
        headline("neighbour_beside_workers_devices_lost", AtMost(0.0), Suite::Hostile),
        headline("scale_costs_above_their_work", AtMost(0.0), Suite::Scale),
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
