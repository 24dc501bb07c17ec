// SPDX-License-Identifier: MIT OR Apache-2.0

//! The service around the device: `bellhopd`, and [`Service`], which runs it inside another program.

mod access;
pub mod capabilities;
pub mod cli;
pub mod config;
mod control;
mod daemon;
mod gate;
mod hardening;
mod in_process;
mod kernels;
mod lines;
pub mod manager;
mod operator;
mod peer;
mod readable;
mod screens;
mod security;
mod server;
mod socket;
mod tasks;

pub use crate::control_plane::KernelHandle;
pub use bellhop_host_kmd::hardware::GuestId;
pub use bellhop_host_kmd::port::{Command, CommandError};
pub use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
pub use control::ControlSocket;
pub use daemon::{Log, ToolSockets, run};
pub use in_process::Service;
pub use kernels::Worker;
pub use operator::OperatorSocket;
pub use server::Served;
pub use socket::{Endpoint, bind_privately};
