// SPDX-License-Identifier: MIT OR Apache-2.0

//! Asking an engine to go to F1 or to come back. The engine may refuse to go.
//!
//! A refusal can arrive after the next question: the control plane may have restored the engine's power and asked
//! again before it reads that the first question was refused. So each question has a number and a refusal names it;
//! a refusal of an earlier question says nothing about the engine's present state.
//!
//! Source: user-mode work submission, "Engine F-state transitions".

use super::sync::{AtomicU64, Ordering};

/// Bit of a question that asks for power.
const ON: u64 = 1;
/// The number of no question.
const NONE: u64 = 0;

/// The power of one engine. Questions are numbered from 1, each number is used once.
#[derive(Debug)]
pub struct PowerSwitch {
    /// The last question: its number, and [`ON`].
    asked: AtomicU64,
    /// The number of the last refused question.
    refused: AtomicU64,
}

/// A request to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Whether to have power or to give it up.
    pub on: bool,
    /// The question's number; 0 before the first.
    pub transition: u64,
}

impl Default for PowerSwitch {
    fn default() -> Self {
        Self::new()
    }
}

impl PowerSwitch {
    /// An engine that has power and no question.
    #[must_use]
    pub fn new() -> Self {
        Self { asked: AtomicU64::new(ON), refused: AtomicU64::new(NONE) }
    }

    /// Control plane: asks. The caller must then raise the engine's attention
    /// ([`Attention::raise`](super::attention::Attention::raise)), which releases this to [`Self::asked`].
    pub fn ask(&self, asked: Asked) {
        let Asked { on, transition } = asked;
        self.asked.store(transition << 1 | u64::from(on), Ordering::Relaxed);
    }

    /// Engine, once called: the present question, or `None` if its number is `answered`, the last that the engine
    /// answered. The engine need not answer earlier questions. It may be called again for a question that it saw
    /// early, and a second answer would contradict a refusal.
    #[must_use]
    pub fn asked(&self, answered: u64) -> Option<Asked> {
        let asked = self.asked.load(Ordering::Relaxed);
        let asked = Asked { on: asked & ON != 0, transition: asked >> 1 };
        (asked.transition != answered).then_some(asked)
    }

    /// Engine: keeps its power despite a question to give it up. The control plane must then be called, which
    /// releases this to [`Self::take_refusal`].
    pub fn refuse(&self, transition: u64) {
        self.refused.store(transition, Ordering::Relaxed);
    }

    /// Control plane, once called: takes the number of the last question that the engine refused.
    #[must_use]
    pub fn take_refusal(&self) -> Option<u64> {
        let transition = self.refused.swap(NONE, Ordering::Relaxed);
        (transition != NONE).then_some(transition)
    }
}
