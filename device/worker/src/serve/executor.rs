// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that compiles and runs kernels, one request at a time.

use super::imports::Imports;
use super::progress::Progress as Memory;
use crate::messages::{
    Batch, Done, Load, Loaded, MAX_BATCH, MAX_CONSTANTS, MAX_DESCRIPTORS, MAX_NAME,
    MAX_PUSH_CONSTANTS, MAX_REQUEST, MAX_SPIRV, Malformed, NotDone, NotLoaded, Request, Text,
};
use crate::report::{Kind, Limits, Verdict};
use crate::self_test::{self, Progress};
use crate::socket::{receive, send};
use crate::vulkan::{Binding, Device, Dispatch, Instance, Kernel, Runner, Source};
use anyhow::{Context, bail, ensure};
use rustix::fd::OwnedFd;
use rustix::net::RecvFlags;
use rustix::stdio::stdin;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Command buffers that are kept as they were recorded, for batches that come again.
const RECORDED: usize = 8;

/// What the thread for memory and this one share.
#[derive(Default)]
pub struct Shared {
    /// How far the thread for memory has come.
    pub memory: Memory,
    /// Held while a device that cannot fault uses the window.
    pub in_use: Mutex<()>,
}

/// What a prepared device can do.
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    /// Whether pointers reach memory that no buffer covers.
    pub pointers: bool,
    /// Whether memory must be mapped before a kernel reaches it.
    pub resident: bool,
}

/// Prepares a device, and reports what it can do or why it failed. When told to `go`, follows the owner's requests
/// until the socket closes.
///
/// # Errors
/// When the owner sends something that is no request, or a system call fails.
pub fn run(
    loader: &OsStr,
    index: u32,
    window: Range<u64>,
    shared: &Arc<Shared>,
    ready: &Sender<anyhow::Result<Abilities>>,
    go: &Receiver<()>,
) -> anyhow::Result<()> {
    let instance = match Instance::load(loader) {
        Ok(instance) => instance,
        Err(error) => return refuse(ready, error.into()),
    };
    let (device, abilities, limits) = match prepare(&instance, index) {
        Ok(prepared) => prepared,
        Err(error) => return refuse(ready, error),
    };
    ready.send(Ok(abilities))?;
    if go.recv().is_err() {
        rest();
    }
    let imports = Imports::new(&device, window, &limits);
    let mut executor = Executor {
        device: &device,
        limits,
        imports,
        kernels: HashMap::new(),
        recorded: Vec::new(),
        bindings: Vec::new(),
    };
    let mut buffer = vec![0; MAX_REQUEST];
    while let Some(received) = receive(stdin(), &mut buffer, RecvFlags::empty())? {
        if let Some(batch) = Batch::read(received.bytes)? {
            received.alone()?;
            shared.memory.wait(batch.memory);
            if abilities.resident {
                let _in_use = shared.in_use.lock().unwrap_or_else(PoisonError::into_inner);
                executor.answer(&batch)?;
                // The device may hold pages that it has imported.
                executor.recorded.clear();
                executor.imports.clear();
            } else {
                executor.answer(&batch)?;
            }
            continue;
        }
        match Request::read(received.bytes)? {
            Request::Load(load) => executor.load(&load, received.descriptor()?)?,
            Request::Unload(unload) => {
                received.alone()?;
                executor.unload(unload.kernel);
            }
            _ => bail!("a request that is none for this socket"),
        }
    }
    Ok(())
}

/// Reports why there is no device. The main thread tells the owner, and ends the process.
fn refuse(ready: &Sender<anyhow::Result<Abilities>>, why: anyhow::Error) -> anyhow::Result<()> {
    ready.send(Err(why))?;
    rest()
}

/// Leaves it to the main thread to end the process.
fn rest() -> ! {
    loop {
        thread::park();
    }
}

fn prepare(instance: &Instance, index: u32) -> anyhow::Result<(Device<'_>, Abilities, Limits)> {
    let devices = instance.devices()?;
    let physical = *devices.get(index as usize).context("there is no such Vulkan device")?;
    let mut verdict = None;
    self_test::run(physical, |progress| {
        if let Progress::Found(found) = progress {
            verdict = Some(found);
        }
    });
    match verdict.context("the self-test has no verdict")? {
        Verdict::Refused(why) => bail!(why),
        Verdict::Usable { pointers } => {
            let description = physical.description();
            let abilities = Abilities { pointers, resident: description.kind != Kind::Cpu };
            Ok((Device::open(physical)?, abilities, description.limits))
        }
    }
}

