// SPDX-License-Identifier: MIT OR Apache-2.0

//! Primaries: the bytes that a flip shows, checked against the allocation that they are in.

use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::display::SourceMode;
use bellhop_protocol::control::flip::{PITCH_ALIGNMENT, PRIMARY_ALIGNMENT};

/// Bytes from the first pixel of a primary to its last, if all of them are in an allocation of `size` bytes.
pub(crate) fn check(
    mode: SourceMode,
    (offset, pitch): (u64, u32),
    size: u64,
) -> Result<u64, RequestError> {
    let wrong_pitch = || RequestError::parameter("pitch", pitch.into());
    let wrong_offset = || RequestError::parameter("offset", offset);
    let pixel = mode.format.bytes().ok_or_else(wrong_pitch)?;
    let line = u64::from(mode.width) * u64::from(pixel);
    if !pitch.is_multiple_of(PITCH_ALIGNMENT) || u64::from(pitch) < line {
        return Err(wrong_pitch());
    }
    if !offset.is_multiple_of(PRIMARY_ALIGNMENT) {
        return Err(wrong_offset());
    }
    // At most 2^64 - 2^33 + 1, and a line has at most 2^34 bytes.
    let before = u64::from(pitch).checked_mul(u64::from(mode.height.saturating_sub(1)));
    let length = before.and_then(|before| before.checked_add(line)).ok_or_else(wrong_pitch)?;
    if length > size {
        return Err(wrong_pitch());
    }
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(length),
        _ => Err(wrong_offset()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::pixel_format::PixelFormat;
    use bellhop_protocol::status::Status;
    use proptest::prelude::*;

    fn mode(width: u32, height: u32, format: PixelFormat) -> SourceMode {
        SourceMode { width, height, format, reserved: 0 }
    }

    fn refusal(mode: SourceMode, offset: u64, pitch: u32, size: u64) -> Option<(Status, u64)> {
        let error = check(mode, (offset, pitch), size).err()?;
        Some((error.status(), error.detail()))
    }

    #[test]
    fn the_last_line_needs_no_padding_behind_it() {
        let mode = mode(10, 3, PixelFormat::R5G6B5);
        // Two lines of 64 bytes and one of 20.
        assert_eq!(check(mode, (256, 64), 256 + 148).unwrap(), 148);
        assert_eq!(refusal(mode, 256, 64, 256 + 147), Some((Status::INVALID_PARAMETER, 256)));
        assert_eq!(refusal(mode, 0, 64, 147), Some((Status::INVALID_PARAMETER, 64)));
    }

    #[test]
    fn offset_and_pitch_are_aligned_and_a_line_fits_its_pitch() {
        let mode = mode(17, 2, PixelFormat::X8R8G8B8);
        let wrong = |value| Some((Status::INVALID_PARAMETER, value));
        assert_eq!(refusal(mode, 0, 128, 4096), None);
        for pitch in [0, 64, 100, 127, 129] {
            assert_eq!(refusal(mode, 0, pitch, 4096), wrong(pitch.into()));
        }
        for offset in [1, 255, 257, 4096, u64::MAX, u64::MAX - 255] {
            assert_eq!(refusal(mode, offset, 128, 4096), wrong(offset));
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_lies_within_the_allocation(
            width in 1..5000u32,
            height in prop_oneof![1..5000u32, Just(u32::MAX)],
            format in 1..5u32,
            offset in prop_oneof![(0..1000u64).prop_map(|n| n * 256), any::<u64>()],
            pitch in prop_oneof![(0..1000u32).prop_map(|n| n * 64), any::<u32>()],
            size in 0..1u64 << 24,
        ) {
            let mode = mode(width, height, PixelFormat(format));
            if let Ok(length) = check(mode, (offset, pitch), size) {
                let pixel = if format == 3 { 2 } else { 4 };
                let last = u128::from(pitch) * u128::from(height - 1)
                    + u128::from(width) * pixel;
                prop_assert_eq!(u128::from(length), last);
                prop_assert!(u128::from(offset) + last <= u128::from(size));
                prop_assert!(u128::from(pitch) >= u128::from(width) * pixel);
            }
        }
    }
}
