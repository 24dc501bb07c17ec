// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing: graphics pipelines, renderings, and what draws run on.

mod bounds;
mod draws;
mod pipeline;
mod rendering;
mod states;
mod transform;

pub use bounds::{OfGraphics, OfTransform};
pub use pipeline::Module;
pub use rendering::{Attached, Rendering};
pub use states::is_state;
pub use transform::Stored;
