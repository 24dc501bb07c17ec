// SPDX-License-Identifier: MIT OR Apache-2.0

//! A hostile program: it attacks its guest's broker, and through the broker its guest's other programs.
//!
//! Each attack is bounded, and fails if the program got further than it may.

mod connections;
mod descriptors;
mod extents;
mod file;
mod messages;
mod processes;
mod requests;
mod scribbles;
mod session;
mod work;

pub use session::Session;

use super::Noise;
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
    fn library(&self) -> anyhow::Result<Arc<dyn Transport>> {
        // It fails for want of a place, which comes back.
        session::patiently(|| Ok(Broker::connect(&self.socket).ok().map(|broker| broker as _)))
    }
}

/// An attack: returns what the broker let it do and must not.
pub type Attack = fn(&mut Scene) -> anyhow::Result<()>;

/// Attacks of one subject, by name.
pub type Group = &'static [(&'static str, Attack)];

/// Stores into the program's file, which the device uses meanwhile.
pub const SCRIBBLES: Group = scribbles::ATTACKS;
/// The file itself: its size, seals, pages and mappings.
pub const FILE: Group = file::ATTACKS;
/// Processes of others, of nobody and without end.
pub const PROCESSES: Group = processes::ATTACKS;
/// Requests that are wrong, or not for programs.
pub const REQUESTS: Group = requests::ATTACKS;
/// Memory that is not the program's.
pub const EXTENTS: Group = extents::ATTACKS;
/// Messages that no library sends, and too many of them.
pub const MESSAGES: Group = messages::ATTACKS;
/// Descriptors that nobody asked for.
pub const DESCRIPTORS: Group = descriptors::ATTACKS;
/// Connections: halves of them, and too many.
pub const CONNECTIONS: Group = connections::ATTACKS;
/// Work: without end, with faults, and too much.
pub const WORK: Group = work::ATTACKS;
