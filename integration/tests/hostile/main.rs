// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that do everything wrong, disconnect in the middle of it, and die, beside a neighbour that checks its own
//! results.

mod bad_workers;
mod connections;
mod everything;
mod evicted;
mod front_ends;
mod garbage;
mod holes;
mod killed;
mod limits;
mod log;
#[path = "../support/named_kernels.rs"]
mod named_kernels;
mod neighbour;
mod programs;
mod restart;
#[path = "../support/mod.rs"]
mod support;
mod workers;

/// The seed of random choices: `BELLHOP_SEED`, or a number of this run.
fn seed() -> u64 {
    let given = std::env::var("BELLHOP_SEED").ok();
    let seed = given.map_or_else(|| u64::from(std::process::id()), |seed| seed.parse().unwrap());
    println!("BELLHOP_SEED={seed}");
    seed
}
