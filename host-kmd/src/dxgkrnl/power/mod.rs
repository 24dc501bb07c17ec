// SPDX-License-Identifier: MIT OR Apache-2.0

//! Power of the device and its engines.

pub(crate) mod state;
