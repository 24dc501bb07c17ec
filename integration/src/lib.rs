//! The `bellhop` command: what people do with a Bellhop GPU on its host.
//!
//! What runs in a guest is `bellhop-guest`; [`hosted`] starts a daemon and such a guest as
//! processes of their own.

pub mod cli;
pub mod guest_binary;
pub mod hosted;
