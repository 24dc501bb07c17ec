// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Semaphores: native fences. That of a binary semaphore counts its signals. Programs of a guest pass them to each other.

mod external;
mod payload;
mod token;

pub(crate) use external::lookup as lookup_external;

use crate::device::wait::{Deadline, Left, has_reached, left, wait};
use crate::device::{Device, code};
use crate::physical_device::EXPORTED;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_guest_umd::Error;
use payload::{Payload, Point};
use std::cell::UnsafeCell;
use std::sync::Arc;
use token::Token;

/// A semaphore.
pub(crate) struct Semaphore {
    /// What it is, until a program imports another.
    payload: UnsafeCell<Payload>,
    /// What a binary one is until its next wait.
    temporary: UnsafeCell<Temporary>,
}

/// What was imported for one wait.
#[derive(Default)]
struct Temporary {
    now: Option<Payload>,
    /// Its wait was submitted: the fence stays until nothing can wait any more, when another is imported.
    before: Option<Payload>,
}

impl Semaphore {
    fn new(payload: Payload) -> Self {
        Self { payload: UnsafeCell::new(payload), temporary: UnsafeCell::default() }
    }

    /// What it is, for good.
    fn payload(&self) -> &Payload {
        // SAFETY: an import alone changes it, and Vulkan has no other call use a semaphore that is imported to (Vulkan, "Threading
        // Behavior", `vkImportSemaphoreFdKHR`).
        unsafe { &*self.payload.get() }
    }

    /// Names for people what it is for good.
    pub(crate) fn set_name(&self, name: &str) -> Result<(), Error> {
        self.payload().fence.set_name(name)
    }

    /// What a submission waits for, which gives `value` for a timeline.
    ///
    /// # Safety
    /// The call is a submission, which Vulkan has use a semaphore alone.
    pub(crate) unsafe fn awaited(&self, value: u64) -> Point<'_> {
        let payload = self.payload();
        if payload.is_timeline() {
            return payload.awaited(value);
        }
        // SAFETY: submissions and imports alone look at this of a binary semaphore, and the caller is the only one.
        let temporary = unsafe { &mut *self.temporary.get() };
        match temporary.now.take() {
            Some(payload) => temporary.before.insert(payload).awaited(value),
            None => payload.awaited(value),
        }
    }

    /// What a submission signals, which gives `value` for a timeline.
    ///
    /// # Safety
    /// As [`Self::awaited`].
    pub(crate) unsafe fn signaled(&self, value: u64) -> Point<'_> {
        let payload = self.payload();
        if payload.is_timeline() {
            return payload.signaled(value);
        }
        // SAFETY: as in `awaited`.
        let temporary = unsafe { &*self.temporary.get() };
        temporary.now.as_ref().unwrap_or(payload).signaled(value)
    }

    /// Becomes another payload, until its next wait if that is `temporary`.
    ///
    /// # Safety
    /// No other call uses the semaphore, and nothing that was submitted.
    unsafe fn import(&self, imported: Payload, temporary: bool) {
        // SAFETY: the caller is the only one.
        unsafe {
            if temporary {
                *self.temporary.get() = Temporary { now: Some(imported), before: None };
            } else {
                *self.payload.get() = imported;
            }
        }
    }

    /// What another program gets of it.
    ///
    /// # Safety
    /// As [`Self::awaited`], of an export.
    unsafe fn token(&self) -> Option<&Token> {
        // SAFETY: as the caller says.
        let temporary = unsafe { &*self.temporary.get() };
        temporary.now.as_ref().unwrap_or_else(|| self.payload()).token()
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
        let next = (*information).p_next;
        let kind = raw::find::<vk::SemaphoreTypeCreateInfo<'_>>(next);
        let (is_timeline, initial) = kind.map_or((false, 0), |kind| {
            let is_timeline = kind.semaphore_type == vk::SemaphoreType::TIMELINE;
            (is_timeline, if is_timeline { kind.initial_value } else { 0 })
        });
        let export = raw::find::<vk::ExportSemaphoreCreateInfo<'_>>(next);
        let shared = export.is_some_and(|export| export.handle_types.contains(EXPORTED));
        match Payload::create(Device::get(device), is_timeline, initial, shared) {
            Ok(made) => {
                *semaphore = vk::Semaphore::from_raw(handle::create(Semaphore::new(made)));
            }
            Err(error) => return error,
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
        let fence = &semaphore.payload().fence;
        match fence.current_value() {
            Ok(current) => *value = current,
            // Of another program's fence, behind a broker, the device alone knows the value.
            Err(Error::NotAvailable(_)) => *value = found(|value| has_reached(fence, value)),
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
    match semaphore.payload().fence.signal(value) {
        Ok(()) => {
            semaphore.payload().was_signaled(value);
            vk::Result::SUCCESS
        }
        // The value was not greater than the semaphore's, which a valid program sees to.
        Err(Error::Refused { .. }) => vk::Result::ERROR_UNKNOWN,
        Err(error) => device.lose(&error),
    }
}

/// The greatest value of which this says that it was reached; 0 always was.
fn found(has_reached: impl Fn(u64) -> bool) -> u64 {
    let (mut reached, mut beyond) = (0, 1);
    while has_reached(beyond) {
        (reached, beyond) = (beyond, beyond.saturating_mul(2));
        if beyond == reached {
            return reached;
        }
    }
    while beyond - reached > 1 {
        let middle = reached + (beyond - reached) / 2;
        *(if has_reached(middle) { &mut reached } else { &mut beyond }) = middle;
    }
    reached
}

/// What a semaphore is.
///
/// # Safety
/// The semaphore lives.
unsafe fn payload_of<'s>(semaphore: vk::Semaphore) -> &'s Payload {
    // SAFETY: the caller says so.
    unsafe { handle::get::<Semaphore>(semaphore.as_raw()) }.payload()
}

/// What is left to wait for, of all or of any payloads.
fn left_of<'s>(
    payloads: impl Iterator<Item = (&'s Payload, u64)> + Clone,
    any: bool,
) -> Option<Left> {
    let targets = payloads.clone().map(|(payload, value)| (Arc::clone(&payload.fence), value));
    let left = left(targets, any)?;
    let is_later = |(payload, value): (&Payload, u64)| {
        !payload.is_given_or_wakes(value) && !has_reached(&payload.fence, value)
    };
    // Each of them may be what wakes.
    let is_later: Vec<bool> = payloads.map(is_later).collect();
    let is_later = if any { is_later.iter().all(|later| *later) } else { is_later.contains(&true) };
    Some(match left {
        Left::Targets(targets) if is_later => Left::Later(targets),
        left => left,
    })
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
        ([semaphore], [value]) => Some((unsafe { payload_of(*semaphore) }, *value)),
        _ => None,
    };
    // To poll for what nobody was given keeps the thread that is to submit it from this one's processor.
    let one = one.filter(|(payload, value)| payload.may_be_given(*value));
    let look = || {
        // SAFETY: as above.
        let of = |(semaphore, value): (&_, &_)| (unsafe { payload_of(*semaphore) }, *value);
        left_of(semaphores.iter().zip(values).map(of), any)
    };
    code(wait(device, any, &deadline, one.map(|(payload, value)| (&*payload.fence, value)), look))
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
    fn a_value_is_found_by_what_was_reached() {
        for value in [0, 1, 2, 3, 4, 1000, 1 << 40, u64::MAX - 1, u64::MAX] {
            assert_eq!(found(|asked| asked <= value), value);
        }
    }
}
