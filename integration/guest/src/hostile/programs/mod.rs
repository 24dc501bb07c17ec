// SPDX-License-Identifier: MIT OR Apache-2.0

//! A hostile program: it attacks its guest's broker, and through the broker its guest's other programs.
//!
//! Each attack is bounded, and fails if the program got further than it may.

mod campaign;
mod connections;
mod descriptors;
mod extents;
mod file;
mod messages;
mod processes;
mod requests;
mod scene;
mod scribbles;
mod session;
mod work;

pub use campaign::{Campaign, CampaignReport, Tried};
pub use requests::{OF_GUEST, OF_NOBODY};
pub use scene::{Attack, Group, Scene};
pub use session::Session;

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
