//! The service around the device: `bellhopd`.

pub mod capabilities;
pub mod cli;
pub mod config;
mod daemon;
mod log;
mod manager;
mod readable;
mod relay;
mod socket;

pub use daemon::run;