struct Executor<'d> {
    device: &'d Device<'d>,
    limits: Limits,
    imports: Imports<'d>,
    kernels: HashMap<u32, Rc<Kernel<'d>>>,
    /// Command buffers, and the batches that they were recorded from; the latest used is the last.
    recorded: Vec<(Vec<u8>, Runner<'d>)>,
    /// The storage buffers of one dispatch, kept for its room.
    bindings: Vec<Binding<'d>>,
}

/// Why a batch did not run.
struct Failed {
    /// The dispatch.
    index: u32,
    why: anyhow::Error,
}

/// A malformed batch is the owner's error, and an error of Vulkan the batch's.
enum Why {
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

impl<'d> Executor<'d> {
    fn load(&mut self, load: &Load, spirv: OwnedFd) -> anyhow::Result<()> {
        let number = load.kernel;
        self.unload(number);
        match self.compile(load, spirv) {
            Ok(kernel) => {
                self.kernels.insert(number, Rc::new(kernel));
                Ok(send(stdin(), Loaded { kernel: number }, None)?)
            }
            Err(error) => {
                let why = Text::new(&format!("{error:#}"));
                Ok(send(stdin(), NotLoaded { kernel: number, why }, None)?)
            }
        }
    }

    fn unload(&mut self, number: u32) {
        if self.kernels.remove(&number).is_some() {
            self.recorded.clear();
        }
    }

    fn compile(&self, load: &Load, spirv: OwnedFd) -> anyhow::Result<Kernel<'d>> {
        let Load { push_constants, length, descriptors, constants, name_length, .. } = *load;
        let most = self.limits.push_constants.min(MAX_PUSH_CONSTANTS as u32);
        ensure!(push_constants <= most, "too many push constants");
        ensure!(push_constants.is_multiple_of(4), "push constants are words");
        ensure!(descriptors as usize <= MAX_DESCRIPTORS, "too many descriptors");
        ensure!(constants as usize <= MAX_CONSTANTS, "too many specialisation constants");
        ensure!(name_length as usize <= MAX_NAME, "the entry point's name is too long");
        ensure!(
            (20..=MAX_SPIRV).contains(&length) && length.is_multiple_of(4),
            "this is no SPIR-V"
        );
        let mut bytes = vec![0; length as usize];
        File::from(spirv).read_exact_at(&mut bytes, 0).context("cannot read the SPIR-V")?;
        let (words, _) = bytes.as_chunks();
        let words: Vec<_> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        ensure!(words[0] == SPIRV_MAGIC, "this is no SPIR-V");
        let name =
            CString::new(&load.name[..name_length as usize]).context("the entry point's name")?;
        Ok(self.device.compile(&Source {
            spirv: &words,
            entry_point: &name,
            bindings: descriptors,
            push_constants,
            constants: &load.constant[..constants as usize],
        })?)
    }

    /// Runs a batch and tells the owner.
    fn answer(&mut self, batch: &Batch<'_>) -> anyhow::Result<()> {
        match self.execute(batch) {
            Ok(()) => Ok(send(stdin(), Done { count: batch.count }, None)?),
            Err(Why::Failed(Failed { index, why })) => {
                let why = Text::new(&format!("{why:#}"));
                Ok(send(stdin(), NotDone { index, why }, None)?)
            }
            Err(Why::Malformed(malformed)) => Err(malformed.into()),
        }
    }

    fn execute(&mut self, batch: &Batch<'_>) -> Result<(), Why> {
        let known = self.recorded.iter().position(|(bytes, _)| bytes == batch.bytes);
        let at = match known {
            Some(at) => at,
            None if self.recorded.len() < RECORDED => {
                let runner = Runner::new(self.device, MAX_BATCH as u32);
                self.recorded.push((Vec::new(), runner.map_err(|error| failed(0, error))?));
                self.recorded.len() - 1
            }
            None => 0,
        };
        // The latest used is the last.
        self.recorded[at..].rotate_left(1);
        let Some((bytes, runner)) = self.recorded.last_mut() else { unreachable!("one was found") };
        if known.is_none() {
            // Until it is recorded anew, it is no batch's.
            bytes.clear();
            runner.begin().map_err(|error| failed(0, error))?;
            let (kernels, limits) = (&self.kernels, &self.limits);
            let (imports, bindings) = (&mut self.imports, &mut self.bindings);
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
            runner.end().map_err(|error| failed(0, error))?;
            bytes.extend_from_slice(batch.bytes);
        }
        Ok(runner.again().map_err(|error| failed(0, error))?)
    }
}

fn failed(index: u32, error: crate::vulkan::VulkanError) -> Failed {
    Failed { index, why: error.into() }
}

/// The first word of SPIR-V.
const SPIRV_MAGIC: u32 = 0x0723_0203;
