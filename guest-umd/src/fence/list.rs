// SPDX-License-Identifier: MIT OR Apache-2.0

//! The list of fences and values in requests.

use crate::fence::object::Fence;
use bellhop_protocol::control::fence::FenceValue;

pub(crate) fn entries(fences: &[(&Fence, u64)]) -> Vec<FenceValue> {
    fences
        .iter()
        .map(|(fence, value)| FenceValue { fence: fence.handle(), value: *value })
        .collect()
}
