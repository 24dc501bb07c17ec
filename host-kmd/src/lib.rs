//! The host's half of the control plane: the graphics kernel and the kernel-mode driver.
#![forbid(unsafe_code)]

pub mod hardware;
pub mod port;
