//! What runs in a guest of a Bellhop GPU.
//!
//! The same program runs in a VM, where it drives the device over virtio-pci, and in a container
//! or beside the daemon, where [`fake_guest`] stands for the VMM and the guest's kernel: then the
//! driver of `bellhop-guest-umd` reaches a `bellhopd` over its socket. [`jobs`] is work that a
//! guest does; [`conformance`] is what every guest may rely on; [`hostile`] is a guest that nobody can
//! rely on.

pub mod bench;
mod churn;
pub mod cli;
pub mod conformance;
pub mod fake_guest;
pub mod files;
mod guest;
pub mod hostile;
mod hotplug;
pub mod inspect;
pub mod jobs;
pub mod machine;
pub mod output;
pub mod probe;
pub mod processors;
pub mod timing;
pub mod units;

pub use guest::Guest;
