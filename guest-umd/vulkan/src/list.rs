// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! Lists that a program asks for twice: how many there are, and then as many as it has room for.

use crate::raw;
use ash::vk;

/// Writes items, each by `write`, or how many there are if `room` is null.
///
/// # Safety
/// `count` is valid, and `room` is null or has room for as many, which nobody else accesses.
pub(crate) unsafe fn put<T, I>(
    items: impl IntoIterator<Item = I>,
    count: *mut u32,
    room: *mut T,
    mut write: impl FnMut(&mut T, I),
) -> vk::Result {
    let items: Vec<I> = items.into_iter().collect();
    let all = items.len() as u32;
    if room.is_null() {
        // SAFETY: the caller says that it is valid.
        unsafe { *count = all };
        return vk::Result::SUCCESS;
    }
    // SAFETY: as above, and there is room for so many.
    let places = unsafe { raw::slice_mut(room, *count) };
    let mut written = 0;
    for (place, item) in places.iter_mut().zip(items) {
        write(place, item);
        written += 1;
    }
    // SAFETY: as above.
    unsafe { *count = written };
    if written < all { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
}

/// As [`put`], of items that are what the program has room for.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn copy<T>(
    items: impl IntoIterator<Item = T>,
    count: *mut u32,
    room: *mut T,
) -> vk::Result {
    // SAFETY: as the caller says.
    unsafe { put(items, count, room, |place, item| *place = item) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_as_many_as_it_has_room_for() {
        let (mut count, mut room) = (0, [0; 4]);
        let none = std::ptr::null_mut();
        // SAFETY: the pointers are to these variables.
        unsafe {
            assert_eq!(copy([7, 8, 9], &raw mut count, none), vk::Result::SUCCESS);
            assert_eq!(count, 3);
            count = 2;
            let room = room.as_mut_ptr();
            assert_eq!(copy([7, 8, 9], &raw mut count, room), vk::Result::INCOMPLETE);
            assert_eq!((count, *room.add(1), *room.add(2)), (2, 8, 0));
            count = 4;
            assert_eq!(copy([7, 8, 9], &raw mut count, room), vk::Result::SUCCESS);
        }
        assert_eq!((count, room), (3, [7, 8, 9, 0]));
    }
}
