// SPDX-License-Identifier: MIT OR Apache-2.0

//! Handles: how a process names its objects.
//!
//! Each guest has one table; an entry knows its process, and no other process can name it. Table slots are reused,
//! but a handle's upper half counts the uses, so a stale handle names nothing.

use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::GuestId;
use bellhop_protocol::control::Handle;
use slotmap::{Key, KeyData, SlotMap};

/// Maximum handles of a table: what fits below the salt. Keys count from 1.
pub(crate) const MAX_HANDLES: u32 = (1 << SALT_SHIFT) - 1;

const SALT_SHIFT: u32 = 20;

const SALT_MASK: u64 = 0xFFF;

slotmap::new_key_type! {
    struct ObjectKey;
}

/// The kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// Owns contexts, allocations, fences and kernels.
    Device,
    /// A stream of work for one node.
    Context,
    /// A hardware queue.
    HwQueue,
    /// A logical doorbell.
    Doorbell,
    /// Memory.
    Allocation,
    /// A fence, native or monitored.
    NativeFence,
    /// A kernel that a guest brought.
    GuestKernel,
    /// A video session.
    VideoSession,
}

impl ObjectKind {
    /// Whether processes name its objects for people: those that tools list by their handles.
    const fn has_names(self) -> bool {
        match self {
            Self::Device | Self::Context | Self::HwQueue | Self::Allocation | Self::NativeFence => {
                true
            }
            Self::Doorbell | Self::GuestKernel | Self::VideoSession => false,
        }
    }
}

/// An object of any kind that a table holds.
pub(crate) trait AnyObject {
    /// Its kind.
    fn kind(&self) -> ObjectKind;
}

/// An object that has handles in tables of `A`.
pub(crate) trait Object<A>: Sized {
    /// Its kind.
    const KIND: ObjectKind;
    /// Wraps it.
    fn wrap(self) -> A;
    /// Unwraps a borrowed one.
    fn of(object: &A) -> Option<&Self>;
    /// Unwraps a mutably borrowed one.
    fn of_mut(object: &mut A) -> Option<&mut Self>;
    /// Unwraps it.
    fn unwrap(object: A) -> Option<Self>;
}

#[derive(Debug)]
struct Entry<A> {
    process: u32,
    object: A,
    /// What its process calls it for people; empty if it has no name.
    name: Box<str>,
}

/// The handles of one guest.
#[derive(Debug)]
pub(crate) struct Handles<A> {
    entries: SlotMap<ObjectKey, Entry<A>>,
    /// Mixed into every handle, so that guests seldom have equal handles: a handle that ends up in the wrong guest
    /// then names nothing there.
    salt: u64,
}

impl<A: AnyObject> Handles<A> {
    /// An empty table.
    pub(crate) fn new(guest: GuestId) -> Self {
        Self { entries: SlotMap::with_key(), salt: (guest.0 & SALT_MASK) << SALT_SHIFT }
    }

    fn handle(&self, key: ObjectKey) -> Handle {
        // Never 0: the upper half of a key is odd.
        Handle(key.data().as_ffi() ^ self.salt)
    }

    fn key(&self, handle: Handle) -> Option<ObjectKey> {
        let bits = handle.0 ^ self.salt;
        let key = KeyData::from_ffi(bits);
        // The conversion turns invalid values into valid keys, so without this check two handles would name one
        // object.
        (key.as_ffi() == bits).then(|| key.into())
    }

    fn entry(&self, process: u32, handle: Handle) -> Result<(ObjectKey, &Entry<A>), RequestError> {
        let key = self.key(handle).ok_or(RequestError::InvalidHandle(handle))?;
        match self.entries.get(key) {
            Some(entry) if entry.process == process => Ok((key, entry)),
            _ => Err(RequestError::InvalidHandle(handle)),
        }
    }

    fn typed<T: Object<A>>(&self, process: u32, handle: Handle) -> Result<ObjectKey, RequestError> {
        let (key, entry) = self.entry(process, handle)?;
        let found = entry.object.kind();
        if found != T::KIND {
            return Err(RequestError::TypeMismatch { handle, expected: T::KIND, found });
        }
        Ok(key)
    }

    /// Gives an object a handle. The caller has charged the guest's quota for it.
    pub(crate) fn insert<T: Object<A>>(&mut self, process: u32, object: T) -> Handle {
        let key =
            self.entries.insert(Entry { process, object: object.wrap(), name: Box::default() });
        self.handle(key)
    }

    /// The process's object of this kind and handle.
    pub(crate) fn get<T: Object<A>>(
        &self,
        process: u32,
        handle: Handle,
    ) -> Result<&T, RequestError> {
        let key = self.typed::<T>(process, handle)?;
        self.entries
            .get(key)
            .and_then(|entry| T::of(&entry.object))
            .ok_or(RequestError::InvalidHandle(handle))
    }

    /// The process's object of this kind and handle, mutable.
    pub(crate) fn get_mut<T: Object<A>>(
        &mut self,
        process: u32,
        handle: Handle,
    ) -> Result<&mut T, RequestError> {
        let key = self.typed::<T>(process, handle)?;
        self.entries
            .get_mut(key)
            .and_then(|entry| T::of_mut(&mut entry.object))
            .ok_or(RequestError::InvalidHandle(handle))
    }

    /// Removes an object and its handle.
    pub(crate) fn remove<T: Object<A>>(
        &mut self,
        process: u32,
        handle: Handle,
    ) -> Result<T, RequestError> {
        let key = self.typed::<T>(process, handle)?;
        self.entries
            .remove(key)
            .and_then(|entry| T::unwrap(entry.object))
            .ok_or(RequestError::InvalidHandle(handle))
    }

