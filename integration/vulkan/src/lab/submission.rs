// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Submissions, and what orders them: fences, semaphores, events. Also queries.

use super::{Gpu, Outcome, PATIENCE, Queue, Recorder};
use ash::vk;

/// A semaphore, and a value if it is a timeline.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct At(pub(crate) vk::Semaphore, pub(crate) u64);

/// What is submitted at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Submit<'a> {
    pub(crate) wait: &'a [At],
    pub(crate) commands: &'a [vk::CommandBuffer],
    pub(crate) signal: &'a [At],
}

/// What another thread has of a device.
pub(crate) struct Waiter<'g> {
    device: &'g ash::Device,
}

impl Waiter<'_> {
    /// Waits for a fence.
    pub(crate) fn wait_fence(&self, fence: vk::Fence, nanoseconds: u64) -> Result<(), vk::Result> {
        // SAFETY: the fence is the device's, and several threads may wait for it.
        unsafe { self.device.wait_for_fences(&[fence], true, nanoseconds) }
    }

    /// Waits for timelines: all of them, or any.
    pub(crate) fn wait_for(
        &self,
        timelines: &[At],
        all: bool,
        nanoseconds: u64,
    ) -> Result<(), vk::Result> {
        let (semaphores, values): (Vec<_>, Vec<_>) =
            timelines.iter().map(|At(semaphore, value)| (*semaphore, *value)).unzip();
        let flags = if all { vk::SemaphoreWaitFlags::empty() } else { vk::SemaphoreWaitFlags::ANY };
        let information =
            vk::SemaphoreWaitInfo::default().flags(flags).semaphores(&semaphores).values(&values);
        // SAFETY: the semaphores are timelines of the device. The structures live until the call returns.
        unsafe { self.device.wait_semaphores(&information, nanoseconds) }
    }
}

