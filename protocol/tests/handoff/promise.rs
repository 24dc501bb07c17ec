// SPDX-License-Identifier: MIT OR Apache-2.0

//! Values that are given while a thread begins to wait for them.

use super::Bytes;
use bellhop_protocol::handoff::promise::Promise;
use loom::sync::Arc;

#[test]
fn who_awaits_a_value_is_woken_or_finds_it_given() {
    loom::model(|| {
        let shared = Arc::new((Promise::new(), Bytes::new()));
        let giver = spawn!(shared => {
            let (promise, listener) = &*shared;
            let wakes = promise.give(1);
            if wakes {
                listener.read();
            }
            wakes
        });
        let (promise, listener) = &*shared;
        listener.write();
        let sleeps = promise.awaits(1);
        let woken = giver.join().unwrap();
        assert_eq!(sleeps, woken, "a thread sleeps that nobody wakes, or is woken in vain");
        assert!(promise.is_given(1));
    });
}

#[test]
fn of_two_that_give_values_one_wakes_and_neither_value_is_lost() {
    loom::model(|| {
        let shared = Arc::new((Promise::new(), Bytes::new()));
        let giver = spawn!(shared => {
            let (promise, listener) = &*shared;
            let wakes = promise.give(1);
            if wakes {
                listener.read();
            }
            wakes
        });
        let waiter = spawn!(shared => {
            let (promise, listener) = &*shared;
            listener.write();
            promise.awaits(2)
        });
        let (promise, listener) = &*shared;
        let wakes = promise.give(2);
        if wakes {
            listener.read();
        }
        let woken = giver.join().unwrap();
        let sleeps = waiter.join().unwrap();
        assert!(!sleeps || wakes || woken, "a thread sleeps that nobody wakes");
        assert!(promise.is_given(2));
    });
}
