// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver against a device that follows a test's script: the submission path, waiting, opening, lifetimes of
//! objects, and devices that lie.

mod device;
mod donation;
mod doorbell_line;
mod fallback;
mod hostile;
mod kernels;
mod lifetime;
mod names;
mod node_contexts;
mod not_rung;
mod opening;
mod packets;
mod paged;
#[cfg(feature = "raw")]
mod raw;
mod retrying;
mod rig;
mod ring;
mod submission;
mod waiting;
