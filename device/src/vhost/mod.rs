//! The transport: one guest's vhost-user connection.
//!
//! [`connection`] is the connection's thread: it hears the front end's [`messages`] and takes the guest's kicks.
//! What comes with messages is not trusted: [`memory`] maps what is all there, [`lost_memory`] bears what goes
//! later, [`event`] takes eventfds only, [`calls`] signals them without waiting, and [`channel`] is asked and never
//! listened to otherwise.
//!
//! [`backend::GuestBackend`] follows the front end's life: it attaches the guest to the GPU and to
//! the kernel when the driver sends its first request, and detaches it when the rings stop. The
//! queues, [`ring`], only carry bytes: requests go to the kernel, replies and events come back through
//! `port::QueuePort`.

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
mod port;
pub mod ring;
mod takeover;
