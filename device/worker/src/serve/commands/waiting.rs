// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waits for a word that a guest's processor stores.

use std::thread::{sleep, yield_now};
use std::time::Duration;

/// So often the word is looked at before the thread sleeps.
const LOOKS: u32 = 200;
/// The first nap.
const SHORTEST: Duration = Duration::from_micros(5);
/// The longest nap.
const LONGEST: Duration = Duration::from_micros(100);

/// Waits until a word has a value, without end.
///
/// # Errors
/// When the word cannot be loaded.
pub fn wait_until<E>(value: u32, load: impl Fn() -> Result<u32, E>) -> Result<(), E> {
    let mut nap = SHORTEST;
    for look in 0_u64.. {
        if load()? == value {
            break;
        }
        if look < u64::from(LOOKS) {
            yield_now();
        } else {
            sleep(nap);
            nap = (nap * 2).min(LONGEST);
        }
    }
    Ok(())
}
