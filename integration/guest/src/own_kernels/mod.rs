// SPDX-License-Identifier: MIT OR Apache-2.0

//! Work for kernels that are not built in: anybody's kernel on files, and a picture.

mod bench;
pub(crate) mod modules;
mod on_files;
mod picture;

pub use on_files::{Buffers, OnFiles, PushValue, Size, run};
pub use picture::{Picture, draw};
