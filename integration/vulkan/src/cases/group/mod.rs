// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several physical devices as one device.

mod area;
mod count;
mod done;
mod index;
mod mask;
mod memory;
mod object;
mod order;
mod present;

use crate::case::Case;

pub(super) const CASES: &[&[Case]] = &[
    object::CASES,
    mask::CASES,
    index::CASES,
    memory::CASES,
    order::CASES,
    done::CASES,
    area::CASES,
    present::CASES,
];
