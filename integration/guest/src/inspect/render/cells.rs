// SPDX-License-Identifier: MIT OR Apache-2.0

//! What several objects show alike.

use crate::inspect::tree::{Branch, Cell, Tone};
use crate::units::grouped;
use bellhop_protocol::snapshot::Change;
use std::time::Duration;

pub(super) fn name(text: &str) -> Cell {
    Cell::new(text, Tone::Name)
}

/// A state, in the colour of its meaning.
pub(super) fn state(text: &str) -> Cell {
    Cell::new(text, tone(text))
}

pub(super) fn tone(state: &str) -> Tone {
    match state {
        "running" | "listed" | "connected" | "open" | "compiled" | "plugged" | "D0" | "F0" => {
            Tone::Good
        }
        "lost" | "error" | "aborted" | "in error" => Tone::Bad,
        _ => Tone::Waiting,
    }
}

/// The progress of a queue.
pub(super) fn progress(completed: u64, queued: u64) -> Cell {
    if completed >= queued {
        Cell::new(format!("idle at {completed}"), Tone::Plain)
    } else {
        Cell::new(format!("{completed} of {queued}"), Tone::Waiting)
    }
}

pub(super) fn times(count: u64, what: &str) -> String {
    match count {
        0 => format!("never {what}"),
        1 => format!("once {what}"),
        count => format!("{} times {what}", grouped(count)),
    }
}

/// What the operator has changed, and how long ago: `now` is the adapter's time.
pub(super) fn change(change: &Change, now: u64) -> Branch {
    let Change { what, now: value, uid, pid, command, time } = change;
    let ago = Duration::from_nanos(now.saturating_sub(*time));
    Branch::new(
        "operator",
        vec![
            format!("{what}: {value}").into(),
            format!("by uid {uid} ({command}, PID {pid})").into(),
            format!("{:.0} s ago", ago.as_secs_f64()).into(),
        ],
    )
}
