// SPDX-License-Identifier: MIT OR Apache-2.0

//! The transport: one guest's vhost-user connection.
//!
//! [`connection`] is the connection's thread: it receives the front end's [`messages`] and the guest's kicks, and
//! writes replies and events.
//! Messages are not trusted: [`memory`] maps only memory that exists in full, [`lost_memory`] survives memory that
//! disappears later, [`event`] accepts only eventfds, [`calls`] signals them without waiting, and [`channel`]
//! carries only the device's requests and their answers.
//!
//! [`backend::GuestBackend`] attaches the guest to the GPU and to the kernel when the driver sends its first
//! request, and detaches it when the rings stop. The queues ([`ring`]) only carry bytes: requests go to the
//! kernel, and replies and events come back through the outbox of `port::QueuePort`. [`standing`] is what holds for the guests of a
//! socket, whichever are attached, and [`place`] says how many may be.

pub mod backend;
pub mod calls;
mod chain;
pub mod channel;
pub mod connection;
pub mod event;
mod heap;
pub mod lost_memory;
pub mod memory;
pub mod messages;
mod pages;
pub mod place;
mod port;
pub mod ring;
pub mod standing;
mod takeover;
