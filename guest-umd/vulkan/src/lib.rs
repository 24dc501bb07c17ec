// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! A Vulkan driver for guests: `libvulkan_bellhop.so`, which the Vulkan loader loads, so that any Vulkan program submits
//! work to a Bellhop GPU with plain memory stores.
//!
//! ```text
//!  vkCmd*        ---> commands in memory of the GPU ------------ the worker reads them when their packet is executed
//!  vkQueueSubmit ---> ring: [ WAIT_FENCE | EXECUTE_COMMANDS | SIGNAL_FENCE ] and one doorbell
//!  vkWaitForFences <- progress fence of the queue; vkWaitSemaphores: a native fence
//! ```
//!
//! | Vulkan | here |
//! |---|---|
//! | physical device | the adapter, opened once in a process ([`physical_device`]) |
//! | queue | a context and a queue for user-mode submission ([`queue`]) |
//! | memory, buffer, image | an allocation that never moves; a part of it ([`memory`], [`buffer`], `image`) |
//! | view, sampler | a description in memory that the worker reads (`image`) |
//! | command buffer | commands of [`bellhop_protocol::vulkan`] ([`command`]) |
//! | descriptor set, pipeline | descriptions in memory that the worker reads ([`descriptor`], [`pipeline`]) |
//! | fence | a queue and a value of its progress fence ([`fence`]) |
//! | semaphore | a native fence ([`semaphore`]) |
//!
//! Entry points are functions of C. Programs keep Vulkan's rules for valid usage, so their handles and pointers are what the
//! rules say; the host trusts none of it. A panic in an entry point ends the program and unwinds into none.
//!
//! The driver tells a program's messengers (`VK_EXT_debug_utils`) why there is no device, and why one was lost; with the variable
//! `BELLHOP_VULKAN_DEBUG` set, standard error, too. It prints nothing else.

mod attached;
pub mod buffer;
pub mod command;
mod creation;
mod debug;
pub mod descriptor;
pub mod device;
pub mod entry;
pub mod event;
pub mod fence;
pub mod handle;
pub mod heap;
mod image;
pub mod instance;
mod list;
pub mod loader;
pub mod memory;
mod messengers;
mod names;
mod numbered;
mod pages;
pub mod physical_device;
pub mod pipeline;
pub mod private_data;
pub mod query;
pub mod queue;
mod raw;
mod rendering;
pub mod semaphore;
mod surface;
mod unsupported;
