//! The user-mode driver of a Bellhop GPU.
//!
//! A program opens an [`Adapter`] over a [`Transport`](transport::Transport), creates a
//! [`Device`], a [`Context`] against a node and a [`UserModeQueue`], and then submits
//! [`CommandBuffer`]s with plain memory stores: no system call, no lock and no allocation stands
//! between [`UserModeQueue::submit`] and the fence that tells it is done.
//!
//! ```
#![doc = include_str!("../doc/copy.rs")]
//! ```

mod adapter;
mod allocation;
mod areas;
mod basic_context;
mod basic_plus_plus_context;
mod command_buffer;
mod context;
mod device;
mod donation;
mod doorbell;
mod error;
mod events;
mod fallback_queue;
mod fence;
mod hw_queue;
mod kernel_mode_queue;
mod node_context;
mod paged;
mod placement;
mod render_buffer;
mod reservation;
mod ring;
mod session;
pub mod transport;
mod user_mode_queue;
mod virtual_context;

pub use adapter::{Adapter, EscapedObjects};
pub use allocation::{Allocation, GpuMapping};
pub use basic_context::BasicContext;
pub use basic_plus_plus_context::BasicPlusPlusContext;
pub use command_buffer::CommandBuffer;
pub use context::Context;
pub use device::Device;
pub use doorbell::DoorbellCounters;
pub use error::{Error, QueueFault};
pub use fallback_queue::{FallbackQueue, Submission};
pub use fence::Fence;
pub use hw_queue::FenceLogs;
pub use kernel_mode_queue::KernelModeQueue;
pub use paged::{AllocationBuilder, LockedBytes};
pub use placement::{AccessCost, Costs, Placement, PlacementPolicy, Placements};
pub use render_buffer::{Place, RenderBuffer};
pub use reservation::Reservation;
pub use user_mode_queue::UserModeQueue;
pub use virtual_context::VirtualContext;
