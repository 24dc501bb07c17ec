// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' own kernels, which worker processes execute.
//!
//! * `table`: the kernels of each address space. The control plane changes them; engines read them without a lock.
//! * `catalogue`: the control plane's side: creates and destroys kernels, and remembers what was compiled before.
//! * `desk`: where the control plane, the manager and engines hand each other orders, workers and outcomes.
//! * `roster`: what tools are told of workers.
//! * `manager`: a thread that starts workers, compiles, loads kernels into workers, and buries them. Nobody waits for it.
//!
//! An engine owns the workers that execute its queues' kernels. A worker that the manager has is one in which nothing of
//! a guest's memory is mapped.

pub mod catalogue;
pub mod config;
pub mod desk;
pub mod held;
pub mod manager;
pub mod module;
pub mod roster;
pub mod source;
pub mod table;
