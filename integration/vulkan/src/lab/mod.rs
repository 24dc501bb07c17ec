// SPDX-License-Identifier: MIT OR Apache-2.0

//! A safe part of Vulkan that behaviours are written with.
//!
//! A [`Gpu`] owns all that is made with it, and destroys it at its end, when nothing executes any more: so handles may be
//! copied, and name something as long as their `Gpu` is there. A behaviour gives a `Gpu` its own handles alone.

mod bound;
mod content;
mod draw;
mod failure;
mod form;
mod format;
mod gpu;
mod group;
mod image;
mod kernel;
mod machine;
mod memory;
mod messages;
mod names;
mod offer;
mod present;
mod recorder;
mod shader;
mod sharing;
mod submission;
mod texels;
mod view;

pub(crate) use bound::{Bundle, sampled, shown};
pub(crate) use content::bytes_of;
pub(crate) use draw::*;
pub use failure::Failure;
pub(crate) use failure::{Outcome, require, same};
pub(crate) use form::{Form, layers, range};
pub(crate) use format::{Block, Code, Kind, STORED, aspects, block, srgb};
pub(crate) use gpu::{Gpu, PATIENCE, Queue};
pub(crate) use group::Batch;
pub(crate) use image::Image;
pub(crate) use kernel::{Kernel, Module, Slot, module, part, whole};
pub use machine::Lab;
pub(crate) use memory::Buffer;
pub(crate) use present::{Chain, SIDE};
pub(crate) use recorder::Recorder;
pub(crate) use shader::{compile, compile_for_group};
pub(crate) use submission::{At, Submit};
pub(crate) use view::Look;
