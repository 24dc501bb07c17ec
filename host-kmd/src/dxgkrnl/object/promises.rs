// SPDX-License-Identifier: MIT OR Apache-2.0

//! Promises: each request that is not answered at once is answered later, and once.
//!
//! Subsystems keep a [`Promise`] for whatever a request waits for. It cannot be copied, so whoever answers the request
//! has it no longer.

use crate::hardware::GuestId;
use crate::port::RequestToken;
use std::collections::BTreeMap;

/// A request that is to be answered.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Promise(u64);

#[cfg(test)]
impl Promise {
    /// A promise for a test that has no requests.
    pub(crate) fn numbered(number: u64) -> Self {
        Self(number)
    }

    /// Its number, for a test.
    pub(crate) fn number(&self) -> u64 {
        self.0
    }
}

/// The requests that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    open: BTreeMap<u64, (GuestId, RequestToken)>,
    made: u64,
}

impl Promises {
    /// A guest's request is to be answered.
    pub(crate) fn make(&mut self, guest: GuestId, token: RequestToken) -> Promise {
        self.made += 1;
        self.open.insert(self.made, (guest, token));
        Promise(self.made)
    }

    /// A request is answered now. Returns where the answer goes: nowhere if its guest has gone.
    pub(crate) fn keep(&mut self, promise: Promise) -> Option<(GuestId, RequestToken)> {
        self.open.remove(&promise.0)
    }

    /// A guest detaches, and gets no more answers.
    pub(crate) fn forget_guest(&mut self, guest: GuestId) {
        self.open.retain(|_, (of, _)| *of != guest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_answered_once_and_none_of_a_guest_that_is_gone() {
        let mut promises = Promises::default();
        let (gone, stays) = (GuestId(1), GuestId(2));
        let first = promises.make(gone, RequestToken(5));
        // A transport may use a token again once its request is answered, and guests use the same ones.
        let second = promises.make(stays, RequestToken(5));
        let third = promises.make(stays, RequestToken(6));
        assert_eq!(promises.keep(third), Some((stays, RequestToken(6))));
        promises.forget_guest(gone);
        assert_eq!(promises.keep(first), None);
        let again = Promise::numbered(second.number());
        assert_eq!(promises.keep(second), Some((stays, RequestToken(5))));
        assert_eq!(promises.keep(again), None);
        assert!(promises.open.is_empty());
    }
}
