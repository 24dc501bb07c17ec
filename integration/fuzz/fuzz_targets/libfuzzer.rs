// SPDX-License-Identifier: MIT OR Apache-2.0

#![no_main]
//! All targets for libFuzzer, in one program: so there is one to link. `BELLHOP_FUZZ_TARGET` names the target.

mod counters;

use bellhop_fuzz::{TARGETS, Target};
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("BELLHOP_FUZZ_TARGET").unwrap_or_default();
    match TARGETS.iter().find(|(name, _)| *name == wanted) {
        Some((_, target)) => *target,
        None => panic!("BELLHOP_FUZZ_TARGET names no target: {wanted:?}"),
    }
});

libfuzzer_sys::fuzz_target!(
    init: {
        LazyLock::force(&TARGET);
        counters::begin();
    },
    |data: &[u8]| {
        (*TARGET)(data);
        counters::show();
    }
);
