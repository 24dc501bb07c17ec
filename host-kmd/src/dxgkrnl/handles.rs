//! Handles: how a process names its objects.
//!
//! One table a guest; an entry knows its process, and no other process can name it. Slots of the
//! table are used again, but a handle's upper half counts how often, so that a stale handle names
//! nothing.

use super::allocation::Allocation;
use super::context::Context;
use super::device::Device;
use super::doorbell::Doorbell;
use super::error::RequestError;
use super::hw_queue::HwQueue;
use super::native_fence::NativeFence;
use crate::hardware::GuestId;
use bellhop_protocol::control::Handle;
use slotmap::{Key, KeyData, SlotMap};

/// Most handles that a table can hold: what fits below the salt. Keys count from 1.
pub(super) const MAX_HANDLES: u32 = (1 << SALT_SHIFT) - 1;
const SALT_SHIFT: u32 = 20;
const SALT_MASK: u64 = 0xFFF;

slotmap::new_key_type! {
    struct ObjectKey;
}

/// An object that has handles.
pub(super) trait Object: Sized {
    /// Its kind.
    const KIND: ObjectKind;
    /// Wraps it.
    fn wrap(self) -> AnyObject;
    /// Unwraps a borrowed one.
    fn of(object: &AnyObject) -> Option<&Self>;
    /// Unwraps a mutably borrowed one.
    fn of_mut(object: &mut AnyObject) -> Option<&mut Self>;
    /// Unwraps it.
    fn unwrap(object: AnyObject) -> Option<Self>;
}

/// Declares the kinds of objects.
macro_rules! objects {
    ($($kind:ident),* $(,)?) => {
        /// What a handle names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum ObjectKind {
            $(#[doc = concat!("A [`", stringify!($kind), "`].")] $kind,)*
        }

        /// An object of any kind.
        #[derive(Debug)]
        pub(super) enum AnyObject {
            $(#[doc = concat!("A [`", stringify!($kind), "`].")] $kind($kind),)*
        }

        impl AnyObject {
            fn kind(&self) -> ObjectKind {
                match self {
                    $(Self::$kind(_) => ObjectKind::$kind,)*
                }
            }
        }

        $(impl Object for $kind {
            const KIND: ObjectKind = ObjectKind::$kind;

            fn wrap(self) -> AnyObject {
                AnyObject::$kind(self)
            }

            fn of(object: &AnyObject) -> Option<&Self> {
                match object {
                    AnyObject::$kind(object) => Some(object),
                    _ => None,
                }
            }

            fn of_mut(object: &mut AnyObject) -> Option<&mut Self> {
                match object {
                    AnyObject::$kind(object) => Some(object),
                    _ => None,
                }
            }

            fn unwrap(object: AnyObject) -> Option<Self> {
                match object {
                    AnyObject::$kind(object) => Some(object),
                    _ => None,
                }
            }
        })*
    };
}
objects!(Device, Context, HwQueue, Doorbell, Allocation, NativeFence);

#[derive(Debug)]
struct Entry {
    process: u32,
    object: AnyObject,
}

/// The handles of one guest.
#[derive(Debug)]
pub(super) struct Handles {
    entries: SlotMap<ObjectKey, Entry>,
    /// Mixed into every handle, so that guests seldom have equal ones: a handle that ends up in
    /// the wrong guest then names nothing there.
    salt: u64,
}

impl Handles {
    /// An empty table.
    pub(super) fn new(guest: GuestId) -> Self {
        Self { entries: SlotMap::with_key(), salt: (guest.0 & SALT_MASK) << SALT_SHIFT }
    }

    fn handle(&self, key: ObjectKey) -> Handle {
        // Never 0: the upper half of a key is odd.
        Handle(key.data().as_ffi() ^ self.salt)
    }

    fn key(&self, handle: Handle) -> Option<ObjectKey> {
        let bits = handle.0 ^ self.salt;
        let key = KeyData::from_ffi(bits);
        // Values that are no key's are turned into some key's: two handles would name one object.
        (key.as_ffi() == bits).then(|| key.into())
    }

    fn entry(&self, process: u32, handle: Handle) -> Result<(ObjectKey, &Entry), RequestError> {
        let key = self.key(handle).ok_or(RequestError::InvalidHandle(handle))?;
        match self.entries.get(key) {
            Some(entry) if entry.process == process => Ok((key, entry)),
            _ => Err(RequestError::InvalidHandle(handle)),
        }
    }

    fn typed<T: Object>(&self, process: u32, handle: Handle) -> Result<ObjectKey, RequestError> {
        let (key, entry) = self.entry(process, handle)?;
        let found = entry.object.kind();
        if found != T::KIND {
            return Err(RequestError::TypeMismatch { handle, expected: T::KIND, found });
        }
        Ok(key)
    }

    /// Gives an object a handle. The caller has charged the guest's quota for it.
    pub(super) fn insert<T: Object>(&mut self, process: u32, object: T) -> Handle {
        let key = self.entries.insert(Entry { process, object: object.wrap() });
        self.handle(key)
    }

    /// The process's object of this kind and handle.
    pub(super) fn get<T: Object>(&self, process: u32, handle: Handle) -> Result<&T, RequestError> {
        let key = self.typed::<T>(process, handle)?;
        self.entries
            .get(key)
            .and_then(|entry| T::of(&entry.object))
            .ok_or(RequestError::InvalidHandle(handle))
    }

    /// The same, to change.
    pub(super) fn get_mut<T: Object>(
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

    /// Takes an object's handle away.
    pub(super) fn remove<T: Object>(
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

    /// Whether no object is left.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::ContextState;
    use super::*;
    use crate::hardware::SchedulingPriority;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn context() -> Context {
        Context {
            device: Handle(0),
            node: 0,
            hw_queues: BTreeSet::new(),
            state: ContextState::CREATED,
            node_submission: None,
            priority: SchedulingPriority::default(),
        }
    }

    #[test]
    fn a_handle_of_another_kind_another_process_or_another_time_names_nothing() {
        let mut handles = Handles::new(GuestId(5));
        let handle = handles.insert(1, context());
        assert!(handles.get::<Context>(1, handle).is_ok());
        assert_eq!(
            handles.get::<Device>(1, handle).unwrap_err(),
            RequestError::TypeMismatch {
                handle,
                expected: ObjectKind::Device,
                found: ObjectKind::Context
            }
        );
        let invalid = RequestError::InvalidHandle(handle);
        assert_eq!(handles.get::<Context>(2, handle).unwrap_err(), invalid);
        assert_eq!(handles.get::<Device>(2, handle).unwrap_err(), invalid);
        handles.remove::<Context>(1, handle).unwrap();
        let next = handles.insert(1, context());
        assert_ne!(next, handle);
        assert_eq!(handles.get::<Context>(1, handle).unwrap_err(), invalid);
        assert!(Handles::new(GuestId(6)).get::<Context>(1, next).is_err());
    }

    proptest! {
        #[test]
        fn only_the_values_that_were_given_out_name_anything(value: u64, guest in 0..3u64) {
            let mut handles = Handles::new(GuestId(guest));
            let given: Vec<_> = (0..4).map(|_| handles.insert(1, context())).collect();
            for handle in &given {
                for bit in 0..64 {
                    let other = Handle(handle.0 ^ 1 << bit);
                    let named = handles.get::<Context>(1, other).is_ok();
                    prop_assert_eq!(named, given.contains(&other));
                }
                prop_assert_ne!(handle.0, 0);
            }
            let named = handles.get::<Context>(1, Handle(value)).is_ok();
            prop_assert_eq!(named, given.contains(&Handle(value)));
        }
    }
}
