// SPDX-License-Identifier: MIT OR Apache-2.0

//! The main job's report.

use super::latency::{Repetition, Timed};
use crate::machine::{Disturbances, Machine};
use crate::output::wrapped;
use crate::stream::{Bound, Parts, Streamed, TransformedBy};
use crate::timing::Latency;
use crate::units::{counted, grouped, time};
use bellhop_protocol::control::adapter::Statistics;
use indicatif::BinaryBytes;
use serde::Serialize;
use std::fmt;

/// The results of the main job.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Whether every byte and every hash equals the guest's own.
    pub verified: bool,
    /// Offset in the input of the first wrong byte.
    pub first_mismatch: Option<u64>,
    /// Bytes of input.
    pub bytes: u64,
    /// Chunks of the input.
    pub chunks: u64,
    /// How long streaming took.
    pub seconds: f64,
    /// Input bytes a second.
    pub bytes_per_second: f64,
    /// What transformed the chunks on the GPU.
    pub transformed: TransformedBy,
    /// What bounded streaming.
    pub bounded_by: Bound,
    /// How the time of streaming was spent.
    pub stream: Parts,
    /// Command buffers submitted through doorbells, the timed ones included.
    pub submissions: u64,
    /// Stores to doorbells.
    pub doorbells: u64,
    /// Notifies: rings that found the device asleep.
    pub notifies: u64,
    /// Connects: rings that found the doorbell disconnected.
    pub connects: u64,
    /// Interrupts that the GPU raised for this guest's fences.
    pub interrupts: u64,
    /// Requests through the control queue, except the timed kernel-mode submissions.
    pub control_messages: u64,
    /// Times that an engine woke from its sleep and executed this guest's work first, during the run.
    pub engine_wakeups: u64,
    /// Packets that the GPU executed.
    pub packets: u64,
    /// A null command buffer, from submission to fence, through a doorbell, polled.
    pub submit_to_fence_ns: Latency,
    /// Null command buffers that found the engine asleep and had to notify it; null if there were none.
    pub notified_submit_to_fence_ns: Option<Latency>,
    /// A null command buffer through the control queue.
    pub kernel_mode_submit_to_fence_ns: Latency,
    /// The ratio of the medians: how many times as fast the doorbell is.
    pub doorbell_speedup: f64,
    /// The medians of each repetition.
    pub repetitions: Vec<Repetition>,
    /// Known reasons why the doorbell is not faster, and what to do. Empty when it is.
    pub why_not_faster: Vec<String>,
    /// The processors that guest and daemon used.
    pub pinning: String,
    /// What disturbed the guest while submissions were timed.
    pub disturbances: Disturbances,
    /// The machine.
    pub machine: Machine,
}

/// A smaller ratio does not count as faster: medians of two runs differ by as much.
const FASTER: f64 = 1.05;

impl Report {
    pub(super) fn new(
        streamed: &Streamed,
        transformed: TransformedBy,
        timed: Timed,
        statistics: &Statistics,
        pinning: String,
    ) -> Self {
        let seconds = streamed.parts.elapsed.as_secs_f64();
        let kernel_mode = timed.kernel_mode_submissions;
        let speedup = timed.kernel_mode.p50 as f64 / timed.user_mode.p50.max(1) as f64;
        let why_not_faster = if speedup < FASTER { why_not_faster(&timed) } else { Vec::new() };
        Self {
            verified: streamed.mismatch.is_none(),
            first_mismatch: streamed.mismatch,
            bytes: streamed.bytes,
            chunks: streamed.chunks,
            seconds,
            bytes_per_second: streamed.bytes as f64 / seconds,
            transformed,
            bounded_by: streamed.parts.bound(),
            stream: streamed.parts,
            submissions: streamed.submissions + timed.submissions,
            doorbells: streamed.doorbells.rings + timed.doorbells.rings,
            notifies: streamed.doorbells.notifies + timed.doorbells.notifies,
            connects: streamed.doorbells.connects + timed.doorbells.connects,
            interrupts: statistics.interrupts,
            control_messages: statistics.control_messages.saturating_sub(kernel_mode),
            engine_wakeups: statistics.engine_wakeups,
            packets: statistics.packets,
            submit_to_fence_ns: timed.user_mode,
            notified_submit_to_fence_ns: timed.notified,
            kernel_mode_submit_to_fence_ns: timed.kernel_mode,
            doorbell_speedup: speedup,
            repetitions: timed.repetitions,
            why_not_faster,
            pinning,
            disturbances: timed.disturbances,
            machine: Machine::find(),
        }
    }
}

/// Nanoseconds that the hypervisor takes from the guest before the report mentions them.
const MUCH_STOLEN: u64 = 10_000_000;

