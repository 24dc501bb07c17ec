// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that does the tasks of a role without Vulkan, one at a time.

use super::executor::Abilities;
use super::memory::Memory;
use super::shared::Shared;
use crate::messages::{Answer, MAX_ANSWER, MAX_REQUEST, Task};
use crate::socket::{receive, send};
use anyhow::{Context, ensure};
use rustix::net::RecvFlags;
use rustix::stdio::stdin;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;

/// What a role does with its tasks.
pub trait Tasks {
    /// Does a task, and returns what the owner is to know of it: at most `MAX_ANSWER` bytes. Everything in a task that came
    /// from a guest is checked here again: the owner checks only what concerns other guests.
    ///
    /// # Errors
    /// When the worker cannot go on: it ends, and what it remembered is lost.
    fn task(&mut self, task: &[u8], memory: &Memory) -> anyhow::Result<Vec<u8>>;
}

/// Prepares a role, before the sandbox is entered, and reports that or why it failed. When told to `go`, does the owner's
/// tasks until the socket closes.
///
/// # Errors
/// When the owner sends something that is no task, the role cannot go on, or a system call fails.
pub fn run<T: Tasks>(
    prepare: impl FnOnce() -> anyhow::Result<T>,
    window: Range<u64>,
    shared: &Shared,
    ready: &Sender<anyhow::Result<Abilities>>,
    go: &Receiver<()>,
) -> anyhow::Result<()> {
    let prepared = prepare();
    let abilities = Abilities { pointers: false, resident: false };
    let (said, role) = match prepared {
        Ok(role) => (Ok(abilities), Some(role)),
        Err(error) => (Err(error), None),
    };
    ready.send(said)?;
    let (Some(mut role), Ok(())) = (role, go.recv()) else {
        // The main thread tells the owner, and ends the process.
        loop {
            thread::park();
        }
    };
    let memory = Memory::new(window);
    let mut buffer = vec![0; MAX_REQUEST];
    while let Some(received) = receive(stdin(), &mut buffer, RecvFlags::empty())? {
        let task = Task::read(received.alone()?)?;
        shared.memory.wait(task.memory);
        let said = role.task(task.bytes, &memory).context("a task cannot be done")?;
        ensure!(said.len() <= MAX_ANSWER, "an answer is too long");
        send(stdin(), Answer::new(&said), None)?;
    }
    Ok(())
}
