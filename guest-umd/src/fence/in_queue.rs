// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waiting for fences and signaling them in submission order of a queue for kernel-mode submission.

use crate::device::Device;
use crate::error::Error;
use crate::fence::list::entries;
use crate::fence::object::Fence;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{SignalFromGpu, WaitFromGpu};
use zerocopy::IntoBytes;

/// Holds later submissions of a queue until fences have these values.
pub(crate) fn wait_from_gpu(
    device: &Device,
    queue: Handle,
    fences: &[(&Fence, u64)],
) -> Result<(), Error> {
    let list = entries(fences);
    let request = WaitFromGpu { queue, count: list.len() as u32, reserved: 0 };
    device.session().call_with_list(&request, list.as_bytes())
}

/// Signals fences when all earlier submissions of a queue are done.
pub(crate) fn signal_from_gpu(
    device: &Device,
    queue: Handle,
    fences: &[(&Fence, u64)],
) -> Result<(), Error> {
    let list = entries(fences);
    let request = SignalFromGpu { queue, count: list.len() as u32, reserved: 0 };
    device.session().call_with_list(&request, list.as_bytes())
}
