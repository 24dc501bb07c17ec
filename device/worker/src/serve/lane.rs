// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device, with the kernels that it has compiled and the batches and streams that it has recorded.

use super::commands::{Residency, Runs, Stream, Wrong};
use super::imports::Imports;
use super::memory::Memory;
use super::recorded::Recorded;
use crate::messages::{Batch, MAX_BATCH, Malformed};
use crate::report::Limits;
use crate::vulkan::{Binding, Device, Dispatch, Kernel, Runner, Source, VulkanError};
use anyhow::{Context, ensure};
use std::collections::HashMap;
use std::ops::Range;

/// Why a batch did not run.
pub struct Failed {
    /// The dispatch.
    pub index: u32,
    pub why: anyhow::Error,
}

/// A malformed batch is the owner's error, and an error of Vulkan the batch's.
pub enum Why {
    Malformed(Malformed),
    Failed(Failed),
}

impl From<Malformed> for Why {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Failed> for Why {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// A device, with the kernels that it has compiled and the batches and streams that it has recorded.
pub struct Lane<'d> {
    device: &'d Device<'d>,
    limits: Limits,
    imports: Imports<'d>,
    kernels: HashMap<u32, Kernel<'d>>,
    /// The batches that it has recorded.
    recorded: Recorded<Runner<'d>>,
    /// The storage buffers of one dispatch, kept for its room.
    bindings: Vec<Binding<'d>>,
    /// What it keeps of streams.
    runs: Runs<'d>,
}

impl<'d> Lane<'d> {
    /// The window must stay reserved until the process ends.
    pub fn new(device: &'d Device<'d>, window: Range<u64>, limits: &Limits) -> Self {
        Self {
            device,
            limits: limits.clone(),
            imports: Imports::new(device, window, limits),
            kernels: HashMap::new(),
            recorded: Recorded::new(),
            bindings: Vec::new(),
            runs: Runs::new(device),
        }
    }

    /// Compiles a kernel, whose number is free.
    ///
    /// # Errors
    /// When the driver refuses it.
    pub fn compile(&mut self, number: u32, source: &Source<'_>) -> Result<(), VulkanError> {
        let kernel = self.device.compile(source)?;
        self.kernels.insert(number, kernel);
        Ok(())
    }

    /// Forgets a kernel.
    pub fn unload(&mut self, number: u32) {
        if self.kernels.remove(&number).is_some() {
            self.recorded.clear();
        }
    }

    /// Forgets everything that may hold memory of the window.
    pub fn forget_memory(&mut self) {
        self.recorded.clear();
        self.runs.forget_memory();
        self.imports.clear();
    }

    /// Runs a stream of commands, and waits until it is done. `makes` says whether its pipelines are made meanwhile.
    ///
    /// # Errors
    /// When a command is malformed, or pipelines lack: nothing ran. When Vulkan fails: parts may have run.
    pub fn run_stream(
        &mut self,
        stream: &Stream<'_>,
        makes: bool,
        memory: &Memory,
        residency: Residency<'_>,
    ) -> Result<(), Wrong> {
        self.runs.execute(stream, makes, &mut self.imports, memory, residency)
    }

    /// Makes one of the pipelines that its last stream lacked. Returns whether others lack.
    pub fn make_pipeline(&mut self) -> bool {
        self.runs.make_pipeline()
    }

    /// Runs a batch, and waits until it is done.
    ///
    /// # Errors
    /// When a dispatch is invalid, which one: nothing ran. When Vulkan fails: parts may have run.
    pub fn execute(&mut self, batch: &Batch<'_>) -> Result<(), Why> {
        let (device, kernels, limits) = (self.device, &self.kernels, &self.limits);
        let (imports, bindings) = (&mut self.imports, &mut self.bindings);
        let make = || Ok(Runner::new(device, MAX_BATCH as u32).map_err(|error| failed(0, error))?);
        let runner = self.recorded.get(batch.bytes, make, |runner| {
            runner.begin().map_err(|error| failed(0, error))?;
            batch.each(|index, dispatch| {
                let failed = |why| Why::Failed(Failed { index, why });
                let groups = dispatch.groups;
                let kernel = kernels.get(&dispatch.kernel).context("there is no such kernel");
                let kernel = kernel.map_err(failed)?;
                bindings.clear();
                for descriptor in dispatch.descriptors() {
                    bindings.push(imports.binding(descriptor).map_err(failed)?);
                }
                let push_constants = dispatch.push_constants;
                let fits = || {
                    let most = limits.work_groups;
                    let few = groups.iter().zip(most).all(|(count, most)| *count <= most);
                    ensure!(few, "too many work groups");
                    let length = kernel.push_constants();
                    ensure!(push_constants.len() == length, "another number of push constants");
                    ensure!(bindings.len() == kernel.bindings(), "another number of descriptors");
                    Ok(())
                };
                fits().map_err(failed)?;
                let barrier = dispatch.barrier;
                let dispatch = Dispatch { kernel, bindings, push_constants, groups, barrier };
                runner.add(&dispatch).map_err(|error| failed(error.into()))
            })?;
            Ok::<_, Why>(runner.end().map_err(|error| failed(0, error))?)
        })?;
        Ok(runner.again().map_err(|error| failed(0, error))?)
    }
}

fn failed(index: u32, error: VulkanError) -> Failed {
    Failed { index, why: error.into() }
}
