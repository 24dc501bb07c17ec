// SPDX-License-Identifier: MIT OR Apache-2.0

//! The spans that tell which guest a line concerns: one for each socket, and within it one for each guest of the
//! socket.
//!
//! A line with a field `guest` concerns that guest wherever it is logged: engines and the kernel's interrupts serve
//! all guests, outside any guest's span.

use bellhop_host_kmd::hardware::GuestId;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Span, error_span};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// The target of these spans. Every filter passes them, or lines would be charged to no guest.
pub(super) const TARGET: &str = module_path!();

/// A socket's name in log lines.
#[must_use]
pub fn socket_name(path: Option<&Path>) -> String {
    path.map_or("a socket without a path".into(), |path| path.display().to_string())
}

/// The span of everything that concerns a socket.
#[must_use]
pub fn socket_span(path: Option<&Path>) -> Span {
    error_span!("socket", socket = socket_name(path))
}

/// The span of a guest within `parent`, the span of its socket.
#[must_use]
pub fn guest_span(parent: &Span, guest: GuestId) -> Span {
    error_span!(parent: parent, "guest", guest = guest.0)
}

/// The fields of a span or a line that tell which guest it concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Concern {
    pub(super) guest: Option<u64>,
    pub(super) socket: Option<String>,
}

impl Concern {
    pub(super) fn of_span(attributes: &Attributes<'_>) -> Self {
        let mut concern = Self::default();
        attributes.record(&mut concern);
        concern
    }

    fn of_line(event: &Event<'_>) -> Self {
        let mut concern = Self::default();
        event.record(&mut concern);
        concern
    }
}

impl Visit for Concern {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "guest" {
            self.guest = Some(value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "socket" {
            self.socket = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// The spans of all current guests, by the number in the field `guest`.
#[derive(Debug, Default)]
pub(super) struct GuestSpans(Mutex<BTreeMap<u64, Id>>);

impl GuestSpans {
    /// No code panics while it holds the lock, so the map is consistent.
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Id>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, guest: u64, span: Id) {
        self.lock().insert(guest, span);
    }

    /// Called when a span ends; another span may reuse its ID.
    pub(super) fn remove(&self, span: &Id) {
        self.lock().retain(|_, other| other != span);
    }

    /// The span of the guest that a line names.
    pub(super) fn named<'a, S>(
        &self,
        event: &Event<'_>,
        span: impl FnOnce(&Id) -> Option<SpanRef<'a, S>>,
    ) -> Option<SpanRef<'a, S>>
    where
        S: LookupSpan<'a>,
    {
        let guest = Concern::of_line(event).guest?;
        // Held during the look-up, so that the span does not end in between.
        let guests = self.lock();
        span(guests.get(&guest)?)
    }
}
