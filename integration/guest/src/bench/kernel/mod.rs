// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' own kernels, beside the same Vulkan in one process without guests.

mod dispatcher;
mod long;
mod work;

pub use dispatcher::Dispatcher;
pub use long::{LongKernels, Neighbour};

use super::report::Measured;
use crate::timing::Latency;
use anyhow::Context as _;
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::kernel::unpadded;
use work::{STREAM, Work};

/// Times that guest and one process are measured, in turn, in one repetition. The least median of each counts.
const TURNS: usize = 2;

/// What kernels take: medians, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// One work group that does nothing.
    pub null_ns: f64,
    /// Several work groups that do nothing.
    pub groups_ns: f64,
    /// 64 dispatches that depend on each other, in one command buffer.
    pub batch_ns: f64,
    /// A kernel that loads and stores 64 MiB.
    pub stream_ns: f64,
}

impl Times {
    /// The lesser of each.
    fn least(self, other: Self) -> Self {
        Self {
            null_ns: self.null_ns.min(other.null_ns),
            groups_ns: self.groups_ns.min(other.groups_ns),
            batch_ns: self.batch_ns.min(other.batch_ns),
            stream_ns: self.stream_ns.min(other.stream_ns),
        }
    }
}

/// Measures the same Vulkan in one process.
pub type Native<'a> = dyn FnMut() -> anyhow::Result<Times> + 'a;

/// Why there are no ratios in a guest alone.
const HOST_ONLY: &str =
    "only the host has the same Vulkan in one process: run bellhop bench kernel";

/// Measures one repetition. Without `native`, there are only the guest's own times.
///
/// # Errors
/// When a kernel fails or computes wrongly, or one process cannot be measured.
pub fn measure(
    adapter: &Adapter,
    samples: u64,
    mut native: Option<&mut Native<'_>>,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let caps = adapter.kernel_caps()?;
    if !caps.are_supported() {
        let missing = unpadded(&caps.missing);
        for name in RATIOS.into_iter().chain([SHARES]) {
            measured.absent(name, format!("there are no kernels: {missing}"));
        }
        return Ok(());
    }
    let mut guest = Work::new(adapter)?;
    let (mut ours, mut theirs): (Option<(Times, Latency)>, Option<Times>) = (None, None);
    for _ in 0..TURNS {
        if let Some(native) = &mut native {
            let times = native()?;
            theirs = Some(theirs.map_or(times, |least| least.least(times)));
        }
        let (times, null) = guest.times(samples)?;
        ours = Some(match ours {
            Some((least, of_least)) => {
                let null = if null.p50 < of_least.p50 { null } else { of_least };
                (least.least(times), null)
            }
            None => (times, null),
        });
    }
    let (times, null) = ours.context("nothing was measured")?;
    measured.distribution("kernel_dispatch", &null);
    for (percentile, value) in [("p50", null.p50), ("p99", null.p99), ("p99.9", null.p99_9)] {
        measured.figure(format!("kernel_dispatch_ns_{percentile}"), value as f64);
    }
    measured.figure("kernel_dispatch_of_several_groups_ns_p50", times.groups_ns);
    measured.figure("kernel_batch_of_64_ns_p50", times.batch_ns);
    let rate = |bytes: u64, nanoseconds: f64| bytes as f64 / nanoseconds * 1e9;
    measured.figure("kernel_bytes_per_second", rate(STREAM, times.stream_ns));
    let untouched = guest.untouched(times.stream_ns)?;
    measured.figure("kernel_untouched_bytes_per_second", rate(STREAM, untouched.runs_ns));
    measured.figure("kernel_miss_of_2_mib_ns", untouched.run_miss_ns);
    measured.figure("kernel_miss_of_a_page_ns", untouched.page_miss_ns);
    match theirs {
        Some(native) => {
            measured.figure("native_kernel_dispatch_ns_p50", native.null_ns);
            let name = "native_kernel_dispatch_of_several_groups_ns_p50";
            measured.figure(name, native.groups_ns);
            measured.figure("native_kernel_batch_of_64_ns_p50", native.batch_ns);
            measured.figure("native_kernel_bytes_per_second", rate(STREAM, native.stream_ns));
            measured.ratio("kernel_dispatch_over_native", times.null_ns, native.null_ns);
            let name = "dispatch_of_several_groups_over_native";
            measured.ratio(name, times.groups_ns, native.groups_ns);
            measured.ratio("batched_dispatches_over_native", times.batch_ns, native.batch_ns);
            // Of bandwidths: the inverse of the times'.
            measured.ratio("kernel_bandwidth_over_native", native.stream_ns, times.stream_ns);
            let name = "kernel_bandwidth_untouched_over_native";
            measured.ratio(name, native.stream_ns, untouched.runs_ns);
        }
        None => RATIOS.iter().for_each(|name| measured.absent(*name, HOST_ONLY)),
    }
    Ok(())
}

/// How far the engine time of guests is from what their weights give them, at most.
pub const SHARES: &str = "kernel_shares_off_weights_fraction";
/// The ratios to one process.
const RATIOS: [&str; 5] = [
    "kernel_dispatch_over_native",
    "dispatch_of_several_groups_over_native",
    "kernel_bandwidth_over_native",
    "kernel_bandwidth_untouched_over_native",
    "batched_dispatches_over_native",
];
