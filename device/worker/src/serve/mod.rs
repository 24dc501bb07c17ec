// SPDX-License-Identifier: MIT OR Apache-2.0

//! The worker's side: serves requests. Standard input is the socket to its owner.
//!
//! The main thread receives requests. It maps and takes back memory at any time, even while a kernel runs, and passes
//! kernels to another thread, which compiles and runs them. A kernel's threads wait for memory in `faults`.

mod executor;
mod faults;
pub mod sandbox;
mod window;

use crate::messages::{Malformed, Map, Ready, Refused, Request, Start, Text, Unmap, Unmapped};
use crate::socket::{receive, send};
use anyhow::{Context, bail, ensure};
use executor::Order;
use rustix::fd::AsFd;
use rustix::stdio::stdin;
use std::ffi::OsStr;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use window::Window;

/// Serves the owner until it closes its end of the socket.
///
/// # Errors
/// When the owner sends something that is no request, or a system call fails.
pub fn serve(loader: &OsStr) -> anyhow::Result<()> {
    sandbox::close_others();
    let Some(first) = receive(stdin())? else { return Ok(()) };
    let Request::Start(start) = Request::read(first.bytes())? else {
        bail!("the first request is not Start");
    };
    let (orders, taken) = channel();
    match prepare(loader, start, taken) {
        Ok((window, pointers)) => {
            send(stdin(), Ready { pointers: u32::from(pointers), reserved: 0 }, None)?;
            converse(&window, &orders)
        }
        Err(error) => {
            let why = Text::new(&format!("{error:#}"));
            Ok(send(stdin(), Refused { why }, None)?)
        }
    }
}

fn prepare(
    loader: &OsStr,
    start: Start,
    orders: std::sync::mpsc::Receiver<Order>,
) -> anyhow::Result<(Window, bool)> {
    let Start { start, length, memory, device, .. } = start;
    // Reserved first, before libraries and threads can occupy these addresses.
    let window = Window::reserve(start, length)?;
    let (sender, ready) = channel();
    let loader = loader.to_owned();
    // If the thread fails, the process ends, because no more answers would reach the owner.
    thread::Builder::new().name("kernels".into()).spawn(move || {
        if executor::run(&loader, device, &sender, &orders).is_err() {
            std::process::exit(1);
        }
    })?;
    let pointers = ready.recv().context("the driver ended the thread")??;
    faults::watch(start, start + length).context("cannot watch for faults")?;
    // By now the driver has loaded its libraries and started its threads.
    sandbox::enter(memory)?;
    Ok((window, pointers))
}

fn converse(window: &Window, orders: &Sender<Order>) -> anyhow::Result<()> {
    while let Some(received) = receive(stdin())? {
        let order = match Request::read(received.bytes())? {
            Request::Start(_) => bail!("a second Start"),
            Request::Load(load) => {
                let spirv = received.descriptor.context("Load without a descriptor")?;
                Order::Load(Box::new(load), spirv)
            }
            Request::Unload(unload) => Order::Unload(unload.kernel),
            Request::Dispatch(dispatch) => Order::Dispatch(Box::new(dispatch)),
            Request::Map(Map { slot, writable, address, length, offset }) => {
                ensure!(writable <= 1, Malformed::Kind(writable));
                let file = received.descriptor.context("Map without a descriptor")?;
                window.map(address, length, (file.as_fd(), offset), writable == 1)?;
                faults::answered(slot);
                continue;
            }
            Request::Unmap(Unmap { address, length }) => {
                window.unmap(address, length)?;
                send(stdin(), Unmapped { address, length }, None)?;
                continue;
            }
        };
        orders.send(order).context("the thread for kernels has ended")?;
    }
    Ok(())
}
