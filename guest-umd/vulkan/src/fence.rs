// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Fences: each follows values of a queue's progress fences, of which the queue has one on each GPU.

use crate::device::vain::looked_in_vain;
use crate::device::wait::{Deadline, Left, Target, has_reached, wait};
use crate::device::{Device, code};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::sync::{Arc, Mutex, PoisonError};

/// A fence.
#[derive(Default)]
pub(crate) struct Fence(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Unsignaled,
    Signaled,
    /// When progress fences have these values: one, and the others of a device of several GPUs.
    Follows(Target, Vec<Target>),
}

/// What a look at a fence finds.
enum Look {
    Signaled,
    Unsignaled,
    /// Values that progress fences do not have yet.
    Follows(Target, Vec<Target>),
}

impl Fence {
    fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Is signaled at once.
    pub(crate) fn signal(&self) {
        self.set(State::Signaled);
    }

    /// Is signaled when progress fences have these values.
    pub(crate) fn follow(&self, one: Target, others: Vec<Target>) {
        self.set(State::Follows(one, others));
    }

    /// Whether it is signaled; if not, what it follows.
    fn look(&self) -> Look {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Follows(one, others) = &mut *state else {
            let is_signaled = matches!(*state, State::Signaled);
            return if is_signaled { Look::Signaled } else { Look::Unsignaled };
        };
        others.retain(|(progress, value)| !has_reached(progress, *value));
        if has_reached(&one.0, one.1) {
            match others.pop() {
                Some(other) => *one = other,
                None => {
                    *state = State::Signaled;
                    return Look::Signaled;
                }
            }
        }
        Look::Follows(one.clone(), others.clone())
    }
}

/// What is left to wait for, of all or of any fences.
fn left(fences: &[&Fence], any: bool) -> Option<Left> {
    let mut targets: Vec<Target> = Vec::new();
    let (mut signaled, mut unsignaled) = (0, 0);
    for fence in fences {
        match fence.look() {
            Look::Signaled => signaled += 1,
            Look::Unsignaled => unsignaled += 1,
            Look::Follows(one, others) => {
                for (progress, value) in others.into_iter().chain([one]) {
                    // Of each queue the first value, or the last.
                    let same = targets.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &progress));
                    match same {
                        Some((_, known)) if any => *known = value.min(*known),
                        Some((_, known)) => *known = value.max(*known),
                        None => targets.push((progress, value)),
                    }
                }
            }
        }
    }
    let is_over = if any { signaled > 0 } else { signaled == fences.len() };
    if is_over {
        return None;
    }
    // Another thread is to submit one of them, and of any that may be done first.
    let awaits_another = targets.is_empty() || (any && unsignaled > 0);
    Some(if awaits_another { Left::Also(targets) } else { Left::Targets(targets) })
}

unsafe extern "system" fn create(
    _device: vk::Device,
    information: *const vk::FenceCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    fence: *mut vk::Fence,
) -> vk::Result {
    let made = Fence::default();
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        if (*information).flags.contains(vk::FenceCreateFlags::SIGNALED) {
            made.set(State::Signaled);
        }
        *fence = vk::Fence::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    fence: vk::Fence,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Fence>(fence.as_raw()) };
}

unsafe extern "system" fn reset(
    _device: vk::Device,
    count: u32,
    fences: *const vk::Fence,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        for fence in raw::slice(fences, count) {
            handle::get::<Fence>(fence.as_raw()).set(State::Unsignaled);
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn status(device: vk::Device, fence: vk::Fence) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (device, fence) = unsafe { (Device::get(device), handle::get::<Fence>(fence.as_raw())) };
    match fence.look() {
        Look::Signaled => vk::Result::SUCCESS,
        _ if device.is_lost() => vk::Result::ERROR_DEVICE_LOST,
        _ => {
            looked_in_vain();
            vk::Result::NOT_READY
        }
    }
}

unsafe extern "system" fn wait_for(
    device: vk::Device,
    count: u32,
    fences: *const vk::Fence,
    wait_all: vk::Bool32,
    timeout: u64,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (device, fences) = unsafe { (Device::get(device), raw::slice(fences, count)) };
    let deadline = Deadline::after(timeout);
    // SAFETY: as above.
    let get = |fence: &vk::Fence| unsafe { handle::get::<Fence>(fence.as_raw()) };
    let any = wait_all == vk::FALSE;
    let one = match fences {
        [fence] => match get(fence).look() {
            Look::Signaled => return vk::Result::SUCCESS,
            Look::Follows(one, others) if others.is_empty() => Some(one),
            _ => None,
        },
        _ => None,
    };
    let one = one.as_ref().map(|(progress, value)| (&**progress, *value));
    let mut all: Vec<&Fence> = Vec::new();
    let look = || {
        if all.is_empty() {
            all.extend(fences.iter().map(get));
        }
        left(&all, any)
    };
    code(wait(device, any, &deadline, one, look))
}

crate::entry::entry_points! {
    vkCreateFence = create,
    vkDestroyFence = destroy,
    vkResetFences = reset,
    vkGetFenceStatus = status,
    vkWaitForFences = wait_for,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_over(fences: &[&Fence], any: bool) -> bool {
        left(fences, any).is_none()
    }

    #[test]
    fn a_wait_is_over_when_all_or_any_are_signaled() {
        let [signaled, unsignaled] = [Fence::default(), Fence::default()];
        signaled.set(State::Signaled);
        assert!(is_over(&[&signaled], false) && is_over(&[&signaled], true));
        assert!(!is_over(&[&signaled, &unsignaled], false));
        assert!(is_over(&[&signaled, &unsignaled], true));
        assert!(!is_over(&[&unsignaled], true));
        signaled.set(State::Unsignaled);
        assert!(!is_over(&[&signaled, &unsignaled], true));
    }
}
