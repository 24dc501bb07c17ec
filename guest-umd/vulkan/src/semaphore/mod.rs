// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Semaphores: native fences. That of a binary semaphore counts its signals.

use crate::device::wait::{Deadline, Left, Target, has_reached, wait};
use crate::device::{Device, code};
use crate::pages::out_of;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_guest_umd::{Error, Fence};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A semaphore.
pub(crate) struct Semaphore {
    fence: Arc<Fence>,
    kind: Kind,
}

/// What the values of its fence mean.
enum Kind {
    /// The program's own numbers.
    Timeline,
    /// The number of signals.
    Binary(Signals),
}

/// The signals of a binary semaphore that were submitted. Vulkan has one thread at a time submit with it, and a wait only after
/// the signal that it is for.
#[derive(Debug, Default)]
struct Signals(AtomicU64);

impl Signals {
    /// The value that the next signal gives.
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// The value that the last signal gives.
    fn last(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Kind {
    /// The value of the fence that a submission waits for, which gives `value` for a timeline.
    fn awaited(&self, value: u64) -> u64 {
        match self {
            Self::Timeline => value,
            Self::Binary(signals) => signals.last(),
        }
    }

    /// The value of the fence that a submission signals, which gives `value` for a timeline.
    fn signaled(&self, value: u64) -> u64 {
        match self {
            Self::Timeline => value,
            Self::Binary(signals) => signals.next(),
        }
    }
}

impl Semaphore {
    fn new(device: &Device, kind: vk::SemaphoreType, initial: u64) -> Result<Self, Error> {
        let (kind, initial) = if kind == vk::SemaphoreType::TIMELINE {
            (Kind::Timeline, initial)
        } else {
            (Kind::Binary(Signals::default()), 0)
        };
        Ok(Self { fence: Arc::new(device.gpu.create_fence(initial)?), kind })
    }

    /// The slot of its fence.
    pub(crate) fn slot(&self) -> u32 {
        self.fence.slot()
    }

    /// The value of its fence that a submission waits for, which gives `value` for a timeline.
    pub(crate) fn awaited(&self, value: u64) -> u64 {
        self.kind.awaited(value)
    }

    /// The value of its fence that a submission signals, which gives `value` for a timeline.
    pub(crate) fn signaled(&self, value: u64) -> u64 {
        self.kind.signaled(value)
    }
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::SemaphoreCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    semaphore: *mut vk::Semaphore,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let kind = raw::find::<vk::SemaphoreTypeCreateInfo<'_>>((*information).p_next);
        let (kind, initial) = kind.map_or((vk::SemaphoreType::BINARY, 0), |kind| {
            (kind.semaphore_type, kind.initial_value)
        });
        match Semaphore::new(Device::get(device), kind, initial) {
            Ok(made) => *semaphore = vk::Semaphore::from_raw(handle::create(made)),
            Err(error) => return out_of(&error),
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    semaphore: vk::Semaphore,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Semaphore>(semaphore.as_raw()) };
}

unsafe extern "system" fn counter(
    device: vk::Device,
    semaphore: vk::Semaphore,
    value: *mut u64,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let device = Device::get(device);
        let semaphore = handle::get::<Semaphore>(semaphore.as_raw());
        match semaphore.fence.current_value() {
            Ok(current) => *value = current,
            Err(error) => return device.lose(&error),
        }
        code(device.check())
    }
}

unsafe extern "system" fn signal(
    device: vk::Device,
    information: *const vk::SemaphoreSignalInfo<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (device, semaphore, value) = unsafe {
        let vk::SemaphoreSignalInfo { semaphore, value, .. } = *information;
        (Device::get(device), handle::get::<Semaphore>(semaphore.as_raw()), value)
    };
    if let Err(error) = device.check() {
        return error;
    }
    match semaphore.fence.signal(value) {
        Ok(()) => vk::Result::SUCCESS,
        // The value was not greater than the semaphore's, which a valid program sees to.
        Err(Error::Refused { .. }) => vk::Result::ERROR_UNKNOWN,
        Err(error) => device.lose(&error),
    }
}

/// What is left to wait for, of all or of any targets.
fn left(targets: &[Target], any: bool) -> Option<Left> {
    let is_there = |(fence, value): &&Target| !has_reached(fence, *value);
    let left: Vec<Target> = targets.iter().filter(is_there).cloned().collect();
    let is_over = if any { left.len() < targets.len() } else { left.is_empty() };
    (!is_over).then_some(Left::Targets(left))
}

/// The fence of a semaphore.
///
/// # Safety
/// The semaphore lives.
unsafe fn fence_of<'s>(semaphore: vk::Semaphore) -> &'s Arc<Fence> {
    // SAFETY: the caller says so.
    &unsafe { handle::get::<Semaphore>(semaphore.as_raw()) }.fence
}

unsafe extern "system" fn wait_for(
    device: vk::Device,
    information: *const vk::SemaphoreWaitInfo<'_>,
    timeout: u64,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (device, any, semaphores, values) = unsafe {
        let information = &*information;
        (
            Device::get(device),
            information.flags.contains(vk::SemaphoreWaitFlags::ANY),
            raw::slice(information.p_semaphores, information.semaphore_count),
            raw::slice(information.p_values, information.semaphore_count),
        )
    };
    let deadline = Deadline::after(timeout);
    let one = match (semaphores, values) {
        // SAFETY: as above.
        ([semaphore], [value]) => Some((unsafe { fence_of(*semaphore) }, *value)),
        _ => None,
    };
    let mut targets: Vec<Target> = Vec::new();
    let look = || {
        // SAFETY: as above.
        let of =
            |(semaphore, value): (&_, &_)| (Arc::clone(unsafe { fence_of(*semaphore) }), *value);
        if targets.is_empty() {
            targets.extend(semaphores.iter().zip(values).map(of));
        }
        left(&targets, any)
    };
    code(wait(device, any, &deadline, one.map(|(fence, value)| (&**fence, value)), look))
}

crate::entry::entry_points! {
    vkCreateSemaphore = create,
    vkDestroySemaphore = destroy,
    vkGetSemaphoreCounterValue = counter,
    vkGetSemaphoreCounterValueKHR = counter,
    vkSignalSemaphore = signal,
    vkSignalSemaphoreKHR = signal,
    vkWaitSemaphores = wait_for,
    vkWaitSemaphoresKHR = wait_for,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_a_binary_semaphore_is_for_the_signal_before_it() {
        let kind = Kind::Binary(Signals::default());
        assert_eq!(kind.signaled(0), 1);
        assert_eq!(kind.awaited(77), 1);
        assert_eq!(kind.signaled(0), 2);
        assert_eq!((kind.awaited(0), kind.awaited(0)), (2, 2));
    }

    #[test]
    fn the_values_of_a_timeline_are_the_program_s() {
        assert_eq!(Kind::Timeline.signaled(9), 9);
        assert_eq!(Kind::Timeline.awaited(7), 7);
    }
}
