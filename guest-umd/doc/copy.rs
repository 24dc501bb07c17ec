// SPDX-License-Identifier: MIT OR Apache-2.0

use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;
use std::time::Duration;

/// Has the GPU copy a greeting from the guest's own memory into another page of it.
pub fn copy(transport: Arc<dyn Transport>) -> Result<Vec<u8>, Error> {
    let adapter = Adapter::open(transport)?;
    let device = adapter.create_device()?;
    let context = device.create_context(0)?;
    let mut queue = context.create_user_mode_queue(4096)?;

    let source = device.create_allocation(AllocationKind::SYSTEM, 4096)?;
    let destination = device.create_allocation(AllocationKind::SYSTEM, 4096)?;
    let from = source.map(Protection::empty())?;
    let to = destination.map(Protection::WRITE)?;
    source.write(0, b"hello")?;

    let mut commands = CommandBuffer::new(&device, 4096)?;
    commands.copy(from.gpu_va(), to.gpu_va(), 5)?;
    // Plain stores from here to the fence.
    let value = queue.submit(&mut commands)?;
    queue.progress_fence().poll(value, Duration::from_secs(10))?;

    let mut bytes = vec![0; 5];
    destination.read(0, &mut bytes)?;
    Ok(bytes)
}
