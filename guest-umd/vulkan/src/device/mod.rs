// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes handles")]

//! Devices: what a program creates everything else on.

mod fault;
mod groups;
mod polls;
pub(crate) mod vain;
pub(crate) mod wait;

pub(crate) use groups::{DeviceMask, Gpus};

use crate::handle;
use crate::heap::Heap;
use crate::messengers::{Message, Messengers};
use crate::physical_device::queues::FAMILIES;
use crate::physical_device::{Caps, Opened};
use ash::vk::{self, Handle as _};
use bellhop_guest_umd::{Error, Fence};
use event_listener::Event;
use fault::Fault;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The serial number of the last thing that has one. The device of the adapter never sees one twice.
static LAST_SERIAL: AtomicU64 = AtomicU64::new(0);

/// Something of the queues of each family, by the families' numbers.
pub(crate) type Families<T> = [Vec<T>; FAMILIES.len()];

/// The handles of a device and of its queues.
struct Handles {
    device: u64,
    /// The queues of each family.
    queues: Families<u64>,
    /// The queues' progress fences, on each GPU.
    fences: Vec<Arc<Fence>>,
}

/// A device.
pub struct Device {
    /// Memory that the driver writes itself.
    pub heap: Heap,
    /// What the physical device can do.
    pub caps: Arc<Caps>,
    /// The device on the adapter, which memory, fences and queues are created on.
    pub(crate) gpu: bellhop_guest_umd::Device,
    pub(crate) opened: Arc<Opened>,
    /// What executes on it.
    pub(crate) gpus: Gpus,
    /// How many frames were presented, where GPUs draw them in turns.
    frames: AtomicU64,
    /// Its handles, which are there from the end of its creation on.
    handles: OnceLock<Handles>,
    /// Something was submitted, for threads that wait for what no queue had been given.
    pub(crate) submissions: Arc<Event>,
    /// Why it is lost, if it is.
    fault: OnceLock<Fault>,
    /// Whom its instance tells.
    messengers: Arc<Messengers>,
}

impl Device {
    /// Creates one without queues.
    pub(crate) fn new(
        opened: &Arc<Opened>,
        gpus: Gpus,
        messengers: &Arc<Messengers>,
    ) -> Result<Self, Error> {
        let gpu = opened.adapter.create_device()?;
        Ok(Self {
            heap: Heap::new(gpu.clone()).counted(Arc::clone(opened.memory.counter())),
            caps: Arc::clone(&gpus.first().caps),
            gpu,
            opened: Arc::clone(opened),
            gpus,
            frames: AtomicU64::new(0),
            handles: OnceLock::new(),
            submissions: Arc::default(),
            fault: OnceLock::new(),
            messengers: Arc::clone(messengers),
        })
    }

    /// The object of a handle.
    ///
    /// # Safety
    /// The device lives as long as this is used. What a program creates on a device it destroys before the device.
    pub(crate) unsafe fn get(device: vk::Device) -> &'static Self {
        // SAFETY: the caller says that it lives.
        unsafe { handle::get_dispatchable::<Self>(device.as_raw()) }
    }

    /// A number that nothing else in the program has or will have. Never 0.
    #[must_use]
    pub fn next_serial(&self) -> u64 {
        LAST_SERIAL.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Gives it its handle and its queues, once: their handles and their progress fences.
    pub(crate) fn set_handles(&self, device: u64, queues: Families<u64>, fences: Vec<Arc<Fence>>) {
        // The first ones stay.
        let _ = self.handles.set(Handles { device, queues, fences });
    }

    /// The number of the frame that is being drawn. Whoever presents one knows of everything that was submitted for it.
    pub(crate) fn frame(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// The next frame begins.
    pub(crate) fn end_frame(&self) {
        self.frames.fetch_add(1, Ordering::Relaxed);
    }

    /// The handles of its queues.
    pub(crate) fn queues(&self) -> impl Iterator<Item = u64> {
        self.handles.get().into_iter().flat_map(|handles| handles.queues.iter().flatten()).copied()
    }

    /// The handle of the queue of this index in a family.
    pub(crate) fn queue(&self, family: u32, index: u32) -> Option<u64> {
        self.handles.get()?.queues.get(family as usize)?.get(index as usize).copied()
    }

    /// The next value of each queue's progress fence.
    pub(crate) fn progress(&self) -> Vec<wait::Target> {
        let next = self.fences().iter().filter_map(|fence| {
            Some((Arc::clone(fence), fence.current_value().ok()?.saturating_add(1)))
        });
        next.collect()
    }

    /// The progress fences of its queues.
    fn fences(&self) -> &[Arc<Fence>] {
        self.handles.get().map_or(&[], |handles| &handles.fences)
    }

    /// Returns whether somebody has found out that the device is lost.
    #[inline]
    pub(crate) fn is_known_to_be_lost(&self) -> bool {
        self.fault.get().is_some()
    }

    /// Returns whether the device is lost. Looks at each queue.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        if self.is_known_to_be_lost() {
            return true;
        }
        for fence in self.fences() {
            // It has reached 0, unless that is no more than the end of all waits.
            if let Err(error) = fence.poll(0, Duration::ZERO) {
                let _ = self.lose(&error);
                return true;
            }
        }
        false
    }

    /// Loses the device, for this reason: from now on it executes nothing. Returns what functions return then.
    pub fn lose(&self, why: &Error) -> vk::Result {
        // The first reason stays.
        if self.fault.set(Fault::new(why)).is_ok() {
            let text = format!("the device is lost: {why}");
            let object = self.handles.get().map(|handles| (vk::ObjectType::DEVICE, handles.device));
            self.messengers.tell(&Message { id: c"device-lost", text: &text, object });
        }
        vk::Result::ERROR_DEVICE_LOST
    }

    /// Fails if the device is lost.
    pub(crate) fn check(&self) -> Result<(), vk::Result> {
        if self.is_lost() { Err(vk::Result::ERROR_DEVICE_LOST) } else { Ok(()) }
    }
}

/// A result of Vulkan, of a function that has no other.
pub(crate) fn code(result: Result<(), vk::Result>) -> vk::Result {
    result.err().unwrap_or(vk::Result::SUCCESS)
}

/// Finds an entry point by its name: those whose first argument is a device.
pub fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    fault::lookup(name).or_else(|| groups::lookup(name))
}
