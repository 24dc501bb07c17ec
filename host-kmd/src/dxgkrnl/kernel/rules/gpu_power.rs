// SPDX-License-Identifier: MIT OR Apache-2.0

//! A slave of a chain has power while a queue is on one of its nodes, its local memory holds what a process wants
//! resident, or its display shows or flips. `power::gpus` keeps the states.
//!
//! Memory that a process wants is kept: its GPU stays in D0, since peers may read it at any time. What no process wants
//! resident is evicted, as it would be to make room.
//!
//! Source: Windows KMD overview, "MGPU": "PowerXpress ... dGPU only powers up when needed".

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::power::gpus::GpuPowerStep;
use crate::hardware::{GpuOrdinal, HwQueueId, Reported as _, Segment};
use crate::vidmm::pool::PageRange;
use bellhop_protocol::control::power::DevicePowerState;

impl Kernel {
    /// Takes the next steps of GPUs that have power only while something needs it. Returns whether there was one.
    pub(crate) fn continue_gpu_power(&mut self) -> bool {
        let mut went_on = false;
        for gpu in self.gpu_power.managed() {
            while let Some(step) = self.gpu_power_step(gpu) {
                went_on = true;
                self.take_gpu_power_step(gpu, step);
            }
        }
        went_on
    }

    /// Gives power to the GPUs in D3 that something needs.
    pub(crate) fn power_needed_gpus(&mut self) {
        for gpu in self.gpu_power.managed() {
            if self.gpu_power_step(gpu) == Some(GpuPowerStep::PowerOn) {
                self.take_gpu_power_step(gpu, GpuPowerStep::PowerOn);
            }
        }
    }

    /// The next step of a GPU. None while the device has no power.
    pub(crate) fn gpu_power_step(&self, gpu: GpuOrdinal) -> Option<GpuPowerStep> {
        if !self.power.has_power() {
            return None;
        }
        let is_needed = self.is_gpu_needed(gpu);
        let is_empty =
            || self.guests.values().all(|guest| guest.vidmm.empty_memory_of(gpu).is_some());
        let may_power_off = !is_needed && !self.is_paging() && is_empty();
        self.gpu_power.next_step(gpu, is_needed, self.quiesced.all, may_power_off)
    }

    /// Whether something needs a GPU.
    fn is_gpu_needed(&self, gpu: GpuOrdinal) -> bool {
        let queues = HwQueueId::all_of(gpu);
        if self.queues.range(queues).next().is_some() {
            return true;
        }
        let ddi = self.miniport.display();
        self.guests.values().any(|guest| {
            guest.vidmm.is_needed(gpu)
                || ddi.is_some_and(|ddi| {
                    guest.display.needs_power(|source| ddi.gpu_of_source(source) == gpu)
                })
        })
    }

    fn take_gpu_power_step(&mut self, gpu: GpuOrdinal, step: GpuPowerStep) {
        match step {
            GpuPowerStep::PowerOn => {
                tracing::debug!(gpu = gpu.0, "the GPU is needed and goes to D0");
                self.gpu_power.power_on(gpu, self.now);
                self.miniport.set_power_state(gpu, DevicePowerState::D0);
                for node in self.tdr.engines_of(gpu) {
                    self.power.wake_engine(node, self.miniport.as_mut());
                }
            }
            GpuPowerStep::Stay => self.gpu_power.stay(gpu),
            GpuPowerStep::Leave => {
                for (id, guest) in &mut self.guests {
                    guest.vidmm.vacate(gpu);
                    if guest.vidmm.has_plan() {
                        self.paging.insert(*id);
                        self.work.wake(Rule::Paging(*id));
                    }
                }
                // Queues that are gone may still be in engines.
                self.gpu_power.leave(gpu, self.platform.quiesce(None));
            }
            GpuPowerStep::PowerOff => {
                for node in self.tdr.engines_of(gpu) {
                    self.power.power_down_engine(node, self.now, self.miniport.as_mut());
                }
                self.miniport.set_power_state(gpu, DevicePowerState::D3);
                for (id, guest) in &self.guests {
                    let Some(range) = guest.vidmm.empty_memory_of(gpu) else { continue };
                    let PageRange { start, length } = range;
                    // Without power it is lost: zeroing returns the pages to the host.
                    self.platform.zero_memory(*id, Segment::Private, start, length).reported();
                }
                self.gpu_power.power_off(gpu, self.now);
                tracing::debug!(gpu = gpu.0, "nothing needs the GPU, which is in D3");
            }
        }
    }

    /// The displays of all GPUs that have power get it from the device, or lose it.
    pub(crate) fn set_power_of_gpus(&mut self, state: DevicePowerState) {
        self.gpu_power.set_device(state == DevicePowerState::D0, self.now);
        for gpu in self.gpu_power.all().filter(|gpu| self.gpu_power.has_power(*gpu)) {
            self.miniport.set_power_state(gpu, state);
        }
    }

    /// Whether a node's GPU has power while the device has.
    pub(crate) fn may_wake(&self, node: u32) -> bool {
        self.gpu_power.has_power(self.tdr.gpu_of(node))
    }
}
