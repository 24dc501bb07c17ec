// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest beside one whose workers were taken over.

use super::neighbour::{Beside, Neighbour};
use crate::bench::oversubscription::Load;
use crate::bench::setting::Setting;
use crate::hostile_worker::{COMPUTES, DIES_SLOWLY, GO, THEN_SPINS, UNDOES_STOPS, WORD};
use anyhow::{Context, anyhow};
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest_umd::{Adapter, Arguments, Error, Kernel, KernelError};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Processes of the other guest, each with a worker: as many as a guest may have by default.
const PROCESSES: usize = 4;
/// Bytes of a process's memory, which a worker in the sandbox fills its page tables with.
const MEMORY: u64 = 2 << 20;
/// Any SPIR-V: nobody compiles it.
const SPIRV: &[u8] = include_bytes!("../../../../device/worker/kernels/touch.spv");
/// How long the neighbour works.
const LOOK: Duration = Duration::from_secs(2);
/// How often a process looks whether it is to end while its worker does not.
const SOON: Duration = Duration::from_millis(20);
/// How long a worker spins before it has another task: less than it may spin.
const SPINS: Duration = Duration::from_millis(5);
/// The number of devices that the neighbour lost. Where it loses any, nothing is measured.
const LOST: &str = "neighbour_beside_workers_devices_lost";

/// What a process of the other guest does, again and again.
type Round = fn(&mut Process, &Beside<'_>) -> Result<(), Error>;

/// Each kind of worker, and what has its guest's workers do that.
const KINDS: [(&str, Round); 3] = [
    ("unstoppable_worker", undo_stops),
    ("slowly_dying_worker", die_slowly),
    ("spinning_worker", spin),
];

/// Measures a guest beside workers outside the sandbox.
pub(in crate::bench) fn beside_workers(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    run(setting, "", measured)
}

/// The same in the sandbox.
pub(in crate::bench) fn beside_confined_workers(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    run(setting, "confined_", measured)
}

fn run(setting: &Setting, prefix: &str, measured: &mut Measured) -> anyhow::Result<()> {
    let mut neighbour = Neighbour::new(Load::new(setting, 0)?)?;
    for _ in 0..setting.options(&[]).repetitions {
        for (kind, round) in KINDS {
            let honest =
                neighbour.work_beside(LOOK, &|beside| conduct(setting, beside, compute))?;
            let hostile = neighbour.work_beside(LOOK, &|beside| conduct(setting, beside, round))?;
            hostile.over(&honest, &format!("{prefix}{kind}"), measured);
            // Whoever loses one has an error.
            measured.figure(LOST, 0.0);
        }
    }
    Ok(())
}

/// A guest whose processes all do this until they are told to end.
fn conduct(setting: &Setting, beside: &Beside<'_>, round: Round) -> anyhow::Result<()> {
    let socket = setting.sockets.get(2).context("there is no third socket")?;
    let guest = FakeGuest::connect(socket, GuestOptions::default())?;
    let adapter = Adapter::open_with(Arc::<FakeGuest>::clone(&guest), setting.place.policy())?;
    thread::scope(|threads| {
        let mut processes = Vec::new();
        for _ in 0..PROCESSES {
            let mut process = Process::new(adapter.open_process()?)?;
            processes.push(threads.spawn(move || process.repeat(beside, round)));
        }
        for process in processes {
            process.join().map_err(|_| anyhow!("a guest's thread panicked"))??;
        }
        Ok(())
    })
}

/// A process of the other guest.
struct Process(Client);

impl Process {
    fn new(adapter: Adapter) -> anyhow::Result<Self> {
        Ok(Self(Client::new(adapter, Shape { memory: MEMORY, ..Shape::default() })?))
    }

    fn repeat(&mut self, beside: &Beside<'_>, round: Round) -> anyhow::Result<()> {
        while !beside.is_over() {
            match round(self, beside) {
                Ok(()) => {}
                // Its worker was killed, or its kernel has hung: so the next is another one's.
                Err(Error::QueueLost { .. } | Error::KernelFault { .. }) => {
                    let Self(client) = self;
                    client.context = client.device.create_context(0)?;
                    client.queue = client.context.create_user_mode_queue(4096)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Begins to execute a kernel. Returns the value of its end.
    fn begin(&mut self, entry_point: &str) -> Result<u64, Error> {
        let Self(client) = self;
        client.write(WORD as usize, &[0; 16])?;
        let kernel = Kernel::from_spirv(&client.device, SPIRV, entry_point).push_constants(8);
        let kernel = kernel.create().map_err(|error| match error {
            KernelError::Device(error) => error,
            _ => Error::NotAvailable("a kernel of a hostile worker"),
        })?;
        let mut arguments = Arguments::new();
        arguments.address(client.va(0));
        client.commands.reset();
        client.commands.dispatch_kernel(&kernel, [1; 3], &arguments)?;
        client.submit()
    }

    /// Waits until a kernel has stored that it goes on, its queue is lost, or the process is to end.
    fn await_word(&self, value: u64, beside: &Beside<'_>) -> Result<(), Error> {
        while self.0.word(WORD as usize)? == 0 && !beside.is_over() {
            self.look(value)?;
        }
        beside.has_begun();
        Ok(())
    }

    /// Waits for a while. Returns whether the kernel is done.
    fn look(&self, value: u64) -> Result<bool, Error> {
        match self.0.queue.progress_fence().wait(value, SOON) {
            Ok(()) => Ok(true),
            Err(Error::Timeout { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until a kernel is done, its queue is lost, or the process is to end.
    fn await_end(&self, value: u64, beside: &Beside<'_>) -> Result<(), Error> {
        while !beside.is_over() && !self.look(value)? {}
        Ok(())
    }
}

/// As an honest guest: one kernel after the other, each of which computes for many turns.
fn compute(process: &mut Process, beside: &Beside<'_>) -> Result<(), Error> {
    let value = process.begin(COMPUTES)?;
    process.await_end(value, beside)?;
    beside.has_begun();
    Ok(())
}

fn undo_stops(process: &mut Process, beside: &Beside<'_>) -> Result<(), Error> {
    let value = process.begin(UNDOES_STOPS)?;
    process.await_word(value, beside)?;
    process.await_end(value, beside)
}

fn die_slowly(process: &mut Process, beside: &Beside<'_>) -> Result<(), Error> {
    let value = process.begin(DIES_SLOWLY)?;
    process.await_word(value, beside)?;
    process.0.write(8, &GO.to_le_bytes())?;
    process.await_end(value, beside)
}

fn spin(process: &mut Process, beside: &Beside<'_>) -> Result<(), Error> {
    let value = process.begin(THEN_SPINS)?;
    process.await_end(value, beside)?;
    beside.has_begun();
    thread::sleep(SPINS);
    Ok(())
}
