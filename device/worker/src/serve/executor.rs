// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that compiles and runs kernels, and executes streams of commands, one request at a time.

use super::commands::{Residency, Stream, Wrong};
use super::lane::{Failed, Lane, Why};
use super::lanes::Lanes;
use super::memory::Memory;
use super::shared::Shared;
use super::work::Work;
use crate::messages::commands::{CommandsAnswer, CommandsResult, CommandsTask, CommandsTaskKind};
use crate::messages::{
    Answer, Batch, Done, Load, Loaded, MAX_CONSTANTS, MAX_DESCRIPTORS, MAX_NAME,
    MAX_PUSH_CONSTANTS, MAX_REQUEST, MAX_SPIRV, Malformed, NotDone, NotLoaded, Request, Task, Text,
};
use crate::report::{Description, Kind, Limits, Verdict};
use crate::self_test::{self, Progress};
use crate::socket::{receive, send};
use crate::vulkan::{Device, Instance, Source};
use anyhow::{Context, bail, ensure};
use rustix::fd::OwnedFd;
use rustix::net::RecvFlags;
use rustix::stdio::stdin;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::thread;
use zerocopy::IntoBytes;

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
    let (device, abilities, description) = match prepare(&instance, index) {
        Ok(prepared) => prepared,
        Err(error) => return refuse(ready, error),
    };
    let limits = description.limits.clone();
    // A GPU has its own way to run small work, and a device without threads needs no second one.
    let has_threads = !abilities.resident && !Instance::has_no_threads();
    let without_threads = has_threads.then(|| Instance::without_threads(loader).ok()).flatten();
    let narrow = without_threads.as_ref().and_then(|instance| again(instance, index, &description));
    ready.send(Ok(abilities))?;
    if go.recv().is_err() {
        rest();
    }
    let lane = |device| Lane::new(device, window.clone(), &limits);
    let lanes = Lanes::new(lane(&device), narrow.as_ref().map(lane));
    let limits = limits.clone();
    let mut executor = Executor { lanes, limits, stream: Vec::new(), last: CommandsResult::DONE };
    let window = Memory::new(window);
    let residency = Residency::new(shared, abilities.resident);
    let mut buffer = vec![0; MAX_REQUEST];
    while let Some(received) = receive(stdin(), &mut buffer, RecvFlags::empty())? {
        if let Some(batch) = Batch::read(received.bytes)? {
            received.alone()?;
            shared.memory.wait(batch.memory);
            if abilities.resident {
                let _in_use = shared.in_use.lock().unwrap_or_else(PoisonError::into_inner);
                executor.answer(&batch)?;
                // The device may hold pages that it has imported.
                executor.lanes.each().for_each(Lane::forget_memory);
            } else {
                executor.answer(&batch)?;
            }
            continue;
        }
        if let Some(task) = task(received.bytes)? {
            received.alone()?;
            shared.memory.wait(task.memory);
            let answer = executor.answer_task(task.bytes, &window, residency)?;
            send(stdin(), Answer::new(answer.as_bytes()), None)?;
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

/// Returns the task if the packet is one.
fn task(packet: &[u8]) -> Result<Option<Task<'_>>, Malformed> {
    match Task::read(packet) {
        Ok(task) => Ok(Some(task)),
        Err(Malformed::Kind(_)) => Ok(None),
        Err(error) => Err(error),
    }
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

fn prepare(
    instance: &Instance,
    index: u32,
) -> anyhow::Result<(Device<'_>, Abilities, Description)> {
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
            Ok((Device::open(physical)?, abilities, description))
        }
    }
}

/// Opens the device of this description once more.
fn again<'i>(instance: &'i Instance, index: u32, first: &Description) -> Option<Device<'i>> {
    let physical = *instance.devices().ok()?.get(index as usize)?;
    if physical.description() == *first { Device::open(physical).ok() } else { None }
}

