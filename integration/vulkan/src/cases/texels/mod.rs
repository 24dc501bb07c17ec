// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers as texels.

mod fetch;
mod limit;
mod store;

use crate::case::Case;

pub(super) const CASES: &[&[Case]] = &[limit::CASES, fetch::CASES, store::CASES];
