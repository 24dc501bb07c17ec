// SPDX-License-Identifier: MIT OR Apache-2.0

//! The security node's worker, which has the keys, and the engine's way to it.
//!
//! * `config`: what the worker is started with.
//! * `mailbox`: where the manager and the engine meet without a lock.
//! * `manager`: a thread that starts the worker, and another when it has ended.
//! * `unit`: the engine's side: one piece of work at a time.
//!
//! The worker has none of the roles of `workers`. Those have a tenant of one guest, find its memory by its addresses and
//! have it mapped as they touch it; each would need the root key, and whoever took one over would have keys and memory
//! both. There is one worker with keys for the adapter, it serves all guests, and it gets no memory of theirs: the engine
//! copies, so that it can refuse to give protected bytes to memory that is not protected. What both kinds share is the
//! program, how it is started, its sockets and the sandbox.

pub mod config;
pub mod mailbox;
pub mod manager;
pub mod unit;
