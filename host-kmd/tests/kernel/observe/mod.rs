// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel reports to tools.

mod inspect;
mod trace;
