// SPDX-License-Identifier: MIT OR Apache-2.0

//! The adapters of one host, and which guest is attached to which.
//!
//! [`Kernel`] is the control plane of one adapter and does not know of others. [`Adapters`] stands above the kernels.

use crate::dxgkrnl::fence::cross::{CrossFences, CrossSignal};
use crate::dxgkrnl::kernel::Kernel;
use crate::hardware::GuestId;
use crate::port::{
    AdapterId, CommandError, Effect, Input, ListError, ListObjects, ObjectPage, TraceError,
};
use bellhop_protocol::control::escape::ObjectList;
use std::collections::BTreeMap;
use std::time::Duration;

/// All adapters of a host, each with its kernel. They share guest ids and the fences that several guests have.
pub struct Adapters {
    /// Indexed by [`AdapterId`].
    kernels: Vec<Kernel>,
    cross_fences: CrossFences,
    /// Which adapter each guest is attached to.
    homes: BTreeMap<GuestId, AdapterId>,
}

impl From<Kernel> for Adapters {
    fn from(kernel: Kernel) -> Self {
        Self::new(vec![kernel])
    }
}

impl Adapters {
    /// Creates the adapters of these kernels, in this order.
    #[must_use]
    pub fn new(mut kernels: Vec<Kernel>) -> Self {
        for (kernel, ordinal) in kernels.iter_mut().zip(0..) {
            kernel.set_ordinal(ordinal);
        }
        Self { kernels, cross_fences: CrossFences::default(), homes: BTreeMap::new() }
    }

    /// Sets how many fences guests can share; 0 by default. The hardware of the adapters has one common page of
    /// [`Segment::CrossAdapter`](crate::hardware::Segment::CrossAdapter) for each.
    #[must_use]
    pub fn with_cross_adapter_fences(mut self, count: u32) -> Self {
        self.cross_fences = CrossFences::new(count);
        self
    }

    /// See [`Kernel::set_time`].
    pub fn set_time(&mut self, now: Duration) {
        for kernel in &mut self.kernels {
            kernel.set_time(now);
        }
    }

    /// The earliest time at which an adapter is due an [`Input::Timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.kernels.iter().filter_map(Kernel::deadline).min()
    }

    /// Handles one input. An input about an attached guest goes to that guest's adapter. A guest that attaches, or a
    /// command about no guest, goes to `adapter`. Interrupts and time-outs go to every kernel: the adapters share one
    /// interrupt line, and each driver tells whether it raised the interrupt.
    pub fn handle(&mut self, adapter: AdapterId, input: Input, effects: &mut Vec<Effect>) {
        let before = effects.len();
        match &input {
            Input::Interrupt | Input::Timeout => {
                for kernel in &mut self.kernels {
                    give(kernel, &mut self.cross_fences, input.clone(), effects);
                }
            }
            _ => self.handle_on(adapter, input, effects),
        }
        self.tell_views(effects);
        for effect in effects.get(before..).unwrap_or_default() {
            if let Effect::Detached { guest } = effect {
                self.homes.remove(guest);
            }
        }
    }

    fn handle_on(&mut self, adapter: AdapterId, input: Input, effects: &mut Vec<Effect>) {
        let guest = match &input {
            Input::Attach { guest, .. }
            | Input::Detach { guest }
            | Input::Request { guest, .. }
            | Input::CrossAdapterSignal { guest, .. } => Some(*guest),
            Input::Command { command, .. } => command.guest(),
            Input::AskAgent { guest, .. } => Some(*guest),
            Input::Note { guest, .. } => *guest,
            Input::Trace { .. } => None,
            Input::Interrupt | Input::Timeout => None,
        };
        let home = guest.and_then(|guest| self.homes.get(&guest).copied());
        let adapter = home.unwrap_or(adapter);
        let Some(kernel) = self.kernels.get_mut(adapter.0 as usize) else {
            tracing::error!(adapter = adapter.0, "there is no such adapter");
            if let Input::Command { token, .. } = input {
                let result = Err(CommandError(no_adapter(adapter)));
                effects.push(Effect::CommandDone { token, result });
            } else if let Input::Trace { token, .. } = input {
                effects.push(Effect::Traced { token, result: Err(TraceError::NoAdapter) });
            }
            return;
        };
        if let Input::Attach { guest, .. } = &input {
            self.homes.insert(*guest, adapter);
        }
        give(kernel, &mut self.cross_fences, input, effects);
    }

    /// VidSch "propagates the signal": the kernel of each guest tells its view that the fence was signaled. The loop
    /// ends, because a view that is told releases only what software queues held, and each round leaves less of it.
    ///
    /// Source: native GPU fence object, "Cross-adapter wait/signal combinations".
    fn tell_views(&mut self, effects: &mut Vec<Effect>) {
        while let Some(CrossSignal { fence, origin, always }) = self.cross_fences.take_signal() {
            for guest in self.cross_fences.views(fence).into_iter().filter(|guest| *guest != origin)
            {
                let home =
                    self.homes.get(&guest).and_then(|home| self.kernels.get_mut(home.0 as usize));
                let Some(kernel) = home else { continue };
                let signal = Input::CrossAdapterSignal { guest, fence, always };
                give(kernel, &mut self.cross_fences, signal, effects);
            }
        }
    }

    /// Returns some of the objects of a list. The list of adapters covers all adapters; lists of an adapter cover
    /// `adapter`; all others cover the guest in `wanted`.
    ///
    /// # Errors
    /// Fails as [`Kernel::list`] does, or if there is no such adapter.
    pub fn list(
        &self,
        adapter: AdapterId,
        mut wanted: ListObjects,
        room: usize,
    ) -> Result<ObjectPage, ListError> {
        let adapter = match wanted.list {
            // One adapter per page; the next page holds the next adapter.
            ObjectList::ADAPTER => AdapterId(u32::try_from(wanted.after).unwrap_or(u32::MAX)),
            ObjectList::NODES | ObjectList::GUESTS | ObjectList::WORKERS => adapter,
            _ => self.homes.get(&wanted.guest).copied().unwrap_or(adapter),
        };
        let kernel = self.kernels.get(adapter.0 as usize);
        let kernel = kernel.ok_or_else(|| ListError { gone: true, why: no_adapter(adapter) })?;
        if wanted.list != ObjectList::ADAPTER {
            return kernel.list(wanted, room);
        }
        wanted.after = 0;
        let page = kernel.list(wanted, room)?;
        let next = u64::from(adapter.0) + 1;
        let is_last = next >= self.kernels.len() as u64;
        Ok(ObjectPage { next: if is_last { 0 } else { next }, ..page })
    }
}

/// Lends the cross-adapter fences to a kernel while it handles an input.
fn give(
    kernel: &mut Kernel,
    cross_fences: &mut CrossFences,
    input: Input,
    effects: &mut Vec<Effect>,
) {
    kernel.swap_cross_fences(cross_fences);
    kernel.handle(input, effects);
    kernel.swap_cross_fences(cross_fences);
}

fn no_adapter(adapter: AdapterId) -> String {
    format!("there is no adapter {}", adapter.0)
}
