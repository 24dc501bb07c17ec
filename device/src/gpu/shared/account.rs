// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the guests of a socket have together: who they are to engines, and what they owe engines that stood in their
//! memory, and the control plane that waited for it.
//!
//! An engine that stands serves nobody. The time is charged to the guest in whose turn it stood, so that others have their
//! turns first. A guest that has its device reset, connects anew, or destroys its last queue begins without that charge: what it
//! has not made up for by then is charged again. The debt belongs to the socket and gets less as time passes, as it would
//! beside one other guest that always has work.

use bellhop_host_kmd::hardware::SocketId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the control plane waits at once for memory that a VMM keeps from the host. Memory that the host's kernel reads from
/// swap is there sooner.
pub const STALL_BUDGET: Duration = Duration::from_millis(50);
/// Beside that, the control plane waits for one part of the time in this many.
const PARTS: u32 = 10;

/// Most engines of a chain.
const ENGINES: usize = u64::BITS as usize;

/// The next number of a socket. All GPUs of this process draw from it.
static SOCKETS: AtomicU64 = AtomicU64::new(1);

/// The account that the guests of a socket are charged to, at the same time and one after another.
#[derive(Debug)]
pub struct Account {
    id: SocketId,
    epoch: Instant,
    /// In nanoseconds after the epoch. Only the engine of that number stores and loads one, so nothing is handed over.
    until: [AtomicU64; ENGINES],
    /// When all of the stall budget is there again, in nanoseconds after the epoch. The control plane alone stores and loads
    /// this.
    stalls_until: AtomicU64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            // Relaxed: only the uniqueness of the number matters.
            id: SocketId(SOCKETS.fetch_add(1, Ordering::Relaxed)),
            epoch: Instant::now(),
            until: [const { AtomicU64::new(0) }; ENGINES],
            stalls_until: AtomicU64::new(0),
        }
    }
}

impl Account {
    /// The socket's number, which no other account has.
    pub fn id(&self) -> SocketId {
        self.id
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Engine: it stood for so long in a turn that just ended.
    #[cold]
    pub fn owe(&self, engine: u32, nanoseconds: u64) {
        if let Some(until) = self.until.get(engine as usize) {
            let from = until.load(Ordering::Relaxed).max(self.now());
            until.store(from.saturating_add(nanoseconds), Ordering::Relaxed);
        }
    }

    /// Engine: what is left of it.
    pub fn left(&self, engine: u32) -> Duration {
        let until =
            self.until.get(engine as usize).map_or(0, |until| until.load(Ordering::Relaxed));
        match until {
            0 => Duration::ZERO,
            _ => Duration::from_nanos(until.saturating_sub(self.now())),
        }
    }

    /// Control plane: how long it still waits at once for memory of the socket's guests.
    pub fn stall_budget(&self) -> Duration {
        let left = self.stalls_until.load(Ordering::Relaxed).saturating_sub(self.now());
        STALL_BUDGET.saturating_sub(Duration::from_nanos(left) / PARTS)
    }

    /// Control plane: it waited for so long.
    #[cold]
    pub fn charge_stall(&self, waited: Duration) {
        let now = self.now();
        let recovery =
            |waited: Duration| u64::try_from((waited * PARTS).as_nanos()).unwrap_or(u64::MAX);
        let from = self.stalls_until.load(Ordering::Relaxed).max(now);
        let until = from.saturating_add(recovery(waited.min(STALL_BUDGET)));
        let latest = now.saturating_add(recovery(STALL_BUDGET));
        self.stalls_until.store(until.min(latest), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_budget_is_used_up_and_comes_back_in_ten_times_as_long() {
        let account = Account::default();
        assert_eq!(account.stall_budget(), STALL_BUDGET);
        let begun = Instant::now();
        // However long it waited, the budget is there again in bounded time.
        for _ in 0..3 {
            account.charge_stall(STALL_BUDGET);
        }
        assert!(account.stall_budget() <= begun.elapsed() / PARTS);
        while account.stall_budget() < STALL_BUDGET / 10 {}
        assert!(begun.elapsed() >= STALL_BUDGET * PARTS / 10);
        account.charge_stall(STALL_BUDGET / 20);
        assert!(account.stall_budget() < STALL_BUDGET);
    }

    #[test]
    fn a_debt_is_of_one_engine_grows_with_each_turn_and_gets_less_as_time_passes() {
        let account = Account::default();
        assert_eq!([0, 63, 64].map(|engine| account.left(engine)), [Duration::ZERO; 3]);
        let hour = Duration::from_secs(3600);
        for _ in 0..2 {
            account.owe(1, hour.as_nanos() as u64);
        }
        let left = account.left(1);
        assert!(left <= 2 * hour && left > hour, "{left:?}");
        assert!(account.left(1) <= left);
        assert_eq!(account.left(0), Duration::ZERO);
        account.owe(64, 1);
        // What is over is over.
        account.owe(2, 1);
        std::thread::yield_now();
        while !account.left(2).is_zero() {}
        account.owe(2, hour.as_nanos() as u64);
        assert!(account.left(2) <= hour);
    }
}