struct Executor<'d> {
    limits: Limits,
    lanes: Lanes<'d>,
    /// A stream, kept for its room.
    stream: Vec<u8>,
    /// What came of the last task.
    last: CommandsResult,
}

impl<'d> Executor<'d> {
    fn load(&mut self, load: &Load, spirv: OwnedFd) -> anyhow::Result<()> {
        let number = load.kernel;
        self.unload(number);
        match self.compile(load, spirv) {
            Ok(()) => Ok(send(stdin(), Loaded { kernel: number }, None)?),
            Err(error) => {
                self.unload(number);
                let why = Text::new(&format!("{error:#}"));
                Ok(send(stdin(), NotLoaded { kernel: number, why }, None)?)
            }
        }
    }

    fn unload(&mut self, number: u32) {
        self.lanes.each().for_each(|lane| lane.unload(number));
    }

    fn compile(&mut self, load: &Load, spirv: OwnedFd) -> anyhow::Result<()> {
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
        let source = Source {
            spirv: &words,
            entry_point: &name,
            bindings: descriptors,
            push_constants,
            constants: &load.constant[..constants as usize],
        };
        Ok(self.lanes.each().try_for_each(|lane| lane.compile(load.kernel, &source))?)
    }

    /// Runs a batch and tells the owner.
    fn answer(&mut self, batch: &Batch<'_>) -> anyhow::Result<()> {
        let mut work = Work::new();
        batch.each(|_, dispatch| {
            work.add(dispatch.kernel, Some(dispatch.groups));
            Ok::<_, Malformed>(())
        })?;
        let answer = self.lanes.run(&work, |lane| lane.execute(batch));
        match answer {
            Ok(()) => Ok(send(stdin(), Done { count: batch.count }, None)?),
            Err(Why::Failed(Failed { index, why })) => {
                let why = Text::new(&format!("{why:#}"));
                Ok(send(stdin(), NotDone { index, why }, None)?)
            }
            Err(Why::Malformed(malformed)) => Err(malformed.into()),
        }
    }

    /// Does a task, unless it follows one that was not wholly done.
    fn answer_task(
        &mut self,
        task: &[u8],
        memory: &Memory,
        residency: Residency<'_>,
    ) -> Result<CommandsAnswer, Malformed> {
        let task = CommandsTask::read(task)?;
        let answer = if task.kind == CommandsTaskKind::FOLLOW && self.last != CommandsResult::DONE {
            CommandsAnswer::new(CommandsResult::NOT_BEGUN, 0, "")
        } else {
            self.execute(&task, memory, residency)?
        };
        self.last = answer.result;
        Ok(answer)
    }

    /// Executes a stream of commands, or makes what one lacked, and says what came of it.
    fn execute(
        &mut self,
        task: &CommandsTask,
        memory: &Memory,
        residency: Residency<'_>,
    ) -> Result<CommandsAnswer, Malformed> {
        if task.kind == CommandsTaskKind::MAKE {
            // A stream lacks pipelines of one lane.
            let lacks = self.lanes.each().any(Lane::make_pipeline);
            let result = if lacks { CommandsResult::LACKS } else { CommandsResult::DONE };
            return Ok(CommandsAnswer::new(result, 0, ""));
        }
        let makes = task.kind == CommandsTaskKind::MAKE_AND_EXECUTE;
        let copied = Stream::copy(task, memory, &mut self.stream)?;
        let executed = copied.and_then(|()| {
            let stream = Stream::read(&self.stream, memory)?;
            stream.check_scope(task.scope)?;
            let run = |lane: &mut Lane<'d>| lane.run_stream(&stream, makes, memory, residency);
            self.lanes.run(&stream.work(), run)
        });
        Ok(executed
            .as_ref()
            .map_or_else(Wrong::answer, |()| CommandsAnswer::new(CommandsResult::DONE, 0, "")))
    }
}

/// The first word of SPIR-V.
const SPIRV_MAGIC: u32 = 0x0723_0203;
