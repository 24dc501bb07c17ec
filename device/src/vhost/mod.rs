//! The transport: one guest's vhost-user connection.
//!
//! [`backend::GuestBackend`] follows the front end's life: it attaches the guest to the GPU and to
//! the kernel when the driver sends its first request, and detaches it when the rings stop. The
//! queues only carry bytes: requests go to the kernel, replies and events come back through
//! `port::QueuePort`.

pub mod backend;
mod chain;
mod exit;
mod heap;
mod pages;
mod port;
