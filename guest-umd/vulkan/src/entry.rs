// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "the loader takes all functions as pointers of one type")]

//! Entry points: functions of C that are found by name.

use ash::vk;

/// Makes a file's `lookup` from the entry points in it.
macro_rules! entry_points {
    ($($name:ident = $function:expr),* $(,)?) => {
        /// Finds an entry point by its name.
        pub fn lookup(name: &[u8]) -> Option<ash::vk::PFN_vkVoidFunction> {
            $(
                if name == stringify!($name).as_bytes() {
                    return Some($crate::entry::erased($function as *const ()));
                }
            )*
            None
        }
    };
}
pub(crate) use entry_points;

/// An entry point as what the loader wants: it casts it back to the type that belongs to the name.
pub(crate) fn erased(function: *const ()) -> vk::PFN_vkVoidFunction {
    // SAFETY: any address is a valid optional pointer to a function, of which null is none. Who calls it must know its type.
    unsafe { std::mem::transmute::<*const (), vk::PFN_vkVoidFunction>(function) }
}
