// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control plane as a task: one task owns the kernels of all adapters, and other threads and tasks send it
//! messages.
//!
//! A single owner needs no lock, and so there is no lock order. The kernels do no I/O and have no clock: the task
//! takes their inputs from a mailbox, tells them the time, and executes their effects. The mailbox is unbounded in
//! type and bounded in fact: each request in it holds a descriptor of its guest's control queue until the request
//! is answered, and interrupts are one flag, since all adapters share one interrupt line.

mod clock;
mod handle;
#[cfg(feature = "stepped")]
mod stepped;
mod task;
#[cfg(test)]
mod tests;

pub(crate) use handle::end_of;
pub use handle::{KernelHandle, Mailbox, channel};
#[cfg(feature = "stepped")]
pub use stepped::{SteppedControlPlane, while_waiting};
pub use task::{Kernels, run};
