// SPDX-License-Identifier: MIT OR Apache-2.0

//! An engine is asked to go to F1 or to come back, and may refuse to go.
//!
//! A refusal travels slower than the next question: the control plane may have given the engine its
//! power back, and have asked for it anew, before it reads that the first question was refused. So each
//! question has a number and a refusal names it; one of an earlier question says nothing of the engine
//! as it is now.
//!
//! Source: user-mode work submission, "Engine F-state transitions".

use super::sync::{AtomicU64, Ordering};

/// Bit of a question that asks for power.
const ON: u64 = 1;
/// No question has this number.
const NONE: u64 = 0;

/// The power of one engine. Questions are numbered from 1, and no number is used twice.
#[derive(Debug)]
pub struct PowerSwitch {
    /// The last question: its number, and [`ON`].
    asked: AtomicU64,
    /// The number of the last question that was refused.
    refused: AtomicU64,
}

/// What an engine is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// To have power, or else to give it up.
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
    /// The engine has power, and is asked for nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { asked: AtomicU64::new(ON), refused: AtomicU64::new(NONE) }
    }

    /// Control plane: asks. The engine must then be called
    /// ([`Attention::raise`](super::attention::Attention::raise)), which releases this to [`Self::asked`].
    pub fn ask(&self, asked: Asked) {
        let Asked { on, transition } = asked;
        self.asked.store(transition << 1 | u64::from(on), Ordering::Relaxed);
    }

    /// Engine, once called: what it is asked for now, unless it has answered that, which is the last that it
    /// `answered`. It need not answer the questions before. It may be called again for one that it has seen
    /// early; another answer then would contradict a refusal.
    #[must_use]
    pub fn asked(&self, answered: u64) -> Option<Asked> {
        let asked = self.asked.load(Ordering::Relaxed);
        let asked = Asked { on: asked & ON != 0, transition: asked >> 1 };
        (asked.transition != answered).then_some(asked)
    }

    /// Engine: keeps its power though it was asked to give it up. The control plane must then be called,
    /// which releases this to [`Self::take_refusal`].
    pub fn refuse(&self, transition: u64) {
        self.refused.store(transition, Ordering::Relaxed);
    }

    /// Control plane, once called: the number of the question that the engine refused last, once.
    #[must_use]
    pub fn take_refusal(&self) -> Option<u64> {
        let transition = self.refused.swap(NONE, Ordering::Relaxed);
        (transition != NONE).then_some(transition)
    }
}
