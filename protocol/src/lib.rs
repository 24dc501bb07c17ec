// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! The interface between a Bellhop guest and a Bellhop host.
//!
//! Everything that crosses the boundary is defined here once: the virtio configuration space and features, the BAR,
//! rings and doorbells, command packets, control-queue requests, events and result codes. `docs/protocol.md`
//! describes these layouts byte by byte for authors of other drivers and devices.
//!
//! All integers are little-endian. Bellhop runs on little-endian machines only, which the crate asserts at compile
//! time. The crate is `no_std`, holds no unsafe code and, except for [`handoff`] and [`polling`], no behaviour.
#![cfg_attr(not(loom), no_std)]
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("Bellhop's layouts are little-endian and are used in place");

extern crate alloc;

#[macro_use]
mod open_enum;

pub mod bar;
pub mod broker;
pub mod compositor;
pub mod config;
pub mod control;
pub mod doorbell;
pub mod event;
pub mod features;
pub mod fence_log;
pub mod handoff;
pub mod operator;
pub mod packet;
pub mod pixel_format;
pub mod polling;
pub mod rect;
pub mod ring;
pub mod screen;
pub mod security;
pub mod snapshot;
pub mod status;
pub mod trace;
pub mod vulkan;

/// Bytes in a page: the unit of the BAR's doorbells and of GPU page tables.
pub const PAGE_SIZE: u64 = 4096;

/// Asserts at compile time that a layout has the size and field offsets that `docs/protocol.md` gives.
macro_rules! assert_layout {
    ($type:ty, $size:expr $(, $field:ident at $offset:expr)* $(,)?) => {
        const _: () = {
            assert!(core::mem::size_of::<$type>() == $size);
            $(assert!(core::mem::offset_of!($type, $field) == $offset);)*
        };
    };
}
pub(crate) use assert_layout;
