// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a semaphore is at the moment: a native fence, and what its values mean.

use super::token::Token;
use crate::device::Device;
use crate::pages::out_of;
use ash::vk;
use bellhop_guest_umd::Fence;
use bellhop_protocol::handoff::promise::Promise;
use event_listener::Event;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A fence, and a value that it has or gets.
pub(crate) type Point<'s> = (&'s Fence, u64);

/// A fence as a semaphore.
pub(super) struct Payload {
    pub(super) fence: Arc<Fence>,
    values: Values,
}

/// What the values of a fence mean, and what other programs get of it.
enum Values {
    /// The program's own numbers.
    Timeline(Given, Option<Token>),
    /// The number of signals.
    Binary(Signals),
}

/// The values of a timeline that submissions of this program were given to signal, or that its processor has signaled. Several queues
/// may signal one.
struct Given {
    promise: Promise,
    /// Whom a value wakes that was awaited.
    waiting: Arc<Event>,
}

impl Given {
    fn new(waiting: &Arc<Event>) -> Self {
        Self { promise: Promise::new(), waiting: Arc::clone(waiting) }
    }

    #[inline]
    fn give(&self, value: u64) {
        if self.promise.give(value) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.waiting.notify(usize::MAX);
    }
}

/// The signals of a binary semaphore that were submitted. Vulkan has one thread of all programs at a time submit with it, and a wait
/// only after the signal that it is for; so the number publishes nothing.
enum Signals {
    Own(AtomicU64),
    Shared(Token),
}

impl Signals {
    fn number(&self) -> &AtomicU64 {
        match self {
            Self::Own(number) => number,
            Self::Shared(token) => token.signals(),
        }
    }

    /// The value that the next signal gives.
    fn next(&self) -> u64 {
        self.number().fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// The value that the last signal gives.
    fn last(&self) -> u64 {
        self.number().load(Ordering::Relaxed)
    }
}

impl Values {
    /// Those of a program's own fence, which wake whoever awaits them.
    fn own(is_timeline: bool, waiting: &Arc<Event>) -> Self {
        match is_timeline {
            true => Self::Timeline(Given::new(waiting), None),
            false => Self::Binary(Signals::Own(AtomicU64::new(0))),
        }
    }

    /// Those of a fence that other programs have, too.
    fn shared(token: Token, waiting: &Arc<Event>) -> Self {
        match token.is_timeline() {
            true => Self::Timeline(Given::new(waiting), Some(token)),
            false => Self::Binary(Signals::Shared(token)),
        }
    }

    /// The value of the fence that a submission waits for, which gives `value` for a timeline.
    fn awaited(&self, value: u64) -> u64 {
        match self {
            Self::Timeline(..) => value,
            Self::Binary(signals) => signals.last(),
        }
    }

    /// The value of the fence that a submission signals, which gives `value` for a timeline.
    fn signaled(&self, value: u64) -> u64 {
        match self {
            Self::Timeline(given, _) => {
                given.give(value);
                value
            }
            Self::Binary(signals) => signals.next(),
        }
    }

    /// Whether a submission may have been given the signal of a value. Those of other programs are not known here.
    fn may_be_given(&self, value: u64) -> bool {
        match self {
            Self::Timeline(given, None) => given.promise.is_given(value),
            Self::Timeline(_, Some(_)) | Self::Binary(_) => true,
        }
    }

    /// As [`Self::may_be_given`], of who listens. If not, the submission that is given the value wakes whoever listens then.
    fn is_given_or_wakes(&self, value: u64) -> bool {
        match self {
            Self::Timeline(given, None) => !given.promise.awaits(value),
            Self::Timeline(_, Some(_)) | Self::Binary(_) => true,
        }
    }
}

impl Payload {
    /// Creates a fence. Other programs may get it if it is `shared`.
    pub(super) fn create(
        device: &Device,
        is_timeline: bool,
        initial: u64,
        shared: bool,
    ) -> Result<Self, vk::Result> {
        let failed = |error| out_of(&error);
        if !shared {
            let fence = Arc::new(device.gpu.create_fence(initial).map_err(failed)?);
            return Ok(Self { fence, values: Values::own(is_timeline, &device.submissions) });
        }
        let fence = Arc::new(device.gpu.fence(initial).shared().create().map_err(failed)?);
        let name = fence.share().map_err(failed)?;
        let token = Token::create(name, is_timeline);
        let token = token.map_err(|_| vk::Result::ERROR_OUT_OF_HOST_MEMORY)?;
        Ok(Self { fence, values: Values::shared(token, &device.submissions) })
    }

