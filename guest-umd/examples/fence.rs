// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two programs that hand a fence to each other: the second one's GPU work waits for the first one's, and its CPU for both.

use bellhop_guest_umd::protocol::control::fence::NtHandle;
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use std::process::Command;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["second", name] => Ok(second(NtHandle(name.parse()?))?),
        // A container or a VM starts it in the place of another program, with that one's words.
        _ => first(),
    }
}

/// Makes the fence, starts the second program with the fence's name, and lets it go on.
fn first() -> Result<(), Box<dyn std::error::Error>> {
    let adapter = Adapter::open_default()?;
    let device = adapter.create_device()?;
    let fence = device.fence(0).shared().create()?;
    let name = fence.share()?.0.to_string();
    let mut second = Command::new(std::env::current_exe()?).args(["second", &name]).spawn()?;

    let mut queue = device.create_context(0)?.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&device, 4096)?;
    commands.signal_fence(&fence, 1)?;
    queue.submit(&mut commands)?;
    // Published where this program polls it: the fence is this program's.
    fence.poll(2, TIMEOUT)?;
    println!("the second program has signaled it");
    if second.wait()?.success() { Ok(()) } else { Err("the second program failed".into()) }
}

/// Opens the fence by its name. Only whoever was told the name can.
fn second(name: NtHandle) -> Result<(), Error> {
    let adapter = Adapter::open_default()?;
    let device = adapter.create_device()?;
    let fence = device.open_fence(name)?;
    let mut queue = device.create_context(0)?.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&device, 4096)?;
    commands.wait_fence(&fence, 1)?;
    commands.signal_fence(&fence, 2)?;
    queue.submit(&mut commands)?;
    fence.wait(2, TIMEOUT)?;
    println!("the first program has signaled it");
    Ok(())
}
