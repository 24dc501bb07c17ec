// SPDX-License-Identifier: MIT OR Apache-2.0

//! The loop in steps, for programs that have no thread for an engine.

use super::{Engine, Next};
use crate::gpu::shared::chip::EnginePort;
use crate::gpu::shared::wake::Woken;
use std::sync::Arc;

impl Engine {
    /// Runs until it is told to stop, or finds no work.
    pub fn run_until_idle(&mut self) {
        self.run_until(|_, _, _| Next::Stop);
    }

    /// Attends, looks at all doorbells, and gives one turn. Returns whether it did something.
    pub fn step(&mut self) -> bool {
        self.with_port(|engine, port| {
            let attends = port.attention.is_raised();
            if attends && engine.attend(port) == Next::Stop {
                return false;
            }
            // All of them in each step, and not some, how many of which the clock says.
            engine.finds_work();
            let executes = engine.give_a_turn(port);
            if !executes {
                engine.clock.pause();
            }
            attends || executes
        })
    }

    /// Falls asleep, unless there is something to do. Returns whether it sleeps.
    pub fn rest(&mut self) -> bool {
        self.with_port(|engine, port| !port.attention.is_raised() && engine.falls_asleep(port))
    }

    /// As if an engine that sleeps was woken: by who raised its attention, or by a guest's kick. Returns whether it is
    /// awake now; who sleeps on has found no work.
    pub fn wake(&mut self) -> bool {
        self.with_port(|engine, port| {
            let woken = if port.attention.is_called() {
                // There is a signal, or there will be one, for each call of an engine that sleeps.
                port.wake.wait(None)
            } else {
                Woken::Kicked
            };
            let is_awake = engine.wakes(port, woken);
            if is_awake {
                engine.doorbells.disarm();
            }
            is_awake
        })
    }

    fn with_port(&mut self, act: impl FnOnce(&mut Self, &EnginePort) -> bool) -> bool {
        let chip = Arc::clone(&self.core.chip);
        let port = chip.engines.get(self.core.index as usize);
        port.is_some_and(|port| act(self, port))
    }
}
