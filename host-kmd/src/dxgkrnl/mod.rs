// SPDX-License-Identifier: MIT OR Apache-2.0

//! The OS graphics kernel: all objects of all guests.
//!
//! [`Kernel`] is a state machine without I/O: inputs go in, effects come out. It controls one adapter;
//! [`Adapters`] holds the kernels of a host.
//!
//! | room | what is in it |
//! |---|---|
//! | `kernel` | handlers of requests, and the rules that span subsystems. It alone sees every subsystem |
//! | `agent` | what a guest's agent is asked for |
//! | `recovery` | hangs, terminations, and retirement by tickets |
//! | `queue`, `doorbell` | contexts and HW queues; logical doorbells |
//! | `fence`, `memory`, `power` | fences and waits; allocations and paging; D-states and F-states |
//! | `compute`, `video`, `display` | kernels that guests bring; video sessions; what guests show |
//! | `object` | handles, quotas, names, errors |
//!
//! A room uses only rooms below it. A subsystem's fields are private: its methods take ids and narrow borrows, and
//! return outcomes. A subsystem's requests to another go through the kernel's work list.

mod adapters;
mod agent;
mod compute;
mod display;
mod doorbell;
mod fence;
mod kernel;
mod memory;
mod object;
mod power;
mod queue;
mod recovery;
mod video;

pub use adapters::Adapters;
pub use fence::features::{AdapterError, OsFeatures};
pub use kernel::Kernel;
pub use object::limits::Limits;
pub use power::gpus::GpuPowerPolicy;
pub use power::state::PowerPolicy;
pub use recovery::tdr::TdrPolicy;
