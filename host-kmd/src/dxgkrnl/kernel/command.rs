// SPDX-License-Identifier: MIT OR Apache-2.0

//! Commands of the host's operator.

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::rules::connect::disconnect_doorbells;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::faults::{FAILED_BY_OPERATOR, GPU_REMOVED};
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::queue::context::Suspension;
use crate::hardware::{GpuOrdinal, GuestId};
use crate::port::{Command, CommandError, CommandToken, Effect, GuestLimit};
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::snapshot::Change;

impl Kernel {
    /// Carries out a command of the host's operator.
    pub(crate) fn command(&mut self, token: CommandToken, command: Command) {
        let completion = Completion::Command(token);
        let about = command.guest();
        if let Some(guest) = about
            && self.guests.get(&guest).is_none_or(|guest| guest.is_detaching())
        {
            return self.refuse(token, "there is no such guest");
        }
        match command {
            Command::SetDevicePower(state) => {
                return match state {
                    DevicePowerState::D0 | DevicePowerState::D3 => {
                        self.set_device_power(state, (GuestId(0), completion));
                    }
                    _ => self.refuse(token, "a device can be in D0 or D3 only"),
                };
            }
            Command::SetEnginePower { node, state } => {
                if node >= self.miniport.node_count() {
                    return self.refuse(token, "there is no such node");
                }
                self.set_engine_power(node, state);
            }
            Command::SuspendGuest(guest) => {
                self.mark_suspended(guest, true);
                self.each_context_of_guest(guest, |access, context| {
                    access.suspend_context(context, Suspension::HOST)
                })
            }
            Command::ResumeGuest(guest) => {
                self.mark_suspended(guest, false);
                self.each_context_of_guest(guest, |access, context| {
                    access.resume_context(context, Suspension::HOST)
                });
                // Engines execute what was queued meanwhile, as after the guest's own resume.
                self.ensure_power();
            }
            Command::DisconnectGuest(guest) => {
                disconnect_doorbells(
                    &mut self.callbacks,
                    self.miniport.as_mut(),
                    &self.queues,
                    |owner| owner.guest == guest,
                );
            }
            Command::SetLoggingLevel(level) => {
                if level.name().is_none() {
                    return self.refuse(token, "there is no such level of logging");
                }
                self.set_logging_level(level);
            }
            Command::FailGuest(guest) => {
                self.fail_guest(guest, FAILED_BY_OPERATOR);
            }
            Command::TakeGpu(_, gpu) | Command::GiveGpu(_, gpu)
                if gpu.0 >= self.platform.gpu_count() =>
            {
                return self.refuse(token, "the adapter has no such GPU");
            }
            Command::TakeGpu(guest, gpu) | Command::GiveGpu(guest, gpu) => {
                let monitors = self.monitors(guest);
                match command {
                    Command::TakeGpu(..) => self.take_gpu(guest, gpu),
                    _ => self.give_gpu(guest, gpu),
                }
                // The GPU's monitors come and go with it.
                for child in monitors.symmetric_difference(&self.monitors(guest)) {
                    self.child_status_changed(guest, *child);
                }
            }
            Command::SetLimit { guest, limit, most } => self.set_limit(guest, limit, most.into()),
        }
        // Its engines and its workers have left what the command takes from a guest.
        self.retire(about.unwrap_or(GuestId(0)), Vec::new(), completion);
    }

    fn refuse(&mut self, token: CommandToken, why: &str) {
        self.outbox.tell(Effect::CommandDone { token, result: Err(CommandError(why.to_owned())) });
    }

    /// Remembers a change of the operator's.
    pub(crate) fn note(&mut self, guest: Option<GuestId>, change: Change) {
        match guest {
            None => self.changes.note(change),
            // A guest that has gone has no changes.
            Some(guest) => {
                if let Some(guest) = self.guests.get_mut(&guest) {
                    guest.changes.note(change);
                }
            }
        }
    }

    fn mark_suspended(&mut self, guest: GuestId, is_suspended: bool) {
        if let Some(guest) = self.guests.get_mut(&guest) {
            guest.is_suspended = is_suspended;
        }
    }

    fn set_limit(&mut self, guest: GuestId, limit: GuestLimit, most: u64) {
        let Some(guest) = self.guests.get_mut(&guest) else { return };
        let limited: &[Limited] = match limit {
            GuestLimit::Objects => {
                &[Limited::Handles, Limited::Mappings, Limited::ListedAllocations]
            }
            GuestLimit::Allocations => &[Limited::Allocations],
            GuestLimit::HwQueues => &[Limited::HwQueues],
            GuestLimit::Waits => &[Limited::Waits],
            GuestLimit::CrossAdapterFences => &[Limited::CrossAdapterFences],
            GuestLimit::Kernels => &[Limited::Kernels],
        };
        for limited in limited {
            guest.quotas.set_limit(*limited, most);
        }
    }

    /// A GPU of the guest's is taken away: a surprise removal.
    fn take_gpu(&mut self, guest: GuestId, gpu: GpuOrdinal) {
        let Some(of) = self.guests.get_mut(&guest) else { return };
        if !of.presence.set_removed(gpu, true) {
            return;
        }
        if gpu == GpuOrdinal::MASTER {
            self.fail_guest(guest, GPU_REMOVED);
        } else {
            // First, so that no context waits for memory that it no longer needs.
            self.lose_contexts_of_guest_on(guest, gpu, GPU_REMOVED);
            if let Some(of) = self.guests.get_mut(&guest) {
                of.vidmm.withdraw(gpu);
            }
            self.begin_paging(guest, 0, None);
        }
        self.darken((guest, gpu));
        self.tell_gpu(guest, gpu, false);
    }

    /// A GPU of the guest's is back.
    fn give_gpu(&mut self, guest: GuestId, gpu: GpuOrdinal) {
        let Some(of) = self.guests.get_mut(&guest) else { return };
        if !of.presence.set_removed(gpu, false) {
            return;
        }
        if gpu != GpuOrdinal::MASTER {
            of.vidmm.reinstate(gpu);
            self.begin_paging(guest, 0, None);
        }
        self.tell_gpu(guest, gpu, true);
    }
}
