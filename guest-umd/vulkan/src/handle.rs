// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "handles are addresses of objects")]

//! Handles: a program's numbers for the driver's objects.
//!
//! A handle is the address of its object. Vulkan has a program use a handle only while its object exists, and what the program
//! breaks so is its own.

use crate::attached;

/// What a dispatchable object begins with when the driver makes it. The loader then puts the address of its table there.
const LOADER_MAGIC: usize = 0x01CD_C0DE;

/// An object that the loader finds a table of functions in: an instance, a physical device, a device, a queue or a command
/// buffer.
#[derive(Debug)]
#[repr(C)]
pub struct Dispatchable<T> {
    loader: usize,
    /// The object.
    pub object: T,
}

/// Any other object. It takes memory even if the object takes none, so that each has an address of its own.
struct Boxed<T> {
    object: T,
    _place: u8,
}

/// Makes an object's handle.
pub fn create<T>(value: T) -> u64 {
    Box::into_raw(Box::new(Boxed { object: value, _place: 0 })).expose_provenance() as u64
}

/// The object of a handle.
///
/// # Safety
/// [`create`] has returned the handle for this type, and it is destroyed only when nobody uses what this returns.
#[must_use]
pub unsafe fn get<'a, T>(handle: u64) -> &'a T {
    let object = std::ptr::with_exposed_provenance::<Boxed<T>>(handle as usize);
    // SAFETY: the caller says that the object is there. After its creation nobody has a mutable reference to it.
    unsafe { &(*object).object }
}

/// Destroys an object. 0 does nothing.
///
/// # Safety
/// [`create`] has returned the handle for this type, and nobody uses it any more.
pub unsafe fn destroy<T>(handle: u64) {
    if handle != 0 {
        attached::forget(handle);
        let object = std::ptr::with_exposed_provenance_mut::<Boxed<T>>(handle as usize);
        // SAFETY: the caller says that the object is there, and that this is the last use of it.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// Makes the handle of an object that the loader finds its table in.
pub fn create_dispatchable<T>(value: T) -> u64 {
    let object = Dispatchable { loader: LOADER_MAGIC, object: value };
    Box::into_raw(Box::new(object)).expose_provenance() as u64
}

/// The object of a handle.
///
/// # Safety
/// As [`get`], with [`create_dispatchable`].
#[must_use]
pub unsafe fn get_dispatchable<'a, T>(handle: u64) -> &'a T {
    let object = std::ptr::with_exposed_provenance::<Dispatchable<T>>(handle as usize);
    // SAFETY: as in `get`. The reference leaves out the loader's word, which the loader may write.
    unsafe { &(*object).object }
}

/// Destroys an object. 0 does nothing.
///
/// # Safety
/// As [`destroy`], with [`create_dispatchable`].
pub unsafe fn destroy_dispatchable<T>(handle: u64) {
    if handle != 0 {
        attached::forget(handle);
        let object = std::ptr::with_exposed_provenance_mut::<Dispatchable<T>>(handle as usize);
        // SAFETY: as in `destroy`.
        drop(unsafe { Box::from_raw(object) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_handle_names_its_object_until_it_is_destroyed() {
        let object = Arc::new(7);
        let (one, other) = (create(Arc::clone(&object)), create_dispatchable(Arc::clone(&object)));
        assert_eq!(Arc::strong_count(&object), 3);
        // SAFETY: both were made just now.
        unsafe {
            assert_eq!((**get::<Arc<i32>>(one), **get_dispatchable::<Arc<i32>>(other)), (7, 7));
            let loader = std::ptr::with_exposed_provenance::<usize>(other as usize);
            assert_eq!(*loader, LOADER_MAGIC);
            destroy::<Arc<i32>>(one);
            destroy_dispatchable::<Arc<i32>>(other);
            destroy::<Arc<i32>>(0);
        }
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn objects_without_bytes_have_handles_of_their_own() {
        let (one, other) = (create(()), create(()));
        assert!(one != other && one != 0);
        // SAFETY: both were made just now.
        unsafe {
            destroy::<()>(one);
            destroy::<()>(other);
        }
    }
}
