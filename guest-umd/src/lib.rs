//! The user-mode driver of a Bellhop GPU.
#![forbid(unsafe_code)]

pub mod transport;
