// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program that always has work for its device.

use crate::lab::{At, Failure, Lab, PATIENCE, Submit, module, same};
use ash::vk;

/// Submissions in flight, so that the device always has one to execute.
const IN_FLIGHT: u64 = 2;
/// Steps of each: milliseconds.
const STEPS: u32 = 4_000_000;

/// Which of a device's queues has the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// The first that computes, which may draw too.
    WithFrames,
    /// The first that computes and does not draw.
    Beside,
}

/// Has submissions in flight until `goes_on` says no, which is called when one is done.
///
/// # Errors
/// When the device cannot do something or computes wrongly, and what `goes_on` returns.
pub fn keep_busy<E: From<Failure>>(
    lab: &Lab,
    at: Where,
    mut goes_on: impl FnMut() -> Result<bool, E>,
) -> Result<(), E> {
    let gpu = lab.gpu()?;
    let queue = match at {
        Where::WithFrames => gpu.queue()?,
        Where::Beside => gpu.queue_beside()?,
    };
    let timeline = gpu.timeline(0)?;
    let kernel = gpu.simple(module!("long"), 1, 4)?;
    let state = gpu.buffer_of(&[0])?;
    let set = gpu.set(&kernel, &[state])?;
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[STEPS]);
        commands.dispatch(1, 1, 1).barrier();
    })?;
    let (mut submitted, mut done) = (0, 0);
    let mut is_on = true;
    while is_on || done < submitted {
        while is_on && submitted - done < IN_FLIGHT {
            submitted += 1;
            let signal = &[At(timeline, submitted)];
            let submit = Submit { commands: &[commands], signal, ..Submit::default() };
            gpu.submit(queue, &[submit], vk::Fence::null()).map_err(Failure::from)?;
        }
        done += 1;
        gpu.wait_for(&[At(timeline, done)], true, PATIENCE).map_err(Failure::from)?;
        is_on = is_on && goes_on()?;
    }
    let checked = || {
        same!(state.word(0), after(submitted * u64::from(STEPS)));
        Ok::<_, Failure>(())
    };
    Ok(checked()?)
}

/// What the kernel's generator makes of 0 after so many steps, by squaring one of them.
fn after(mut steps: u64) -> u32 {
    let (mut factor, mut summand) = (1_664_525_u32, 1_013_904_223_u32);
    let mut value = 0_u32;
    while steps > 0 {
        if steps & 1 == 1 {
            value = value.wrapping_mul(factor).wrapping_add(summand);
        }
        summand = summand.wrapping_mul(factor).wrapping_add(summand);
        factor = factor.wrapping_mul(factor);
        steps >>= 1;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_at_once_are_as_one_after_the_other() {
        let step = |value: u32, _| value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for steps in [0, 1, 2, 3, 1000, 4097] {
            assert_eq!(after(steps), (0..steps).fold(0, step));
        }
    }
}
