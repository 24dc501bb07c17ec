// SPDX-License-Identifier: MIT OR Apache-2.0

//! Blocking waits for fences on the CPU.

use crate::device::Device;
use crate::error::Error;
use crate::fence::list::entries;
use crate::fence::object::Fence;
use crate::fence::poll::spin;
use bellhop_protocol::control::fence::{CancelWait, WaitFlags, WaitForFences};
use bellhop_protocol::status::Status;
use std::time::Duration;
use zerocopy::IntoBytes;

/// How long a thread polls fences before it asks the device: about the time of a request and a wake-up.
const SPIN: Duration = Duration::from_micros(20);

impl Device {
    /// Blocks until all of these fences have reached their values, or any of them with [`WaitFlags::WAIT_ANY`]
    /// (`D3DKMTWaitForSynchronizationObjectFromCpu`). Takes at most
    /// [`MAX_FENCE_LIST`](bellhop_protocol::control::fence::MAX_FENCE_LIST) fences of this process.
    ///
    /// # Errors
    /// [`Error::Timeout`] if `timeout` expires, [`Error::QueueLost`] if a queue that owns one of these fences was
    /// lost.
    pub fn wait_for_fences(
        &self,
        fences: &[(&Fence, u64)],
        flags: WaitFlags,
        timeout: Duration,
    ) -> Result<(), Error> {
        let are_there = || {
            let mut reached = fences.iter().map(|(fence, value)| fence.has_reached(*value));
            if flags.contains(WaitFlags::WAIT_ANY) {
                reached.any(|reached| reached)
            } else {
                reached.all(|reached| reached)
            }
        };
        if !are_there() && !spin(SPIN.min(timeout), are_there) {
            block(self, fences, flags, timeout, are_there)?;
        }
        // A fence that is always signaled says nothing about what was executed.
        fences.iter().try_for_each(|(fence, _)| fence.check_executed())
    }
}

impl Fence {
    /// Blocks until the fence reaches `value`; the device interrupts. Works without a published value.
    ///
    /// # Errors
    /// As [`Device::wait_for_fences`].
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<(), Error> {
        self.device().wait_for_fences(&[(self, value)], WaitFlags::empty(), timeout)
    }

    /// Fails if the owner of this fence was lost, even when CurrentValue is not CPU-visible.
    fn check_executed(&self) -> Result<(), Error> {
        match (self.current_value(), self.queue()) {
            (Ok(current), _) => self.reached(current),
            (Err(_), None) => Ok(()),
            // Without the value, the driver knows only the events that arrived.
            (Err(_), Some(queue)) => {
                let session = self.device().session();
                match session.link.events.known_fault(session.process(), queue) {
                    Some(fault) => Err(Error::QueueLost { queue, fault: Some(fault) }),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Asks the device for an event for the fences, and waits for the event.
fn block(
    device: &Device,
    fences: &[(&Fence, u64)],
    flags: WaitFlags,
    timeout: Duration,
    are_there: impl Fn() -> bool,
) -> Result<(), Error> {
    let session = device.session();
    let wait = session.link.events.begin_wait();
    let list = entries(fences);
    let (cookie, count) = (wait.cookie(), list.len() as u32);
    let request = WaitForFences { cookie, flags: flags.bits(), count };
    if session.start_with_list(&request, list.as_bytes())? == Status::SUCCESS {
        return Ok(());
    }
    let queues = fences.iter().filter_map(|(fence, _)| fence.queue());
    let queues: Vec<_> = queues.map(|queue| (session.process(), queue)).collect();
    let Err(error) = wait.finish(&queues, timeout, are_there) else { return Ok(()) };
    match (error, session.call(&CancelWait { cookie })) {
        // The wait was satisfied, and its event is on its way. No fence was destroyed: they are borrowed here.
        (Error::Timeout { .. }, Err(Error::Refused { status: Status::INVALID_PARAMETER, .. })) => {
            Ok(())
        }
        // The process ended meanwhile.
        (Error::Timeout { .. }, Err(gone @ Error::Refused { .. })) => Err(gone),
        (Error::Timeout { .. }, _) => Err(timed_out(fences)),
        (error, _) => Err(error),
    }
}

/// The error for the first fence that was not reached in time.
fn timed_out(fences: &[(&Fence, u64)]) -> Error {
    let missing = fences.iter().find(|(fence, value)| !fence.has_reached(*value));
    let Some((fence, value)) = missing.or(fences.first()) else {
        return Error::Timeout { value: 0, current: 0 };
    };
    Error::Timeout { value: *value, current: fence.current_value().unwrap_or_default() }
}
