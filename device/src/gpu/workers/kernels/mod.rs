// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' own kernels.
//!
//! * `table`: the kernels of each address space. The control plane changes them; engines read them without a lock.
//! * `catalogue`: the control plane's side: creates and destroys kernels.
//! * `remembered`: the manager's side: what was compiled before, for each guest apart.

pub mod catalogue;
pub mod kernel;
pub mod module;
pub mod remembered;
pub mod source;
pub mod table;
