// SPDX-License-Identifier: MIT OR Apache-2.0

//! A hostile guest: it attacks its device in every way at once, as fast as it can, on a thread for each
//! attack.
//!
//! Each attack runs for ever, and takes a new process from time to time, so that an attack that lost its objects
//! does not stop the others.

mod attacks;
mod front_end;
mod much_work;
mod noise;
pub mod programs;
mod punch;

pub use front_end::{FEATURES, HostileVmm, QUEUES, Region, event, memory, message};
pub use noise::{Noise, descriptors, packets, request};
pub use punch::Punch;

use crate::fake_guest::FakeGuest;
use attacks::ATTACKS;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

/// The least priority that a thread can have.
const LEAST: i32 = 19;

/// The state of one attacking thread.
struct Attacker {
    guest: Arc<FakeGuest>,
    noise: Noise,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

impl Attacker {
    /// Counts a step. Returns whether to continue.
    fn goes_on(&self) -> bool {
        self.done.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

/// A running hostile guest. It stops when dropped.
pub struct Hostile {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, Arc<AtomicU64>, JoinHandle<()>)>,
}

impl Hostile {
    /// Starts all attacks.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn begin(guest: &Arc<FakeGuest>, seed: u64) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for ((name, attack), stream) in ATTACKS.iter().zip(1..) {
            let done = Arc::new(AtomicU64::new(0));
            let mut attacker = Attacker {
                guest: Arc::clone(guest),
                noise: Noise::new(seed.wrapping_add(stream << 32)),
                stop: Arc::clone(&stop),
                done: Arc::clone(&done),
            };
            let run = move || {
                // The guest takes only processor time that others leave, as if it had its own processors.
                // Where it may not lower its priority, it takes more.
                let _ = setpriority_process(Some(gettid()), LEAST);
                while attacker.goes_on() {
                    // Errors are expected: the device refuses.
                    let _ = attack(&mut attacker);
                }
            };
            threads.push((*name, done, Builder::new().name((*name).into()).spawn(run)?));
        }
        Ok(Self { stop, threads })
    }

    /// Each attack, and how many steps it has done.
    #[must_use]
    pub fn done(&self) -> Vec<(&'static str, u64)> {
        let count = |done: &AtomicU64| done.load(Ordering::Relaxed);
        self.threads.iter().map(|(name, done, _)| (*name, count(done))).collect()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, _, thread) in self.threads.drain(..) {
            // A thread that panicked has printed why.
            let _ = thread.join();
        }
    }
}
