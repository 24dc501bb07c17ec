// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines without threads (feature `stepped`), for programs that count an engine's instructions, and for fuzz targets.
//!
//! The engines are the product's, including their loop. A program that counts calls an engine after the driver has
//! submitted, and the engine returns when it finds no work, so that the count contains no rounds spent waiting. A fuzz
//! target takes engines step by step on its own thread: what an input does is the same each time, and no thread has to
//! be woken.

use super::engine::main_loop::Engine;
use super::{ChainPlace, CrossAdapterMemory, Gpu, GpuConfig};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::Builder;

/// An engine of a GPU. It makes no progress between two calls, so driver requests that need it wait meanwhile.
#[derive(Debug)]
pub struct SteppedEngine {
    engine: Engine,
    is_asleep: bool,
}

impl SteppedEngine {
    fn new(engine: Engine) -> Self {
        Self { engine, is_asleep: false }
    }

    /// Runs the engine's loop up to and including the first round without work.
    #[inline]
    pub fn run_until_idle(&mut self) {
        self.engine.run_until_idle();
    }

    /// One round of the engine's loop: it attends to who called it, looks at its doorbells and gives one turn. An engine
    /// that sleeps wakes first, if something wakes it. Returns whether it did something.
    pub fn step(&mut self) -> bool {
        if self.is_asleep && !self.engine.wake() {
            return false;
        }
        let has_woken = std::mem::take(&mut self.is_asleep);
        self.engine.step() || has_woken
    }

    /// What an engine does that has had no work for its time: it asks guests to notify, and sleeps unless there is work
    /// after all. Returns whether it sleeps.
    pub fn rest(&mut self) -> bool {
        if !self.is_asleep {
            self.is_asleep = self.engine.rest();
        }
        self.is_asleep
    }
}

impl Gpu {
    /// Starts a GPU as [`Self::start_in_chain`] does, but sends its first engine to the caller.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_stepped(
        config: GpuConfig,
        cross_adapter: Arc<CrossAdapterMemory>,
        place: ChainPlace,
        first: &Sender<SteppedEngine>,
    ) -> io::Result<Arc<Self>> {
        let mut is_first = true;
        let gpu = Self::start_engines(config, cross_adapter, place, |name, engine| {
            if std::mem::take(&mut is_first) {
                let sent = first.send(SteppedEngine::new(engine));
                return sent.map(|()| None).map_err(|_| io::ErrorKind::BrokenPipe.into());
            }
            Builder::new().name(name).spawn(|| engine.run()).map(Some)
        })?;
        gpu.hand.use_own_thread();
        Ok(gpu)
    }

    /// Starts a GPU as [`Self::start_in_chain`] does, but returns all of its engines to the caller.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_all_stepped(
        config: GpuConfig,
        cross_adapter: Arc<CrossAdapterMemory>,
        place: ChainPlace,
    ) -> io::Result<(Arc<Self>, Vec<SteppedEngine>)> {
        let mut engines = Vec::new();
        let gpu = Self::start_engines(config, cross_adapter, place, |_, engine| {
            engines.push(SteppedEngine::new(engine));
            Ok(None)
        })?;
        gpu.hand.use_own_thread();
        Ok((gpu, engines))
    }
}