impl Gpu<'_> {
    /// What another thread has of the device.
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        Waiter { device: &self.raw }
    }

    /// Submits, as Vulkan 1.0 does it.
    pub(crate) fn submit(
        &self,
        queue: Queue,
        batches: &[Submit<'_>],
        fence: vk::Fence,
    ) -> Result<(), vk::Result> {
        let parts: Vec<_> = batches
            .iter()
            .map(|Submit { wait, commands, signal }| {
                let semaphores = |all: &[At]| all.iter().map(|at| at.0).collect::<Vec<_>>();
                let values = |all: &[At]| all.iter().map(|at| at.1).collect::<Vec<_>>();
                let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; wait.len()];
                let of_wait = (semaphores(wait), values(wait), stages);
                (of_wait, *commands, (semaphores(signal), values(signal)))
            })
            .collect();
        let mut timelines: Vec<_> = parts
            .iter()
            .map(|((_, wait, _), _, (_, signal))| {
                vk::TimelineSemaphoreSubmitInfo::default()
                    .wait_semaphore_values(wait)
                    .signal_semaphore_values(signal)
            })
            .collect();
        let batches: Vec<_> = parts
            .iter()
            .zip(&mut timelines)
            .map(|(((wait, _, stages), commands, (signal, _)), timeline)| {
                vk::SubmitInfo::default()
                    .wait_semaphores(wait)
                    .wait_dst_stage_mask(stages)
                    .command_buffers(commands)
                    .signal_semaphores(signal)
                    .push_next(timeline)
            })
            .collect();
        // SAFETY: the objects are the device's, and live as long as it. This thread alone uses the queue.
        unsafe { self.raw.queue_submit(queue.raw, &batches, fence) }
    }

    /// Submits, as Vulkan 1.3 does it.
    pub(crate) fn submit_2(
        &self,
        queue: Queue,
        Submit { wait, commands, signal }: Submit<'_>,
        fence: vk::Fence,
    ) -> Result<(), vk::Result> {
        let semaphores = |all: &[At]| {
            let each = all.iter().map(|at| {
                vk::SemaphoreSubmitInfo::default()
                    .semaphore(at.0)
                    .value(at.1)
                    .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
            });
            each.collect::<Vec<_>>()
        };
        let (wait, signal) = (semaphores(wait), semaphores(signal));
        let commands: Vec<_> = commands
            .iter()
            .map(|raw| vk::CommandBufferSubmitInfo::default().command_buffer(*raw))
            .collect();
        let batches = [vk::SubmitInfo2::default()
            .wait_semaphore_infos(&wait)
            .command_buffer_infos(&commands)
            .signal_semaphore_infos(&signal)];
        // SAFETY: the objects are the device's, and live as long as it. This thread alone uses the queue.
        unsafe { self.raw.queue_submit2(queue.raw, &batches, fence) }
    }

    /// Submits at most one command buffer with the signal of one timeline, and waits for the signal. Takes no memory, so that it
    /// can be timed.
    pub(crate) fn submit_and_wait(
        &self,
        queue: Queue,
        Submit { commands, signal, .. }: Submit<'_>,
    ) -> Result<(), vk::Result> {
        let At(semaphore, value) = signal.first().copied().unwrap_or_default();
        let commands = commands.first().copied();
        let buffer = vk::CommandBufferSubmitInfo::default();
        let buffer = [buffer.command_buffer(commands.unwrap_or_default())];
        let signal = [vk::SemaphoreSubmitInfo::default()
            .semaphore(semaphore)
            .value(value)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
        let batch = [vk::SubmitInfo2::default()
            .command_buffer_infos(if commands.is_some() { &buffer } else { &[] })
            .signal_semaphore_infos(&signal)];
        let (semaphores, values) = ([semaphore], [value]);
        let wait = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the objects are the device's, and live as long as it. This thread alone uses the queue.
        unsafe {
            self.raw.queue_submit2(queue.raw, &batch, vk::Fence::null())?;
            self.raw.wait_semaphores(&wait, PATIENCE)
        }
    }

    /// Submits command buffers alone, and waits until they are done.
    pub(crate) fn finish(
        &self,
        queue: Queue,
        commands: &[vk::CommandBuffer],
    ) -> Result<(), vk::Result> {
        let fence = self.fence(false)?;
        self.submit(queue, &[Submit { commands, ..Submit::default() }], fence)?;
        self.wait_fences(&[fence], true, PATIENCE)
    }

    /// Records a command buffer for the first queue that computes, submits it, and waits until it is done.
    pub(crate) fn run(&self, write: impl FnOnce(&Recorder<'_>)) -> Outcome {
        let queue = self.queue()?;
        let commands = self.record(queue, write)?;
        Ok(self.finish(queue, &[commands])?)
    }

    /// A fence.
    pub(crate) fn fence(&self, signaled: bool) -> Result<vk::Fence, vk::Result> {
        let flags =
            if signaled { vk::FenceCreateFlags::SIGNALED } else { vk::FenceCreateFlags::empty() };
        let information = vk::FenceCreateInfo::default().flags(flags);
        // SAFETY: the device is open.
        let fence = unsafe { self.raw.create_fence(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_fence(fence, None) });
        Ok(fence)
    }

    /// Waits for fences.
    pub(crate) fn wait_fences(
        &self,
        fences: &[vk::Fence],
        all: bool,
        nanoseconds: u64,
    ) -> Result<(), vk::Result> {
        // SAFETY: the fences are the device's.
        unsafe { self.raw.wait_for_fences(fences, all, nanoseconds) }
    }

    /// Whether a fence is signaled.
    pub(crate) fn is_signaled(&self, fence: vk::Fence) -> Result<bool, vk::Result> {
        // SAFETY: the fence is the device's.
        unsafe { self.raw.get_fence_status(fence) }
    }

    /// Resets fences that nothing will signal.
    pub(crate) fn reset_fences(&self, fences: &[vk::Fence]) -> Result<(), vk::Result> {
        // SAFETY: the fences are the device's, and no submission has them.
        unsafe { self.raw.reset_fences(fences) }
    }

    /// A binary semaphore.
    pub(crate) fn binary(&self) -> Outcome<vk::Semaphore> {
        self.semaphore(vk::SemaphoreType::BINARY, 0)
    }

    /// A timeline semaphore with this value.
    pub(crate) fn timeline(&self, value: u64) -> Outcome<vk::Semaphore> {
        self.semaphore(vk::SemaphoreType::TIMELINE, value)
    }

    fn semaphore(&self, kind: vk::SemaphoreType, value: u64) -> Outcome<vk::Semaphore> {
        self.semaphore_with(kind, value, vk::SemaphoreCreateInfo::default())
    }

    pub(super) fn semaphore_with<'a>(
        &self,
        kind: vk::SemaphoreType,
        value: u64,
        information: vk::SemaphoreCreateInfo<'a>,
    ) -> Outcome<vk::Semaphore> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(kind).initial_value(value);
        let information = information.push_next(&mut kind);
        // SAFETY: the device is open. The structures live until the call returns.
        let semaphore = unsafe { self.raw.create_semaphore(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_semaphore(semaphore, None) });
        Ok(semaphore)
    }

    /// Waits until all timelines have their values, or any one has.
    pub(crate) fn wait_for(
        &self,
        timelines: &[At],
        all: bool,
        nanoseconds: u64,
    ) -> Result<(), vk::Result> {
        self.waiter().wait_for(timelines, all, nanoseconds)
    }

    /// The value of a timeline.
    pub(crate) fn value(&self, timeline: vk::Semaphore) -> Result<u64, vk::Result> {
        // SAFETY: the semaphore is a timeline of the device.
        unsafe { self.raw.get_semaphore_counter_value(timeline) }
    }

    /// Gives a timeline a greater value.
    pub(crate) fn signal(&self, At(semaphore, value): At) -> Result<(), vk::Result> {
        let information = vk::SemaphoreSignalInfo::default().semaphore(semaphore).value(value);
        // SAFETY: the semaphore is a timeline of the device.
        unsafe { self.raw.signal_semaphore(&information) }
    }

    /// An event.
    pub(crate) fn event(&self) -> Outcome<vk::Event> {
        // SAFETY: the device is open.
        let event = unsafe { self.raw.create_event(&vk::EventCreateInfo::default(), None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_event(event, None) });
        Ok(event)
    }

    /// Sets an event, as the processor.
    pub(crate) fn set_event(&self, event: vk::Event) -> Result<(), vk::Result> {
        // SAFETY: the event is the device's.
        unsafe { self.raw.set_event(event) }
    }

    /// Resets an event that nothing waits for, as the processor.
    pub(crate) fn reset_event(&self, event: vk::Event) -> Result<(), vk::Result> {
        // SAFETY: the event is the device's.
        unsafe { self.raw.reset_event(event) }
    }

    /// Whether an event is set.
    pub(crate) fn is_set(&self, event: vk::Event) -> Result<bool, vk::Result> {
        // SAFETY: the event is the device's.
        unsafe { self.raw.get_event_status(event) }
    }

    /// Timestamp queries, reset.
    pub(crate) fn timestamps(&self, count: u32) -> Outcome<vk::QueryPool> {
        let information = vk::QueryPoolCreateInfo::default()
            .query_type(vk::QueryType::TIMESTAMP)
            .query_count(count);
        // SAFETY: the device is open.
        let pool = unsafe { self.raw.create_query_pool(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_query_pool(pool, None) });
        self.reset_timestamps(pool, count)?;
        Ok(pool)
    }

    /// Resets queries, as the processor if it may, and otherwise by a command.
    pub(crate) fn reset_timestamps(&self, pool: vk::QueryPool, count: u32) -> Outcome {
        if self.lab.features().since_1_2.host_query_reset == vk::TRUE {
            // SAFETY: the queries are the device's, and nothing that executes uses them.
            unsafe { self.raw.reset_query_pool(pool, 0, count) };
            return Ok(());
        }
        self.run(|commands| {
            commands.reset_queries(pool, 0, count);
        })
    }

    /// Results of 64 bits, which must be there if `wait` is not set.
    pub(crate) fn results(
        &self,
        pool: vk::QueryPool,
        count: usize,
        wait: bool,
    ) -> Result<Vec<u64>, vk::Result> {
        let mut results = vec![0u64; count];
        let flags = vk::QueryResultFlags::TYPE_64;
        let flags = if wait { flags | vk::QueryResultFlags::WAIT } else { flags };
        // SAFETY: the queries are the device's, and a result fits each element.
        unsafe { self.raw.get_query_pool_results(pool, 0, &mut results, flags) }?;
        Ok(results)
    }
}
