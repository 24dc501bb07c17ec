// SPDX-License-Identifier: MIT OR Apache-2.0

//! An engine without a thread, for programs that count an engine's instructions (feature `stepped`).
//!
//! The engine is the product's, including its loop. The program calls it after the driver has submitted, and the
//! engine returns when it finds no work, so that the count contains no rounds spent waiting.

use super::engine::main_loop::Engine;
use super::{ChainPlace, CrossAdapterMemory, Gpu, GpuConfig};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::Builder;

/// The first 3D/compute engine of a GPU. It makes no progress between two calls of
/// [`run_until_idle`](Self::run_until_idle), so driver requests that need it wait meanwhile.
#[derive(Debug)]
pub struct SteppedEngine(Engine);

impl SteppedEngine {
    /// Runs the engine's loop up to and including the first round without work.
    #[inline]
    pub fn run_until_idle(&mut self) {
        self.0.run_until_idle();
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
                let sent = first.send(SteppedEngine(engine));
                return sent.map(|()| None).map_err(|_| io::ErrorKind::BrokenPipe.into());
            }
            Builder::new().name(name).spawn(|| engine.run()).map(Some)
        })?;
        gpu.hand.use_own_thread();
        Ok(gpu)
    }
}
