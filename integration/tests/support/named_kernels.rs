// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels whose worker does what their entry point says: see `hostile_worker`.

use bellhop_guest::client::Client;
use bellhop_guest_umd::{Arguments, Error, Kernel, KernelError, QueueFault};

/// Any SPIR-V: nobody compiles it.
const SPIRV: &[u8] = include_bytes!("../../../device/worker/kernels/touch.spv");

/// A kernel that does what its entry point says.
pub fn kernel(client: &Client, entry_point: &str) -> Result<Kernel, KernelError> {
    Kernel::from_spirv(&client.device, SPIRV, entry_point).push_constants(8).create()
}

/// Executes a kernel with the address of the client's memory.
pub fn execute(client: &mut Client, kernel: &Kernel) -> Result<(), Error> {
    let mut arguments = Arguments::new();
    arguments.address(client.va(0));
    client.commands.reset();
    client.commands.dispatch_kernel(kernel, [1; 3], &arguments)?;
    let value = client.submit()?;
    client.finish(value)
}

/// Why the queue, or the kernel, was lost.
#[track_caller]
pub fn fault(lost: Result<(), Error>, what: &str) -> QueueFault {
    match lost {
        Err(Error::QueueLost { fault: Some(fault), .. } | Error::KernelFault { fault, .. }) => {
            fault
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// Another queue, after one was lost.
pub fn renew(client: &mut Client) {
    let context = client.device.create_context(0).unwrap();
    client.queue = context.create_user_mode_queue(4096).unwrap();
    client.context = context;
}
