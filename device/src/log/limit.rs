// SPDX-License-Identifier: MIT OR Apache-2.0

//! Suppresses lines beyond a source's share.
//!
//! Each socket's span holds a [`Share`] of the log. A line that concerns a guest of the socket is charged to it.
//! Lines that concern no guest are charged to two more shares, one for this program and one for libraries, so that
//! no source can fill a disk.

use super::share::Share;
use super::span::{self, Concern, GuestSpans};
use crate::allowance::Rate;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber, warn};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Time from the first suppressed line to the summary.
const SUMMARY: Duration = Duration::from_secs(1);
/// The target of the summaries, which are never suppressed.
const SUMMARIES: &str = concat!(module_path!(), "::summary");
/// The target of lines of libraries that do not use `tracing`.
const LIBRARIES: &str = "log";

/// A layer that suppresses and counts the lines beyond a share.
#[derive(Debug)]
pub struct LineLimit {
    pub(super) rate: Rate,
    start: Instant,
    program: Arc<Share>,
    libraries: Arc<Share>,
    pub(super) guests: Arc<GuestSpans>,
    suppressed: Suppressed,
    shares: SocketShares,
}

/// The shares of sockets, by name. A share lives as long as its socket's span.
#[derive(Debug, Clone, Default)]
pub struct SocketShares(Arc<Mutex<HashMap<String, Weak<Share>>>>);

impl SocketShares {
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Share>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, share: &Arc<Share>) {
        self.lock().insert(share.name.clone(), Arc::downgrade(share));
    }

    /// Gives the guests of a socket another share of the log. Returns false for a socket that logs nothing.
    pub fn set_rate(&self, socket: &str, rate: Rate) -> bool {
        let share = self.lock().get(socket).and_then(Weak::upgrade);
        share.inspect(|share| share.set_rate(rate)).is_some()
    }
}

impl LineLimit {
    /// A limit with this many lines per second in the long run, and this many at once, for each share.
    #[must_use]
    pub fn new(lines_per_second: u32, burst: u32) -> Self {
        Self {
            rate: Rate::new(lines_per_second, burst),
            start: Instant::now(),
            program: Arc::new(Share::new("no guest".into())),
            libraries: Arc::new(Share::new("no guest, by libraries".into())),
            guests: Arc::default(),
            suppressed: Suppressed::default(),
            shares: SocketShares::default(),
        }
    }

    /// The counts of suppressed lines, to be reported.
    #[must_use]
    pub fn suppressed(&self) -> Suppressed {
        self.suppressed.clone()
    }

    /// The shares of sockets, which may change.
    #[must_use]
    pub fn shares(&self) -> SocketShares {
        self.shares.clone()
    }

    /// The share that a line is charged to.
    fn share<S>(&self, event: &Event<'_>, context: &Context<'_, S>) -> Arc<Share>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let named = self.guests.named(event, |id| context.span(id));
        let span = named.or_else(|| context.event_span(event));
        let of_socket = span.and_then(|span| {
            span.scope().find_map(|span| span.extensions().get::<Arc<Share>>().cloned())
        });
        let is_library = event.metadata().target() == LIBRARIES;
        let others = if is_library { &self.libraries } else { &self.program };
        of_socket.unwrap_or_else(|| Arc::clone(others))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LineLimit {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() != span::TARGET {
            return;
        }
        let concern = Concern::of_span(attributes);
        if let (Some(socket), Some(span)) = (concern.socket, context.span(id)) {
            let share = Arc::new(Share::new(socket));
            self.shares.add(&share);
            span.extensions_mut().insert(share);
        }
        if let Some(guest) = concern.guest {
            self.guests.add(guest, id.clone());
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.guests.remove(&id);
    }

    /// Called for lines that pass the filter.
    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        if event.metadata().target() == SUMMARIES {
            return true;
        }
        let share = self.share(event, &context);
        let taken = share.take(self.start.elapsed(), self.rate);
        if !taken && share.leave_out() {
            self.suppressed.add(share);
        }
        taken
    }
}

/// The shares with lines suppressed since the last summary.
#[derive(Debug, Clone, Default)]
pub struct Suppressed(Arc<Owed>);

#[derive(Debug, Default)]
struct Owed {
    shares: Mutex<Vec<Arc<Share>>>,
    added: Notify,
}

impl Suppressed {
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Share>>> {
        self.0.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, share: Arc<Share>) {
        self.lock().push(share);
        self.0.added.notify_one();
    }

    fn report_once(&self) {
        // Taken first: a line suppressed from here on adds its share again, or is counted here.
        let shares = std::mem::take(&mut *self.lock());
        for share in shares {
            let lines = share.take_left_out();
            if lines > 0 {
                warn!(target: SUMMARIES, lines, source = share.name, "log lines were suppressed");
            }
        }
    }

    /// Logs the number of suppressed lines, at most once a second while there are some, and once more on drop.
    pub async fn report(self) {
        struct Last(Suppressed);

        impl Drop for Last {
            fn drop(&mut self) {
                self.0.report_once();
            }
        }

        let last = Last(self);
        loop {
            last.0.0.added.notified().await;
            sleep(SUMMARY).await;
            last.0.report_once();
        }
    }
}
