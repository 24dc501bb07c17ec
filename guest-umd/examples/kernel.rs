// SPDX-License-Identifier: MIT OR Apache-2.0

//! Has the GPU square the numbers from 0 to 999, in place.

use bellhop_guest_umd::protocol::control::adapter::EngineType;
use bellhop_guest_umd::protocol::control::allocation::AllocationKind;
use bellhop_guest_umd::protocol::control::gpu_va::Protection;
use bellhop_guest_umd::{Adapter, Arguments, CommandBuffer, Kernel, KernelError};
use std::time::Duration;

/// Each invocation squares one number.
const SQUARE: &str = "
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;

@compute @workgroup_size(64)
fn square(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&numbers) {
        numbers[id.x] *= numbers[id.x];
    }
}
";

fn main() -> Result<(), KernelError> {
    let adapter = Adapter::open_default()?;
    let device = adapter.create_device()?;
    // Fails with what to install, where the host has nothing to run kernels with.
    let kernel = Kernel::from_wgsl(&device, SQUARE).name("square").create()?;

    let memory = device.create_allocation(AllocationKind::SYSTEM, 4096)?;
    let mapping = memory.map(Protection::WRITE)?;
    let numbers: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
    memory.write(0, &numbers)?;

    let mut arguments = Arguments::new();
    arguments.descriptor(mapping.gpu_va(), numbers.len() as u64);
    let mut commands = CommandBuffer::new(&device, 4096)?;
    commands.dispatch_kernel(&kernel, [1000u32.div_ceil(64), 1, 1], &arguments)?;

    let node = adapter.least_used_node(EngineType::THREE_D)?;
    let mut queue = device.create_context(node)?.create_user_mode_queue(4096)?;
    let value = queue.submit(&mut commands)?;
    let done = queue.progress_fence().wait(value, Duration::from_secs(10));
    // A fault names the kernel and the address that it accessed.
    done.map_err(|error| commands.blame(error))?;

    let mut squares = vec![0; numbers.len()];
    memory.read(0, &mut squares)?;
    let (words, _) = squares.as_chunks();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    println!("the squares of the numbers below 1000 add up to {sum}");
    Ok(())
}
