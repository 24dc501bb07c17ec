// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing: what a stream says of it is checked, and recorded.

mod commands;
mod counting;
mod current;
mod demands;
mod draws;
mod pipelines;
mod raster;
mod record;
mod renderings;
mod states;
mod structure;
mod transform;

pub use commands::check;
pub use counting::{check_query, check_stored, check_stored_count};
pub use current::Current;
pub use demands::Draws;
pub use draws::check_draw;
pub use pipelines::check_pipeline;
pub use record::{Changed, touch};
pub use renderings::{Rendering, check_clear};
pub use states::check_for;
pub use structure::Structure;
