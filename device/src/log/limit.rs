//! Leaving out what is too much.

use super::format::Concern;
use super::source::Account;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{Event, Subscriber, warn};
use tracing_subscriber::layer::{Context, Layer};

/// From the first line that is left out to the line that says how many were.
const SUMMARY: Duration = Duration::from_secs(1);
/// Which lines are never left out.
const SUMMARIES: &str = concat!(module_path!(), "::summary");
/// What lines of libraries have that do not use `tracing`.
const LIBRARIES: &str = "log";

/// A layer that leaves out what a source logs beyond its share, and counts it. Lines that are nobody's have
/// shares too, this program's one and the libraries' another, so that nothing can fill a disk.
#[derive(Debug)]
pub struct LineLimit {
    interval: Duration,
    burst: u32,
    start: Instant,
    nobody: Arc<Account>,
    libraries: Arc<Account>,
}

impl LineLimit {
    /// So many lines a second for each in the long run, and so many at once.
    #[must_use]
    pub fn new(lines_per_second: u32, burst: u32) -> Self {
        Self {
            interval: Duration::from_secs(1) / lines_per_second.max(1),
            burst,
            start: Instant::now(),
            nobody: Arc::new(Account::new("no guest".into())),
            libraries: Arc::new(Account::new("no guest, by libraries".into())),
        }
    }
}

impl<S: Subscriber> Layer<S> for LineLimit {
    /// Asked for lines that the filter lets through.
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let target = event.metadata().target();
        if target == SUMMARIES {
            return true;
        }
        let account = Account::of(Concern::of(event).guest).unwrap_or_else(|| {
            Arc::clone(if target == LIBRARIES { &self.libraries } else { &self.nobody })
        });
        let taken = account.take(self.start.elapsed(), self.interval, self.burst);
        // Relaxed: the count is all that is passed on here; the list has a lock.
        if !taken && account.suppressed.fetch_add(1, Ordering::Relaxed) == 0 {
            OWED.add(account);
        }
        taken
    }
}

/// Who is owed a summary.
struct Owed {
    accounts: Mutex<Vec<Arc<Account>>>,
    added: Notify,
}

static OWED: Owed = Owed { accounts: Mutex::new(Vec::new()), added: Notify::const_new() };

impl Owed {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, account: Arc<Account>) {
        self.lock().push(account);
        self.added.notify_one();
    }

    fn report(&self) {
        // Taken first: who has a line left out from here on adds itself again, or is counted here.
        let accounts = std::mem::take(&mut *self.lock());
        for account in accounts {
            let lines = account.suppressed.swap(0, Ordering::Relaxed);
            if lines > 0 {
                warn!(target: SUMMARIES, lines, source = account.name, "log lines were left out");
            }
        }
    }
}

/// Says from time to time what was left out, for as long as there is something, and once more when it is
/// dropped.
pub async fn report_suppressed() {
    struct Last;

    impl Drop for Last {
        fn drop(&mut self) {
            OWED.report();
        }
    }

    let _last = Last;
    loop {
        OWED.added.notified().await;
        sleep(SUMMARY).await;
        OWED.report();
    }
}
