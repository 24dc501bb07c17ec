// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tools are told.

mod inspect;
mod trace;
