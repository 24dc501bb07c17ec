// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fields that many commands have.

use super::wrong::Why;

/// Checks that a command without an argument has none.
///
/// # Errors
/// When it has one.
pub fn none(argument: u32) -> Result<(), Why> {
    if argument == 0 { Ok(()) } else { Err("an argument of a command that has none".into()) }
}

/// Checks that a number is a multiple of another.
///
/// # Errors
/// When it is not.
pub fn aligned(number: u64, unit: u64) -> Result<(), Why> {
    if number.is_multiple_of(unit) {
        Ok(())
    } else {
        Err(Why::Malformed(format!("{number:#x} is no multiple of {unit}")))
    }
}
