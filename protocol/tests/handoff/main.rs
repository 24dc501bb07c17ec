// SPDX-License-Identifier: MIT OR Apache-2.0

//! Models of the hand-offs: every interleaving and every reordering that the memory model allows,
//! over the types that the product uses.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p bellhop-protocol --release --test handoff`. That
//! they are strong enough is checked too: `cargo xtask mutants` weakens every ordering of these
//! types in turn, and each time a model here must fail.
#![cfg(loom)]

/// Starts a thread that has clones of these variables under their names.
macro_rules! spawn {
    ($($shared:ident),+ => $body:expr) => {{
        $(let $shared = $shared.clone();)+
        loom::thread::spawn(move || $body)
    }};
}

mod attention;
mod doorbell;
mod fence;
mod fence_log;
mod global_doorbell;
mod owner;
mod pending;
mod power;
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

/// Memory that a hand-off hands over, as ring buffers and resources are: plain bytes. A model in
/// which two threads use it at the same time, one of them writing, fails.
struct Bytes(UnsafeCell<()>);

// SAFETY: there is nothing in it to race for. Its accesses only tell loom that they take place.
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

/// The ring that follows is on a page that nobody watches: only the status and the write pointer
/// are shared with the host.
fn ring_dummy_page(queue: &Queue) -> ConnectionStatus {
    let dummy = AtomicU64::new(0);
    queue.push();
    DoorbellWords::new(&dummy, &queue.status).ring(8)
}

/// The engine's second kind of look: at the write pointer, which is the truth where the doorbell
/// word is only a hint.
fn is_written(queue: &Queue) -> bool {
    let written = queue.pointers().written() == 8;
    if written {
        queue.packets.read();
    }
    written
}
