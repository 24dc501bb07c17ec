// SPDX-License-Identifier: MIT OR Apache-2.0

//! Result codes of requests: NTSTATUS values under their usual names.

open_enum! {
    /// The result of a request.
    pub struct Status: u32 {
        /// The request is complete.
        SUCCESS = 0x0000_0000;
        /// The request was accepted; an event reports its completion.
        PENDING = 0x0000_0103;
        /// The object that the request would change is in use.
        DEVICE_BUSY = 0x8000_0011;
        /// The request's descriptors name memory that the guest does not have, or the request names memory that the
        /// process cannot read; `detail` is the address.
        ACCESS_VIOLATION = 0xC000_0005;
        /// The process has no such handle.
        INVALID_HANDLE = 0xC000_0008;
        /// A field has an invalid value; `detail` is that value.
        INVALID_PARAMETER = 0xC000_000D;
        /// The request's code is unknown.
        INVALID_DEVICE_REQUEST = 0xC000_0010;
        /// The host is out of memory.
        NO_MEMORY = 0xC000_0017;
        /// The range is taken, or was never mapped.
        CONFLICTING_ADDRESSES = 0xC000_0018;
        /// A command buffer has a packet that this node, or physical addressing, does not support; `detail` is the
        /// packet's offset.
        ILLEGAL_INSTRUCTION = 0xC000_001D;
        /// The reply does not fit the request's writable part; `detail` is the number of bytes needed. Nothing was
        /// done.
        BUFFER_TOO_SMALL = 0xC000_0023;
        /// The handle names an object of another kind.
        OBJECT_TYPE_MISMATCH = 0xC000_0024;
        /// The guest reached its limit for this kind of object.
        QUOTA_EXCEEDED = 0xC000_0044;
        /// The version or a requested feature is unknown; `detail` tells what the device has.
        REVISION_MISMATCH = 0xC000_0059;
        /// A packet of a command buffer would access memory that it was not given; `detail` is the packet's
        /// offset.
        PRIVILEGED_INSTRUCTION = 0xC000_0096;
        /// A table of the device is full.
        INSUFFICIENT_RESOURCES = 0xC000_009A;
        /// The feature was not negotiated, or the node does not have it.
        NOT_SUPPORTED = 0xC000_00BB;
        /// A command buffer is not a sequence of whole packets; `detail` is the offset of the first byte that
        /// begins none.
        INVALID_USER_BUFFER = 0xC000_00E8;
        /// The VMM did not do its part; the request can be retried.
        IO_DEVICE_ERROR = 0xC000_0185;
        /// The request is shorter or longer than its code requires.
        INVALID_BUFFER_SIZE = 0xC000_0206;
        /// The queue, context or device is in error and accepts nothing more.
        DEVICE_REMOVED = 0xC000_02B6;
        /// Local memory cannot hold the allocation.
        GRAPHICS_NO_VIDEO_MEMORY = 0xC01E_0100;
        /// The allocation is in use, for example by a doorbell or a submission, and cannot be destroyed or moved.
        GRAPHICS_ALLOCATION_BUSY = 0xC01E_0102;
        /// The allocation must be resident for this.
        GRAPHICS_ALLOCATION_INVALID = 0xC01E_0106;
        /// The guest hung engines too often, and engines execute nothing for it until its device is reset.
        GRAPHICS_GPU_EXCEPTION_ON_DEVICE = 0xC01E_0200;
        /// The display cannot show these paths; `detail` is the constraint in the upper half, the path in the lower.
        GRAPHICS_VIDPN_TOPOLOGY_NOT_SUPPORTED = 0xC01E_0301;
        /// No monitor is plugged into the connector; `detail` is the connector.
        GRAPHICS_MONITOR_NOT_CONNECTED = 0xC01E_0338;
        /// The process has not committed the source, nor may flip it; `detail` is the source.
        GRAPHICS_SOURCE_NOT_IN_TOPOLOGY = 0xC01E_0339;
    }
}

impl Status {
    /// Returns whether the request was completed or accepted (`NT_SUCCESS`).
    #[must_use]
    pub const fn is_success(self) -> bool {
        (self.0 as i32) >= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_and_pending_succeed_and_errors_and_warnings_do_not() {
        assert!(Status::SUCCESS.is_success());
        assert!(Status::PENDING.is_success());
        assert!(!Status::DEVICE_BUSY.is_success());
        assert!(!Status::INVALID_HANDLE.is_success());
    }

    #[test]
    fn an_unknown_status_prints_its_number() {
        use core::fmt::Write;
        struct Text([u8; 32], usize);
        impl Write for Text {
            fn write_str(&mut self, s: &str) -> core::fmt::Result {
                self.0[self.1..self.1 + s.len()].copy_from_slice(s.as_bytes());
                self.1 += s.len();
                Ok(())
            }
        }
        let mut text = Text([0; 32], 0);
        write!(text, "{}", Status(0xdead)).unwrap();
        assert_eq!(&text.0[..text.1], b"Status(0xdead)");
    }
}
