// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which sessions are locked. A desktop says so of its own session, or a session was asked to lock, by whoever may.

use std::collections::BTreeMap;

/// The most sessions that are looked at, and the most of which something is remembered.
pub const MOST: usize = 64;

/// A session at a seat, as logind describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its object's path.
    pub path: String,
    /// Whether its seat shows it.
    pub is_active: bool,
    /// Whether its desktop says that it is locked.
    pub is_hinted: bool,
}

/// What is remembered of sessions, by their paths.
#[derive(Debug, Default)]
pub struct Locks {
    of: BTreeMap<String, Lock>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Lock {
    /// It was asked to lock, and not to unlock since.
    is_asked: bool,
    /// Its desktop said at last that it is locked.
    is_hinted: bool,
}

impl Locks {
    /// A session was asked to lock, or to unlock.
    pub fn ask(&mut self, session: &str, is_asked: bool) {
        if let Some(lock) = self.lock(session) {
            lock.is_asked = is_asked;
        }
    }

    /// A session has ended.
    pub fn forget(&mut self, session: &str) {
        self.of.remove(session);
    }

    /// Whether nobody looks: there are sessions at seats, and each is locked or inactive.
    pub fn is_away(&mut self, sessions: &[Session]) -> bool {
        let mut is_away = !sessions.is_empty();
        for Session { path, is_active, is_hinted } in sessions {
            let mut is_locked = *is_hinted;
            if let Some(lock) = self.lock(path) {
                // A desktop that was locked and is not was unlocked at its own screen.
                lock.is_asked &= *is_hinted || !lock.is_hinted;
                lock.is_hinted = *is_hinted;
                is_locked |= lock.is_asked;
            }
            is_away &= is_locked || !is_active;
        }
        is_away
    }

    fn lock(&mut self, session: &str) -> Option<&mut Lock> {
        if !self.of.contains_key(session) && self.of.len() >= MOST {
            return None;
        }
        Some(self.of.entry(session.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(path: &str, is_active: bool, is_hinted: bool) -> Session {
        Session { path: path.into(), is_active, is_hinted }
    }

    #[test]
    fn nobody_looks_when_each_session_is_locked_or_inactive_and_there_is_one() {
        for (sessions, expected) in [
            (&[][..], false),
            (&[(true, false)], false),
            (&[(true, true)], true),
            (&[(false, false)], true),
            (&[(false, true), (false, false)], true),
            (&[(true, true), (true, false)], false),
            (&[(true, true), (false, false)], true),
        ] {
            let sessions: Vec<_> = sessions
                .iter()
                .enumerate()
                .map(|(at, (is_active, is_hinted))| {
                    session(&at.to_string(), *is_active, *is_hinted)
                })
                .collect();
            assert_eq!(Locks::default().is_away(&sessions), expected, "{sessions:?}");
        }
    }

    #[test]
    fn a_session_that_was_asked_to_lock_is_locked_until_it_is_asked_to_unlock() {
        let mut locks = Locks::default();
        let active = [session("/1", true, false)];
        locks.ask("/1", true);
        assert!(locks.is_away(&active) && locks.is_away(&active));
        locks.ask("/1", false);
        assert!(!locks.is_away(&active));
        locks.ask("/1", true);
        locks.forget("/1");
        assert!(!locks.is_away(&active));
    }

    #[test]
    fn a_session_that_was_asked_to_lock_is_unlocked_at_its_own_screen() {
        let mut locks = Locks::default();
        locks.ask("/1", true);
        assert!(locks.is_away(&[session("/1", true, false)]), "its desktop is not as fast");
        assert!(locks.is_away(&[session("/1", true, true)]));
        assert!(!locks.is_away(&[session("/1", true, false)]));
    }

    #[test]
    fn what_is_remembered_of_sessions_has_a_bound() {
        let mut locks = Locks::default();
        for number in 0..1000 {
            locks.ask(&format!("/{number}"), true);
        }
        assert_eq!(locks.of.len(), MOST);
        assert!(locks.is_away(&[session("/1", true, false)]));
        assert!(!locks.is_away(&[session("/999", true, false)]));
    }
}
