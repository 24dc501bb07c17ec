// SPDX-License-Identifier: MIT OR Apache-2.0

//! What follows from the end of a wait for fences: an event, or a queue or a flip that goes on. `fence::signals` ends
//! waits.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object".

use crate::dxgkrnl::display::flip::FlipId;
use crate::dxgkrnl::fence::signals::{End, Signals, WaitEnded};
use crate::dxgkrnl::fence::waits::{Needed, Owner, Wait, WaitId};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::queue::software_queue::Released;
use crate::hardware::Fault;
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::{Event, EventKind, FaultReason};
use bellhop_protocol::packet::Opcode;
use zerocopy::FromZeros;

impl ProcessAccess<'_> {
    /// Does something with the guest's fences, and then what follows for those whose waits it has ended.
    pub(crate) fn with_signals<T>(&mut self, act: impl FnOnce(&mut Signals<'_>) -> T) -> T {
        let mut signals = Signals {
            guest: self.guest_id,
            fences: &mut self.guest.fences,
            quotas: &mut self.guest.quotas,
            miniport: self.miniport,
            platform: self.platform,
            cross_fences: self.cross_fences,
            ended: Vec::new(),
        };
        let result = act(&mut signals);
        for ended in signals.ended {
            self.wait_ended(ended);
        }
        result
    }

    /// Begins a wait, unless it is satisfied already.
    pub(crate) fn begin_wait(&mut self, wait: Wait) -> Result<Option<WaitId>, RequestError> {
        let now = self.recorder.now();
        self.with_signals(|signals| signals.begin_wait(wait, now))
    }

    /// Ends waits that nobody needs any more.
    pub(crate) fn drop_waits(&mut self, waits: impl IntoIterator<Item = WaitId>) {
        if let Err(error) = self.with_signals(|signals| signals.drop_waits(waits)) {
            tracing::error!(guest = self.guest_id.0, %error, "a fence is missing");
        }
    }

    /// Makes a fence permanently signaled, which ends all waits for it.
    pub(crate) fn signal_always(&mut self, handle: Handle) {
        let slot = self.global_of(handle);
        let result = slot.and_then(|slot| self.with_signals(|signals| signals.signal_always(slot)));
        if let Err(error) = result {
            tracing::error!(guest = self.guest_id.0, fence = %handle, %error, "a fence is missing");
        }
    }

    fn wait_ended(&mut self, ended: WaitEnded) {
        let WaitEnded { id, process, owner, slot, end, .. } = ended;
        let guest = self.guest_id;
        let reached = match end {
            End::Reached { needed, current, is_known } => {
                self.record_wait(&ended, needed);
                if is_known {
                    return;
                }
                Some((needed.handle, current))
            }
            End::Lost => None,
        };
        match (owner, reached) {
            (Owner::Cpu(cookie), Some((fence, current))) => self.event(Event {
                kind: EventKind::FENCE_SIGNALED,
                process,
                object: fence.0,
                value: current,
                cookie,
                ..Event::new_zeroed()
            }),
            (Owner::Cpu(_), None) => {}
            // The work list continues its software queue.
            (Owner::Queue(hw_queue), Some(_)) => {
                if let Ok(queue) = self.guest.handles.get_mut::<HwQueue>(process, hw_queue) {
                    queue.held_mut().end_wait(id);
                }
                self.work.release(Released { guest, process, hw_queue, fault: None });
            }
            // The queue is lost, as after a packet that waits for a fence that its process has closed.
            (Owner::Queue(hw_queue), None) => {
                let reason = FaultReason::FENCE_NOT_OWNED;
                let fault = Some(Fault::new(reason, Opcode::WAIT_FENCE, slot.into()));
                self.work.release(Released { guest, process, hw_queue, fault });
            }
            (Owner::Flip(flip), _) => {
                if let Some(flip) = self.guest.display.waiting_flip(FlipId(flip)) {
                    (flip.wait, flip.hopeless) = (None, flip.hopeless || reached.is_none());
                }
                self.work.wake(Rule::Display(guest));
            }
        }
    }

    /// Records the end of a wait for a tool that traced when the wait began.
    fn record_wait(&self, ended: &WaitEnded, needed: Needed) {
        let WaitEnded { process, owner, since, slot, .. } = *ended;
        match owner {
            Owner::Flip(_) => {}
            _ if since == 0 => {}
            Owner::Cpu(_) => {
                let Needed { handle, value } = needed;
                self.recorder.cpu_wait((self.guest_id, process), slot, (handle, value), since);
            }
            Owner::Queue(queue) => {
                if let Ok(queue) = self.guest.handles.get::<HwQueue>(process, queue) {
                    let fence = (self.guest_id, slot);
                    self.recorder.software_wait(queue.id(), fence, needed.value, since);
                }
            }
        }
    }
}
