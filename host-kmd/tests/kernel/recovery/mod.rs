// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hangs, faults, and the destruction of what guests created.

mod detach;
mod endings;
mod faults;
mod inside;
mod meanwhile;
mod tdr;
mod termination;
