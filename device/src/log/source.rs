//! Whose doing a line is.

use bellhop_host_kmd::hardware::GuestId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The sources of guests, by the number that lines have in their field `guest`. Such numbers are given out
/// once in a process; each source has one entry at most.
static GUESTS: Mutex<BTreeMap<u64, Arc<Account>>> = Mutex::new(BTreeMap::new());

/// No code panics while it holds the lock, so what is in it is whole.
fn guests() -> MutexGuard<'static, BTreeMap<u64, Arc<Account>>> {
    GUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// Whom this thread works for.
    static CURRENT: RefCell<Option<Arc<Account>>> = const { RefCell::new(None) };
}

/// How many lines one source had, and how many of them were left out.
#[derive(Debug)]
pub(super) struct Account {
    /// What summaries call it.
    pub(super) name: String,
    /// When, in nanoseconds since the log's start, its share is whole again. It may have a line as long as that
    /// is less than a burst away.
    whole_at: AtomicU64,
    /// Lines that were left out since the last summary.
    pub(super) suppressed: AtomicU64,
}

impl Account {
    pub(super) fn new(name: String) -> Self {
        Self { name, whole_at: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Whether it may have another line now: `now` since the log's start, one line for each `interval` in
    /// the long run and `burst` at once.
    pub(super) fn take(&self, now: Duration, interval: Duration, burst: u32) -> bool {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (now, cost) = (nanoseconds(now), nanoseconds(interval));
        let most = now.saturating_add(cost.saturating_mul(burst.into()));
        let charge = |whole_at: u64| {
            let whole_at = whole_at.max(now).saturating_add(cost);
            (whole_at <= most).then_some(whole_at)
        };
        // Relaxed: nothing but this number is passed on.
        self.whole_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge).is_ok()
    }

    /// Whom this thread works for, or whose the guest of that number is.
    pub(super) fn of(guest: Option<u64>) -> Option<Arc<Self>> {
        // A thread that is about to end logs for nobody.
        let current = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten();
        current.or_else(|| guests().get(&guest?).cloned())
    }
}

/// Whose doing a line is: whoever comes by one socket.
#[derive(Debug)]
pub struct LogSource {
    account: Arc<Account>,
    /// The guest that came last.
    guest: Mutex<Option<u64>>,
}

impl LogSource {
    /// Whoever comes by this socket.
    #[must_use]
    pub fn of(socket: Option<&Path>) -> Self {
        let name = socket.map_or("a socket without a path".into(), |s| s.display().to_string());
        Self { account: Arc::new(Account::new(name)), guest: Mutex::default() }
    }

    /// The socket's path, for lines about it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.account.name
    }

    /// It is this guest now: lines that name it are this source's, on whatever thread.
    pub fn set_guest(&self, guest: GuestId) {
        let mut current = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut guests = guests();
        if let Some(before) = current.replace(guest.0) {
            guests.remove(&before);
        }
        guests.insert(guest.0, Arc::clone(&self.account));
    }

    /// What this thread logs from now on is this source's: it works for nobody else.
    pub fn take_thread(&self) {
        CURRENT.with(|current| {
            let mut current = current.borrow_mut();
            if current.is_none() {
                *current = Some(Arc::clone(&self.account));
            }
        });
    }

    /// What is logged within `work` is this source's.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Puts back who it was before, when it unwinds too.
        struct Before(Option<Arc<Account>>);

        impl Drop for Before {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }

        let _before = Before(CURRENT.replace(Some(Arc::clone(&self.account))));
        work()
    }
}

impl Drop for LogSource {
    fn drop(&mut self) {
        let guest = self.guest.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = guest.take() {
            guests().remove(&guest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_had_at_once_and_then_a_line_for_each_interval() {
        let account = Account::new(String::new());
        let interval = Duration::from_millis(100);
        let lines_at = |milliseconds| {
            let now = Duration::from_millis(milliseconds);
            (0..1000).filter(|_| account.take(now, interval, 5)).count()
        };
        assert_eq!([0, 0, 99, 100, 350, 10_000].map(lines_at), [5, 0, 0, 1, 2, 5]);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let account = Account::new(String::new());
        assert!(account.take(Duration::MAX, Duration::MAX, u32::MAX));
        assert!(
            account.take(Duration::ZERO, Duration::ZERO, 1)
                || account.whole_at.load(Ordering::Relaxed) > 0
        );
    }

    #[test]
    fn a_line_is_the_threads_source_or_else_the_guests() {
        let socket = |name: &str| LogSource::of(Some(Path::new(name)));
        let (one, two) = (socket("one"), socket("two"));
        // Numbers that no guest has.
        let (mine, next) = (GuestId(u64::MAX), GuestId(u64::MAX - 1));
        one.set_guest(mine);
        let name = |guest: Option<GuestId>| {
            Account::of(guest.map(|guest| guest.0)).map(|account| account.name.clone())
        };
        assert_eq!((name(Some(mine)), name(None)), (Some("one".into()), None));
        two.during(|| {
            one.during(|| assert_eq!(name(None), Some("one".into())));
            assert_eq!(name(Some(mine)), Some("two".into()));
        });
        one.set_guest(next);
        assert_eq!((name(Some(mine)), name(Some(next))), (None, Some("one".into())));
        drop(one);
        assert_eq!(name(Some(next)), None);
    }
}
