// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images, views of them, samplers and buffers of texels: what streams say of them is checked, and Vulkan's objects are
//! made of it.

mod blits;
mod copies;
mod description;
mod made;
mod names;
mod numbers;
mod part;
mod planned;
mod queries;
mod samplers;
mod texels;
mod views;

pub use blits::{check_blit, check_blitted, check_resolve, check_resolved, is_empty};
pub use copies::{Rows, check_clear, check_clear_depth, check_copy, check_depth, check_rows};
pub use description::{check_image, extent_of};
pub use made::Made;
pub use names::Names;
pub use numbers::{Numbers, numbers};
pub use planned::Images;
pub use queries::{check_kind_in_question, check_question, format_of, needs_of};
pub use samplers::check_sampler;
pub use texels::check_texels;
pub use views::{check_attached, check_view};
