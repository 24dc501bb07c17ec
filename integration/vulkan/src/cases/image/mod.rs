// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images: what a device says of them, their memory, and what copies and clears do to them.

mod alias;
mod block;
mod clear;
mod copy;
mod format;
mod layout;
mod limit;
mod linear;
mod memory;
mod model;
mod object;
mod transfer;

use crate::case::Case;

pub(super) const CASES: &[&[Case]] = &[
    format::CASES,
    limit::CASES,
    memory::CASES,
    alias::CASES,
    linear::CASES,
    transfer::CASES,
    copy::CASES,
    block::CASES,
    clear::COLOURS,
    clear::CASES,
    layout::CASES,
    object::CASES,
];
