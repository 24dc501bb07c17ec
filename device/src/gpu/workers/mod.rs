// SPDX-License-Identifier: MIT OR Apache-2.0

//! Worker processes, which do for engines what must not be done in this process. What a worker is for is its role: it
//! executes guests' own kernels, or a video session's packets.
//!
//! * `tenant`: whose a worker is: an address space's, or a session's. A tenant has one role.
//! * `mailboxes`: where the control plane, the manager and engines hand each other orders, workers and outcomes.
//! * `roster`: what tools are told of workers.
//! * `manager`: a thread that starts workers, compiles, loads kernels into workers, and reaps them. Nobody waits for it.
//! * `service`: the manager's thread, as the control plane has it.
//! * `video`: what the role of video has of its own: its sessions.
//! * `kernels`: what the role of kernels has of its own: their content, their numbers, what was compiled before.
//!
//! An engine owns the workers that execute its queues' packets. A worker that the manager has is one in which nothing of
//! a guest's memory is mapped.

pub mod config;
pub mod kernels;
pub mod mailboxes;
pub mod manager;
pub mod roster;
pub mod service;
pub mod tenant;
pub mod tenant_worker;
pub mod video;
