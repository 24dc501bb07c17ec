// SPDX-License-Identifier: MIT OR Apache-2.0

//! `um.*`, `doorbell.*` and `fault.*`: HW queues for user-mode submission, and how one is lost.

pub(super) mod doorbell;
pub(super) mod doorbell_line;
pub(super) mod fault;
pub(super) mod um;
