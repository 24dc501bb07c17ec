// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program attaches to objects: numbers as private data, and a name.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Everything that is attached, in all devices: a handle is an address, which no two objects have at a time.
struct Attached {
    /// By object and slot.
    numbers: BTreeMap<(u64, u64), u64>,
    /// By object.
    names: BTreeMap<u64, CString>,
}

static ATTACHED: Mutex<Attached> =
    Mutex::new(Attached { numbers: BTreeMap::new(), names: BTreeMap::new() });
/// Whether there ever was anything. Most programs attach nothing, and objects end without a lock then.
static ARE_ANY: AtomicBool = AtomicBool::new(false);

/// No code panics while it holds the lock, so that what is attached is whole.
fn attached() -> MutexGuard<'static, Attached> {
    ATTACHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names an object. An empty name takes the name away.
pub(crate) fn set_name(object: u64, name: CString) {
    ARE_ANY.store(true, Ordering::Relaxed);
    if name.is_empty() {
        attached().names.remove(&object);
    } else {
        attached().names.insert(object, name);
    }
}

/// The name of an object, if it has one.
pub(crate) fn name(object: u64) -> Option<CString> {
    attached().names.get(&object).cloned()
}

/// Attaches a number to an object.
pub(crate) fn set(object: u64, slot: u64, number: u64) {
    ARE_ANY.store(true, Ordering::Relaxed);
    attached().numbers.insert((object, slot), number);
}

/// The number of an object, or 0.
pub(crate) fn get(object: u64, slot: u64) -> u64 {
    attached().numbers.get(&(object, slot)).copied().unwrap_or(0)
}

/// Forgets what is attached to an object that ends: the next one at its address has nothing.
pub(crate) fn forget(object: u64) {
    // Relaxed: who destroys an object knows of everything that was done with it.
    if !ARE_ANY.load(Ordering::Relaxed) {
        return;
    }
    let Attached { numbers, names } = &mut *attached();
    names.remove(&object);
    let range = (Bound::Included((object, 0)), Bound::Included((object, u64::MAX)));
    let of_object: Vec<_> = numbers.range(range).map(|(key, _)| *key).collect();
    for key in of_object {
        numbers.remove(&key);
    }
}

/// Forgets the numbers of a slot that ends.
pub(crate) fn forget_slot(slot: u64) {
    if ARE_ANY.load(Ordering::Relaxed) {
        attached().numbers.retain(|(_, of), _| *of != slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_belongs_to_an_object_and_a_slot_until_one_of_both_ends() {
        let (object, other) = (0xFFFF_0001, 0xFFFF_0002);
        set(object, 1, 11);
        set(object, 2, 12);
        set(other, 1, 21);
        assert_eq!((get(object, 1), get(object, 2), get(other, 1)), (11, 12, 21));
        assert_eq!(get(other, 2), 0);
        forget(object);
        assert_eq!((get(object, 1), get(object, 2), get(other, 1)), (0, 0, 21));
        forget_slot(1);
        assert_eq!(get(other, 1), 0);
    }

    #[test]
    fn a_name_belongs_to_an_object_until_it_ends_or_the_name_is_empty() {
        let (object, other) = (0xFFFF_0003, 0xFFFF_0004);
        set_name(object, c"one".into());
        set_name(other, c"other".into());
        set_name(object, c"another".into());
        assert_eq!(name(object).as_deref(), Some(c"another"));
        forget(object);
        assert_eq!((name(object), name(other).as_deref()), (None, Some(c"other")));
        set_name(other, CString::default());
        assert_eq!(name(other), None);
    }
}
