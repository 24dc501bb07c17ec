// SPDX-License-Identifier: MIT OR Apache-2.0

//! What processes call their objects, at the moment.

use bellhop_protocol::snapshot::Name;
use std::collections::BTreeMap;

/// A process: its guest, and its number there.
pub(super) type Process = (u64, u32);

/// Names of objects. Of those that processes have given up there are none, so a guest cannot make it grow without bound.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By handle, with the fence's number, or 0.
    names: BTreeMap<(Process, Name), (u64, String)>,
    /// The handles of fences that have names, by the fence's number.
    fences: BTreeMap<(Process, u64), Name>,
}

impl Names {
    /// A process calls an object something from now on, or nothing.
    pub(super) fn call(&mut self, by: Process, handle: Name, object: u64, name: Option<String>) {
        let before = match name {
            Some(name) => {
                if object != 0 {
                    self.fences.insert((by, object), handle);
                }
                self.names.insert((by, handle), (object, name));
                return;
            }
            None => self.names.remove(&(by, handle)),
        };
        // The process may have named another handle to the fence.
        let fence = before.map(|(object, _)| (by, object));
        if let Some(fence) = fence.filter(|fence| self.fences.get(fence) == Some(&handle)) {
            self.fences.remove(&fence);
        }
    }

    /// What a process calls the object of a handle.
    pub(super) fn of(&self, by: Process, handle: Name) -> Option<&str> {
        self.names.get(&(by, handle)).map(|(_, name)| name.as_str())
    }

    /// What a process calls the fence of a number.
    pub(super) fn of_fence(&self, by: Process, object: u64) -> Option<&str> {
        self.of(by, *self.fences.get(&(by, object))?)
    }
}

/// A name behind what it names, or nothing. What could do something to a terminal is written out.
pub(super) fn suffix(name: Option<&str>) -> String {
    name.map(|name| format!(" {name:?}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_a_process_s_handle_until_it_is_given_up() {
        let mut names = Names::default();
        let ((one, other), [first, second]) = (((1, 1), (1, 2)), [Name(7), Name(8)]);
        names.call(one, first, 5, Some("ready".into()));
        names.call(other, second, 5, Some("theirs".into()));
        assert_eq!(
            (names.of(one, first), names.of_fence(one, 5), names.of_fence(other, 5)),
            (Some("ready"), Some("ready"), Some("theirs"))
        );
        assert_eq!((names.of(other, first), names.of_fence(one, 6)), (None, None));
        // Another handle to the fence, which outlives the first.
        names.call(one, second, 5, Some("again".into()));
        names.call(one, first, 0, None);
        assert_eq!((names.of(one, first), names.of_fence(one, 5)), (None, Some("again")));
        names.call(one, second, 0, None);
        names.call(other, second, 0, None);
        assert!(names.names.is_empty() && names.fences.is_empty());
    }

    #[test]
    fn a_name_does_nothing_to_a_terminal() {
        assert_eq!(suffix(None), "");
        assert_eq!(suffix(Some("größe")), " \"größe\"");
        assert_eq!(suffix(Some("\x1b[2J\"")), r#" "\u{1b}[2J\"""#);
    }
}
