// SPDX-License-Identifier: MIT OR Apache-2.0

//! The least that a submission can cost: cache lines that move between two processes; and the least that a copy can.

pub(super) mod copies;
mod minimal_path;
mod shape;

pub(super) use minimal_path::MinimalPath;
pub(super) use shape::Shape;

use super::partner::{LINE, Partner, SharedLines};
use crate::processors;
use crate::timing::{Latency, time};
use bellhop_protocol::handoff::publication;
use std::convert::Infallible;
use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;

/// Why two polling processes are not measured: each would wait for the end of the other's time slice.
pub(super) const ONE_PROCESSOR: &str =
    "two programs that poll need a processor each; give the guest two";

/// One cache line to another process and one back, both polled. `None` on one processor.
pub(super) fn cache_line_round_trip(samples: u64) -> anyhow::Result<Option<Latency>> {
    if processors::pair().is_none() {
        return Ok(None);
    }
    let shared = SharedLines::new(2)?;
    let (there, back) = (&shared.words()[0], &shared.words()[LINE]);
    let _partner = Partner::start(|| {
        let mut seen = 0;
        loop {
            seen = wait_for_another(there, seen);
            publication::publish(back, seen);
        }
    })?;
    let mut value = 0;
    time(samples, || {
        value += 1;
        publication::publish(there, value);
        wait_for(back, value);
        Ok::<_, Infallible>(())
    })
    .map(Some)
}

#[inline]
fn wait_for(word: &AtomicU64, value: u64) {
    while publication::read(word) < value {
        spin_loop();
    }
}

#[inline]
fn wait_for_another(word: &AtomicU64, value: u64) -> u64 {
    loop {
        let now = publication::read(word);
        if now != value {
            return now;
        }
        spin_loop();
    }
}
