// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host's operator has changed of a guest or of the adapter, for tools.

use bellhop_protocol::snapshot::Change;

/// Most changes that are remembered. The operator's are few kinds; a connector's name counts as one.
const MOST: usize = 24;
/// Most bytes of each text.
const MOST_BYTES: usize = 128;

/// The newest change of each kind.
#[derive(Debug, Default)]
pub(crate) struct Changes(Vec<Change>);

impl Changes {
    /// Remembers a change in place of an earlier one of its kind. Forgets the oldest when there are too many.
    pub(crate) fn note(&mut self, mut change: Change) {
        for text in [&mut change.what, &mut change.now, &mut change.command] {
            text.truncate(text.floor_char_boundary(MOST_BYTES));
        }
        self.0.retain(|earlier| earlier.what != change.what);
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(change);
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<Change> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(what: &str, now: &str) -> Change {
        Change { what: what.into(), now: now.into(), ..Change::default() }
    }

    #[test]
    fn the_newest_change_of_each_kind_is_remembered() {
        let mut changes = Changes::default();
        for (what, now) in [("weight", "1"), ("suspended", "yes"), ("weight", "2")] {
            changes.note(change(what, now));
        }
        assert_eq!(changes.all(), [change("suspended", "yes"), change("weight", "2")]);
    }

    #[test]
    fn neither_many_changes_nor_long_ones_are_kept() {
        let mut changes = Changes::default();
        for number in 0..100 {
            changes.note(change(&format!("display {number}"), &"ä".repeat(500)));
        }
        let all = changes.all();
        assert_eq!((all.len(), all[0].what.as_str()), (MOST, "display 76"));
        assert!(all.iter().all(|change| change.now == "ä".repeat(64)));
    }
}
