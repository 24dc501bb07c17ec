// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control plane without a thread (feature `stepped`): it handles what was sent to it when a program calls it.

use super::{Kernels, Mailbox, run};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static MEANWHILE: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// From now on this thread does that while it waits for the control plane: it takes a step of it, and of what it waits for.
pub fn while_waiting(step: fn()) {
    MEANWHILE.set(Some(step));
}

/// Takes that step. Returns false if the control plane has a thread of its own.
pub(super) fn step() -> bool {
    let step = MEANWHILE.get();
    if let Some(step) = step {
        step();
    }
    step.is_some()
}

/// The control plane's task.
pub struct SteppedControlPlane {
    task: Pin<Box<dyn Future<Output = ()>>>,
    /// It has the clock, and runs nothing.
    runtime: Runtime,
}

impl SteppedControlPlane {
    /// The control plane of these kernels. Nothing wakes it.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub fn new(kernels: impl Kernels + 'static, mailbox: Mailbox) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        Ok(Self { task: Box::pin(run(kernels, mailbox)), runtime })
    }

    /// Handles everything that was sent to it.
    pub fn step(&mut self) {
        let _context = self.runtime.enter();
        // It ends with its last handle, and is not called after that.
        let _ = self.task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}
