// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of a display.

use crate::error::Error;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::display::{Constraint, Pinned};
use bellhop_protocol::status::Status;
use std::fmt;

/// Why a topology is not functional.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What stands against it.
    pub constraint: Constraint,
    /// The first path that offends, by its place in the topology.
    pub path: u32,
    /// The constraint's limit, as [`Constraint`] says, where it has one.
    pub limit: u64,
}

impl Refusal {
    /// What the detail of a refused commit says.
    pub(super) fn of_commit(detail: u64) -> Self {
        Self { constraint: Constraint((detail >> 32) as u32), path: detail as u32, limit: 0 }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { constraint, path, limit } = self;
        write!(f, "path {path}: ")?;
        match *constraint {
            Constraint::NO_SUCH_SOURCE => write!(f, "there are {limit} sources"),
            Constraint::NO_SUCH_TARGET => write!(f, "there are {limit} targets"),
            Constraint::TARGET_TWICE => f.write_str("another path shows on its target"),
            Constraint::NOT_CONNECTED => f.write_str("no monitor is plugged into its target"),
            Constraint::IN_USE => write!(f, "process {limit} shows on its source or target"),
            Constraint::NOT_PINNED => {
                let open = Pinned::from_bits_truncate(*limit as u32);
                let names: Vec<_> = open.iter_names().map(|(name, _)| name).collect();
                match names[..] {
                    [] => f.write_str("something of it is not pinned"),
                    _ => write!(f, "its {} is not pinned", names.join(", ")),
                }
            }
            Constraint::SOURCE_MODES_DIFFER => {
                f.write_str("another path shows its source in another mode")
            }
            Constraint::SOURCE_FORMAT => f.write_str("its pixel format has no name"),
            Constraint::SOURCE_SIZE if *limit == 0 => f.write_str("its source has no pixels"),
            Constraint::SOURCE_SIZE => {
                write!(f, "its source is {limit} or more pixels wide or high, which is too much")
            }
            Constraint::TARGET_MODE => f.write_str("its target mode is none of the monitor's"),
            Constraint::SCALING => f.write_str("its scaling has no name"),
            Constraint::ROTATION => f.write_str("its rotation has no name"),
            Constraint::SCALING_SIZE => {
                f.write_str("its scaling does not take a source of this size to this target")
            }
            Constraint::CONNECTOR_PIXEL_RATE => {
                write!(f, "its connector carries {limit} pixels a second, fewer than the mode has")
            }
            Constraint::TOTAL_PIXEL_RATE => write!(
                f,
                "{limit} pixels a second are left for these paths, fewer than their modes have"
            ),
            Constraint::OTHER_GPU => {
                write!(f, "GPU {limit} has its source, and another GPU its target")
            }
            other => write!(f, "constraint {other}"),
        }
    }
}

/// An error of a display.
#[derive(Debug, thiserror::Error)]
pub enum DisplayError {
    /// The guest has no display.
    #[error(
        "this guest has no display: its host's configuration gives the adapter no connectors \
         ([[adapter.displays]])"
    )]
    NoDisplay,
    /// There is no monitor.
    #[error("no monitor is plugged into connector {child}")]
    NoMonitor {
        /// The connector.
        child: u32,
    },
    /// The topology is not functional.
    #[error("the display cannot show this: {0}")]
    Topology(Refusal),
    /// A topology has more paths than a display can have.
    #[error("a topology of {0} paths: there are at most 16")]
    TooManyPaths(usize),
    /// Enumeration offers no value for a part that is open.
    #[error("path {path} has no {part} that goes with the rest of the topology")]
    NoMode {
        /// The path, by its place in the topology.
        path: usize,
        /// What it has none of.
        part: &'static str,
    },
    /// The process may not use the source.
    #[error(
        "this process does not show source {source_number}, and its owner does not let it flip it"
    )]
    NotInTopology {
        /// The source.
        source_number: u32,
    },
    /// As many flips wait as can wait.
    #[error(
        "as many flips of source {source_number} wait as can wait; wait until one has happened"
    )]
    QueueFull {
        /// The source.
        source_number: u32,
    },
    /// What a display reads is not in one piece of memory.
    #[error(
        "the memory of the primary or pointer is not in one piece: this guest's VMM maps no BAR, and the guest gave the \
         device local memory in pieces; give the guest huge pages, or a VMM that maps the BAR"
    )]
    Scattered,
    /// Something did not happen in time.
    #[error("{0} did not come in time")]
    Timeout(&'static str),
    /// A surface that no display can show, or an access outside it.
    #[error("{0}")]
    BadSurface(&'static str),
    /// The compositor that has the monitor has ended, or refuses a window.
    #[error("the compositor shows no window of this program: {0}")]
    Compositor(std::io::Error),
    /// A request failed for another reason.
    #[error(transparent)]
    Device(#[from] Error),
}

impl DisplayError {
    /// The error for a request about a source.
    pub(super) fn of_source(source_number: u32) -> impl Fn(Error) -> Self {
        move |error| match error {
            Error::Refused { status: Status::GRAPHICS_SOURCE_NOT_IN_TOPOLOGY, .. } => {
                Self::NotInTopology { source_number }
            }
            Error::Refused {
                request: RequestCode::SET_VIDPN_SOURCE_ADDRESS,
                status: Status::INSUFFICIENT_RESOURCES,
                ..
            } => Self::QueueFull { source_number },
            other => Self::of_display(other),
        }
    }

    /// The error for a request about a child.
    pub(super) fn of_child(child: u32) -> impl Fn(Error) -> Self {
        move |error| match error {
            Error::Refused { status: Status::GRAPHICS_MONITOR_NOT_CONNECTED, .. } => {
                Self::NoMonitor { child }
            }
            other => Self::of_display(other),
        }
    }

    /// The error for another request of a display.
    pub(super) fn of_display(error: Error) -> Self {
        match error {
            Error::Refused { status: Status::NOT_SUPPORTED, .. } => Self::NoDisplay,
            Error::Refused { status: Status::GRAPHICS_ALLOCATION_INVALID, .. } => Self::Scattered,
            other => Self::Device(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_pieces_is_not_taken_for_a_guest_without_a_display() {
        let refused = |status| Error::Refused {
            request: RequestCode::SET_VIDPN_SOURCE_ADDRESS,
            status,
            detail: 7,
        };
        let error = |status| DisplayError::of_source(0)(refused(status));
        let scattered = error(Status::GRAPHICS_ALLOCATION_INVALID);
        assert!(matches!(scattered, DisplayError::Scattered), "{scattered}");
        assert!(matches!(error(Status::NOT_SUPPORTED), DisplayError::NoDisplay));
    }

    #[test]
    fn a_refusal_says_in_words_what_stands_against_a_path() {
        let says = |constraint, limit| Refusal { constraint, path: 1, limit }.to_string();
        assert_eq!(
            says(Constraint::NOT_PINNED, 0b1010),
            "path 1: its TARGET_MODE, ROTATION is not pinned"
        );
        for constraint in Constraint::ALL.iter().skip(1) {
            let said = says(*constraint, 3);
            assert!(!said.contains("constraint"), "{constraint}: {said}");
        }
        let unknown = Constraint(99);
        assert!(says(unknown, 0).contains(&unknown.to_string()));
    }
}
