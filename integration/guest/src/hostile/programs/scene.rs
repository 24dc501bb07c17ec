// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an attack is, and what it knows.

use super::session;
use crate::hostile::Noise;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::transport::broker::Broker;
use std::path::PathBuf;
use std::sync::Arc;

/// What an attacking program knows.
#[derive(Debug)]
pub struct Scene {
    /// Where the broker listens.
    pub socket: PathBuf,
    /// How many programs of its user the broker serves at once.
    pub places: usize,
    /// How many processes a program may have.
    pub processes: usize,
    /// A process of another program's, which it could have guessed.
    pub victim: u32,
    /// Random choices.
    pub noise: Noise,
}

impl Scene {
    /// A connection with the library.
    pub(super) fn library(&self) -> anyhow::Result<Arc<dyn Transport>> {
        // It fails for want of a place, which comes back.
        session::patiently(|| Ok(Broker::connect(&self.socket).ok().map(|broker| broker as _)))
    }
}

/// An attack: returns what the broker let it do and must not.
pub type Attack = fn(&mut Scene) -> anyhow::Result<()>;

/// Attacks of one subject, by name.
pub type Group = &'static [(&'static str, Attack)];
