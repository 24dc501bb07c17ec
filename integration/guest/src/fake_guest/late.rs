// SPDX-License-Identifier: MIT OR Apache-2.0

//! Changes of the window that take effect some time after they were acknowledged, as behind QEMU: until
//! then, the guest's stores go to the old place.

use crate::output::note;
use bellhop_guest_umd::raw::front_end::Place;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A change of a part of the window.
pub(super) struct Change {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The file and the offset in it, or nothing.
    pub(super) file: Option<(OwnedFd, u64)>,
}

/// The thread that makes due changes, in their order.
pub(super) struct LateChanges {
    changes: Option<Sender<(Instant, Change)>>,
    thread: Option<JoinHandle<()>>,
    delay: Duration,
}

impl LateChanges {
    pub(super) fn new(place: Place, delay: Duration) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let thread = Builder::new()
            .name("vmm-late-changes".into())
            .spawn(move || make_when_due(&place, &receiver))?;
        Ok(Self { changes: Some(sender), thread: Some(thread), delay })
    }

    pub(super) fn add(&self, change: Change) {
        if let Some(changes) = &self.changes {
            // The thread ends only when the sender is gone.
            let _ = changes.send((Instant::now() + self.delay, change));
        }
    }
}

fn make_when_due(place: &Place, changes: &Receiver<(Instant, Change)>) {
    let mut waiting: VecDeque<(Instant, Change)> = VecDeque::new();
    loop {
        let received = match waiting.front() {
            None => changes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some((due, _)) => changes.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(change) => waiting.push_back(change),
            Err(RecvTimeoutError::Timeout) => {
                let Some((_, Change { offset, length, file })) = waiting.pop_front() else {
                    continue;
                };
                let file = file.as_ref().map(|(file, start)| (file.as_fd(), *start));
                if let Err(error) = place.replace(offset, length, file) {
                    note(format_args!("a late change of the BAR: {error}"));
                }
            }
            // The window is about to be emptied.
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Drop for LateChanges {
    fn drop(&mut self) {
        drop(self.changes.take());
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that panics.
            let _ = thread.join();
        }
    }
}
