// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a worker does that was taken over: it has its guest's memory, and everything that Linux lets it do. It is in no
//! sandbox, so that nothing here depends on what a sandbox refuses.

use super::Owner;
use bellhop_worker::messages::{Done, Map, Missing, Request, Unmap, Unmapped};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{pread, pwrite};
use rustix::net::{Shutdown, shutdown};
use rustix::stdio::stdin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What a client stores where a worker looks.
pub const GO: u64 = 2;
/// Offset of the word that kernels store in, from the address that they are given.
const WORD: u64 = 0;
/// Of the word that they only look at.
const STOP: u64 = 8;
/// How often a kernel stores while its worker does not find the time to give memory back.
const LATE: u64 = 100;

/// A worker's way to its guest's memory.
#[derive(Default)]
pub struct Memory {
    /// The socket for memory.
    pub socket: Option<OwnedFd>,
    page: Option<Arc<Page>>,
}

/// The page with the word that kernels here touch, while the worker has it.
struct Page {
    address: u64,
    state: Mutex<State>,
    comes: Condvar,
    /// Whether a kernel stores again and again, and how often it has.
    counts: AtomicBool,
    stored: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The file, and the word's offset there.
    place: Option<(OwnedFd, u64)>,
    /// Whether the owner was asked for it.
    is_asked: bool,
}

impl Memory {
    /// Executes a kernel of this module. Returns false if it is none.
    pub fn execute(&mut self, owner: &Owner<'_>, count: u32, name: &str, address: u64) -> bool {
        let ends = Done { count };
        match name {
            // This one is honest, and not fast.
            "run_counts" => self.spawn(address, move |page| {
                let mut stored = 0;
                page.counts.store(true, Ordering::Relaxed);
                while page.load(STOP) != GO {
                    stored += 1;
                    page.store(stored);
                    page.stored.store(stored, Ordering::Relaxed);
                }
                page.counts.store(false, Ordering::Relaxed);
                Owner(stdin()).tell(&ends);
            }),
            "run_continues" => self.spawn(address, |page| {
                refuse_to_stop();
                page.store(1);
            }),
            "run_hangs_up" => self.spawn(address, |page| {
                page.store(1);
                while page.load(WORD) != GO {
                    thread::yield_now();
                }
                let _ = shutdown(stdin(), Shutdown::Both);
            }),
            "run_then_spins" => {
                thread::spawn(spin);
                owner.tell(&ends);
            }
            "run_then_continues" => {
                refuse_to_stop();
                thread::spawn(spin);
                owner.tell(&ends);
            }
            _ => return false,
        }
        true
    }

    fn spawn(&mut self, address: u64, kernel: impl FnOnce(&Page) + Send + 'static) {
        let page = self.page.get_or_insert_with(|| {
            let (state, comes) = (Mutex::default(), Condvar::new());
            let (counts, stored) = (AtomicBool::new(false), AtomicU64::new(0));
            Arc::new(Page { address, state, comes, counts, stored })
        });
        if let Some(socket) = self.socket.take() {
            let page = Arc::clone(page);
            thread::spawn(move || page.obey(&Owner(socket.as_fd())));
        }
        let page = Arc::clone(page);
        thread::spawn(move || kernel(&page));
    }
}

impl Page {
    /// Obeys requests for memory, as an honest worker does.
    fn obey(&self, requests: &Owner<'_>) {
        while let Some((bytes, file)) = requests.hear() {
            match Request::read(&bytes) {
                Ok(Request::Map(Map { address, offset, .. })) => {
                    let mut state = self.state.lock().unwrap();
                    state.place = Some((file.unwrap(), offset + self.address - address));
                    state.is_asked = false;
                    self.comes.notify_all();
                }
                Ok(Request::Unmap(Unmap { address, length })) => {
                    self.await_more();
                    // A kernel that has it holds the lock.
                    self.state.lock().unwrap().place = None;
                    Owner(stdin()).tell(&Unmapped { address, length });
                }
                _ => panic!("a request that is none for memory"),
            }
        }
    }

    /// Waits until a kernel that has the page has stored some more.
    fn await_more(&self) {
        let enough = self.stored.load(Ordering::Relaxed) + LATE;
        while self.counts.load(Ordering::Relaxed) && self.stored.load(Ordering::Relaxed) < enough {
            thread::yield_now();
        }
    }

    /// Reaches the word, for which it waits.
    fn reach<R>(&self, act: impl Fn(&OwnedFd, u64) -> R) -> R {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some((file, offset)) = &state.place {
                return act(file, *offset);
            }
            if !std::mem::replace(&mut state.is_asked, true) {
                Owner(stdin()).tell(&Missing { slot: 0, store: 1, address: self.address });
            }
            state = self.comes.wait(state).unwrap();
        }
    }

    fn store(&self, value: u64) {
        self.reach(|file, offset| pwrite(file, &value.to_le_bytes(), offset + WORD).unwrap());
    }

    fn load(&self, word: u64) -> u64 {
        self.reach(|file, offset| {
            let mut bytes = [0; 8];
            pread(file, &mut bytes, offset + word).unwrap();
            u64::from_le_bytes(bytes)
        })
    }
}

/// From now on each stop of this process is undone. Its own threads could do so only before the last of them has stopped;
/// another process can at any time.
fn refuse_to_stop() {
    let endless = format!("while kill -CONT {}; do :; done", std::process::id());
    let mut command = Command::new("sh");
    command.args(["-c", &endless]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut other = command.spawn().unwrap();
    // It ends soon after this process, which cannot wait for that.
    thread::spawn(move || other.wait());
}

fn spin() {
    loop {
        std::hint::spin_loop();
    }
}
