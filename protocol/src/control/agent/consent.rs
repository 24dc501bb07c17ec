// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an agent asks other programs for before it acts: consent to another topology, and to leave the device.
//!
//! Source: Windows KMD overview, "EEU" ("Change the topology", "Trigger PnP Stop/Starts").

use super::{AgentAnswer, AgentTopology};
use crate::control::request;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The longest that programs may be given for an answer, in milliseconds: so long an agent has itself.
pub const MOST_PATIENCE_MS: u32 = 10_000;

/// The agent asks every process that shows something for its consent to a topology. The reply comes when all have
/// answered or let go of their sources, when one has refused, or when the time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AskForConsent {
    /// What the monitors shall show.
    pub topology: AgentTopology,
    /// As in [`AskAgent`](super::AskAgent).
    pub connector: u32,
    /// As in [`AskAgent`](super::AskAgent).
    pub width: u32,
    /// As in [`AskAgent`](super::AskAgent).
    pub height: u32,
    /// As in [`AskAgent`](super::AskAgent).
    pub refresh: u32,
    /// Milliseconds that processes have for an answer, 1 to [`MOST_PATIENCE_MS`]. Who gives none in that time loses its
    /// sources.
    pub patience_ms: u32,
}
crate::assert_layout!(
    AskForConsent, 24,
    topology at 0, connector at 4, width at 8, height at 12, refresh at 16, patience_ms at 20,
);
request!(AskForConsent, ASK_FOR_CONSENT -> Consent);

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Consent {
    /// A bit for each source that processes other than the agent have now.
    pub sources: u64,
    /// `DONE`: nobody stands against it; the text is that of the last who answered. `FAILED`: one refused, with its
    /// reason. `TIMED_OUT`: sources were taken from those who did not answer.
    pub answer: AgentAnswer,
}
crate::assert_layout!(Consent, 272, sources at 0, answer at 8);

/// A process that was asked answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AnswerConsent {
    /// The question's number, from the event's `cookie`.
    pub number: u64,
    /// `DONE`: the process has let go of its sources, or shows the topology itself. `FAILED`: it refuses, and the text
    /// says why.
    pub answer: AgentAnswer,
}
crate::assert_layout!(AnswerConsent, 272, number at 0, answer at 8);
request!(AnswerConsent, ANSWER_CONSENT -> ());

/// The agent tells all processes that it will stop the device. The reply comes when no other process has a device, or
/// when the time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AnnounceStop {
    /// Milliseconds that processes have to leave, 1 to [`MOST_PATIENCE_MS`].
    pub patience_ms: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(AnnounceStop, 8, patience_ms at 0, reserved at 4);
request!(AnnounceStop, ANNOUNCE_STOP -> Stayed);

/// Who has not left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Stayed {
    /// Processes other than the agent that still have a device.
    pub processes: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(Stayed, 8, processes at 0, reserved at 4);
