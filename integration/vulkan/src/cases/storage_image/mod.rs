// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images that shaders store in.

mod array;
mod atomic;
mod format;
mod formatless;
mod order;
mod outside;
mod shader;
mod shape;
mod view;

use crate::case::Case;

pub(super) const CASES: &[&[Case]] = &[
    format::CASES,
    shape::CASES,
    view::CASES,
    array::CASES,
    atomic::CASES,
    order::CASES,
    outside::CASES,
    formatless::CASES,
];
