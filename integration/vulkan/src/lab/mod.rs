// SPDX-License-Identifier: MIT OR Apache-2.0

//! A safe part of Vulkan that behaviours are written with.
//!
//! A [`Gpu`] owns all that is made with it, and destroys it at its end, when nothing executes any more: so handles may be
//! copied, and name something as long as their `Gpu` is there. A behaviour gives a `Gpu` its own handles alone.

mod failure;
mod gpu;
mod kernel;
mod machine;
mod memory;
mod messages;
mod recorder;
mod shader;
mod sharing;
mod submission;

pub use failure::Failure;
pub(crate) use failure::{Outcome, require, same};
pub(crate) use gpu::{Gpu, PATIENCE, Queue};
pub(crate) use kernel::{Kernel, Module, Slot, module, part, whole};
pub use machine::Lab;
pub(crate) use memory::Buffer;
pub(crate) use recorder::Recorder;
pub(crate) use shader::compile;
pub(crate) use submission::{At, Submit};
