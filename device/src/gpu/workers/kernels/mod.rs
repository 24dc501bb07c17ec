// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' own kernels.
//!
//! * `table`: the kernels of each address space. The control plane changes them; engines read them without a lock.
//! * `catalogue`: the control plane's side: creates and destroys kernels, and remembers what was compiled before.

pub mod catalogue;
pub mod module;
pub mod source;
pub mod table;
