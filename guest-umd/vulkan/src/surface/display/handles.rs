// SPDX-License-Identifier: MIT OR Apache-2.0

//! What displays and their modes have as handles: their numbers, so that a program gets the same ones each time it asks.

use ash::vk::{self, Handle as _};

/// Where the number of a connector begins in the handle of a mode.
const CHILD: u32 = 32;

/// The display of a connector.
pub(super) fn display(child: u32) -> vk::DisplayKHR {
    vk::DisplayKHR::from_raw(u64::from(child) + 1)
}

/// The connector of a display.
pub(super) fn child(display: vk::DisplayKHR) -> u32 {
    display.as_raw().saturating_sub(1) as u32
}

/// A mode of a connector's monitor.
pub(super) fn mode(child: u32, number: u32) -> vk::DisplayModeKHR {
    vk::DisplayModeKHR::from_raw((u64::from(child) << CHILD) + u64::from(number) + 1)
}

/// The connector, and the number of a mode of its monitor.
pub(super) fn numbers(mode: vk::DisplayModeKHR) -> (u32, u32) {
    let raw = mode.as_raw().saturating_sub(1);
    ((raw >> CHILD) as u32, raw as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_have_their_numbers_and_none_is_null() {
        for number in [0, 1, 7] {
            assert!(!display(number).is_null());
            assert_eq!(child(display(number)), number);
            for other in [0, 1, 300] {
                assert!(!mode(number, other).is_null());
                assert_eq!(numbers(mode(number, other)), (number, other));
            }
        }
    }
}
