// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest is made of: its kernel, and the file system that this boots.

pub mod archive;
mod bz_image;
mod command_line;
pub mod initramfs;
pub mod kernel;
pub mod libraries;
pub mod portable;
pub mod program;
pub mod share;
pub mod systemd;
mod users;
