// SPDX-License-Identifier: MIT OR Apache-2.0

//! GPUs whose engines have no threads: the thread that plays an input takes them step by step.
//!
//! So what an input does is the same each time, and costs no wake-up. Whoever waits with the rig takes steps meanwhile.

use crate::rig::while_waiting;
use bellhop_device::gpu::{CrossAdapterMemory, Gpu, GpuConfig, SteppedEngine};
use std::cell::RefCell;
use std::sync::Arc;

/// Most rounds of [`run`]: a guest can give an engine work without end, by packets that write its ring.
const ROUNDS: usize = 64;

thread_local! {
    static ENGINES: RefCell<Vec<SteppedEngine>> = const { RefCell::new(Vec::new()) };
    static BESIDE: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// A GPU of this thread.
pub fn start(config: GpuConfig) -> Arc<Gpu> {
    start_chain(vec![config]).remove(0)
}

/// The GPUs of a chain, the master first, which are not linked.
pub fn start_chain(configs: Vec<GpuConfig>) -> Vec<Arc<Gpu>> {
    let memory = Arc::new(CrossAdapterMemory::new(0).unwrap());
    let places = Gpu::chain(&configs).unwrap();
    while_waiting(|| {
        if !round() {
            rest();
        }
    });
    let start = |(config, place)| {
        let (gpu, engines) = Gpu::start_all_stepped(config, Arc::clone(&memory), place).unwrap();
        ENGINES.with_borrow_mut(|all| all.extend(engines));
        gpu
    };
    configs.into_iter().zip(places).map(start).collect()
}

/// Takes one step of each engine of this thread. Returns whether any did something.
pub fn round() -> bool {
    ENGINES.with_borrow_mut(|engines| {
        engines.iter_mut().fold(false, |works, engine| {
            BESIDE.with_borrow_mut(|beside| beside.as_mut().map(|act| act()));
            engine.step() || works
        })
    })
}

/// Takes steps until no engine has work, within reason.
pub fn run() {
    for _ in 0..ROUNDS {
        if !round() {
            break;
        }
    }
}

/// Engines without work fall asleep, so that guests notify them.
pub fn rest() {
    ENGINES.with_borrow_mut(|engines| {
        for engine in engines {
            engine.rest();
        }
    });
}

/// What happens beside the engines as long as this exists.
pub struct Beside(());

impl Beside {
    /// Has `act` called before each step of an engine.
    pub fn begin(act: impl FnMut() + 'static) -> Self {
        BESIDE.set(Some(Box::new(act)));
        Self(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        BESIDE.set(None);
    }
}
