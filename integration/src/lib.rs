//! Test hosts, jobs and the `bellhop` command.
//!
//! [`fake_guest`] stands for a VMM and the kernel of its guest, so that the driver of
//! `bellhop-guest-umd` reaches a `bellhopd` over the real transport without a VM. [`jobs`] is work
//! that a guest does; [`conformance`] is what every guest may rely on; [`hosted`] starts daemon
//! and guest as processes of their own.

pub mod cli;
pub mod conformance;
pub mod fake_guest;
pub mod hosted;
pub mod jobs;
