// SPDX-License-Identifier: MIT OR Apache-2.0

//! The `bellhop` command: what people do with a Bellhop GPU on its host.
//!
//! What runs in a guest is `bellhop-guest`. [`hosted`] starts a daemon and such a guest as
//! processes of their own, `bellhop_vm` a daemon and a virtual machine.

pub mod bench;
pub mod cli;
pub mod container;
pub mod guest_binary;
pub mod harness;
pub mod hosted;
pub mod inspect;
pub mod trace;

pub use cli::manual;
