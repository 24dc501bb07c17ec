// SPDX-License-Identifier: MIT OR Apache-2.0

//! A worker's way to its guest's memory: one run of pages, mapped when a kernel first reaches it.

use super::mapping::Mapping;
use super::owner::Owner;
use bellhop_worker::messages::{Map, Missing, Request, Unmap, Unmapped};
use rustix::fd::{AsFd, OwnedFd};
use rustix::stdio::stdin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Offset of the word that kernels store in, from the address that they are given.
pub const WORD: u64 = 0;
/// Of the word that they only look at.
pub(super) const STOP: u64 = 8;
/// Of the word with what came of their attempts.
pub const RESULT: u64 = 16;
/// What a client stores where a worker looks.
pub const GO: u64 = 2;
/// How often a kernel that counts stores while its worker does not find the time to give memory back.
const LATE: u64 = 100;

/// A guest's memory, as far as the worker has it.
#[derive(Default)]
pub(super) struct Memory {
    state: Mutex<State>,
    comes: Condvar,
    /// Whether a kernel stores again and again, and how often it has.
    pub(super) counts: AtomicBool,
    pub(super) stored: AtomicU64,
}

#[derive(Default)]
struct State {
    run: Option<Run>,
    /// Whether the owner was asked for it.
    is_asked: bool,
    /// Whether a kernel has ever reached for memory.
    is_wanted: bool,
}

/// Pages that the owner has given.
pub(super) struct Run {
    /// The address of the first.
    start: u64,
    pub(super) mapping: Mapping,
    pub(super) part: Part,
}

/// Where they are in a file.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) file: Arc<OwnedFd>,
    pub(super) offset: u64,
    pub(super) length: usize,
}

impl Part {
    /// Maps it.
    pub(super) fn map(&self) -> rustix::io::Result<Mapping> {
        Mapping::of_file(&*self.file, self.offset, self.length)
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Obeys requests for memory, as an honest worker does, once a kernel has reached for some. Kernels that are merely broken
    /// do not.
    pub(super) fn obey(&self, socket: &OwnedFd) {
        let state = self.comes.wait_while(self.state(), |state| !state.is_wanted);
        drop(state);
        let requests = Owner(socket.as_fd());
        while let Some((bytes, file)) = requests.hear() {
            match (Request::read(&bytes), file) {
                (Ok(Request::Map(Map { address, offset, length, .. })), Some(file)) => {
                    let part = Part { file: Arc::new(file), offset, length: length as usize };
                    let mut state = self.state();
                    state.run =
                        part.map().ok().map(|mapping| Run { start: address, mapping, part });
                    state.is_asked = false;
                    self.comes.notify_all();
                }
                (Ok(Request::Unmap(Unmap { address, length })), _) => {
                    self.await_more();
                    // A kernel that has it holds the lock.
                    self.state().run = None;
                    Owner(stdin()).tell(&Unmapped { address, length });
                }
                _ => return,
            }
        }
    }

    /// Waits until a kernel that counts has stored some more.
    fn await_more(&self) {
        let enough = self.stored.load(Ordering::Relaxed) + LATE;
        while self.counts.load(Ordering::Relaxed) && self.stored.load(Ordering::Relaxed) < enough {
            thread::yield_now();
        }
    }

    /// Does something with the run that has this address, for which it waits, and the address's offset there.
    pub(super) fn reach<R>(&self, address: u64, act: impl Fn(&Run, usize) -> R) -> R {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_wanted, true) {
            self.comes.notify_all();
        }
        loop {
            if let Some(run) = &state.run
                && let Some(offset) = run.offset_of(address)
            {
                return act(run, offset);
            }
            if !std::mem::replace(&mut state.is_asked, true) {
                Owner(stdin()).tell(&Missing { slot: 0, store: 1, address });
            }
            state = self.comes.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Run {
    fn offset_of(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        (offset < self.part.length).then_some(offset)
    }
}
