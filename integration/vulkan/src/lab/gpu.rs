// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! An opened device, and what is made with it.

use super::draw::extended::Functions;
use super::machine::Features;
use super::present::loaded::Presents;
use super::{Failure, Lab, Outcome};
use ash::khr::{external_semaphore_fd, present_id, present_wait, push_descriptor};
use ash::vk;
use std::cell::RefCell;

/// How long anything may take, in nanoseconds: long, because a machine may be busy with other things.
pub(crate) const PATIENCE: u64 = 60_000_000_000;

/// A queue.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    pub(super) raw: vk::Queue,
    /// Its family.
    pub(crate) family: u32,
    /// What the family does.
    pub(crate) does: vk::QueueFlags,
    /// The bits of its timestamps that mean something.
    pub(crate) timestamp_bits: u32,
}

/// What destroys an object.
type End = Box<dyn FnOnce(&ash::Device)>;

/// An opened device. Owns all that is made with it.
pub(crate) struct Gpu<'l> {
    pub(super) raw: ash::Device,
    pub(super) lab: &'l Lab,
    pub(super) memory_types: Vec<vk::MemoryType>,
    pub(super) push_descriptors: Option<push_descriptor::Device>,
    pub(super) shared_semaphores: Option<external_semaphore_fd::Device>,
    pub(super) presents: Option<Presents>,
    pub(super) functions: Functions,
    /// What extensions use buffers for.
    pub(super) usage: vk::BufferUsageFlags,
    queues: Vec<Queue>,
    /// What the queue does that work is for if nothing else is said.
    pub(super) work: vk::QueueFlags,
    ends: RefCell<Vec<End>>,
}

impl Lab {
    /// A device with queues of each family, and everything enabled that it has.
    pub(crate) fn gpu(&self) -> Outcome<Gpu<'_>> {
        Gpu::open(self, &[self.physical])
    }

    /// The same, whose work is for a queue that draws.
    pub(crate) fn graphics(&self) -> Outcome<Gpu<'_>> {
        let work = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        if !self.families().iter().any(|family| family.queue_flags.contains(work)) {
            return Err(Failure::not_offered("no queue draws"));
        }
        let mut gpu = self.gpu()?;
        gpu.work = work;
        Ok(gpu)
    }
}

/// Most queues that are opened of a family.
const MOST_QUEUES: u32 = 2;

impl<'l> Gpu<'l> {
    /// Opens a device that consists of these, which can all do the same.
    pub(super) fn open(lab: &'l Lab, devices: &[vk::PhysicalDevice]) -> Outcome<Self> {
        let first = devices.first().copied().unwrap_or(lab.physical);
        let families = lab.families_of(first);
        let priorities = [0.5; MOST_QUEUES as usize];
        let count = |family: &vk::QueueFamilyProperties| family.queue_count.min(MOST_QUEUES);
        let wanted: Vec<_> = (0..)
            .zip(&families)
            .map(|(number, family)| {
                vk::DeviceQueueCreateInfo::default()
                    .queue_family_index(number)
                    .queue_priorities(priorities.get(..count(family) as usize).unwrap_or_default())
            })
            .collect();
        let Features { core, mut since_1_1, mut since_1_2, mut since_1_3 } = lab.features();
        // What a device says to its end is no structure to begin another with.
        since_1_1.p_next = std::ptr::null_mut();
        since_1_2.p_next = std::ptr::null_mut();
        since_1_3.p_next = std::ptr::null_mut();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .features(core)
            .push_next(&mut since_1_1)
            .push_next(&mut since_1_2)
            .push_next(&mut since_1_3);
        let mut extended = lab.extended()?;
        let usage = extended.usage();
        let names_of_extended = extended.names().to_vec();
        features = extended.chain(features);
        let mut extensions = Presents::extensions(lab.surfaces.as_ref(), |name| lab.has(name))?;
        for name in [push_descriptor::NAME, external_semaphore_fd::NAME] {
            if lab.has(name)? {
                extensions.push(name);
            }
        }
        extensions.extend(names_of_extended);
        let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
        let mut ids = vk::PhysicalDevicePresentIdFeaturesKHR::default().present_id(true);
        let mut waits = vk::PhysicalDevicePresentWaitFeaturesKHR::default().present_wait(true);
        let mut group = vk::DeviceGroupDeviceCreateInfo::default().physical_devices(devices);
        let mut information = vk::DeviceCreateInfo::default()
            .queue_create_infos(&wanted)
            .enabled_extension_names(&names)
            .push_next(&mut features);
        if devices.len() > 1 {
            information = information.push_next(&mut group);
        }
        if extensions.contains(&present_id::NAME) {
            information = information.push_next(&mut ids);
        }
        if extensions.contains(&present_wait::NAME) {
            information = information.push_next(&mut waits);
        }
        // SAFETY: the structures live until the call returns. The devices are of this instance, which this borrows.
        let raw = unsafe { lab.instance.create_device(first, &information, None) }?;
        let mut queues = Vec::new();
        for (number, family) in (0..).zip(&families) {
            for index in 0..count(family) {
                queues.push(Queue {
                    // SAFETY: the device was made with so many queues of this family.
                    raw: unsafe { raw.get_device_queue(number, index) },
                    family: number,
                    does: family.queue_flags,
                    timestamp_bits: family.timestamp_valid_bits,
                });
            }
        }
        let has = |name| extensions.contains(&name);
        let push_descriptors =
            has(push_descriptor::NAME).then(|| push_descriptor::Device::new(&lab.instance, &raw));
        let shared_semaphores = has(external_semaphore_fd::NAME)
            .then(|| external_semaphore_fd::Device::new(&lab.instance, &raw));
        let presents = Presents::new(&lab.instance, &raw, &extensions);
        let memory_types = lab.memory().memory_types_as_slice().to_vec();
        Ok(Self {
            lab,
            functions: Functions::new(&lab.instance, &raw),
            raw,
            memory_types,
            push_descriptors,
            shared_semaphores,
            usage,
            presents,
            queues,
            work: vk::QueueFlags::COMPUTE,
            ends: RefCell::default(),
        })
    }

