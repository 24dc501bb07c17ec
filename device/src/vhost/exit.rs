//! How a vring worker is told to end.

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::io;
use std::sync::Mutex;
use vmm_sys_util::event::{
    EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier,
};

/// The event that ends a guest's vring worker.
///
/// `vhost-user-backend` adds the consumer to its epoll set and forgets it. This type remembers
/// the descriptor and closes it, so that a daemon that serves guest after guest does not run out
/// of descriptors.
#[derive(Debug, Default)]
pub(super) struct ExitEvent {
    forgotten: Mutex<Option<RawFd>>,
}

impl ExitEvent {
    /// The pair that `VhostUserBackend::exit_event` returns. Called once a worker; there is one.
    pub(super) fn create(&self) -> io::Result<(EventConsumer, EventNotifier)> {
        let (consumer, notifier) =
            new_event_consumer_and_notifier(EventFlag::CLOEXEC | EventFlag::NONBLOCK)?;
        if let Ok(mut forgotten) = self.forgotten.lock() {
            *forgotten = Some(consumer.as_raw_fd());
        }
        Ok((consumer, notifier))
    }
}

impl Drop for ExitEvent {
    fn drop(&mut self) {
        let forgotten = self.forgotten.get_mut().map(Option::take);
        if let Ok(Some(descriptor)) = forgotten {
            // SAFETY: the descriptor was open when `create` recorded it, and its only owner since
            // is `VringEpollHandler::new`, which takes it by `into_raw_fd` and never closes it.
            // That handler is gone: the daemon that held it also held this backend.
            #[expect(unsafe_code, reason = "takes back a descriptor that a crate forgets")]
            drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
}
