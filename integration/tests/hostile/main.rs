// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that do everything wrong, come and go in the middle of it, and die, beside a neighbour that checks its
//! own results.

mod everything;
mod front_ends;
mod garbage;
mod killed;
mod limits;
mod log;
mod neighbour;
mod restart;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

/// The longest that anything may take before it is taken not to happen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What choices are made from: `BELLHOP_SEED`, or a number of this run.
fn seed() -> u64 {
    let given = std::env::var("BELLHOP_SEED").ok();
    let seed = given.map_or_else(|| u64::from(std::process::id()), |seed| seed.parse().unwrap());
    println!("BELLHOP_SEED={seed}");
    seed
}
