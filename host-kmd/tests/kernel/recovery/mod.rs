// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hangs, faults, and the ends of what guests made.

mod detach;
mod endings;
mod faults;
mod tdr;
mod termination;
