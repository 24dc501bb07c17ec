// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a driver's submissions and dispatches cost a program.

use crate::lab::{At, Failure, Lab, Outcome, Submit, module, same};
use ash::vk;

/// Dispatches of a batch.
pub const BATCH: u32 = 64;
/// Work groups of a dispatch of several, and invocations of each.
const GROUPS: u32 = 16;
const GROUP: u32 = 64;
/// Factor and summand of each step.
const STEP: [u32; 2] = [1_664_525, 1_013_904_223];

/// What is submitted again and again, each time with the signal of a timeline that is then waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Nothing but the signal.
    Empty,
    /// A dispatch of one work group.
    Dispatch,
    /// A dispatch of several work groups, which may run at once.
    Groups,
    /// [`BATCH`] dispatches in one command buffer, each of what the one before stored.
    Batch,
}

impl Load {
    const fn steps(self) -> u32 {
        match self {
            Self::Empty | Self::Groups => 0,
            Self::Dispatch => 1,
            Self::Batch => BATCH,
        }
    }
}

/// A submission that returns when it is done.
pub type Round<'r> = dyn FnMut() -> Outcome + 'r;

/// Has `time` call each of some loads as often as it likes, and checks afterwards what was computed.
///
/// # Errors
/// When the device cannot do something or computes wrongly, and what `time` returns.
pub fn run<E: From<Failure>>(
    lab: &Lab,
    loads: &[Load],
    mut time: impl FnMut(Load, &mut Round<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let timeline = gpu.timeline(0)?;
    let kernel = gpu.simple(module!("accumulate"), 1, 8)?;
    let state = gpu.buffer(1)?;
    state.write(&[0]);
    let set = gpu.set(&kernel, &[state])?;
    let adding = gpu.simple(module!("add"), 3, 4)?;
    let numbers: Vec<_> = (0..GROUPS * GROUP).collect();
    let (number, sum) = (gpu.buffer_of(&numbers)?, gpu.buffer(numbers.len())?);
    let summands = gpu.set(&adding, &[number, number, sum])?;
    let (mut value, mut steps) = (0, 0);
    for load in loads {
        let commands = gpu.record(queue, |commands| {
            if *load == Load::Groups {
                commands.bind(&adding).sets(&adding, &[summands]).push(&adding, &[GROUPS * GROUP]);
                commands.dispatch(GROUPS, 1, 1).barrier();
            }
            commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &STEP);
            for _ in 0..load.steps() {
                commands.dispatch(1, 1, 1).barrier();
            }
        })?;
        let commands: &[vk::CommandBuffer] = match load {
            Load::Empty => &[],
            Load::Dispatch | Load::Groups | Load::Batch => &[commands],
        };
        time(*load, &mut || {
            value += 1;
            steps += load.steps();
            let signal = &[At(timeline, value)];
            gpu.submit_and_wait(queue, Submit { commands, signal, ..Submit::default() })?;
            Ok(())
        })?;
    }
    let step = |state: u32, _| state.wrapping_mul(STEP[0]).wrapping_add(STEP[1]);
    let computed = || -> Outcome {
        same!(state.read(), [(0..steps).fold(0, step)]);
        if loads.contains(&Load::Groups) {
            same!(sum.read(), numbers.iter().map(|number| 2 * number).collect::<Vec<_>>());
        }
        Ok(())
    };
    Ok(computed()?)
}
