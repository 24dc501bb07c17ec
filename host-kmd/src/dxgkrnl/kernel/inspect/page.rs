// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pages of a list.

use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::objects::KernelObject;
use crate::dxgkrnl::object::handles::Object;
use crate::port::ObjectPage;
use bellhop_protocol::control::Handle;
use bellhop_protocol::snapshot::Name;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

/// What programs and people call an object.
pub(super) struct Called {
    pub(super) handle: Name,
    pub(super) name: Option<String>,
}

/// Objects of one process, from after `after`.
#[derive(Clone, Copy)]
pub(super) struct Members<'a> {
    pub(super) guest: &'a Guest,
    pub(super) process: u32,
    pub(super) after: u64,
}

impl<'a> Members<'a> {
    /// Each object as it is described, with its position.
    pub(super) fn of<T: Object<KernelObject> + 'a, S>(
        self,
        handles: &'a BTreeSet<Handle>,
        describe: impl Fn(Called, &T) -> S + 'a,
    ) -> impl Iterator<Item = (u64, S)> + 'a {
        let Self { guest, process, after } = self;
        handles.range((Excluded(Handle(after)), Unbounded)).filter_map(move |handle| {
            let object = guest.handles.get::<T>(process, *handle).ok()?;
            let name = guest.handles.name(process, *handle).map(Into::into);
            let called = Called { handle: (*handle).into(), name };
            Some((handle.0, describe(called, object)))
        })
    }
}

/// A JSON array of as many objects as fit. Each object comes with its position, which is never 0; the next page
/// begins after the last position.
pub(super) fn page<T: Serialize>(
    objects: impl Iterator<Item = (u64, T)>,
    room: usize,
) -> ObjectPage {
    let mut bytes = vec![b'['];
    let mut last = 0;
    for (position, object) in objects {
        let text = serde_json::to_vec(&object).unwrap_or_default();
        // A comma before the object, a bracket behind it.
        if bytes.len() + text.len() + 2 > room {
            if bytes.len() > 1 {
                bytes.push(b']');
                return ObjectPage { next: last, objects: bytes };
            }
            // No object is as large as a page: a test tries the largest of each kind.
            tracing::error!(position, length = text.len(), "an object is too large to be listed");
        } else {
            if bytes.len() > 1 {
                bytes.push(b',');
            }
            bytes.extend(text);
        }
        last = position;
    }
    bytes.push(b']');
    ObjectPage { next: 0, objects: bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_together_are_the_list_and_none_is_larger_than_its_room(
            lengths in proptest::collection::vec(0..60usize, 0..30),
            room in 64..200usize,
        ) {
            let objects: Vec<_> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            let (mut found, mut after) = (Vec::<String>::new(), 0);
            loop {
                let positions = 1..=objects.len() as u64;
                let rest = positions.zip(&objects).skip(after as usize);
                let page = page(rest, room);
                prop_assert!(page.objects.len() <= room);
                found.extend(serde_json::from_slice::<Vec<String>>(&page.objects).unwrap());
                prop_assert!(page.next == 0 || page.next > after);
                after = page.next;
                if after == 0 {
                    break;
                }
            }
            prop_assert_eq!(found, objects);
        }
    }
}
