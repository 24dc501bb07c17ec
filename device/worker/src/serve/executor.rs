// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that compiles and runs kernels, one at a time.

use crate::messages::{
    Dispatch, Done, Load, Loaded, MAX_CONSTANTS, MAX_NAME, MAX_PUSH_CONSTANTS, MAX_SPIRV, NotDone,
    NotLoaded, Text,
};
use crate::report::Verdict;
use crate::self_test::{self, Progress};
use crate::socket::send;
use crate::vulkan::{Device, Instance, Kernel, Source};
use anyhow::{Context, bail, ensure};
use rustix::fd::OwnedFd;
use rustix::stdio::stdin;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender};

/// A task for the thread.
pub enum Order {
    /// Compile a kernel from this file.
    Load(Box<Load>, OwnedFd),
    /// Forget a kernel.
    Unload(u32),
    /// Run a kernel.
    Dispatch(Box<Dispatch>),
}

/// Prepares a device, reports whether it has pointers or why it failed, and follows orders until the sender is gone.
pub fn run(
    loader: &OsStr,
    device: u32,
    ready: &Sender<anyhow::Result<bool>>,
    orders: &Receiver<Order>,
) -> anyhow::Result<()> {
    let instance = match Instance::load(loader) {
        Ok(instance) => instance,
        Err(error) => return Ok(ready.send(Err(error.into()))?),
    };
    let prepared = prepare(&instance, device);
    let (device, pointers) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Ok(ready.send(Err(error))?),
    };
    ready.send(Ok(pointers))?;
    let mut kernels = HashMap::new();
    for order in orders {
        follow(&device, &mut kernels, order)?;
    }
    Ok(())
}

fn prepare(instance: &Instance, device: u32) -> anyhow::Result<(Device<'_>, bool)> {
    let devices = instance.devices()?;
    let physical = *devices.get(device as usize).context("there is no such Vulkan device")?;
    let mut verdict = None;
    self_test::run(physical, |progress| {
        if let Progress::Found(found) = progress {
            verdict = Some(found);
        }
    });
    match verdict.context("the self-test has no verdict")? {
        Verdict::Refused(why) => bail!(why),
        Verdict::Usable { pointers } => Ok((Device::open(physical)?, pointers)),
    }
}

fn follow<'d>(
    device: &'d Device<'d>,
    kernels: &mut HashMap<u32, Kernel<'d>>,
    order: Order,
) -> anyhow::Result<()> {
    match order {
        Order::Load(load, spirv) => {
            let number = load.kernel;
            match compile(device, &load, spirv) {
                Ok(kernel) => {
                    kernels.insert(number, kernel);
                    send(stdin(), Loaded { kernel: number }, None)?;
                }
                Err(error) => {
                    let why = Text::new(&format!("{error:#}"));
                    send(stdin(), NotLoaded { kernel: number, why }, None)?;
                }
            }
        }
        Order::Unload(number) => drop(kernels.remove(&number)),
        Order::Dispatch(dispatch) => {
            let number = dispatch.kernel;
            match execute(kernels, &dispatch) {
                Ok(()) => send(stdin(), Done { kernel: number }, None)?,
                Err(error) => {
                    let why = Text::new(&format!("{error:#}"));
                    send(stdin(), NotDone { kernel: number, why }, None)?;
                }
            }
        }
    }
    Ok(())
}

fn compile<'d>(device: &'d Device<'d>, load: &Load, spirv: OwnedFd) -> anyhow::Result<Kernel<'d>> {
    let Load { push_constants, length, constants, name_length, .. } = *load;
    ensure!(push_constants as usize <= MAX_PUSH_CONSTANTS, "too many push constants");
    ensure!(push_constants.is_multiple_of(4), "push constants are words");
    ensure!(constants as usize <= MAX_CONSTANTS, "too many specialisation constants");
    ensure!(name_length as usize <= MAX_NAME, "the entry point's name is too long");
    ensure!((20..=MAX_SPIRV).contains(&length) && length.is_multiple_of(4), "this is no SPIR-V");
    let mut bytes = vec![0; length as usize];
    File::from(spirv).read_exact_at(&mut bytes, 0).context("cannot read the SPIR-V")?;
    let (words, _) = bytes.as_chunks();
    let words: Vec<_> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    ensure!(words[0] == SPIRV_MAGIC, "this is no SPIR-V");
    let name =
        CString::new(&load.name[..name_length as usize]).context("the entry point's name")?;
    Ok(device.compile(&Source {
        spirv: &words,
        entry_point: &name,
        bindings: 0,
        push_constants,
        constants: &load.constant[..constants as usize],
    })?)
}

/// The first word of SPIR-V.
const SPIRV_MAGIC: u32 = 0x0723_0203;

fn execute(kernels: &mut HashMap<u32, Kernel<'_>>, dispatch: &Dispatch) -> anyhow::Result<()> {
    let kernel = kernels.get_mut(&dispatch.kernel).context("there is no such kernel")?;
    let length = dispatch.length as usize;
    ensure!(length == kernel.push_constants(), "another number of push constants");
    Ok(kernel.run(&[], &dispatch.push_constants[..length], dispatch.groups)?)
}