    /// Opens the fence of a descriptor, which may be another program's.
    pub(super) fn open(device: &Device, descriptor: OwnedFd) -> Result<Self, vk::Result> {
        const INVALID: vk::Result = vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
        let token = Token::open(descriptor).ok_or(INVALID)?;
        let fence = device.gpu.open_fence(token.name()).map_err(|_| INVALID)?;
        Ok(Self { fence: Arc::new(fence), values: Values::shared(token, &device.submissions) })
    }

    /// Whether it is a timeline.
    pub(super) const fn is_timeline(&self) -> bool {
        matches!(self.values, Values::Timeline(..))
    }

    /// What other programs get of it.
    pub(super) const fn token(&self) -> Option<&Token> {
        match &self.values {
            Values::Timeline(_, token) => token.as_ref(),
            Values::Binary(Signals::Shared(token)) => Some(token),
            Values::Binary(Signals::Own(_)) => None,
        }
    }

    /// Whether a submission may have been given the signal of a value. If not, the GPU does not signal it before the next one.
    pub(super) fn may_be_given(&self, value: u64) -> bool {
        self.values.may_be_given(value)
    }

    /// As [`Self::may_be_given`], of who listens for submissions. If not, the one that is given the value wakes it.
    pub(super) fn is_given_or_wakes(&self, value: u64) -> bool {
        self.values.is_given_or_wakes(value)
    }

    /// The processor has signaled a value.
    pub(super) fn was_signaled(&self, value: u64) {
        self.values.signaled(value);
    }

    /// What a submission waits for, which gives `value` for a timeline.
    pub(super) fn awaited(&self, value: u64) -> Point<'_> {
        (&self.fence, self.values.awaited(value))
    }

    /// What a submission signals, which gives `value` for a timeline.
    pub(super) fn signaled(&self, value: u64) -> Point<'_> {
        (&self.fence, self.values.signaled(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_guest_umd::protocol::control::fence::NtHandle;
    use event_listener::{EventListener, Listener as _};
    use std::time::Duration;

    fn own(is_timeline: bool) -> Values {
        Values::own(is_timeline, &Arc::default())
    }

    fn shared(token: Token) -> Values {
        Values::shared(token, &Arc::default())
    }

    #[test]
    fn a_wait_of_a_binary_semaphore_is_for_the_signal_before_it() {
        let values = own(false);
        assert_eq!(values.signaled(0), 1);
        assert_eq!(values.awaited(77), 1);
        assert_eq!(values.signaled(0), 2);
        assert_eq!((values.awaited(0), values.awaited(0)), (2, 2));
    }

    #[test]
    fn the_values_of_a_timeline_are_the_program_s() {
        let token = Token::create(NtHandle(1), true).unwrap();
        for values in [own(true), shared(token)] {
            assert_eq!((values.signaled(9), values.awaited(7)), (9, 7));
        }
    }

    #[test]
    fn a_value_is_given_by_a_submission_that_signals_it_or_a_later_one() {
        let values = own(true);
        assert!(!values.may_be_given(1));
        // Another queue may have been given a later value before.
        values.signaled(7);
        values.signaled(3);
        assert!(values.may_be_given(7) && !values.may_be_given(8));
        // A wait gives nothing.
        values.awaited(9);
        assert!(!values.may_be_given(9));
    }

    #[test]
    fn who_listens_for_a_value_is_woken_by_the_submission_that_is_given_it() {
        let waiting = Arc::<Event>::default();
        let values = Values::own(true, &waiting);
        let is_woken = |listener: EventListener| listener.wait_timeout(Duration::ZERO).is_some();
        let listener = waiting.listen();
        values.signaled(1);
        assert!(!is_woken(listener), "nobody awaits anything");
        let listener = waiting.listen();
        assert!(!values.is_given_or_wakes(2));
        values.signaled(2);
        assert!(is_woken(listener));
    }

    #[test]
    fn what_other_programs_may_signal_may_be_given_at_any_time() {
        let shared = shared(Token::create(NtHandle(1), true).unwrap());
        assert!(shared.may_be_given(1) && own(false).may_be_given(1));
    }

    #[test]
    fn programs_that_share_a_binary_semaphore_count_its_signals_together() {
        let token = Token::create(NtHandle(1), false).unwrap();
        let other = Token::open(token.descriptor().unwrap()).unwrap();
        let [one, other] = [token, other].map(shared);
        assert_eq!((one.signaled(0), other.awaited(0)), (1, 1));
        assert_eq!((other.signaled(0), one.awaited(0)), (2, 2));
    }
}