    /// All queues.
    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// The first queue that computes, and draws if that is what the device is for.
    pub(crate) fn queue(&self) -> Outcome<Queue> {
        let works = |queue: &&Queue| queue.does.contains(self.work);
        let found = self.queues.iter().find(works).copied();
        found.ok_or_else(|| Failure::seen("no queue computes"))
    }

    /// The first queue that computes and does not draw, beside those that do.
    pub(crate) fn queue_beside(&self) -> Outcome<Queue> {
        let draws = vk::QueueFlags::GRAPHICS;
        let computes = |queue: &&Queue| {
            queue.does.contains(vk::QueueFlags::COMPUTE) && !queue.does.contains(draws)
        };
        let is_beside = self.queues.iter().any(|queue| queue.does.contains(draws));
        let found = self.queues.iter().find(computes).filter(|_| is_beside).copied();
        found.ok_or_else(|| Failure::not_offered("no queue computes beside one that draws"))
    }

    /// Whether the device is for drawing.
    pub(crate) fn draws(&self) -> bool {
        self.work.contains(vk::QueueFlags::GRAPHICS)
    }

    /// Two queues that compute or copy, of which the first computes.
    pub(crate) fn two_queues(&self) -> Outcome<[Queue; 2]> {
        let first = self.queue()?;
        let other = self.queues.iter().find(|queue| queue.raw != first.raw).copied();
        let other = other.ok_or_else(|| Failure::not_offered("the device has one queue"))?;
        Ok([first, other])
    }

    /// Waits until the device has nothing to do.
    pub(crate) fn wait_idle(&self) -> Result<(), vk::Result> {
        // SAFETY: this thread alone uses the device's queues.
        unsafe { self.raw.device_wait_idle() }
    }

    /// Waits until a queue has nothing to do.
    pub(crate) fn wait_queue_idle(&self, queue: Queue) -> Result<(), vk::Result> {
        // SAFETY: this thread alone uses the queue.
        unsafe { self.raw.queue_wait_idle(queue.raw) }
    }

    /// Has an object destroyed with the device.
    pub(super) fn later(&self, end: impl FnOnce(&ash::Device) + 'static) {
        self.ends.borrow_mut().push(Box::new(end));
    }
}

impl Drop for Gpu<'_> {
    fn drop(&mut self) {
        // Where a behaviour failed, something may wait for what never comes; so all is left as it is.
        if Failure::take_failed() {
            return;
        }
        // A lost device has nothing to do either.
        let _ = self.wait_idle();
        for end in self.ends.take().into_iter().rev() {
            end(&self.raw);
        }
        // SAFETY: nothing is left of what was made with it, and nothing executes.
        unsafe { self.raw.destroy_device(None) };
    }
}
