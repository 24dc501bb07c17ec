// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ring buffers and ring buffer controls.
//!
//! A ring buffer holds [packets](crate::packet) one after another; its size in bytes is a power of two. A packet
//! may wrap around the ring's end at any 8-byte boundary. Write and read pointer count *bytes since the ring was
//! created*. They never wrap in practice, and a byte's place in the ring is its count modulo the ring's size. The
//! ring is empty when the pointers are equal and full when they differ by the ring's size.

/// Smallest ring buffer in bytes.
pub const MIN_RING_SIZE: u64 = 4096;
/// Largest ring buffer in bytes.
pub const MAX_RING_SIZE: u64 = 16 << 20;

/// Bytes in a ring buffer control.
pub const RING_CONTROL_SIZE: u64 = 128;
/// Offset of the write pointer in the ring buffer control; the guest writes.
pub const WRITE_POINTER_OFFSET: u64 = 0;
/// Offset of the read pointer in the ring buffer control; the device writes. A separate cache line, so that the two
/// sides do not write one line.
pub const READ_POINTER_OFFSET: u64 = 64;

/// Returns whether `size` is a valid ring buffer size.
#[must_use]
pub const fn is_valid_ring_size(size: u64) -> bool {
    size.is_power_of_two() && size >= MIN_RING_SIZE && size <= MAX_RING_SIZE
}

/// A write pointer that a ring cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write pointer {write} is not within {size} bytes after read pointer {read}")]
pub struct RingPointerError {
    /// The guest's write pointer.
    pub write: u64,
    /// The device's read pointer.
    pub read: u64,
    /// The ring's size.
    pub size: u64,
}

/// Bytes waiting in a ring, or an error for an impossible write pointer.
///
/// # Errors
/// If `write` is not a multiple of 8, or is further from `read` than the ring's size.
pub const fn pending(write: u64, read: u64, size: u64) -> Result<u64, RingPointerError> {
    let bytes = write.wrapping_sub(read);
    if bytes > size || !bytes.is_multiple_of(8) {
        return Err(RingPointerError { write, read, size });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_counts_bytes_and_refuses_invalid_pointers() {
        assert_eq!(pending(4096, 0, 4096), Ok(4096));
        assert_eq!(pending(7, 0, 4096).unwrap_err().write, 7);
        assert!(pending(4104, 0, 4096).is_err());
        assert!(pending(0, 8, 4096).is_err());
        assert_eq!(pending(8, u64::MAX - 7, 4096), Ok(16));
    }
}
