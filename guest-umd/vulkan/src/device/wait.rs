// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waiting for fences of the adapter, of which some may be signaled by queues that are lost.

use super::Device;
use super::polls::{self, POLL};
use super::vain::looked_in_vain;
use ash::vk;
use bellhop_guest_umd::protocol::control::fence::{MAX_FENCE_LIST, WaitFlags};
use bellhop_guest_umd::{Error, Fence};
use event_listener::Listener as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread blocks before it looks whether the device is lost. Nobody signals what a lost queue was to signal.
const SLICE: Duration = Duration::from_millis(100);
/// How long a thread blocks for some of what may end its wait, before it looks at the rest.
const GLANCE: Duration = Duration::from_millis(1);
/// How often a thread is woken by submissions of something else, before it has the adapter wake it: each wakes it at the cost of
/// who submits.
const MOST_IN_VAIN: u32 = 4;

/// A fence of the adapter, and a value of it.
pub(crate) type Target = (Arc<Fence>, u64);

/// What is left to wait for.
pub(crate) enum Left {
    /// All of these, or any of these.
    Targets(Vec<Target>),
    /// Any of these, or something that no fence tells of: it has not been submitted yet, or is a word in memory.
    Also(Vec<Target>),
    /// All of these, or any of these, but not before something is submitted.
    Later(Vec<Target>),
}

/// When a wait ends: a time-out of Vulkan in nanoseconds, of which the largest have no end.
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(nanoseconds: u64) -> Self {
        Self(Instant::now().checked_add(Duration::from_nanos(nanoseconds)))
    }

    /// A wait without end.
    pub(crate) const NEVER: Self = Self(None);

    /// What is left of it.
    fn left(&self) -> Duration {
        self.0.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// Whether a fence has a value because what signals it was executed.
pub(crate) fn has_reached(fence: &Fence, value: u64) -> bool {
    match fence.current_value() {
        Ok(current) => current >= value && current != Fence::ALWAYS_SIGNALED,
        // Of another program's fence, behind a broker, the device alone knows the value.
        Err(Error::NotAvailable(_)) => fence.wait(value, Duration::ZERO).is_ok(),
        Err(_) => false,
    }
}

/// What is left to wait for, of all or of any targets.
pub(crate) fn left(targets: impl IntoIterator<Item = Target>, any: bool) -> Option<Left> {
    let mut is_any_reached = false;
    let is_left = |(fence, value): &Target| {
        let is_left = !has_reached(fence, *value);
        is_any_reached |= !is_left;
        is_left
    };
    let left: Vec<Target> = targets.into_iter().filter(is_left).collect();
    let is_over = if any { is_any_reached } else { left.is_empty() };
    (!is_over).then_some(Left::Targets(left))
}

/// Waits until one fence has a value, if that is all there is to wait for, or until `look` finds nothing left.
///
/// Most waits are for one fence that is signaled soon: it is polled without memory, and without a look at the device.
///
/// # Errors
/// `TIMEOUT`, or that the device is lost.
#[inline]
pub(crate) fn wait(
    device: &Device,
    any: bool,
    deadline: &Deadline,
    one: Option<(&Fence, u64)>,
    look: impl FnMut() -> Option<Left>,
) -> Result<(), vk::Result> {
    let may_poll = polls::pay();
    let Some((fence, value)) = one else {
        return wait_long(device, any, deadline, may_poll, None, look);
    };
    if has_reached(fence, value) {
        return Ok(());
    }
    if !may_poll {
        return wait_long(device, any, deadline, false, None, look);
    }
    if fence.poll(value, POLL.min(deadline.left())).is_ok() && has_reached(fence, value) {
        polls::note(Duration::ZERO);
        return Ok(());
    }
    wait_long(device, any, deadline, false, Instant::now().checked_sub(POLL), look)
}

/// As [`wait`], for what was not there at once, or since it began to be waited for. Polls once if it may.
fn wait_long(
    device: &Device,
    any: bool,
    deadline: &Deadline,
    mut may_poll: bool,
    mut began: Option<Instant>,
    mut look: impl FnMut() -> Option<Left>,
) -> Result<(), vk::Result> {
    let mut submission = None;
    let mut in_vain = 0;
    loop {
        // In this order: what was signaled before the loss counts.
        let Some(left) = look() else {
            if let Some(began) = began {
                polls::note(began.elapsed());
            }
            return Ok(());
        };
        began.get_or_insert_with(Instant::now);
        device.check()?;
        let time = deadline.left();
        if time.is_zero() {
            looked_in_vain();
            return Err(vk::Result::TIMEOUT);
        }
        let is_later = match &left {
            Left::Also(targets) => targets.is_empty(),
            Left::Later(_) => in_vain < MOST_IN_VAIN,
            Left::Targets(_) => false,
        };
        // What is of no submission is not there soon.
        may_poll &= !matches!(left, Left::Later(_)) || is_later;
        if is_later {
            match submission.take() {
                // It listens before the next look: a submission after that look ends the wait.
                None => submission = Some(device.submissions.listen()),
                Some(listener) => {
                    in_vain += 1;
                    let _ = listener.wait_timeout(SLICE.min(time));
                }
            }
            continue;
        }
        let (targets, any, time) = match left {
            Left::Targets(targets) | Left::Later(targets) => (targets, any, SLICE.min(time)),
            Left::Also(targets) => (targets, true, GLANCE.min(time)),
        };
        let waited = match &targets[..] {
            [(fence, value)] if may_poll => fence.poll(*value, POLL.min(time)),
            _ => block(device, any, &targets, time),
        };
        may_poll = false;
        match waited {
            Ok(()) | Err(Error::Timeout { .. }) => {}
            Err(error) => return Err(device.lose(&error)),
        }
    }
}

fn block(device: &Device, any: bool, targets: &[Target], time: Duration) -> Result<(), Error> {
    let flags = if any { WaitFlags::WAIT_ANY } else { WaitFlags::empty() };
    let list = targets.iter().take(MAX_FENCE_LIST as usize);
    let list: Vec<_> = list.map(|(fence, value)| (&**fence, *value)).collect();
    // Of more than a list holds, one that is not in it may be the first of any.
    let is_whole = list.len() == targets.len();
    let time = if any && !is_whole { time.min(GLANCE) } else { time };
    device.gpu.wait_for_fences(&list, flags, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_may_be_now_or_never() {
        assert!(Deadline::after(0).left().is_zero());
        assert!(!Deadline::after(1 << 40).left().is_zero());
        assert!(Deadline::after(u64::MAX).left() > Duration::from_secs(1 << 30));
        assert_eq!(Deadline::NEVER.left(), Duration::MAX);
    }
}
