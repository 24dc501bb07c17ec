// SPDX-License-Identifier: MIT OR Apache-2.0

//! Has the GPU copy a greeting from one page of the guest's own memory into another.

use bellhop_guest_umd::protocol::control::allocation::AllocationKind;
use bellhop_guest_umd::protocol::control::gpu_va::Protection;
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use std::time::Duration;

fn main() -> Result<(), Error> {
    let adapter = Adapter::open_default()?;
    let device = adapter.create_device()?;
    let mut queue = device.create_context(0)?.create_user_mode_queue(4096)?;

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

    let mut bytes = [0; 5];
    destination.read(0, &mut bytes)?;
    println!("the GPU copied: {}", String::from_utf8_lossy(&bytes));
    Ok(())
}