/// Known reasons for a doorbell that is not faster than the control queue, and what to do about each.
fn why_not_faster(timed: &Timed) -> Vec<String> {
    let Disturbances { processors, stolen_ns, load, .. } = timed.disturbances;
    let (samples, notified) = (timed.user_mode.samples, timed.notified.as_ref());
    let notified = notified.map_or(0, |times| times.samples);
    let mut reasons = Vec::new();
    if processors == 1 {
        reasons.push("guest and engine share one processor: give the run two".to_owned());
    }
    if 2 * notified >= samples {
        reasons.push(format!(
            "{} of {} submissions found the engine asleep and sent a request to wake it: raise \
             adapter.spin above the time between submissions",
            grouped(notified),
            grouped(samples)
        ));
    }
    if let Some(load) = load.filter(|load| *load > processors as f64) {
        reasons.push(format!(
            "other programs use the processors (load {load:.1} on {processors}): run it when they \
             are done"
        ));
    }
    if let Some(stolen) = stolen_ns.filter(|stolen| *stolen >= MUCH_STOLEN) {
        let stolen = time(stolen as f64);
        reasons.push(format!(
            "the hypervisor gave {stolen} of processor time to others: run it on dedicated processors"
        ));
    }
    if reasons.is_empty() {
        let advice = "run it again; `bellhop bench round-trip` measures each part";
        reasons.push(format!("the cause is not known: {advice}"));
    }
    reasons
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.first_mismatch {
            None => "verified: every byte matches the guest's own computation".into(),
            Some(offset) => format!("NOT VERIFIED: the result differs from byte {offset} on"),
        };
        writeln!(f, "{verdict}")?;
        let rate = BinaryBytes(self.bytes_per_second as u64);
        let bytes = BinaryBytes(self.bytes);
        writeln!(f, "  {bytes} in {} chunks, {:.3} s, {rate}/s", self.chunks, self.seconds)?;
        f.write_str(&wrapped("  transformed by: ", &self.transformed.to_string()))?;
        f.write_str(&wrapped("  bounded by: ", &self.stream.verdict()))?;
        let counts = [
            ("submissions", self.submissions, "through doorbells"),
            ("doorbells rung", self.doorbells, "plain stores"),
            ("control messages", self.control_messages, "all set-up, connecting and waiting"),
            ("notifies", self.notifies, "the device was asleep"),
            ("connects", self.connects, "the doorbell was disconnected"),
            ("interrupts", self.interrupts, "a thread waited"),
            ("engine wake-ups", self.engine_wakeups, "for this guest's work"),
            ("packets executed", self.packets, ""),
        ];
        for (name, count, remark) in counts {
            let count = grouped(count);
            writeln!(f, "{}", format!("  {name:<18}{count:>12}  {remark}").trim_end())?;
        }
        self.write_times(f)?;
        self.write_verdict(f)?;
        f.write_str(&wrapped("  processors: ", &self.pinning))?;
        f.write_str(&wrapped("  disturbed by: ", &self.disturbances.to_string()))
    }
}

impl Report {
    fn write_times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {:<24}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "null submission to fence", "p50", "p90", "p99", "p99.9", "max", "samples"
        )?;
        let rows = [
            ("doorbell", Some(&self.submit_to_fence_ns)),
            ("  engine was asleep", self.notified_submit_to_fence_ns.as_ref()),
            ("control queue", Some(&self.kernel_mode_submit_to_fence_ns)),
        ];
        let rows = rows.into_iter().filter_map(|(name, times)| Some((name, times?)));
        for (name, Latency { samples, p50, p90, p99, p99_9, max, .. }) in rows {
            write!(f, "  {name:<24}")?;
            for percentile in [p50, p90, p99, p99_9, max] {
                write!(f, "{:>9}", time(*percentile as f64))?;
            }
            writeln!(f, "{:>9}", grouped(*samples))?;
        }
        Ok(())
    }

    fn write_verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut speedups: Vec<f64> = self.repetitions.iter().map(Repetition::speedup).collect();
        speedups.sort_by(f64::total_cmp);
        let spread = match speedups[..] {
            [least, .., greatest] => {
                let repetitions = counted(speedups.len() as u64, "repetition");
                format!("{least:.1} to {greatest:.1} in {repetitions}")
            }
            _ => "one repetition".into(),
        };
        let speedup = self.doorbell_speedup;
        if speedup >= FASTER {
            let verdict = format!("the doorbell is {speedup:.1} times as fast (medians; {spread})");
            return f.write_str(&wrapped("  ", &verdict));
        }
        let [doorbell, control] = [&self.submit_to_fence_ns, &self.kernel_mode_submit_to_fence_ns]
            .map(|times| time(times.p50 as f64));
        writeln!(f, "  the doorbell is NOT faster here: {doorbell}, {control} by control queue")?;
        self.why_not_faster.iter().try_for_each(|why| f.write_str(&wrapped("    - ", why)))
    }
}

