//! A guest that does everything wrong at once: as fast as it can, on a thread for each way.
//!
//! Each way goes on for ever and begins anew with a process of its own from time to time, so that one way's
//! losses do not save the device from the others.

mod attacks;
mod front_end;
mod noise;

pub use front_end::{FEATURES, HostileVmm, QUEUES, Region, event, memory, message};
pub use noise::{Noise, descriptors, packets, request};

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

/// What a thread of the guest goes by.
struct Attacker {
    guest: Arc<FakeGuest>,
    noise: Noise,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

impl Attacker {
    /// Whether to go on; counts.
    fn goes_on(&self) -> bool {
        self.done.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

/// The guest, until it is dropped.
pub struct Hostile {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, Arc<AtomicU64>, JoinHandle<()>)>,
}

impl Hostile {
    /// Begins.
    ///
    /// # Errors
    /// When there are no threads for it.
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
                // As if it had processors of its own: it takes what others leave. Where this is not allowed it
                // takes more.
                let _ = setpriority_process(Some(gettid()), LEAST);
                while attacker.goes_on() {
                    // What comes of it is the device's business.
                    let _ = attack(&mut attacker);
                }
            };
            threads.push((*name, done, Builder::new().name((*name).into()).spawn(run)?));
        }
        Ok(Self { stop, threads })
    }

    /// What it does, and how often it did it so far.
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
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