    /// Names the process's object for people. An empty name takes the name away.
    pub(crate) fn set_name(
        &mut self,
        process: u32,
        handle: Handle,
        name: &str,
    ) -> Result<(), RequestError> {
        let (key, entry) = self.entry(process, handle)?;
        let kind = entry.object.kind();
        if !kind.has_names() {
            return Err(RequestError::Nameless { handle, kind });
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.name = name.into();
        }
        Ok(())
    }

    /// The name of the process's object, if it has one.
    pub(crate) fn name(&self, process: u32, handle: Handle) -> Option<&str> {
        let (_, entry) = self.entry(process, handle).ok()?;
        Some(&*entry.name).filter(|name| !name.is_empty())
    }

    /// The objects that have names: the process, the handle, the object and its name.
    pub(crate) fn named(&self) -> impl Iterator<Item = (u32, Handle, &A, &str)> {
        let named = self.entries.iter().filter(|(_, entry)| !entry.name.is_empty());
        named.map(|(key, Entry { process, object, name })| {
            (*process, self.handle(key), object, &**name)
        })
    }

    /// Whether no object is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two kinds of objects.
    #[derive(Debug)]
    enum Any {
        Device(TestDevice),
        Context(TestContext),
    }

    #[derive(Debug)]
    struct TestDevice;

    #[derive(Debug)]
    struct TestContext;

    impl AnyObject for Any {
        fn kind(&self) -> ObjectKind {
            match self {
                Self::Device(_) => ObjectKind::Device,
                Self::Context(_) => ObjectKind::Context,
            }
        }
    }

    macro_rules! test_object {
        ($type:ident, $kind:ident) => {
            impl Object<Any> for $type {
                const KIND: ObjectKind = ObjectKind::$kind;

                fn wrap(self) -> Any {
                    Any::$kind(self)
                }

                fn of(object: &Any) -> Option<&Self> {
                    if let Any::$kind(object) = object { Some(object) } else { None }
                }

                fn of_mut(object: &mut Any) -> Option<&mut Self> {
                    if let Any::$kind(object) = object { Some(object) } else { None }
                }

                fn unwrap(object: Any) -> Option<Self> {
                    if let Any::$kind(object) = object { Some(object) } else { None }
                }
            }
        };
    }
    test_object!(TestDevice, Device);
    test_object!(TestContext, Context);

    #[test]
    fn a_handle_of_another_kind_another_process_or_another_time_names_nothing() {
        let mut handles = Handles::<Any>::new(GuestId(5));
        let handle = handles.insert(1, TestContext);
        assert!(handles.get::<TestContext>(1, handle).is_ok());
        assert_eq!(
            handles.get::<TestDevice>(1, handle).unwrap_err(),
            RequestError::TypeMismatch {
                handle,
                expected: ObjectKind::Device,
                found: ObjectKind::Context
            }
        );
        let invalid = RequestError::InvalidHandle(handle);
        assert_eq!(handles.get::<TestContext>(2, handle).unwrap_err(), invalid);
        assert_eq!(handles.get::<TestDevice>(2, handle).unwrap_err(), invalid);
        handles.remove::<TestContext>(1, handle).unwrap();
        let next = handles.insert(1, TestContext);
        assert_ne!(next, handle);
        assert_eq!(handles.get::<TestContext>(1, handle).unwrap_err(), invalid);
        assert!(Handles::<Any>::new(GuestId(6)).get::<TestContext>(1, next).is_err());
    }

    #[test]
    fn a_name_is_that_of_one_handle_and_goes_with_it() {
        let mut handles = Handles::<Any>::new(GuestId(5));
        let [handle, other] = [(); 2].map(|()| handles.insert(1, TestContext));
        let device = handles.insert(2, TestDevice);
        handles.set_name(1, handle, "first").unwrap();
        handles.set_name(1, handle, "second").unwrap();
        handles.set_name(2, device, "a device").unwrap();
        let invalid = RequestError::InvalidHandle(handle);
        assert_eq!(handles.set_name(2, handle, "another's"), Err(invalid));
        assert_eq!((handles.name(1, handle), handles.name(1, other)), (Some("second"), None));
        assert_eq!((handles.name(2, handle), handles.name(2, device)), (None, Some("a device")));
        let mut named: Vec<_> =
            handles.named().map(|(process, handle, _, name)| (process, handle, name)).collect();
        named.sort_unstable();
        assert_eq!(named, [(1, handle, "second"), (2, device, "a device")]);
        handles.set_name(2, device, "").unwrap();
        assert_eq!(handles.name(2, device), None);
        handles.remove::<TestContext>(1, handle).unwrap();
        let next = handles.insert(1, TestContext);
        assert_eq!((handles.name(1, handle), handles.name(1, next)), (None, None));
        assert_eq!(handles.named().count(), 0);
    }

    proptest! {
        #[test]
        fn only_the_values_that_were_given_out_name_anything(value: u64, guest in 0..3u64) {
            let mut handles = Handles::<Any>::new(GuestId(guest));
            let given: Vec<_> = (0..4).map(|_| handles.insert(1, TestContext)).collect();
            for handle in &given {
                for bit in 0..64 {
                    let other = Handle(handle.0 ^ 1 << bit);
                    let named = handles.get::<TestContext>(1, other).is_ok();
                    prop_assert_eq!(named, given.contains(&other));
                }
                prop_assert_ne!(handle.0, 0);
            }
            let named = handles.get::<TestContext>(1, Handle(value)).is_ok();
            prop_assert_eq!(named, given.contains(&Handle(value)));
        }
    }
}