impl fmt::Display for Disturbances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processors, involuntary_switches, waited_for_processor_ns, .. } = *self;
        let mut told = Vec::new();
        if let Some(count) = involuntary_switches {
            told.push(counted(count, "involuntary switch").replace("switchs", "switches"));
        }
        if let Some(waited) = waited_for_processor_ns {
            told.push(format!("{} waiting for a processor", time(waited as f64)));
        }
        if let Some(stolen) = self.stolen_ns {
            told.push(format!("{} stolen by the hypervisor", time(stolen as f64)));
        }
        if let Some(load) = self.load {
            told.push(format!("load {load:.1} on {}", counted(processors as u64, "processor")));
        }
        if told.is_empty() {
            f.write_str("not known: this machine does not report it")
        } else {
            f.write_str(&told.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn latency(p50: u64, samples: u64) -> Latency {
        let (p90, p99, p99_9) = (2 * p50, 9 * p50, 99 * p50);
        Latency { samples, p50, p90, p99, p99_9, max: 60_000_000_000, curve: Vec::new() }
    }

    /// The report of a run with these medians.
    fn report(doorbell: u64, control: u64, notified: u64, disturbances: Disturbances) -> Report {
        let streamed = Streamed {
            bytes: u64::MAX >> 14,
            chunks: 735,
            submissions: 2_405,
            doorbells: Default::default(),
            parts: Parts {
                elapsed: Duration::from_millis(877),
                checking: Duration::from_millis(800),
                executing: Duration::from_millis(1754),
                engines: 3,
                ..Parts::default()
            },
            mismatch: None,
        };
        let repetition =
            Repetition { doorbell_ns_p50: doorbell, notified, control_queue_ns_p50: control };
        let timed = Timed {
            submissions: 20_000,
            doorbells: Default::default(),
            user_mode: latency(doorbell, 20_000),
            notified: (notified > 0).then(|| latency(doorbell, notified)),
            kernel_mode: latency(control, 1000),
            kernel_mode_submissions: 1000,
            repetitions: vec![repetition; 5],
            disturbances,
        };
        let pinning =
            "guest on 0, bellhopd on 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35-255";
        let transformed = TransformedBy::OwnKernel {
            device: "llvmpipe (LLVM 19.1.7, 256 bits)".into(),
            driver: "llvmpipe Mesa 25.0.7-2 (LLVM 19.1.7)".into(),
        };
        Report::new(&streamed, transformed, timed, &Statistics::default(), pinning.into())
    }

    #[test]
    fn a_doorbell_that_is_not_faster_is_never_said_to_be_some_times_as_fast() {
        let alone = Disturbances { processors: 1, ..Disturbances::default() };
        let text = report(115_647, 63_775, 19_990, alone).to_string();
        assert!(text.contains("NOT faster here: 116 us, 63.8 us by control queue"), "{text}");
        assert!(!text.contains("times as fast"), "{text}");
        assert!(text.contains("share one processor: give the run two"), "{text}");
        assert!(text.contains("19,990 of 20,000 submissions found the engine asleep"), "{text}");
        let quiet = Disturbances { processors: 2, ..Disturbances::default() };
        let text = report(100, 100, 0, quiet).to_string();
        assert!(text.contains("the cause is not known: run it again"), "{text}");
        assert!(!text.contains("engine was asleep"), "{text}");
    }

    #[test]
    fn a_doorbell_that_is_faster_is_said_to_be_with_what_was_measured() {
        let quiet = Disturbances { processors: 2, load: Some(0.1), ..Disturbances::default() };
        let report = report(1_000, 15_400, 7, quiet);
        let text = report.to_string();
        let verdict = "the doorbell is 15.4 times as fast (medians; 15.4 to 15.4 in 5 repetitions)";
        assert!(text.contains(verdict) && report.why_not_faster.is_empty(), "{text}");
        assert!(text.contains("bounded by: the guest's own work (checking 91 %,"), "{text}");
        assert!(text.contains("2.00 of 3 engines executed at a time"), "{text}");
        assert!(text.contains("  engine was asleep"), "{text}");
        assert!(text.contains("load 0.1 on 2 processors"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let all = Disturbances {
            processors: 1,
            involuntary_switches: Some(20_241_000),
            waited_for_processor_ns: Some(6_000_000_000),
            stolen_ns: Some(59_000_000_000),
            load: Some(128.4),
        };
        let text = report(115_647, 63_775, 19_990, all).to_string();
        let faster = report(10, 6_000_000_000, 0, all).to_string();
        for line in text.lines().chain(faster.lines()) {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
        assert!(text.contains("59.0 s") && text.contains("load 128.4 on 1 processor"), "{text}");
    }
}
