// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's actions beside its work: storms, and stores to words that it must not write.

use crate::harness::flag::Flag;
use crate::harness::guest::process::Process;
use bellhop_guest::client::{Client, Shape, request};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{AreaKind, BarHeader, doorbell_word_offset};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::doorbell::ConnectDoorbell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vm_memory::{Bytes, VolatileMemory};
use zerocopy::{FromZeros, IntoBytes};

/// Connects a doorbell again and again.
pub(in crate::harness) fn connect_storm(
    guest: &FakeGuest,
    process: &Process,
    hw_queue: Handle,
    connects: u64,
    stop: &Flag,
) -> Result<(), String> {
    for _ in 0..connects {
        if stop.is_raised() {
            break;
        }
        // A queue that was lost meanwhile cannot be connected, which is no error here.
        let _refused = request(guest, process.number(), &ConnectDoorbell { hw_queue })
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Rings this number of doorbells of another process in turn.
pub(in crate::harness) fn queue_storm(
    base: &Adapter,
    node: u32,
    queues: u32,
    rounds: u32,
    stop: &Flag,
) -> Result<(), Error> {
    let mut client = Client::new(base.open_process()?, Shape { node, ..Shape::default() })?;
    let mut created = Vec::new();
    for _ in 0..queues {
        if stop.is_raised() {
            return Ok(());
        }
        created.push(client.context.create_user_mode_queue(4096)?);
    }
    for _ in 0..rounds {
        for queue in &mut created {
            if stop.is_raised() {
                return Ok(());
            }
            client.run_on(queue)?;
        }
    }
    Ok(())
}

/// Writes to all doorbells of a BAR as fast as possible.
pub(in crate::harness) fn write_doorbells(
    guest: &FakeGuest,
    time: Duration,
    stop: &Flag,
) -> Result<(), String> {
    let bar = guest.bar().ok_or("the guest has no BAR")?;
    let mut header = BarHeader::new_zeroed();
    bar.region
        .as_volatile_slice()
        .read_slice(header.as_mut_bytes(), 0)
        .map_err(|error| error.to_string())?;
    let areas = header.areas.iter().filter(|area| area.kind == AreaKind::DOORBELLS);
    let area = areas.copied().next().ok_or("the BAR has no doorbells")?;
    let count = (area.length / PAGE_SIZE) as u32;
    let start = Instant::now();
    let mut stores = 0;
    while start.elapsed() < time && !stop.is_raised() {
        for slot in 0..count {
            let offset = area.offset + u64::from(slot) * PAGE_SIZE + doorbell_word_offset(slot);
            let word = bar.region.get_atomic_ref::<AtomicU64>(offset as usize);
            // Changes with each store, and is never a write pointer, which is a multiple of 8.
            let value = stores * 8 + 1;
            word.map_err(|error| error.to_string())?.store(value, Ordering::Relaxed);
            stores += 1;
        }
    }
    Ok(())
}

/// An action on a thread beside the guest's work.
pub(in crate::harness) struct Errand {
    stop: Arc<Flag>,
    thread: std::thread::JoinHandle<Result<(), String>>,
}

impl Errand {
    /// Starts an errand.
    pub(in crate::harness) fn begin(
        what: impl FnOnce(&Flag) -> Result<(), String> + Send + 'static,
    ) -> Result<Self, String> {
        let stop = Arc::new(Flag::default());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("errand".into())
            .spawn(move || what(&stopped))
            .map_err(|error| error.to_string())?;
        Ok(Self { stop, thread })
    }

    pub(in crate::harness) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the errand early.
    pub(in crate::harness) fn stop(&self) {
        self.stop.raise();
    }

    /// Waits for the errand's end.
    pub(in crate::harness) fn join(self) -> Result<(), String> {
        self.thread.join().unwrap_or_else(|_| Err("the thread panicked".into()))
    }
}
