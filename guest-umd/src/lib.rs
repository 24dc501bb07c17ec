// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! The user-mode driver of a Bellhop GPU: a program submits work with plain memory stores, and polls memory for its
//! completion.
//!
//! ```text
//!  program            memory that both sides access             engine
//!  -------            ----------------------------              ------
//!  CommandBuffer ---> packets <-------------------------------- fetches
//!  submit()      ---> ring: [ buffer | buffer | fence = 7 ] <-- reads, and moves the read pointer
//!                ---> write pointer <-------------------------- compares
//!                ---> doorbell <------------------------------- watches; its status says whether
//!                                                               the engine is awake
//!  poll(7)       ---> progress fence: 6, then 7 <-------------- stores when the work is done
//! ```
//!
//! The path from [`UserModeQueue::submit`] to [`Fence::poll`] has no system call, no lock and no allocation. The
//! control queue, on which each request is a round trip, creates objects, connects doorbells, and wakes a sleeping
//! engine or a blocked thread ([`Fence::wait`]).
//!
//! # Objects
//!
//! | object | purpose | created by |
//! |---|---|---|
//! | [`Adapter`] | a process on the GPU, with its own handles and GPU virtual addresses | [`Adapter::open_default`]; [`Adapter::open`], over a [`Transport`](transport::Transport) |
//! | [`Device`] | owner of memory, fences and contexts | [`Adapter::create_device`] |
//! | [`Allocation`] | memory that the GPU can access | [`Device::create_allocation`], [`Device::allocation`] |
//! | [`Fence`] | a 64-bit value that engines and CPUs signal and wait for | [`Device::create_fence`], [`Device::fence`] |
//! | [`Kernel`] | a program in SPIR-V or WGSL that the device compiled | [`Kernel::from_spirv`], `Kernel::from_wgsl` |
//! | [`Display`](display::Display) | monitors, flips and VSYNC, where the guest has a display | [`Adapter::display`] |
//! | [`VideoDecoder`](video::VideoDecoder), [`VideoEncoder`](video::VideoEncoder) | a stream that is decoded or encoded | their `new` |
//! | [`SecureSession`](security::SecureSession) | protected memory, sealing and attestation, where the host has a security node | [`SecureSession::new`](security::SecureSession::new) |
//! | [`CommandBuffer`] | packets for an engine | [`CommandBuffer::new`] |
//! | [`Context`] | the unit of scheduling, on one node | [`Device::create_context`] |
//! | [`UserModeQueue`] | a ring and its doorbell | [`Context::create_user_mode_queue`], [`Context::user_mode_queue`] |
//! | [`KernelModeQueue`] | submission by request, where there is no shared memory | [`Context::create_kernel_mode_queue`], [`Context::kernel_mode_queue`] |
//! | [`FallbackQueue`] | a user-mode queue while it works, then a kernel-mode queue | [`Context::create_fallback_queue`] |
//!
//! `create_x` creates an x with the usual properties; `x` returns a builder for one, and `create` creates it. An
//! object is destroyed on drop, and keeps alive the object that it was created on. Older models of submission have
//! their own contexts: [`BasicContext`], [`BasicPlusPlusContext`], [`VirtualContext`].
//!
//! Sizes and offsets are in bytes. GPU virtual addresses are 64-bit numbers, valid in one process. Packets, rings
//! and requests have the layouts of [`bellhop_protocol`].
//!
//! # Errors
//!
//! Every function fails with [`Error`], or with the error of its subject, which holds an [`Error`] where a request or a
//! submission failed: [`KernelError`], [`DisplayError`](display::DisplayError), [`VideoError`](video::VideoError),
//! [`SecurityError`](security::SecurityError), [`TransportError`](transport::TransportError). [`Error::Refused`] carries the device's status for one request.
//! [`Error::QueueLost`] ends a queue and nothing else. After an error for which [`Error::is_device_gone`] returns
//! true, the program must open its transport and adapter again. Any function that sends a request may fail with the
//! common errors [`Error::Transport`] and [`Error::BadReply`]; `# Errors` sections name only the others.
//!
//! # Example
//!
//! `cargo run --package bellhop-guest-umd --example copy` runs it; docs/programs.md says with what device.
//!
//! ```no_run
#![doc = include_str!("../examples/copy.rs")]
//! ```
//!
//! # Kernels
//!
//! A device that has a Vulkan runs kernels of the program's own, in SPIR-V or (feature `wgsl`) in WGSL: see [`Kernel`].
//! [`Adapter::kernel_caps`] says whether this one does, and why if it does not.
//!
#![cfg_attr(feature = "wgsl", doc = "```no_run")]
#![cfg_attr(not(feature = "wgsl"), doc = "```ignore")]
#![doc = include_str!("../examples/kernel.rs")]
//! ```
//!
//! # Display
//!
//! A guest to which its host has given a display shows pictures: see [`display`].
//!
//! ```no_run
#![doc = include_str!("../examples/display.rs")]
//! ```
//!
//! # Video
//!
//! A device with video nodes decodes and encodes AV1: see [`video`].
//!
//! # Raw access
//!
//! Programs that test a device enable the feature `raw`, which adds a module of that name with ways around the
//! driver's rules. Without the feature, a program cannot misuse a ring:
#![cfg_attr(not(feature = "raw"), doc = "```compile_fail,E0599")]
#![cfg_attr(feature = "raw", doc = "```ignore")]
//! # fn f(queue: &mut bellhop_guest_umd::UserModeQueue) {
//! queue.queue_raw(&[0; 8]);
//! # }
//! ```
//!
//! Source: user-mode work submission; native GPU fence object.

mod adapter;
pub mod agent;
mod commands;
mod context;
mod device;
pub mod display;
mod error;
mod fence;
mod kernel;
mod link;
mod memory;
mod queue;
#[cfg(feature = "raw")]
pub mod raw;
pub mod security;
pub mod transport;
pub mod video;

pub use adapter::{Adapter, EscapedObjects};
pub use bellhop_protocol as protocol;
pub use commands::command_buffer::CommandBuffer;
pub use commands::render_buffer::{Place, RenderBuffer};
pub use context::basic::BasicContext;
pub use context::basic_plus_plus::BasicPlusPlusContext;
pub use context::hardware::Context;
pub use context::virtual_addressing::VirtualContext;
pub use device::Device;
pub use error::{Error, QueueFault};
pub use fence::builder::{FenceBuilder, kind as fence_kind};
pub use fence::object::Fence;
pub use kernel::arguments::Arguments;
pub use kernel::builder::KernelBuilder;
pub use kernel::error::KernelError;
pub use kernel::object::Kernel;
pub use link::placement::{AccessCost, Costs, Placement, PlacementPolicy, Placements};
pub use link::words::Words;
pub use memory::allocation::Allocation;
pub use memory::lock::LockedBytes;
pub use memory::mapping::GpuMapping;
pub use memory::paged::AllocationBuilder;
pub use memory::reservation::Reservation;
pub use queue::doorbell::DoorbellCounters;
pub use queue::fallback::{FallbackQueue, Submission};
pub use queue::hw_queue::FenceLogs;
pub use queue::kernel_mode::{KernelModeQueue, KernelModeQueueBuilder};
pub use queue::small_packets::SmallPackets;
pub use queue::user_mode::{UserModeQueue, UserModeQueueBuilder};
