// SPDX-License-Identifier: MIT OR Apache-2.0

//! The main job's stream beside the guest's own part of it.

use super::report::Measured;
use crate::stream::{CHUNK, Input, Nodes, Transformation, check_alone, run as stream};
use anyhow::bail;
use bellhop_guest_umd::Adapter;

/// Bytes of the input: more than the caches between guest and engines hold.
const SIZE: u64 = 64 << 20;

pub(super) fn run(adapter: &Adapter, measured: &mut Measured) -> anyhow::Result<()> {
    // All words differ, so that swapped chunks show.
    let mut input = Input::in_memory(0..SIZE / 8)?;
    let nodes = Nodes::of(adapter)?;
    let alone = check_alone(&mut input, CHUNK)?;
    input.rewind()?;
    let streamed = stream(adapter, &nodes, &mut input, CHUNK, &Transformation::BuiltIn, |_| ())?;
    if let Some(place) = streamed.mismatch {
        bail!("the stream's result is wrong from byte {place} on");
    }
    let parts = streamed.parts;
    let rate = SIZE as f64 / parts.elapsed.as_secs_f64();
    let alone = SIZE as f64 / alone.as_secs_f64();
    measured.figure("stream_bytes_per_second", rate);
    measured.figure("guest_verification_bytes_per_second", alone);
    let waited = parts.waiting.as_secs_f64() / parts.elapsed.as_secs_f64();
    measured.figure("stream_waiting_for_engines_fraction", waited);
    measured.ratio("stream_over_guest_verification", rate, alone);
    Ok(())
}
