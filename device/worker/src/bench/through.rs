// SPDX-License-Identifier: MIT OR Apache-2.0

//! The same kernels in a worker of this process.

use super::{
    BATCH, BATCH_ROUNDS, Figures, GROUPS, ROUNDS, STREAM, STREAM_GROUPS, STREAM_ROUNDS,
    check_steps, median, nanoseconds,
};
use crate::messages::PAGE;
use crate::owner::{Event, KernelDispatch, Memory, Module, Options, Worker};
use crate::self_test::kernels;
use anyhow::{Context, bail, ensure};
use rustix::fd::AsFd;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What kernels cost in a worker.
#[derive(Debug, Clone, Copy)]
pub struct Through {
    /// What can be compared with one process.
    pub figures: Figures,
    /// Nanoseconds of the kernel limited by memory over pages that are mapped as it touches them, and the number of
    /// times that it asked: in runs of 2 MiB, and page by page.
    pub untouched: [(u64, u64); 2],
}

/// Measures a worker, which the command starts. Its window must have 128 MiB.
///
/// # Errors
/// When the worker fails or a result is wrong.
pub fn through_worker(command: Command, options: &Options) -> anyhow::Result<Through> {
    let mut bench = Bench {
        worker: Worker::start(command, options)?,
        file: memfd_create("bench", MemfdFlags::CLOEXEC)?.into(),
        start: options.window.start,
    };
    bench.file.set_len(STREAM)?;
    for (number, module, descriptors) in
        [(1, kernels::NULL, 0), (2, kernels::STEP, 1), (3, kernels::STREAM, 1)]
    {
        bench.load(number, &module, descriptors)?;
    }
    bench.map(bench.start, STREAM)?;
    let (state, words) = ([[bench.start, PAGE]], [[bench.start, STREAM]]);
    let work = |kernel, descriptors, groups| KernelDispatch {
        kernel,
        groups: [groups, 1, 1],
        barrier: true,
        push_constants: &[],
        descriptors,
    };
    let (null, step) = (work(1, &[], 1), work(2, &state, 1));
    let stream = work(3, &words, STREAM_GROUPS);
    let null_ns = median(ROUNDS, || bench.run(&[null], PAGE).map(drop))?;
    let groups = work(1, &[], GROUPS);
    let groups_ns = median(ROUNDS, || bench.run(&[groups], PAGE).map(drop))?;
    let batch_ns = median(BATCH_ROUNDS, || bench.run(&[step; BATCH], PAGE).map(drop))?;
    let mut first = [0; 4];
    bench.file.read_exact_at(&mut first, 0)?;
    check_steps((BATCH_ROUNDS.0 + BATCH_ROUNDS.1) * BATCH, u32::from_le_bytes(first))?;
    let stream_ns = median(STREAM_ROUNDS, || bench.run(&[stream], PAGE).map(drop))?;
    let mut untouched = [(0, 0); 2];
    for (untouched, run) in untouched.iter_mut().zip([2 << 20, PAGE]) {
        let all = bench.start..bench.start + STREAM;
        bench.worker.unmap(all)?;
        let Some(Event::Unmapped(_)) = bench.worker.next(Some(PATIENCE))? else {
            bail!("no memory is taken back");
        };
        let start = Instant::now();
        let misses = bench.run(&[stream], run)?;
        *untouched = (nanoseconds(start.elapsed()), misses);
    }
    let mut last = [0; 4];
    bench.file.read_exact_at(&mut last, STREAM - 4)?;
    let expected = (STREAM_ROUNDS.0 + STREAM_ROUNDS.1 + untouched.len()) as u32;
    ensure!(u32::from_le_bytes(last) == expected, "the kernel limited by memory computes wrongly");
    Ok(Through { figures: Figures { null_ns, groups_ns, batch_ns, stream_ns }, untouched })
}

struct Bench {
    worker: Worker,
    file: File,
    start: u64,
}

impl Bench {
    fn load(
        &mut self,
        number: u32,
        module: &kernels::Module,
        descriptors: u32,
    ) -> anyhow::Result<()> {
        let spirv = File::from(memfd_create("spirv", MemfdFlags::CLOEXEC)?);
        spirv.write_all_at(module.0, 0)?;
        let module = Module {
            spirv: spirv.as_fd(),
            length: module.0.len() as u64,
            entry_point: "main",
            push_constants: 0,
            descriptors,
            constants: &[],
        };
        self.worker.load(number, &module)?;
        let event = self.worker.next(Some(PATIENCE))?;
        ensure!(event == Some(Event::Loaded(number)), "{event:?}");
        Ok(())
    }

    fn map(&mut self, address: u64, length: u64) -> anyhow::Result<()> {
        let (file, offset) = (self.file.as_fd(), address - self.start);
        Ok(self.worker.map(&Memory { address, length, file, offset, writable: true })?)
    }

    /// Runs a batch, maps so many bytes around each address that it misses, and returns how many it missed.
    fn run(&mut self, batch: &[KernelDispatch<'_>], run: u64) -> anyhow::Result<u64> {
        self.worker.dispatch(batch)?;
        let mut misses = 0;
        loop {
            match self.worker.next(Some(PATIENCE))?.context("the worker says nothing")? {
                Event::Done => return Ok(misses),
                Event::Fault(fault) => {
                    misses += 1;
                    let offset = (fault.address - self.start) / run * run;
                    let (address, file) = (self.start + offset, self.file.as_fd());
                    let memory = Memory { address, length: run, file, offset, writable: true };
                    self.worker.answer(fault, &memory)?;
                }
                other => bail!("the worker says {other:?}"),
            }
        }
    }
}
