// SPDX-License-Identifier: MIT OR Apache-2.0

//! The properties that the name of a figure or ratio implies: its unit, its direction, and how a value is shown.

use super::headlines::{Aim, HEADLINES};
use crate::units::{amount, byte_rate, rate, time};

/// Ratios without `_over_` in their names.
const RATIOS: [&str; 3] = [
    "neighbour_share_beside_hostile_guest",
    "submissions_per_cacheline_rtt",
    "submissions_wait_last_per_cacheline_rtt",
];
/// Prefixes of the machine's own figures: other mechanisms that the service is measured beside.
const OF_THE_MACHINE: [&str; 11] = [
    "cacheline",
    "minimal_path",
    "checked_path",
    "io_uring",
    "eventfd",
    "memcpy",
    "dav1d",
    "guest_verification",
    "native",
    "timerfd",
    "two_wakes",
];

/// Which of two values of a figure is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The smaller one.
    Less,
    /// The greater one.
    More,
}

impl Better {
    /// The better value.
    #[must_use]
    pub fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Less => one.min(other),
            Self::More => one.max(other),
        }
    }
}

/// Whether the name is that of a ratio: one figure over another.
pub(super) fn is_ratio(name: &str) -> bool {
    name.contains("_over_") || RATIOS.contains(&name)
}

/// Whether the name is that of a share of processor time.
pub(super) fn is_fraction(name: &str) -> bool {
    name.contains("fraction")
}

/// Whether the figure is about the machine or another mechanism, not about the service.
pub(super) fn is_of_the_machine(name: &str) -> bool {
    // The suite on one processor measures these too, under names with this prefix.
    let name = name.strip_prefix("one_processor_").unwrap_or(name);
    !is_ratio(name) && OF_THE_MACHINE.iter().any(|start| name.starts_with(start))
}

/// Which values of a figure or ratio are better. `None` for purely informative ones, such as the number of
/// doorbells that were taken.
pub(super) fn better(name: &str) -> Option<Better> {
    let headline = HEADLINES.iter().find(|headline| headline.name == name);
    match headline.map(|headline| headline.aim) {
        Some(Aim::AtMost(_)) => return Some(Better::Less),
        Some(Aim::AtLeast(_)) => return Some(Better::More),
        Some(Aim::None) | None => {}
    }
    if name.contains("exponent_of") {
        return Some(Better::Less);
    }
    let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if is(&["victimised_doorbells"]) {
        None
    } else if is(&[
        "bandwidth",
        "throughput",
        "bytes_per_second",
        "submissions_per",
        "submissions_wait_last_per",
        "ring_once_over",
        "neighbour_share",
        "stream_over",
    ]) || (name.ends_with("_per_second") && !name.contains("wakeups"))
    {
        Some(Better::More)
    } else if is(&[
        "_ns",
        "over_native",
        "rtt",
        "wake",
        "fraction",
        "lost",
        "interrupts",
        "jitter",
        "missed",
        "_bytes",
    ]) {
        Some(Better::Less)
    } else {
        None
    }
}

/// A value with its unit, by which its name ends, and with significant digits only.
pub(super) fn shown(name: &str, value: f64) -> String {
    match name {
        _ if is_ratio(name) || name.contains("exponent_of") => number(value),
        _ if name.contains("_ns_p") || name.ends_with("_ns") => time(value),
        _ if name.ends_with("_bytes") => amount(value),
        _ if name.ends_with("bytes_per_second") => byte_rate(value),
        _ if name.contains("per_second") => rate(value),
        _ if is_fraction(name) => format!("{:.2} %", 100.0 * value),
        _ => number(value),
    }
}

fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        small if small < 0.1 => 4,
        small if small < 100.0 => 2,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A name without its unit, which the value shows.
pub(super) fn label(name: &str) -> String {
    let units = ["_bytes_per_second", "_submissions_per_second", "_per_second", "_ns"];
    let name = units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    name.replace("_ns_", "_").replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_values_are_better() {
        let less = [
            "doorbell_rtt_ns_p99.9",
            "doorbell_rtt_over_minimal_path",
            "rtt_after_idle_16700_us_ns_p50",
            "idle_wakeups_per_second",
            "daemon_cpu_fraction_gap_16700_us",
            "lost_submissions_10000_queues",
            "engine_to_engine_rtt_over_cacheline_rtt",
            "signal_to_blocked_waiter_over_eventfd_wake",
            "scale_queues_100_memory_bytes",
            "scale_doorbells_exponent_of_submissions_per_second",
        ];
        for name in less {
            assert_eq!(better(name), Some(Better::Less), "{name}");
        }
        let more = [
            "submissions_per_cacheline_rtt",
            "submissions_per_second_one_engine",
            "ring_once_wait_last_depth_64_submissions_per_second",
            "oversubscribed_16to1_over_1to1_throughput",
            "copy_system_scattered_bandwidth_over_memcpy",
            "copy_local_bytes_per_second",
            "neighbour_share_beside_hostile_guest",
            "stream_over_guest_verification",
            "ring_once_over_ring_each_depth_64",
            "ring_once_over_ring_each_wait_last_depth_64",
            "submissions_wait_last_per_cacheline_rtt",
            "throughput_wait_last_over_minimal_path",
        ];
        for name in more {
            assert_eq!(better(name), Some(Better::More), "{name}");
        }
        assert_eq!(better("victimised_doorbells_10000_queues"), None);
    }

    #[test]
    fn floors_and_other_mechanisms_are_the_machines() {
        for name in
            ["cacheline_rtt_ns_p50", "memcpy_bytes_per_second", "one_processor_eventfd_rtt_ns_p50"]
        {
            assert!(is_of_the_machine(name), "{name}");
        }
        for name in
            ["doorbell_rtt_ns_p50", "submissions_per_cacheline_rtt", "copy_bandwidth_over_memcpy"]
        {
            assert!(!is_of_the_machine(name), "{name}");
        }
    }
}
