// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing: what a stream says of it is checked, and recorded.

mod commands;
mod current;
mod demands;
mod draws;
mod pipelines;
mod raster;
mod record;
mod renderings;
mod states;
mod structure;

pub use commands::check;
pub use current::Current;
pub use demands::Draws;
pub use draws::check_draw;
pub use pipelines::check_pipeline;
pub use record::{Changed, touch};
pub use renderings::{Rendering, check_clear};
pub use states::check_for;
pub use structure::Structure;
