// SPDX-License-Identifier: MIT OR Apache-2.0

//! Vulkan in this process, without guests, owners or sandboxes: what others are compared with.

use super::{
    BATCH, BATCH_ROUNDS, Figures, GROUPS, ROUNDS, STREAM, STREAM_GROUPS, STREAM_ROUNDS,
    check_steps, median,
};
use crate::self_test::kernels::{self, Module};
use crate::vulkan::{Binding, Device, Dispatch, Instance, Kernel, Pages, Runner, Source};
use anyhow::{Context, ensure};
use std::ffi::OsStr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Measures a device in this process.
///
/// # Errors
/// When there is no such device, a Vulkan call fails, or a result is wrong.
pub fn native(loader: &OsStr, device: usize) -> anyhow::Result<Figures> {
    let instance = Instance::load(loader)?;
    let devices = instance.devices()?;
    let device = Device::open(*devices.get(device).context("there is no such device")?)?;
    let null = dispatch(&device, &kernels::NULL, &[], 1)?;
    let groups = dispatch(&device, &kernels::NULL, &[], GROUPS)?;
    let state = Pages::new(4096, 4096);
    let step = dispatch(&device, &kernels::STEP, &[whole(&device, &state)?], 1)?;
    let words = Pages::new(STREAM as usize, 4096);
    let stream = dispatch(&device, &kernels::STREAM, &[whole(&device, &words)?], STREAM_GROUPS)?;
    let figures = Figures {
        null_ns: measure(&device, &null, 1, ROUNDS)?,
        groups_ns: measure(&device, &groups, 1, ROUNDS)?,
        batch_ns: measure(&device, &step, BATCH, BATCH_ROUNDS)?,
        stream_ns: measure(&device, &stream, 1, STREAM_ROUNDS)?,
    };
    let rounds = |(rounds, before)| rounds + before;
    check_steps(rounds(BATCH_ROUNDS) * BATCH, state.words()[0].load(Ordering::Relaxed))?;
    let expected = rounds(STREAM_ROUNDS) as u32;
    let right = words.words().iter().all(|word| word.load(Ordering::Relaxed) == expected);
    ensure!(right, "the kernel limited by memory computes wrongly");
    Ok(figures)
}

/// A kernel and what it works on.
struct Work<'d> {
    kernel: Kernel<'d>,
    bindings: Vec<Binding<'d>>,
    groups: u32,
}

fn dispatch<'d>(
    device: &'d Device<'d>,
    module: &Module,
    bindings: &[Binding<'d>],
    groups: u32,
) -> anyhow::Result<Work<'d>> {
    let kernel = device.compile(&Source {
        spirv: &module.words(),
        entry_point: c"main",
        bindings: bindings.len() as u32,
        push_constants: 0,
        constants: &[],
    })?;
    Ok(Work { kernel, bindings: bindings.to_vec(), groups })
}

fn whole<'a>(device: &'a Device<'a>, pages: &'a Pages) -> anyhow::Result<Binding<'a>> {
    let memory = Rc::new(device.import(pages)?);
    Ok(Binding { memory, offset: 0, length: pages.length() as u64 })
}

fn measure<'d>(
    device: &'d Device<'d>,
    work: &Work<'d>,
    count: usize,
    rounds: (usize, usize),
) -> anyhow::Result<u64> {
    let mut runner = Runner::new(device, count as u32)?;
    runner.begin()?;
    for _ in 0..count {
        runner.add(&Dispatch {
            kernel: &work.kernel,
            bindings: &work.bindings,
            push_constants: &[],
            groups: [work.groups, 1, 1],
            barrier: true,
        })?;
    }
    runner.end()?;
    median(rounds, || Ok(runner.again()?))
}
