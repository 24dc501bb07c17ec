// SPDX-License-Identifier: MIT OR Apache-2.0

//! Models of the hand-offs: they explore every interleaving and reordering that the memory model allows, on the
//! types that the product uses.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p bellhop-protocol --release --test handoff`. `cargo xtask mutants`
//! checks the models' strength: it weakens every ordering of these types in turn, and each time a model here must
//! fail.
#![cfg(loom)]

/// Spawns a thread that has clones of these variables under their names.
macro_rules! spawn {
    ($($shared:ident),+ => $body:expr) => {{
        $(let $shared = $shared.clone();)+
        loom::thread::spawn(move || $body)
    }};
}

mod attention;
mod doorbell;
mod doorbell_line;
mod drawing;
mod fence;
mod fence_log;
mod global_doorbell;
mod owner;
mod pending;
mod power;
mod promise;
mod publication;
mod quiescence;
mod rotation;
mod run_list;
mod tlb;

use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::doorbell::{DoorbellWords, RingPointers};
use bellhop_protocol::handoff::sync::AtomicU64;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

const KICK: u64 = 1;

/// Memory that a hand-off protects, such as ring buffers and resources: plain bytes. A model fails if two threads
/// access it concurrently and one of them writes.
struct Bytes(UnsafeCell<()>);

// SAFETY: there is no data to race for. The accesses only tell loom that they take place.
#[allow(unsafe_code)]
unsafe impl Sync for Bytes {}

impl Bytes {
    fn new() -> Self {
        Self(UnsafeCell::new(()))
    }

    fn write(&self) {
        self.0.with_mut(|_| ());
    }

    fn read(&self) {
        self.0.with(|_| ());
    }
}

/// A logical doorbell with its ring buffer control, and the engine that serves it.
struct Queue {
    doorbell: AtomicU64,
    status: AtomicU64,
    write: AtomicU64,
    read: AtomicU64,
    packets: Bytes,
    attention: Attention,
}

impl Queue {
    fn new(status: ConnectionStatus) -> Arc<Self> {
        Arc::new(Self {
            doorbell: AtomicU64::new(0),
            status: AtomicU64::new(DoorbellStatus::new(status).0),
            write: AtomicU64::new(0),
            read: AtomicU64::new(0),
            packets: Bytes::new(),
            attention: Attention::new(),
        })
    }

    fn words(&self) -> DoorbellWords<'_> {
        DoorbellWords::new(&self.doorbell, &self.status)
    }

    fn pointers(&self) -> RingPointers<'_> {
        RingPointers::new(&self.write, &self.read)
    }

    /// Guest: puts 8 bytes of packets into the ring.
    fn push(&self) {
        self.packets.write();
        self.pointers().publish(8);
    }
}

/// Guest: rings on a page that no engine watches. It shares only the status and the write pointer with the host.
fn ring_dummy_page(queue: &Queue) -> ConnectionStatus {
    let dummy = AtomicU64::new(0);
    queue.push();
    DoorbellWords::new(&dummy, &queue.status).ring(8)
}

/// The engine's second kind of look: at the write pointer, which is authoritative where the doorbell word is a
/// hint.
fn is_written(queue: &Queue) -> bool {
    let written = queue.pointers().written() == 8;
    if written {
        queue.packets.read();
    }
    written
}
