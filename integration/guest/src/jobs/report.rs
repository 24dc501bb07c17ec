//! What the main job prints.

use super::latency::Timed;
use super::stream::Streamed;
use crate::timing::Latency;
use bellhop_protocol::control::adapter::Statistics;
use indicatif::{BinaryBytes, HumanCount};
use serde::Serialize;
use std::fmt;

/// What the main job did.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Whether every byte and every hash was what the guest computed itself.
    pub verified: bool,
    /// Offset in the input of the first byte that was not.
    pub first_mismatch: Option<u64>,
    /// Bytes of input.
    pub bytes: u64,
    /// Chunks that they came in.
    pub chunks: u64,
    /// How long streaming took.
    pub seconds: f64,
    /// Input bytes for each second of that.
    pub bytes_per_second: f64,
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
    /// Requests through the control queue, but for the timed kernel-mode submissions.
    pub control_messages: u64,
    /// Times that an engine woke from its sleep.
    pub engine_wakeups: u64,
    /// Packets that the GPU executed.
    pub packets: u64,
    /// A null command buffer, from submission to fence, through a doorbell, polled.
    pub submit_to_fence_ns: Latency,
    /// The same through the control queue.
    pub kernel_mode_submit_to_fence_ns: Latency,
}

impl Report {
    pub(super) fn new(streamed: &Streamed, timed: &Timed, statistics: &Statistics) -> Self {
        let seconds = streamed.elapsed.as_secs_f64();
        let kernel_mode = timed.kernel_mode_submissions;
        Self {
            verified: streamed.mismatch.is_none(),
            first_mismatch: streamed.mismatch,
            bytes: streamed.bytes,
            chunks: streamed.chunks,
            seconds,
            bytes_per_second: streamed.bytes as f64 / seconds,
            submissions: streamed.submissions + timed.submissions,
            doorbells: streamed.doorbells.rings + timed.doorbells.rings,
            notifies: streamed.doorbells.notifies + timed.doorbells.notifies,
            connects: streamed.doorbells.connects + timed.doorbells.connects,
            interrupts: statistics.interrupts,
            control_messages: statistics.control_messages.saturating_sub(kernel_mode),
            engine_wakeups: statistics.engine_wakeups,
            packets: statistics.packets,
            submit_to_fence_ns: timed.user_mode.clone(),
            kernel_mode_submit_to_fence_ns: timed.kernel_mode.clone(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.first_mismatch {
            None => "verified: every byte is what the guest computed itself".into(),
            Some(offset) => format!("NOT VERIFIED: the result differs from byte {offset} on"),
        };
        writeln!(f, "{verdict}")?;
        let rate = BinaryBytes(self.bytes_per_second as u64);
        let bytes = BinaryBytes(self.bytes);
        writeln!(f, "  {bytes} in {} chunks, {:.3} s, {rate}/s", self.chunks, self.seconds)?;
        let counts = [
            ("submissions", self.submissions, "through doorbells"),
            ("doorbells rung", self.doorbells, "plain stores"),
            ("control messages", self.control_messages, "all set-up, connecting and waiting"),
            ("notifies", self.notifies, "the device was asleep"),
            ("connects", self.connects, "the doorbell was disconnected"),
            ("interrupts", self.interrupts, "somebody waited"),
            ("engine wake-ups", self.engine_wakeups, ""),
            ("packets executed", self.packets, ""),
        ];
        for (name, count, remark) in counts {
            let count = HumanCount(count).to_string();
            writeln!(f, "{}", format!("  {name:<18}{count:>12}  {remark}").trim_end())?;
        }
        writeln!(f, "  null submission to fence, ns")?;
        writeln!(
            f,
            "  {:<18}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}",
            "", "p50", "p90", "p99", "p99.9", "max", "samples"
        )?;
        let rows = [
            ("doorbell", &self.submit_to_fence_ns),
            ("control queue", &self.kernel_mode_submit_to_fence_ns),
        ];
        for (name, Latency { samples, p50, p90, p99, p99_9, max }) in rows {
            writeln!(
                f,
                "  {name:<18}{p50:>10}{p90:>10}{p99:>10}{p99_9:>10}{max:>12}{samples:>10}"
            )?;
        }
        let ratio = self.kernel_mode_submit_to_fence_ns.p50 / self.submit_to_fence_ns.p50.max(1);
        writeln!(f, "  the doorbell is {ratio} times as fast (medians)")
    }
}
