//! The OS graphics kernel: all objects of all guests, one file an object.
//!
//! [`Kernel`] is a state machine without I/O: inputs go in, effects come out. It is one adapter's;
//! [`Adapters`] is a host's. A request is parsed
//! in `request`, finds its objects through a `Scope`, and whatever it takes away from an engine
//! goes through `retire`.

mod adapter;
mod adapters;
mod allocation;
mod callbacks;
mod command;
mod context;
mod cross_fences;
mod device;
mod donation;
mod doorbell;
mod error;
mod features;
mod fence_log;
mod fence_pages;
mod fence_storage;
mod fence_waits;
mod gpu_va;
mod guest;
mod handles;
mod hw_queue;
mod inspect;
mod interrupts;
mod kernel;
mod limits;
mod migration;
mod native_fence;
mod node_context;
mod paging;
mod pool;
mod power;
mod process;
mod render;
mod request;
mod residency;
mod retire;
mod rotation;
mod scope;
mod sharing;
mod software_queue;
mod submission;
mod submissions;
mod tdr;
mod termination;
mod trace;
mod waits;

pub use adapters::Adapters;
pub use features::{AdapterError, OsFeatures};
pub use kernel::Kernel;
pub use limits::Limits;
pub use power::PowerPolicy;
pub use tdr::TdrPolicy;
